"""Times of ops without the clock's, what ops have to do, and the files that others read."""

import json
import math

import sdbr
from sdbr.inspection.times import ProgramTimes, grouped
from sdbr.inspection.work import work_of
from sdbr.ops.table import BY_NAME, OPS

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from .networks import batch, trained, triple

LOOK = 25e-9
F4 = np.dtype("f4")


def program_of(between=F.relu):
    model, _ = trained(between=between)
    (plan,) = model.schedule_manager.static_schedule.step_plans.values()
    return plan.program


def clocked(program, true, cost, runs, by_op):
    """Runs as the executor tells of them, on a clock that costs `cost` between these ops."""
    times = ProgramTimes(program, "step", LOOK)
    native = program.opcodes != 0
    for i in range(runs):
        seconds = np.where(native, true + cost, true)
        if not by_op(i):
            seconds = np.where(native, 0.0, true)
            seconds[np.flatnonzero(native)[0]] = true[native].sum() + LOOK
        times.add(seconds, by_op(i))
    return times


@pytest.mark.parametrize("cost", [0.0, 4e-9, LOOK, 60e-9])
def test_looks_at_the_clock_are_taken_off_whatever_they_cost(cost):
    program = program_of(triple)
    true = np.random.RandomState(0).uniform(3e-9, 9e-9, len(program))  # shorter than a look
    times = clocked(program, true, cost, 10, lambda i: i % 2 == 0)
    assert times.cost() == pytest.approx(cost)
    assert times.seconds() == pytest.approx(10 * true)
    assert times.total() == pytest.approx(times.seconds().sum())
    assert sum(row["seconds"] for row in times.rows()) == pytest.approx(times.total())


def test_one_run_has_the_look_of_the_clock_alone_taken_off():
    program = program_of()
    true = np.full(len(program), 5e-9)
    times = clocked(program, true, LOOK, 1, lambda i: True)
    assert times.seconds() == pytest.approx(true)


def test_runs_that_were_interrupted_do_not_count():
    program = program_of()
    true = np.full(len(program), 5e-9)
    times = clocked(program, true, LOOK, 9, lambda i: i % 2 == 0)
    before = times.total() / 9
    times.add(np.full(len(program), 1.0), True)
    assert times.total() / 10 == pytest.approx(before)


def test_what_a_run_took_as_it_comes():
    program = program_of()
    true = np.full(len(program), 5e-9)
    times = clocked(program, true, 40e-9, 8, lambda i: i % 2 == 0)
    native, python = times.add(true + 40e-9, True)
    assert (native, python) == (pytest.approx(true.sum()), 0.0)


def test_every_other_run_is_timed_as_a_whole():
    model, optimizer = trained(between=triple)
    with sdbr.profile(model) as p:
        for _ in range(6):
            optimizer.update(model, *batch())
    (times,) = p._programs.values()
    assert (len(times._by_op), len(times._whole)) == (3, 3)
    assert model.schedule_manager.static_schedule.step_plans
    rows = p.rows()
    assert sum(row["seconds"] for row in rows) == pytest.approx(p.seconds)
    assert all(row["calls"] == 6 for row in rows)


def test_work_of_products():
    def work(name, shapes, ints=()):
        op = BY_NAME[name]
        n = len(shapes) - 1
        layouts = [(F4, shape) for shape in shapes]
        return op.work(layouts[:n], layouts[n:], ints)

    assert work("linear", [(3, 5), (7, 5), (7,), (3, 7)], (0,)) == (2 * 105, 4 * (15 + 35 + 7 + 21))
    assert work("gemm", [(5, 3), (5, 7), (3, 7)], (1, 0, 0))[0] == 2 * 105
    assert work("batch_matmul", [(4, 3, 5), (4, 5, 7), (4, 3, 7)], (0, 0))[0] == 4 * 2 * 105
    assert work("batch_matmul", [(0, 3, 5), (0, 5, 7), (0, 3, 7)], (0, 0))[0] == 0
    x, w, y = (2, 6, 1, 8, 8), (4, 3, 1, 3, 3), (2, 4, 1, 8, 8)  # two groups
    flops = 2 * math.prod(y) * 3 * 9
    assert work("convolution", [x, w, y])[0] == flops
    assert work("convolution_grad_x", [y, w, x])[0] == flops
    assert work("convolution_grad_w", [x, y, w])[0] == flops
    assert work("copy", [(3, 4), (3, 4)]) == (0, 96)
    assert work("add", [(3, 4)] * 3) == (12, 144)
    assert work("sum", [(2, 3, 4), (2, 4)])[0] == 24


