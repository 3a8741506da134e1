"""``memory='low'``: cheap functions again in the backward; the same numbers in less memory."""

from __future__ import annotations

import dataclasses

import sdbr
from sdbr.backends import MACHINES
from sdbr.program.memory import check_overlaps

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, check
from tests.harness.models import MODELS, Net
from tests.harness.programs import STEP_MODELS, programs_of
from tests.harness.steps import OPTIMIZERS, compare, train
from tests.tolerances import GRADIENTS, RESULTS


def deep(model, x, t):
    """Batch normalization, relu, dropout and arithmetic, a few times."""
    h = x
    for i in range(4):
        h = F.dropout(F.relu(model[f"n{i}"](model[f"l{i}"](h))), 0.3)
        h = F.tanh(h * 0.5 + 0.1) * F.sigmoid(h) + 0.1 * h
    return F.softmax_cross_entropy(h, t)


def make_deep():
    links = {f"l{i}": L.Linear(64, 64) for i in range(4)}
    links.update((f"n{i}", L.BatchNormalization(64)) for i in range(4))
    return Net(deep, **links)


def batch(rng):
    return rng.randn(48, 64).astype("f"), rng.randint(0, 64, 48).astype("i")


def arena(model, name):
    return sum(p.arena_bytes for p in programs_of(model) if p.name in name)


