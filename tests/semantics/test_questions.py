"""Row 23: a value that decides about the way of a call is asked anew; each way is a schedule."""

from __future__ import annotations

import warnings

import sdbr
from sdbr._executor import Executable
from sdbr.backends import make_executable
from sdbr.base.errors import OtherAnswer
from sdbr.call import manager, misses
from sdbr.call.step import whole as whole_step
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.memory import plan
from sdbr.program.program import assemble

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of, state_of
from tests.harness.threads import in_threads, switch_interval
from tests.harness.twins import counts, statistics_of
from tests.tolerances import GRADIENTS, RESULTS, SUMS


class Asking(chainer.Chain):
    """Parameters, running averages, and a forward that asks."""

    def __init__(self, forward):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)
            self.bn = L.BatchNormalization(4)
            self.dbn = L.DecorrelatedBatchNormalization(4, groups=4)
            self.o = L.Linear(4, 2)
            self.e = L.EmbedID(12, 4)
        self.last = None
        self._forward = forward

    def forward(self, x):
        return F.sum(self._forward(self, x) ** 2)


def branch(self, x):
    return F.relu(self.l(x)) if (x > 0.9).any() else F.tanh(self.l(x))


def condition_of_a_variable(self, x):
    h = self.l(x)
    return h * 2 if F.sum(h).array > 0 else F.sigmoid(h)


def loop(self, x):
    h = self.l(x)
    while abs(h.array).max() > 0.4:
        h = h * 0.5
    return self.o(h)


def count(self, x):
    h = self.l(x)
    for _ in range(int((x > 0).sum()) % 3):
        h = F.tanh(h)
    return h


def truncated(self, x):
    return self.l(x) * (1 + int(abs(x).max() * 2))


def index(self, x):
    return self.l(x)[:, np.argmax(x[0])]


def as_index(self, x):
    return self.l(x) * [0.5, 2.0, 3.0][x[0].argmax()]


def item(self, x):
    return self.l(x) * list(range(64))[(x > 0).sum().item()]


def contained(self, x):
    t = (abs(x) * 3).astype("i").ravel()[:4]
    return self.e(t + 1) if 2 in t else self.e(t) * 3


def asserted(self, x):
    assert x.ndim == 2 and not np.isnan(x).any()
    h = self.bn(F.tanh(self.l(x)))
    assert np.isfinite(h.array).all()
    return F.tanh(h) * self.l(x)


def selected(self, x):
    h = self.l(x)
    rows = np.nonzero(h.array[:, 0] > 0)[0]
    return h[rows] if len(rows) else h * 2


def where(self, x):
    return self.l(x) * len(np.where(x > 0)[0])


def masked(self, x):
    return self.l(x[x[:, 0] > 0]) if (x[:, 0] > 0).any() else self.l(x)


def after_running_averages(self, x):
    h = self.bn(F.tanh(self.l(x)))
    return h * self.l(x) if h.array.max() > 1.2 else F.tanh(self.bn(self.l(x))) * self.l(x)


def after_averages_of_a_python_op(self, x):
    h = self.dbn(F.tanh(self.l(x)))
    return h * self.l(x) if h.array.max() > 1 else F.tanh(self.l(x))


def after_draws(self, x):
    h = F.dropout(self.l(x), 0.5)
    if h.array.sum() > 0:
        h = F.dropout(h, 0.2)
    return h * 2 if h.array.max() > 1 else h + 1


def effects(self, x):
    h = self.l(x)
    chainer.report({"first": F.sum(h)}, self)
    self.last = h
    if h.array.sum() > 0:
        self.last = h * 2
        chainer.report({"second": F.max(h)}, self)
    return h


def several_questions(self, x):
    h = self.l(x)
    a, b = bool((x[0] > 0).all()), bool(h.array.sum() > 0)
    return h * (1 + a) * (2 - b)


def sliced(self, x):
    n = 1 + (x[:, 0] > 0).sum()
    return F.tanh(self.l(x)[:n]) + F.tanh(self.l(x[:n]))


def repeated(self, x):
    n = (x > 0).sum() % 4
    return F.concat([self.l(x)] * (n + 1)) * len((n + 1) * "ab")


