"""The pass that puts elementwise ops together: same numbers, no more memory, right order."""

from __future__ import annotations

import sdbr
import sdbr.backends
from sdbr.backends.cpu._kernels import step_codes
from sdbr.base.errors import ValidationError
from sdbr.ops.table import OPS
from sdbr.program import passes
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.memory import check_overlaps, plan
from sdbr.program.passes.elementwise import elementwise
from sdbr.program.program import assemble

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import FLOOR, RESULTS, ROUNDINGS, SUMS

SHAPE = (40, 64)  # elements enough to be worth it

UNARY = (
    F.tanh, F.sigmoid, F.relu, F.exp, lambda x: x * 0.5, lambda x: 1 - x, F.softplus,
    lambda x: F.clip(x, -1.0, 1.0), lambda x: x**2, lambda x: F.reshape(F.reshape(x, (-1,)), SHAPE),
    lambda x: F.broadcast_to(F.sum(x, axis=1, keepdims=True) * 0.01, SHAPE),
    lambda x: F.broadcast_to(F.sum(x, axis=0) * 0.01, SHAPE),
    lambda x: F.transpose(F.reshape(x, SHAPE[::-1])),
)  # fmt: skip
BINARY = (
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: F.maximum(x, y),
    lambda x, y: x / (1.5 + F.absolute(y)),
)  # fmt: skip