def test_products_say_how_much_they_multiply():
    assert [op.name for op in OPS if (op.product or op.divides) and op.flops is None] == []


def test_work_of_programs():
    class Chain(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(40, 30)

        def forward(self, x):
            h = F.exp(self.l(x)) * 2 + x[:, :30]
            return triple(F.tanh(h) + F.broadcast_to(F.sum(x), h.shape))

    model = sdbr.static_graph(Chain())
    x = np.random.RandomState(0).randn(100, 40).astype("f")
    with chainer.no_backprop_mode():
        for _ in range(3):
            model(x)
    program = model.schedule_manager.static_schedule.programs["forward"]
    names = [OPS[code].name for code in program.opcodes]
    found = dict(zip(names, work_of(program), strict=True))
    assert found["linear"] == (2 * 100 * 40 * 30, 4 * (4000 + 1200 + 30 + 3000))
    assert found["python"] == (None, 4 * 6000)
    assert found["fused"] == (4 * 3000, 4 * 9000)  # exp, a multiplication, an addition, tanh
    assert found["add"] == (3000, 4 * 6001)  # of one number that is repeated


def test_grouped():
    names = "op", "link", "line", "seconds", "flops"
    rows = [
        {**dict(zip(names, row, strict=True)), "calls": 2, "bytes": 5}
        for row in (
            ("a", "/x", "1", 1.0, 10**9),
            ("b", "/x", "2", 2.0, None),
            ("a", "/y", "3", 4.0, 10**9),
        )
    ]
    a, b = grouped(rows, "op")
    assert (a["op"], a["ops"], a["calls"], a["seconds"], a["share"]) == ("a", 2, 4, 5.0, 5 / 7)
    assert a["gflops"] == pytest.approx(4 / 5) and b["gflops"] is None
    assert [group["link"] for group in grouped(rows, "link")] == ["/y", "/x"]
    assert sum(group["share"] for group in grouped(rows, "line")) == pytest.approx(1.0)


def test_by_link_line_and_op():
    model, optimizer = trained()
    with sdbr.profile(model) as p:
        for _ in range(3):
            optimizer.update(model, *batch())
    for what in ("op", "link", "line"):
        groups = p.by(what)
        assert sum(group["seconds"] for group in groups) == pytest.approx(p.seconds)
        assert [g["seconds"] for g in groups] == sorted(
            (g["seconds"] for g in groups), reverse=True
        )
    assert {"/", "/predictor/l1", "/predictor/l2"} <= {group["link"] for group in p.by("link")}
    with pytest.raises(ValueError, match="what: expected 'op', 'link' or 'line', got 'file'"):
        p.by("file")


def test_speedscope(tmp_path):
    model, optimizer = trained()
    with sdbr.profile(model) as p:
        for _ in range(3):
            optimizer.update(model, *batch())
    p.speedscope(tmp_path / "x.json")
    data = json.loads((tmp_path / "x.json").read_text())
    frames = data["shared"]["frames"]
    (found,) = data["profiles"]
    assert found["type"] == "sampled" and found["unit"] == "seconds"
    assert len(found["samples"]) == len(found["weights"]) == 2 * len(p.rows())
    assert found["endValue"] == pytest.approx(sum(found["weights"]))
    stacks = {tuple(frames[k]["name"] for k in stack) for stack in found["samples"]}
    assert ("step", "predictor", "l1", "linear") in stacks
    linear = next(frame for frame in frames if frame["name"] == "linear")
    assert linear["file"].endswith("networks.py") and linear["line"] > 0