def shaped(self, x):
    n = 1 + (x[:, 0] > 0).sum() % 2
    h = F.reshape(self.l(x), (n, -1)) * np.tile(x[:1, :1], (n, 1))
    return h * np.repeat(x[0, :1], n)[:, None]


def drawn(self, x):
    n = 1 + (x > 0).sum() % 3
    return self.l(x) * np.random.choice(4, n).astype("f").sum()


def among(self, x):
    n = (x[:, 0] > 0).sum()
    return self.l(x) * 2 if np.isin(n, [1, 2]) else F.tanh(self.l(x))


def pooled(self, x):
    n = 1 + (x[:, 0] > 0).sum() % 2
    return F.average_pooling_2d(F.reshape(self.l(x), (1, 1, 4, 4)), n)


PROGRAMS = {
    f.__name__: f
    for f in (
        branch, condition_of_a_variable, loop, count, truncated, index, as_index, item, contained,
        asserted, selected, where, masked, after_running_averages, after_averages_of_a_python_op,
        after_draws, effects,
        several_questions, sliced, repeated, shaped, drawn, among, pooled,
    )
}  # fmt: skip


def inputs(n=30):
    rng = np.random.RandomState(0)
    return [(rng.randn(4, 3) * rng.choice([0.1, 0.5, 1.0])).astype("f") for _ in range(n)]


def models(name, **options):
    np.random.seed(0)
    plain, static = Asking(PROGRAMS[name]), Asking(PROGRAMS[name])
    static.copyparams(plain)
    return plain, sdbr.static_graph(static, on_dynamic="raise", **options)


def observed(model, run) -> dict:
    """What `run` leaves behind: state, gradients, reports, and where the generator stands."""
    reporter = chainer.Reporter()
    reporter.add_observer("m", model)
    np.random.seed(1)
    with reporter:
        result = run()
    found = {f"state{k}": v for k, v in state_of(model).items()}
    found |= {f"gradient{k}": v for k, v in gradients_of(model).items()}
    found |= {k: copy_of(v.array) for k, v in reporter.observation.items()}
    return {**found, "result": result, "generator": np.random.get_state()[1]}


def trained(model, x):
    y = model(x)
    model.cleargrads()
    y.backward()
    return copy_of(y.array)


def in_test(model, x):
    model.cleargrads()
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return copy_of(model(x).array)


def settle(plain, static):
    """Rounding must not grow from step to step."""
    static.copyparams(plain)


@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize("run", [trained, in_test])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("error::sdbr.SdbrWarning")
def test_every_way_is_replayed(name, run, audit):
    plain, static = models(name)
    with chainer.using_config("sdbr_audit", audit):
        for x in inputs():
            want = observed(plain, lambda x=x: run(plain, x))
            got = observed(static, lambda x=x: run(static, x))
            assert_all_near(got, want, GRADIENTS, name)
            settle(plain, static)
    (known,) = static.schedule_manager.schedules.values()
    traces, replays, define_by_run = counts(static)
    assert traces == len(known) == len({s.answers for s in known})
    assert replays == 30 - traces and define_by_run == 0
    assert static.schedule_manager.audits.failed == 0
    averages = name.startswith("after_") and "averages" in name
    one_way = name in ("asserted", "index") or (averages and run is in_test)
    assert (traces == 1) == one_way


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_way_is_a_whole_step(name, audit, backend):
    plain, static = models(name, backend=backend)
    optimizers = (
        chainer.optimizers.MomentumSGD(0.01).setup(plain),
        sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.01)).setup(static),
    )
    with chainer.using_config("sdbr_audit", audit):
        for x in inputs():
            want, got = (
                observed(model, lambda o=o, model=model, x=x: o.update(model, x))
                for o, model in zip(optimizers, (plain, static), strict=True)
            )
            assert_all_near(got, want, GRADIENTS, name)
            settle(plain, static)
            for p, q in zip(plain.params(), static.params(), strict=True):
                if q.update_rule.state and p.update_rule.state:
                    q.update_rule.state["v"][...] = p.update_rule.state["v"]
    statistics = statistics_of(static)
    assert statistics.steps == 30 - statistics.traces > 0
    assert statistics.define_by_run_calls == 0