def random_function(seed):
    """A function of two arrays: a random graph of elementwise functions with some others."""
    rng = np.random.RandomState(seed)
    plan = [
        (rng.randint(len(UNARY)), rng.randint(len(BINARY)), rng.rand() < 0.5, rng.rand(2))
        for _ in range(rng.randint(4, 14))
    ]

    def function(x, y):
        known = [x, y]
        for unary, binary, one, at in plan:
            a, b = (known[int(k * len(known))] for k in at)
            h = UNARY[unary](a) if one else BINARY[binary](a, b)
            known.append(F.tanh(h) if len(known) % 5 == 0 else h)
        return known[-1] * known[-2], F.sum(known[len(known) // 2])

    return function


def run(function, off, passes_on=()):
    """Outputs and gradients of three calls, and the programs."""
    static = sdbr.static_graph(function, on_dynamic="raise") if passes_on is not None else function
    rng = np.random.RandomState(0)
    found = []
    with chainer.using_config("sdbr_disabled_passes", off):
        for _ in range(3):
            xs = [chainer.Variable(rng.randn(*SHAPE).astype("f")) for _ in range(2)]
            y, s = static(*xs)
            loss = F.sum(y * 0.1) + s
            loss.backward()
            found += [y.array, s.array, *[x.grad for x in xs]]
    if passes_on is None:
        return found, []
    programs = static.schedule_manager.static_schedule.programs
    assert static.schedule_manager.statistics.replays == 2
    assert sum(p.python_ops for p in [programs["forward"], *programs["backward"]]) == 0
    return found, [programs["forward"], *programs["backward"]]


def near(got, want, tolerance):
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if g is not None:
            assert abs(g - w).max() <= tolerance * max(abs(w).max(), FLOOR)


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(seed):
    function = random_function(seed)
    got, programs = run(function, "")
    want, others = run(function, "elementwise")
    near(got, want, ROUNDINGS)
    near(got, run(function, "", None)[0], SUMS)
    assert sum(map(len, programs)) <= sum(map(len, others))
    for program, other in zip(programs, others, strict=True):
        assert program.arena_bytes <= other.arena_bytes
        assert check_overlaps(program.instructions, program.kept) == []


def test_most_random_graphs_gain():
    sizes = np.array(
        [
            [sum(map(len, run(random_function(s), off)[1])) for off in ("", "elementwise")]
            for s in range(5)
        ]
    )
    assert (sizes[:, 0] < 0.8 * sizes[:, 1]).sum() >= 3


@pytest.mark.parametrize("backend", ["numpy", "cython"])
def test_a_chain_is_one_op(backend):
    static = sdbr.static_graph(lambda x: F.tanh(x * 2 + 1) * x, backend=backend)
    x = np.random.RandomState(0).randn(*SHAPE).astype("f")
    with chainer.no_backprop_mode():
        got = [static(chainer.Variable(x)).array for _ in range(2)][-1]
    np.testing.assert_allclose(got, np.tanh(x * 2 + 1) * x, rtol=RESULTS, atol=ROUNDINGS)
    program = static.schedule_manager.static_schedule.programs["forward"]
    (line,) = program.disassemble().splitlines()
    assert "t0 = mul_constant(%0, value=2), t0 = add_constant(t0, value=1), t0 = tanh(t0)" in line
    assert "%1 = multiply(t0, %0)" in line and "_ * 2 + _ + 1 + Tanh + _ * _" in line


def test_small_arrays_stay_single_ops():
    static = sdbr.static_graph(lambda x: F.tanh(x * 2 + 1))
    with chainer.no_backprop_mode():
        for _ in range(2):
            static(np.ones((3, 4), "f"))
    assert "fused" not in static.schedule_manager.static_schedule.programs["forward"].disassemble()


def test_a_number_that_changes_is_read_at_each_call():
    class Scaled(chainer.Chain):
        rate = 0.5

        def forward(self, x):
            return F.tanh(F.leaky_relu(x, self.rate) + 1)

    model = sdbr.static_graph(Scaled())
    x = np.random.RandomState(0).randn(*SHAPE).astype("f")
    for model.rate in (0.5, 0.25, 0.125):
        got = model(x).array
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 2)
    np.testing.assert_allclose(got, np.tanh(np.where(x <= 0, 0.125 * x, x) + 1), rtol=RESULTS)
    assert "fused" in model.schedule_manager.static_schedule.programs["forward"].disassemble()


# --- order, by hand ------------------------------------------------------------------------------
def by_hand(build):
    """Names of the ops after the pass."""
    b = Builder()
    kept = {row.root.index for row in build(b) or ()}
    return [i.op.name for i in elementwise(b.instructions, kept)]


def test_nothing_moves_over_the_update_of_what_it_reads():
    def build(b):
        p, g, x = (b.table.bound(SHAPE, "f", n) for n in "pgx")
        y = b.elementwise("multiply", p, x)
        b.emit("sgd", [g, p], [p], floats=(0.1,))
        return [b.elementwise("add", y, p)]

    assert by_hand(build) == ["multiply", "sgd", "add"]


def test_nothing_moves_over_a_python_op_that_may_write_it():
    def build(b):
        p, x = (b.table.bound(SHAPE, "f", n) for n in "px")
        y = b.elementwise("multiply", p, x)
        b.emit("python", [x], [], ints=(0, 1), obj=print)
        return [b.elementwise("add", y, p)]

    assert by_hand(build) == ["multiply", "python", "add"]


def test_an_op_rises_over_others():
    def build(b):
        x = b.table.bound(SHAPE, "f", "x")
        y = b.elementwise("exp", x)
        s = b.reduce("sum", x, (1,))
        return [b.elementwise("tanh", y), s]

    assert by_hand(build) == ["fused", "sum"]


def test_two_chains_that_meet_are_one():
    def build(b):
        x, y = (b.table.bound(SHAPE, "f", n) for n in "xy")
        return [b.elementwise("add", b.elementwise("exp", x), b.elementwise("tanh", y))]

    assert by_hand(build) == ["fused"]


def test_other_sizes_do_not_join():
    def build(b):
        x = b.table.bound(SHAPE, "f", "x")
        s = b.reduce("sum", b.elementwise("exp", x), (1,))
        return [b.elementwise("tanh", s)]

    assert by_hand(build) == ["exp", "sum", "tanh"]


def test_long_chains_are_cut():
    def build(b):
        x = b.table.bound(SHAPE, "f", "x")
        for _ in range(100):
            x = b.elementwise("exp", x)
        return [x]

    names = by_hand(build)
    assert set(names) == {"fused"} and 2 <= len(names) <= 4


def test_too_many_operands_are_cut():
    def build(b):
        total = b.table.bound(SHAPE, "f", "x")
        for _ in range(40):
            total = b.elementwise("add", total, b.table.bound(SHAPE, "f", "x"))
        return [total]

    names = by_hand(build)
    assert set(names) == {"fused"} and 3 <= len(names) <= 8


# --- the op ------------------------------------------------------------------------------------
def test_steps_are_those_that_have_row_functions():
    assert set(step_codes()) == {op.name for op in OPS if op.step}


def code(name):
    return next(op.opcode for op in OPS if op.name == name)


@pytest.mark.parametrize(
    ("ints", "numbers", "message"),
    [
        ((code("exp"), 0), (), "cut short"),
        ((code("softmax"), 0, 1), (), "not an elementwise op"),
        ((10**6, 0, 1), (), "not an elementwise op"),
        ((code("mul_constant"), 0, 1), (), "float attributes"),
        ((code("exp"), 2, 1), (), "that nothing has written"),
        ((code("exp"), 0, 0), (), "exp writes register 0"),
        ((code("exp"), 0, 99), (), "exp writes register 99"),
        ((code("exp"), 0, 1, code("exp"), 0, 1), (), "written twice"),
        ((code("exp"), 0, 2), (), "never written"),
        ((), (), "never written"),
    ],
)
def test_malformed_steps_are_refused(ints, numbers, message):
    b = Builder()
    x, y = (b.table.bound(SHAPE, "f", n) for n in "xy")
    b.emit("fused", [x], [y], ints, numbers)
    with pytest.raises(ValidationError, match=message):
        assemble(b.instructions, b.table).validate()


def test_outputs_take_over_inputs_that_are_read_no_more():
    b = Builder()
    x = b.table.bound(SHAPE, "f", "x")
    h = b.copy(x)
    y, z = b.new(SHAPE, "f"), b.new(SHAPE, "f")
    steps = [(code("exp"), 0, 1), (code("tanh"), 0, 2)]
    b.emit("fused", [h], [y, z], sum(steps, ()))
    assert b.instructions[-1].memory_sharing() == [(1, 0)]
    aliases = passes.inplace(b.instructions, {y.index, z.index})
    assert aliases == {z.index: h}
    arena = plan(b.instructions, b.table, kept=[y, z], aliases=aliases)
    assert arena.nbytes == 2 * h.nbytes
    assert check_overlaps(b.instructions, [y, z]) == []
    memory = Memory(len(b.table.slots), 0)
    given = np.random.RandomState(0).randn(*SHAPE).astype("f")
    memory.bind(x.slot.index, given)
    program = assemble(b.instructions, b.table, "test", arena)
    sdbr.backends.make_executable(program, memory, "cython").run()
    got = memory.array(arena.index).view("f").reshape(2, *SHAPE)
    np.testing.assert_allclose(got[z.place // z.nbytes], np.tanh(given), rtol=RESULTS)


@pytest.mark.parametrize("wide", [False, True])
def test_threads_take_parts_of_it(wide):
    """Blocks, with an input that repeats in each; one that has to be walked over stays whole."""
    rng = np.random.RandomState(0)
    x, row = rng.randn(1000, 300).astype("f"), rng.randn(300).astype("f")
    column = rng.randn(1000, 1).astype("f")

    def function(x, row, column):
        h = F.tanh(x * F.broadcast_to(row, x.shape) + 0.5) * x
        return F.exp(h * F.broadcast_to(column, x.shape)) if wide else F.exp(h)

    found, cut = [], []
    for threads in (1, 3):
        static = sdbr.static_graph(function)
        with chainer.no_backprop_mode(), chainer.using_config("sdbr_num_threads", threads):
            for _ in range(2):
                y = static(*map(chainer.Variable, (x, row, column)))
        program = static.schedule_manager.static_schedule.programs["forward"]
        assert len(program) == 1
        found.append(y.array.tobytes())
        cut.append(program.prepared.cut_ops)
    assert found[0] == found[1]
    assert cut == [0, 0 if wide else 1]
