"""profile gives every op of every run its time."""

import contextlib
import json

import sdbr
from sdbr import _executor
from sdbr.call._watching import call_watcher

import chainer
import chainer.functions as F
import numpy as np
import pytest

from .networks import Net, batch, trained, triple

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cython"])


@BACKENDS
def test_whole_steps(backend):
    model, optimizer = trained(between=triple, backend=backend)
    other, other_optimizer = trained(backend=backend)
    before = model.schedule_manager.statistics.steps
    with sdbr.profile(model) as p:
        for _ in range(3):
            optimizer.update(model, *batch())
            other_optimizer.update(other, *batch())
    assert model.schedule_manager.statistics.steps == before + 3
    found = p.to_dict()
    (program,) = found["programs"]
    assert (program["name"], program["runs"]) == ("step", 3)
    ops = {row["index"]: row for row in found["ops"]}
    plan = next(iter(model.schedule_manager.static_schedule.step_plans.values()))
    assert len(ops) == len(plan.program) == program["ops"]
    assert all(row["calls"] == 3 and row["seconds"] >= 0 for row in ops.values())
    python = [row for row in ops.values() if row["op"] == "python"]
    assert {row["label"] for row in python} == {"Triple", "Triple backward"}
    assert all(row["seconds"] > 0 and "networks.py" in row["line"] for row in python)
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in ops.values()))
    text = str(p)
    assert "step: 3 runs" in text
    assert "Triple backward" in text


@BACKENDS
def test_calls_backwards_and_update(backend):
    x, t = batch()
    with chainer.using_config("sdbr_backend", backend):
        model, optimizer = trained(backend=None)
        for p in (None, sdbr.profile(optimizer)):
            with p or contextlib.nullcontext():
                for _ in range(2):
                    model.cleargrads()
                    model(x, t).backward()
                    optimizer.update()
    runs = {program["name"]: program["runs"] for program in p.to_dict()["programs"]}
    assert runs == {"forward": 2, "backward": 2, "update": 2}
    lines = str(p).splitlines()
    for name in ("forward", "backward"):
        (line,) = (line for line in lines if line.startswith(f"{name}: "))
        assert line.endswith("; Classifier.forward(float32[4,3], int32[4])")


def test_calls_without_backprop_on_the_compiled_path():
    net = sdbr.static_graph(Net())
    x, _ = batch()
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        want = [net(x).array for _ in range(3)][-1]
        with sdbr.profile(net) as p:
            got = net(x).array
        net(x)
    np.testing.assert_array_equal(got, want)
    assert p.runs == 1


def test_results_and_draws_are_those_of_a_run_without_profile():
    losses = []
    for profiled in (False, True):
        np.random.seed(3)
        model, optimizer = trained(between=lambda h: F.dropout(h, 0.5))
        found = []
        for _ in range(3):
            if profiled:
                with sdbr.profile():
                    optimizer.update(model, *batch())
            else:
                optimizer.update(model, *batch())
            found.append(float(model.loss.array))
        losses.append(found)
    assert losses[0] == losses[1]


def test_everything_nested_and_ended():
    model, optimizer = trained()
    with sdbr.profile() as outer:
        with sdbr.profile(model) as inner:
            optimizer.update(model, *batch())
        optimizer.update(model, *batch())
    assert (outer.runs, inner.runs) == (2, 1)
    assert _executor.observer() is None
    optimizer.update(model, *batch())
    assert outer.runs == 2


def test_blocks_that_end_in_any_order():
    """As those of two threads do; and one in itself."""
    model, optimizer = trained()
    first, second = sdbr.profile(model), sdbr.profile(model)
    assert "nothing was measured" in str(first)
    first.__exit__(None, None, None)  # was not begun
    with contextlib.ExitStack() as last, first:
        last.enter_context(second)
        with first:
            optimizer.update(model, *batch())
        optimizer.update(model, *batch())
        first.__exit__(None, None, None)
        optimizer.update(model, *batch())
        assert (first.runs, second.runs) == (2, 3)
    assert call_watcher() is None and _executor.observer() is None
    optimizer.update(model, *batch())
    assert (first.runs, second.runs) == (2, 3)
    assert first.breakdown()["calls"] == 2