def test_questions_run_natively():
    for name in ("branch", "condition_of_a_variable", "loop", "asserted", "several_questions"):
        _, static = models(name)
        for x in inputs():
            in_test(static, x)
        assert statistics_of(static).native_calls == statistics_of(static).replays > 0, name
        assert statistics_of(static).python_ops == 0, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "right", "wrong"), [("?", True, False), ("i8", -3, 5)])
def test_a_question_ends_the_run(backend, dtype, right, wrong):
    b = Builder()
    x, y = b.table.bound((), dtype, "x"), b.table.bound((2,), "f4", "y")
    b.emit("question", [x], [], ints=(int(right), 7))
    b.emit("fill", [], [y], floats=(1.0,))
    program = assemble(b.instructions, b.table, "test", plan(b.instructions, b.table))
    memory = Memory(len(b.table.slots), 0)
    out = np.zeros(2, "f")
    memory.bind(y.slot.index, out)
    executable = make_executable(program, memory, backend)
    assert isinstance(executable, Executable) == (backend == "cython")
    memory.bind(x.slot.index, np.array(wrong, dtype))
    with pytest.raises(OtherAnswer) as caught:
        executable.run()
    assert (caught.value.number, caught.value.answer) == (7, int(wrong))
    assert not out.any()
    memory.bind(x.slot.index, np.array(right, dtype))
    executable.run()
    assert out.all()


# --- what happens once ---------------------------------------------------------------------------
@pytest.mark.parametrize("audit", ["off", 1.0])
def test_code_that_runs_every_time_may_follow_a_question(audit):
    seen = []

    @sdbr.static_code
    def note(inputs):
        seen.append(float(inputs[0]))

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        y = F.relu(x) if x[0] > 0 else F.tanh(x)
        note(inputs=[F.sum(y).array])
        return y

    with chainer.using_config("sdbr_audit", audit):
        wanted = []
        for k, sign in enumerate([1, 1, -1, 1, -1, -1, 1, -1]):
            x = np.array([sign * (k + 1), 0.5], "f")
            y = f(x)
            wanted.append(y.array.sum())
    np.testing.assert_allclose(seen, wanted, RESULTS)
    traces, replays, define_by_run = counts(f)
    assert traces == 2 and replays + define_by_run == 6 and replays > 0
    assert define_by_run == 0 or audit == 1.0


class Noisy(chainer.FunctionNode):
    """Does more than compute."""

    calls = 0

    def forward(self, inputs):
        Noisy.calls += 1
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        return (gys[0] * 2,)


@pytest.mark.parametrize("what", ["static_code", "function"])
def test_no_question_after_what_happens_once(what):
    @sdbr.static_code
    def nothing(inputs):
        pass

    def f(x):
        y = Noisy().apply((F.relu(x),))[0] if what == "function" else F.relu(x)
        if what == "static_code":
            nothing(inputs=[y.array])
        return y * 2 if y.array.sum() > 0 else y

    with pytest.warns(sdbr.SdbrWarning, match=r"which happens only once at .*test_questions"):
        static = sdbr.static_graph(f)
        for k in range(4):
            x = np.array([k - 1.5, -1], "f")
            np.testing.assert_array_equal(static(x).array, f(x).array)
    assert counts(static) == (1, 0, 3)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_dynamic_way_leaves_the_others_static(compiled):
    @sdbr.static_graph
    def f(x):
        if x[0] > 0:
            return F.relu(x)
        return F.tanh(x) * float(str(x[1]))

    with pytest.warns(sdbr.SdbrWarning, match="str") as caught:
        for k, sign in enumerate([1, 1, -1, -1, 1, -1, 1, 1]):
            x = np.array([sign, k], "f")
            want = np.maximum(x, 0) if sign > 0 else np.tanh(x) * k
            if k and not compiled:  # the schedule is looked for each time
                f.schedule_manager.runners.clear()
            np.testing.assert_allclose(f(x).array, want, RESULTS)
    assert len(caught) == 1
    assert counts(f) == (2, 4, 2)