def bits(records):
    return [
        {name: a.tobytes() for part in ("state", "gradients") for name, a in r[part].items()}
        for r in records
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_are_the_same_to_the_last_bit(backend):
    runs = {}
    for memory in ("default", "low"):
        runs[memory] = train(
            make_deep, batch, OPTIMIZERS["adam"], static=True, steps=6, backend=backend,
            memory=memory,
        )  # fmt: skip
    assert bits(runs["low"][0]) == bits(runs["default"][0])
    assert runs["low"][1].schedule_manager.statistics.replays == 5
    if backend == "cython":
        low, default = (arena(runs[memory][1], ["step"]) for memory in ("low", "default"))
        assert low < 0.7 * default
    (program,) = [p for p in programs_of(runs["low"][1]) if p.name == "step"]
    assert check_overlaps(program.instructions, program.kept) == []
    assert "fixed_batch_norm" in program.disassemble()


@pytest.mark.parametrize("name", STEP_MODELS)
def test_whole_steps(name):
    make, data, _ = MODELS[name]
    compare(make, data, OPTIMIZERS["adam"], steps=4, native=False, memory="low")


@pytest.mark.parametrize("name", MODELS)
def test_calls(name):
    make, fresh, _ = MODELS[name]
    model = check(make, fresh, steps=3 + name.startswith("lazy"), memory="low")
    for program in programs_of(model):
        assert check_overlaps(program.instructions, program.kept) == []


def separate(memory, off=""):
    """Gradients and programs of calls whose update is not part of them."""
    np.random.seed(0)
    model = sdbr.static_graph(make_deep(), memory=memory)
    rng = np.random.RandomState(0)
    found = []
    with chainer.using_config("sdbr_disabled_passes", off):
        for i in range(4):
            x, t = batch(rng)
            x = chainer.Variable(x)
            model.cleargrads()
            loss = model(x, t)
            if i == 3:  # another pattern: its program is made when the forward is there
                (g,) = chainer.grad([loss], [x])
                found.append({"x": g.array})
                continue
            loss.backward()
            found.append({n: p.grad for n, p in sorted(model.namedparams())} | {"x": x.grad})
    return found, model


def test_calls_keep_less_for_the_backward():
    got, low = separate("low")
    want, default = separate("default")
    for g, w in zip(got, want, strict=True):
        assert {n: a.tobytes() for n, a in g.items()} == {n: a.tobytes() for n, a in w.items()}
    assert low.schedule_manager.statistics.replays == 3
    assert arena(low, ["forward"]) < 0.6 * arena(default, ["forward"])
    assert arena(low, ["forward", "backward"]) < 0.9 * arena(default, ["forward", "backward"])


def changed_between(memory):
    """Gradients of calls whose parameters and argument change before their backward."""
    np.random.seed(0)
    model = make_deep()
    with model.init_scope():
        model.scale = chainer.Parameter(np.random.randn(64).astype("f"))

    def whole(model, x, t):
        return deep(model, F.tanh(x) * F.exp(model.scale)[None], t)

    model._forward = whole
    if memory is not None:
        sdbr.static_graph(model, memory=memory)
    rng = np.random.RandomState(0)
    found = []
    for _ in range(3):
        x, t = batch(rng)
        x = chainer.Variable(x)
        model.cleargrads()
        loss = model(x, t)
        for p in model.params():
            p.array *= 1.25
        x.array[...] = 7
        loss.backward()
        found.append({n: p.grad for n, p in sorted(model.namedparams())} | {"x": x.grad})
    return found, model


def test_what_changes_before_the_backward_is_not_read_again():
    (got, model), (want, _), (reference, _) = map(changed_between, ("low", "default", None))
    assert model.schedule_manager.statistics.replays == 2
    for g, w, r in zip(got, want, reference, strict=True):
        assert {n: a.tobytes() for n, a in g.items()} == {n: a.tobytes() for n, a in w.items()}
        assert_all_near({"x": g["x"]}, {"x": r["x"]}, GRADIENTS, "gradients")


@pytest.mark.parametrize("memory", ["default", "low"])
def test_what_is_written_in_between_is_not_read_again(memory):
    @sdbr.static_code(func_name="halve")
    def halve(inputs):
        inputs[0][...] *= 0.5

    def forward(self, x):
        y = F.tanh(self.l(x))
        z = 3 * y
        halve(inputs=[y.array])
        return F.sum(z * z * y)

    found = {}
    for static in (False, True):
        np.random.seed(0)
        model = Net(forward, l=L.Linear(8, 8))
        if static:
            sdbr.static_graph(model, memory=memory, on_dynamic="raise")
        for i in range(3):
            x = chainer.Variable(np.random.RandomState(i).randn(4, 8).astype("f"))
            model.cleargrads()
            model(x).backward()
        found[static] = {n: p.grad for n, p in sorted(model.namedparams())} | {"x": x.grad}
    assert_all_near(found[True], found[False], RESULTS, "gradients")
    assert model.schedule_manager.statistics.replays == 2


def test_the_pass_can_be_switched_off():
    got, off = separate("low", "recomputation")
    want, default = separate("default", "recomputation")
    for g, w in zip(got, want, strict=True):
        assert_all_near(g, w, 0, "gradients")
    assert arena(off, ["forward"]) == arena(default, ["forward"])
    assert "again" not in "".join(p.disassemble() for p in programs_of(off))


def test_long_chains_keep_some_of_their_values():
    def chain(x):
        for _ in range(30):
            x = F.tanh(x)
        return F.sum(x)

    sizes = {}
    for memory in ("default", "low"):
        static = sdbr.static_graph(chain, memory=memory)
        x = chainer.Variable(np.random.RandomState(0).randn(50, 50).astype("f"))
        for _ in range(2):
            x.cleargrad()
            static(x).backward()
        programs = static.schedule_manager.static_schedule.programs
        sizes[memory] = [programs["forward"].arena_bytes, programs["backward"][0].arena_bytes]
    assert sizes["low"][0] < 0.3 * sizes["default"][0]
    assert sum(sizes["low"]) < 0.6 * sum(sizes["default"])


def test_by_default_arithmetic_with_a_number_is_made_again():
    def gelu(x):
        return 0.5 * x * (1 + F.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    w = np.eye(64, dtype="f")
    found = {}
    for off in ("", "recomputation"):
        static = sdbr.static_graph(lambda x: gelu(F.linear(x, w)))
        x = chainer.Variable(np.random.RandomState(0).randn(64, 64).astype("f"))
        with chainer.using_config("sdbr_disabled_passes", off):
            for _ in range(2):
                x.cleargrad()
                F.sum(static(x)).backward()
        forward = static.schedule_manager.static_schedule.programs["forward"]
        found[off] = forward.arena_bytes, x.grad.tobytes()
    assert found[""][1] == found["recomputation"][1]
    assert found[""][0] == found["recomputation"][0] / 2


def test_unknown_memory():
    with pytest.raises(ValueError, match="default, low, no_reuse, got 'less'"):
        sdbr.static_graph(lambda x: x, memory="less")


def test_what_holds_much_is_low_in_any_case(monkeypatch):
    def arena_of(memory):
        trained = train(
            make_deep, batch, OPTIMIZERS["adam"], static=True, steps=3, backend="cython",
            memory=memory,
        )  # fmt: skip
        return arena(trained[1], "step")  # which lives as long as the optimizer

    default, low = arena_of("default"), arena_of("low")
    assert low < default
    small = dataclasses.replace(MACHINES["cython"], most_held=10_000)
    monkeypatch.setitem(MACHINES, "cython", small)
    assert arena_of("default") == low