def test_an_error_in_the_block_ends_it():
    model, optimizer = trained()
    x, t = batch()
    with pytest.raises(IndexError, match="softmax_cross_entropy"), sdbr.profile(model):
        optimizer.update(model, x, t + 7)
    assert _executor.observer() is None
    optimizer.update(model, x, t)


def test_a_program_made_inside_the_block_counts():
    model, optimizer = trained(steps=0)
    with sdbr.profile(model) as p:
        for _ in range(4):
            optimizer.update(model, *batch())
    assert {program["name"]: program["runs"] for program in p.to_dict()["programs"]}["step"] >= 2


def test_chrome_trace(tmp_path):
    model, optimizer = trained()
    path = tmp_path / "trace.json"
    with sdbr.profile(model) as p:
        optimizer.update(model, *batch())
        optimizer.update(model, *batch())
    p.chrome_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    whole = [e for e in events if e["name"] == "step"]
    ops = [e for e in events if e["name"] != "step"]
    assert len(whole) == 2
    assert len(ops) == len(p.rows())  # the second run was timed as a whole
    first, second = whole
    assert first["ts"] + first["dur"] <= second["ts"]
    for e in ops:
        assert e["ph"] == "X"
        assert e["ts"] >= first["ts"] - 1e-3
        assert "line" in e["args"]
    assert {e["name"] for e in ops} >= {"linear", "adam"}


def test_nothing_replayed():
    with sdbr.profile(sdbr.static_graph(Net())) as p:
        pass
    assert "sdbr.explain" in str(p)
    with pytest.raises(TypeError, match="obj"):
        sdbr.profile(3)


def test_limit_of_the_table():
    model, optimizer = trained()
    with sdbr.profile(model) as p:
        optimizer.update(model, *batch())
    n = len(p.rows())
    assert f"and {n - 2} more ops" in p.table(limit=2)
    assert "more ops" not in p.table(limit=None)


@BACKENDS
def test_breakdown_of_calls_backwards_and_updates(backend):
    """Programs that run after a call count as its ops; the rest of the time is outside."""
    x, t = batch()
    with chainer.using_config("sdbr_backend", backend):
        model, optimizer = trained(backend=None, between=triple)
        model(x, t)
        with sdbr.profile(model) as p:
            for _ in range(4):
                model.cleargrads()
                model(x, t).backward()
                optimizer.update()
    found = p.breakdown()
    assert found["calls"] == 4 and p.to_dict()["breakdown"] == found
    parts = [found[name] for name in ("native", "python", "wrapping", "outside")]
    assert all(part > 0 for part in parts)
    assert found["total"] == pytest.approx(sum(parts))
    rows = p.rows()
    python = sum(row["seconds"] for row in rows if row["op"] == "python")
    # Medians of four calls cannot be more than what all four took.
    assert found["python"] <= python and found["native"] <= p.seconds - python
    assert "a call took" in str(p)


def test_breakdown_leaves_traced_calls_out():
    model, optimizer = trained(steps=0)
    with sdbr.profile() as p:
        optimizer.update(model, *batch())
    assert p.breakdown() is None
    with sdbr.profile() as p:
        for _ in range(4):
            optimizer.update(model, *batch())
            with chainer.using_config("use_static_graph", False):
                model(*batch())
    assert p.breakdown()["calls"] == 4


def test_calls_inside_calls_count_once():
    inner = sdbr.static_graph(lambda x: F.relu(x))

    @sdbr.static_code
    def code(inputs):
        inner(inputs[0])

    @sdbr.static_graph
    def outer(x):
        code(inputs=[x])
        return F.relu(x) * 2

    x, _ = batch()
    for _ in range(3):
        outer(x)
    with sdbr.profile() as p:
        for _ in range(3):
            outer(x)
    assert p.breakdown()["calls"] == 3


def test_nobody_watches_afterwards():
    model, optimizer = trained()
    with sdbr.profile(model), contextlib.suppress(Exception):
        optimizer.update(model)
    assert call_watcher() is None and _executor.observer() is None