def test_an_error_of_one_way():
    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        if not np.isfinite(x).all():
            raise ValueError("not finite")
        return F.relu(x) * 2

    good, bad = np.ones(3, "f"), np.array([1, np.nan, 2], "f")
    for x in (good, good, bad, good, bad, good):
        if x is bad:
            with pytest.raises(ValueError, match="not finite"):
                f(x)
        else:
            np.testing.assert_array_equal(f(x).array, 2 * x)
    assert statistics_of(f).replays == 3


def test_at_most_64_ways(monkeypatch):
    assert misses.MOST_WAYS == 64
    monkeypatch.setattr(misses, "MOST_WAYS", 8)

    @sdbr.static_graph(max_schedules=2)
    def f(x):
        return F.relu(x) * int(x[0])

    with pytest.warns(sdbr.SdbrWarning, match="more than 64 ways") as caught:
        for k in range(12):
            x = np.array([k, 1], "f")
            np.testing.assert_array_equal(f(x).array, x * k)
    assert len(caught) == 1 and "test_questions.py" in str(caught[0].message)
    (known,) = f.schedule_manager.schedules.values()
    assert len(known) == 8
    before = counts(f)
    f(np.array([3, 1], "f"))  # one of those that are known
    assert counts(f) == (before[0], before[1] + 1, before[2])


def test_the_ways_count_as_one_schedule():
    @sdbr.static_graph(max_schedules=2)
    def f(x):
        return F.relu(x) * int(x[0])

    for n in (2, 3):
        for k in range(4):  # 16 calls: whatever comes later has to be paid for by replays
            for _ in range(2):
                f(np.full(n, k, "f"))
    assert counts(f) == (8, 8, 0)


def assert_same_gradients(layer, plain, static):
    """Of twelve calls and their backwards."""
    for x in inputs(12):
        found = []
        for call in (plain, static):
            layer.cleargrads()
            y = call(chainer.Variable(x))
            y.backward()
            found.append({"y": copy_of(y.array), **gradients_of(layer)})
        assert_all_near(found[1], found[0], GRADIENTS, "gradients")


def test_a_question_inside_of_forget():
    layer = L.Linear(3, 3)

    def inside(x):
        h = layer(x)
        return h * 2 if h.array.sum() > 0 else F.tanh(h)

    def f(x):
        return F.sum(F.forget(inside, x))

    static = sdbr.static_graph(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        assert_same_gradients(layer, f, static)
    assert statistics_of(static).replays > 0


def test_a_question_after_a_forget_that_is_code_of_its_own():
    """A replay that goes another way there has run it, and whatever that does, already."""
    layer, counted = L.Linear(3, 3), [0]

    def inside(x):
        counted[0] += 1
        return layer(x)

    def f(x):
        h = F.forget(inside, x)
        return F.sum(h * 3 if h.array.max() > 0.5 else h)

    static = sdbr.static_graph(f, on_dynamic="fallback")
    assert_same_gradients(layer, f, static)
    assert statistics_of(static).replays == 0
    assert "after Forget, which happens only once" in str(sdbr.explain(static))


def test_gradients_inside_the_call_and_of_gradients():
    np.random.seed(2)  # with these weights both ways are gone
    layer = L.Linear(3, 1)

    def f(x):
        y = F.sum(F.tanh(layer(x)) ** 2)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        norm = F.sum(g**2)
        return y + norm if norm.array > 0.1 else y - norm

    static = sdbr.static_graph(f, on_dynamic="raise")
    assert_same_gradients(layer, f, static)
    traces, replays, define_by_run = counts(static)
    assert traces == 2 and replays == 10 and define_by_run == 0


def test_each_way_has_guards_of_its_own():
    scales = {"up": 2.0, "down": 3.0}

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        return F.relu(x) * scales["up"] if x[0] > 0 else F.tanh(x) * scales["down"]

    up, down = np.array([1, 2], "f"), np.array([-1, 2], "f")
    for k, x in enumerate([up, up, down, down, up, down]):
        if k == 4:
            scales["down"] = 5.0
        want = np.maximum(x, 0) * 2 if x is up else np.tanh(x) * scales["down"]
        np.testing.assert_allclose(f(x).array, want, RESULTS)
    assert statistics_of(f).replays >= 2


def test_each_way_has_constants_of_its_own():
    table = {"a": np.arange(3, dtype="f"), "b": np.ones(3, "f")}

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        name = "a" if x[0] > 0 else "b"
        return F.relu(x) + np.frombuffer(table[name].tobytes(), "f")

    for k, sign in enumerate([1, -1, 1, -1, 1, -1, 1, 1, -1]):
        x = np.array([sign * (k + 1), 1 + k, 2 + k], "f")
        want = np.maximum(x, 0) + table["a" if sign > 0 else "b"]
        np.testing.assert_array_equal(f(x).array, want)
    assert (statistics_of(f).traces, statistics_of(f).replays) == (2, 7)


def test_threads_go_their_own_ways():
    layer = L.Linear(3, 3)

    def f(x):
        h = layer(x)
        return h * 2 if x[0, 0] > 0 else F.tanh(h)

    static = sdbr.static_graph(f, on_dynamic="raise")
    wrong = []

    with chainer.no_backprop_mode():
        for k in range(8):
            static(np.full((2, 3), (-1) ** k, "f"))
    before = statistics_of(static).replays

    def work(seed):
        rng = np.random.RandomState(seed)
        for _ in range(60):
            x = rng.randn(2, 3).astype("f")
            with chainer.no_backprop_mode():
                if not np.allclose(static(x).array, f(x).array, SUMS, RESULTS):
                    wrong.append(x)

    with switch_interval(0.00001):
        in_threads(3, work)
    assert not wrong
    assert statistics_of(static).replays == before + 180


def test_a_replay_that_turns_back_leaves_results_in_attributes_alone():
    """What an attribute holds from the call before is not written by a run that turns back."""

    class Keeps(chainer.Chain):
        def forward(self, x):
            if x[0] > 0:
                self.kept = F.exp(x)
            y = F.tanh(x)
            return y * 2 if y.array[1] > 0 else y

    model = sdbr.static_graph(Keeps(), on_dynamic="raise")
    with chainer.no_backprop_mode():
        for signs in [(1, 1), (1, 1), (1, 1), (1, -1), (1, -1), (-1, 1), (-1, 1), (1, 1), (-1, -1)]:
            x = np.array(signs, "f") * np.random.rand(2).astype("f")
            model(x)
            if signs[0] > 0:
                want = np.exp(x)
            np.testing.assert_allclose(model.kept.array, want, RESULTS)
    assert statistics_of(model).replays >= 4


@pytest.mark.parametrize("whole", [False, True])
def test_an_audit_that_is_due_waits_for_a_call_of_its_way(whole, monkeypatch):
    """Else each call that goes another way would run by define-by-run twice."""
    audits = []

    def noted(original):
        def audited(*args):
            audits.append(original)
            return original(*args)

        return audited

    monkeypatch.setattr(manager, "audited_call", noted(manager.audited_call))
    monkeypatch.setattr(whole_step, "audited_step", noted(whole_step.audited_step))
    model = Asking(lambda self, x: self.l(x) * int(x[0, 0]))
    model = sdbr.static_graph(model, on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    with chainer.using_config("sdbr_audit", "auto"):
        for k in [*range(10), 3]:
            x = np.full((2, 3), k, "f")
            if whole:
                optimizer.update(model, x)
            else:
                model(x)
            assert len(audits) == statistics_of(model).replays
    assert len(audits) == model.schedule_manager.audits.passed == 1


# --- what is told --------------------------------------------------------------------------------
def test_explain_draws_the_ways():
    _, static = models("several_questions")
    for x in inputs():
        trained(static, x)
    text = str(sdbr.explain(static))
    assert "ways through a call" in text
    assert "test_questions.py" in text and ": yes (" in text and ": no (" in text
    (tree,) = sdbr.explain(static).to_dict()["managers"][0]["ways"]
    assert tree["kind"] == "bool"
    served = sum(way["calls"] for way in tree["answers"])
    assert served == 30
    assert all(way["then"]["kind"] == "bool" for way in tree["answers"])


def test_a_new_way_is_told_by_its_question():
    _, static = models("branch")
    for x in inputs():
        trained(static, x)
    ((text, _),) = static.schedule_manager.misses
    assert text.startswith("what is asked at ") and "in branch" in text
