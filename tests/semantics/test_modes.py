"""The cache key, configuration, hooks, eviction, warnings and dynamic calls."""

from __future__ import annotations

import array
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, floats
from tests.semantics.test_state import X, mlp, pair, step


def statistics_of(model):
    return model.schedule_manager.statistics


# --- configuration ------------------------------------------------------------------------------
def test_backend_is_chosen_per_call():
    static = sdbr.static_graph(mlp())
    want = MLP.forward(static, X).array
    for _ in range(2):
        for backend in ("numpy", "cython", "auto", "off"):
            with chainer.using_config("sdbr_backend", backend):
                assert_near(static(X).array, want, 1e-5, backend)
    statistics = statistics_of(static)
    # 'auto' is 'cython', which runs the programs of 'numpy'; 'off' runs define-by-run.
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 5, 2)
    argument = sdbr.static_graph(mlp(), backend="numpy")
    argument(X)
    with chainer.using_config("sdbr_backend", "off"):
        argument(X)
    assert statistics_of(argument).replays == 1
    assert argument.schedule_manager.static_schedule.backend == "numpy"


def test_one_program_on_both_backends():
    static = sdbr.static_graph(L.Classifier(mlp()))
    t = np.array([0, 1, 2, 0, 1], "i")
    texts = {}
    for backend in BACKENDS:
        with chainer.using_config("sdbr_backend", backend):
            for _ in range(2):
                static(X, t).backward()
            schedule = static.schedule_manager.static_schedule
            texts[backend] = [
                schedule.programs["forward"].disassemble(),
                *[p.disassemble() for p in schedule.programs["backward"]],
            ]
    assert texts["numpy"] == texts["cython"]


def test_use_static_graph_off():
    static = sdbr.static_graph(mlp())
    with chainer.using_config("use_static_graph", False):
        for _ in range(3):
            static(X)
    assert statistics_of(static).define_by_run_calls == 3
    assert statistics_of(static).traces == 0


def test_every_entry_of_the_configuration_is_part_of_the_key():
    def forward(self, x):
        return self.l(x) * (2 if chainer.config.my_entry == "twice" else 1)

    chainer.global_config.my_entry = "once"
    try:
        static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
        want = static.l(X).array
        for _ in range(2):
            assert_near(static(X).array, want, 1e-5, "once")
            with chainer.using_config("my_entry", "twice"):
                assert_near(static(X).array, 2 * want, 1e-5, "twice")
            chainer.global_config.my_entry = "twice"
            assert_near(static(X).array, 2 * want, 1e-5, "twice")
            chainer.global_config.my_entry = "once"
        assert (statistics_of(static).traces, statistics_of(static).replays) == (2, 4)
    finally:
        del chainer.global_config.my_entry


@pytest.mark.parametrize("where", ["global", "local"])
def test_entries_of_the_configuration_that_change_in_place(where):
    static = sdbr.static_graph(Net(lambda self, x: self.l(x) * factor(), l=L.Linear(4, 3)))
    want = static.l(X).array
    entries = {"list": [2], "dict": {"a": {"b": 2}}, "set": {2}, "tuple": ([2],)}

    def factor():
        value = chainer.config.my_entry
        while not isinstance(value, int):
            value = max(value.values() if isinstance(value, dict) else value)
        return value

    config = chainer.config if where == "local" else chainer.global_config
    try:
        for name, entry in entries.items():
            config.my_entry = entry
            for _ in range(3):
                assert_near(static(X).array, 2 * want, 1e-5, name)
            inner = entry["a"] if name == "dict" else entry[0] if name == "tuple" else entry
            {"list": list.append, "tuple": list.append, "set": set.add}.get(
                name, lambda d, value: d.update(b=value)
            )(inner, 3)
            for _ in range(3):
                assert_near(static(X).array, 3 * want, 1e-5, f"{name}, changed")
    finally:
        del config.my_entry
    assert statistics_of(static).traces == 2 * len(entries)
    assert statistics_of(static).replays == 4 * len(entries)
    assert any(
        "[3]" in differs or "{2, 3}" in differs for differs, _ in static.schedule_manager.misses
    )


def test_force_test_define_by_run():
    static = sdbr.static_graph(mlp(), force_test_define_by_run=True)
    for train in (True, True, False, False):
        with chainer.using_config("train", train):
            static(X)
    assert statistics_of(static).define_by_run_calls == 2
    assert statistics_of(static).replays == 1


def test_arguments_by_value_are_part_of_the_key():
    def f(x, n, flag=None, *, name="a", factor=1.0):
        y = F.relu(x) * n * factor
        return y + 1 if flag else y - (name == "b")

    static = sdbr.static_graph(f)
    calls = [
        ((2,), {}), ((2.0,), {}), ((3,), {}), ((True,), {}), ((2,), {"flag": True}),
        ((2, True), {}),
        ((2,), {"name": "b"}), ((2,), {"factor": 0.5}), ((2,), {"factor": -0.0}),
        ((2,), {"factor": 0.0}),
    ]  # fmt: skip
    for _ in range(3):
        for args, kwargs in calls:
            got, want = static(X, *args, **kwargs).array, f(X, *args, **kwargs).array
            assert_near(got, want, 1e-6, f"{args} {kwargs}")
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    # Of the floats, three values of `factor` share a schedule: row 11.
    assert statistics_of(static).traces == len(calls) - 2


def test_requires_grad_dtype_and_kind_are_part_of_the_key():
    static = sdbr.static_graph(lambda x: F.tanh(x) * 2)
    inputs = [
        lambda: X,
        lambda: chainer.Variable(X),
        lambda: chainer.Variable(X, requires_grad=False),
        lambda: X.astype("d"),
        lambda: X[0],
    ]
    for _ in range(3):
        for make in inputs:
            x = make()
            y = static(x)
            want = F.tanh(x) * 2
            assert_near(y.array, want.array, 1e-6, "output")
            assert y.requires_grad == want.requires_grad
            assert y.creator is not None or not y.requires_grad
    assert statistics_of(static).traces == len(inputs)


# --- eviction and warnings ----------------------------------------------------------------------
def test_least_recently_used_schedule_goes():
    static = sdbr.static_graph(lambda x: F.relu(x), max_schedules=2)
    a, b, c = (np.ones(n, "f") for n in (1, 2, 3))
    for x in (a, b, a, c):  # c drives out b
        static(x)
    assert statistics_of(static).traces == 3
    static(a)
    assert statistics_of(static).traces == 3
    static(b)
    assert statistics_of(static).traces == 4
    everything = sdbr.static_graph(lambda x: F.relu(x), max_schedules=2, minimize_cache_size=False)
    for _ in range(2):
        for n in range(1, 6):
            everything(np.ones(n, "f"))
    assert statistics_of(everything).traces == 5


def test_eviction_frees_the_compiled_call_too():
    import gc
    import weakref

    static = sdbr.static_graph(lambda x: F.relu(x), max_schedules=1)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(3):
            static(np.ones(3, "f"))
        ref = weakref.ref(static.schedule_manager.static_schedule)
        for _ in range(3):
            static(np.ones(4, "f"))
    gc.collect()
    assert ref() is None


def test_five_traces_give_one_warning():
    static = sdbr.static_graph(lambda x: F.relu(x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 20):
            static(np.ones(n, "f"))
    found = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    assert len(found) == 1
    assert "argument 0: float32[7] -> float32[8]" in found[0] and "Pad batches" in found[0]
    assert caught[0].filename == __file__


def test_replays_of_the_compiled_path_count_as_calls():
    """One new shape in ten calls is no reason for a warning, however the others were served."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 10):
            for _ in range(10):
                static(np.ones(n, "f"))
    assert static.schedule_manager.statistics.traces == 9


class SometimesDynamic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        if chainer.config.train and float(x.sum()) > 1e9:
            return self.l(x)
        return self.l(x) * 2


@pytest.mark.parametrize("on_dynamic", ["fallback", "raise"])
def test_new_keys_of_a_call_that_was_always_dynamic_are_not_traced(on_dynamic):
    static = sdbr.static_graph(SometimesDynamic(), on_dynamic=on_dynamic)
    xs = [np.ones((n, 4), "f") for n in range(1, 11)]
    if on_dynamic == "raise":
        for x in xs:
            with pytest.raises(sdbr.NotStaticError, match="float"):
                static(x)
    else:
        with pytest.warns(sdbr.SdbrWarning, match="define-by-run"):
            for x in xs:
                assert_near(static(x).array, 2 * static.l(x).array, 1e-5, "dynamic")
    assert statistics_of(static).traces == 4
    # Another configuration may be static, and is.
    with chainer.using_config("train", False):
        for x in xs[:3]:
            for _ in range(2):
                assert_near(static(x).array, 2 * static.l(x).array, 1e-5, "static")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (7, 3)


def test_few_shapes_give_no_warning():
    static = sdbr.static_graph(lambda x: F.relu(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in [1, 2, 3, 4] * 6:
            static(np.ones(n, "f"))


def test_what_a_miss_was_is_kept():
    static = sdbr.static_graph(lambda x: F.relu(x))
    static(X)
    static(X[:2])
    with chainer.using_config("train", False):
        static(X)
    (first, line), (second, _) = static.schedule_manager.misses
    assert "argument 0: float32[5,4] -> float32[2,4]" in first and "test_modes.py" in line
    assert "chainer.config.train: True -> False" in second


def test_clear():
    static = sdbr.static_graph(mlp())
    for _ in range(3):
        static(X)
    static.schedule_manager.clear()
    assert not static.schedule_manager.schedules
    static(X)
    assert statistics_of(static).traces == 2


# --- hooks --------------------------------------------------------------------------------------
class Names(chainer.FunctionHook):
    name = "names"

    def __init__(self):
        self.seen = []

    def forward_postprocess(self, function, in_data):
        self.seen.append(function.label)

    def backward_postprocess(self, function, in_data, out_grad):
        self.seen.append("gradient of " + function.label)


def test_function_hooks_see_what_chainer_shows():
    plain, static = pair(mlp)
    for i in range(6):
        if i in (1, 4):
            seen = []
            for model in (plain, static):
                with Names() as hook:
                    step(model, X)
                seen.append(hook.seen)
            assert seen[0] == seen[1] and "LinearFunction" in seen[0]
        else:
            step(static, X)
    assert statistics_of(static).define_by_run_calls == 2
    assert statistics_of(static).replays == 3


class LinkNames(chainer.LinkHook):
    name = "link names"

    def __init__(self):
        self.seen = []

    def forward_postprocess(self, args):
        self.seen.append(type(args.link).__name__)


def test_link_hooks_see_what_chainer_shows():
    static = sdbr.static_graph(mlp())
    step(static, X)
    step(static, X)
    with LinkNames() as hook:
        static(X)
    assert hook.seen == ["Linear", "Linear", "Linear", "MLP"]
    step(static, X)
    assert statistics_of(static).replays == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backprop", [True, False])
def test_local_link_hooks(backprop):
    """A hook on a link inside the chain, added before or after the trace, and deleted again."""
    static = sdbr.static_graph(mlp())
    with chainer.using_config("enable_backprop", backprop):
        for _ in range(2):
            for _ in range(3):
                static(X)
            hook = LinkNames()
            static.l2.add_hook(hook)
            replays = statistics_of(static).replays
            for _ in range(3):
                static(X)
            assert hook.seen == ["Linear"] * 3
            assert statistics_of(static).replays == replays
            static.l2.delete_hook("link names")
        static(X)
    assert statistics_of(static).replays == replays + 1


def test_debug_mode_runs_define_by_run():
    static = sdbr.static_graph(mlp())
    static(X)
    with chainer.using_config("debug", True):
        static(X)
    static(X)
    assert statistics_of(static).define_by_run_calls == 1
    assert statistics_of(static).replays == 1


# --- dynamic calls ------------------------------------------------------------------------------
SHIFT = floats(4)(np.random.RandomState(2))


def branch(self, x):
    h = self.l(x)
    return h * 2 if float(F.sum(h).array) > 0 else h


def loop(self, x):
    h = self.l(x)
    for _ in range(int(np.abs(h.array).max()) % 3):
        h = F.tanh(h)
    return h


def truth(self, x):
    return self.l(x) if (x > 0).any() else F.relu(self.l(x))


def in_place(self, x):
    h = self.l(x)
    h.array[0] = 0
    return h * 2


def selection(self, x):
    return F.sum(self.l(x[x[:, 0] > 0]), axis=0)


def counter(self, x):
    self.count = getattr(self, "count", 0) + 1
    return self.l(x) * self.count


def collected(self, x):
    self.seen.append(1)
    return self.l(x) * len(self.seen)


def item(self, x):
    return self.l(x) * x[0, 0].item()


def listed(self, x):
    return self.l(x) * sum(x[0].tolist())


def new_parameter(self, x):
    self.latest = chainer.Parameter(np.ones(3, "f"))
    return self.l(x) * 2


DYNAMIC = {
    "float": (branch, "float"),
    "loop": (loop, "int"),
    "bool": (truth, "bool"),
    "in place": (in_place, "in place"),
    "selection": (selection, "boolean selection"),
    "counter": (counter, "'count'"),
    "list": (collected, "'seen'"),
    "item": (item, "item"),
    "tolist": (listed, "tolist"),
    "new parameter": (new_parameter, "'latest'"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_calls_fall_back(name):
    forward, reason = DYNAMIC[name]
    W = np.random.RandomState(0).randn(3, 4).astype("f")
    plain, static = (Net(forward, l=L.Linear(4, 3, initialW=W)) for _ in range(2))
    plain.seen, static.seen = [], []
    sdbr.static_graph(static)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(6):
            x = X * (-1) ** i + SHIFT
            (y, g), (z, h) = step(static, x), step(plain, x)
            assert_near(y, z, 1e-5, "output")
            assert_all_near(g, h, 1e-4, "gradient")
    found = [w for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    assert len(found) == 1
    message = str(found[0].message)
    assert reason in message and "static_code" in message and " at ." not in message
    assert found[0].filename.endswith("test_state.py")  # where the chain was called
    statistics = statistics_of(static)
    assert statistics.replays == 0 and statistics.define_by_run_calls >= 3


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_calls_raise(name):
    forward, reason = DYNAMIC[name]
    static = Net(forward, l=L.Linear(4, 3))
    static.seen = []
    sdbr.static_graph(static, on_dynamic="raise")
    for _ in range(2):
        with pytest.raises(sdbr.NotStaticError, match=reason):
            static(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_derived_arrays_are_recorded(backend):
    """NumPy on known arrays: the calls are replayed, with fresh data."""

    def forward(self, x, t, done):
        weight = np.where(t != -1, 1, 0).astype("f")
        mask = (x > 0) * np.exp(-np.abs(x))
        scaled = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)
        last = np.stack([scaled[i, :2] for i in range(5)])
        target = x[:, 0] + 0.9 * (1 - done) * self.l(last).array.max(axis=1)
        h = self.l(scaled[:, :2] * mask[:, 2:] + np.sort(x, axis=1)[:, ::2])
        self.smoothed = np.clip(h.array.mean(0), -1, 1)
        return F.sum((F.max(h, axis=1) - target) ** 2 * weight), np.argmax(h.array, axis=1)

    plain, static = pair(lambda: Net(forward, l=L.Linear(2, 3)), backend=backend)
    rng = np.random.RandomState(0)
    for _ in range(5):
        x, t, done = floats(5, 4)(rng), rng.randint(-1, 2, 5), rng.randint(0, 2, 5).astype("f")
        got = []
        for model in (plain, static):
            loss, best = model(x, t, done)
            model.cleargrads()
            loss.backward()
            got.append({"loss": copy_of(loss.array), "best": copy_of(best),
                        "smoothed": copy_of(model.smoothed), **gradients_of(model)})  # fmt: skip
        assert_all_near(got[1], got[0], 1e-4, "derived")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pure_arrays_are_constants_at_once(backend):
    def forward(self, x):
        ramp = np.arange(3, dtype="f") * 2 + np.ones(3, "f")
        ramp[1] = -1
        ramp += np.linspace(0, 1, 3, dtype="f")
        eye = chainer.Variable(self.xp.eye(3, dtype="f"))
        if float(ramp[0]) > 0:
            eye = eye * 2
        return F.matmul(self.l(x) + ramp, eye) + np.zeros_like(x)[:, :3]

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        (y, g), (z, h) = step(static, X + i), step(plain, X + i)
        assert_near(y, z, 1e-5, "output")
        assert_all_near(g, h, 1e-4, "gradient")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 3)


def test_known_array_written_into_a_new_one_is_dynamic():
    def forward(self, x):
        new = np.zeros((5, 4), "f")
        new[:2] = x[:2]
        return self.l(new)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match="written in place"):
        static(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_known_arrays_inside_attributes_of_nodes(backend):
    """Indices that come from the data, in tuples and lists on the node."""

    def forward(self, x, rows, mask):
        h = self.l(x)
        return (
            F.get_item(h, (rows, slice(1, 3))) * 2,
            F.where(mask, h, -h),
            F.dropout(h, mask=mask * 2.0),
        )

    plain, static = pair(
        lambda: Net(lambda s, *a: forward(s, *a)[:2], l=L.Linear(4, 3)), backend=backend
    )
    rng = np.random.RandomState(0)
    for _ in range(5):
        rows, mask = rng.randint(0, 5, 3), rng.rand(5, 3) > 0.5
        got = []
        for model in (plain, static):
            a, b = model(X, rows, mask)
            model.cleargrads()
            (F.sum(a * a) + F.sum(b)).backward()
            got.append({"a": copy_of(a.array), "b": copy_of(b.array), **gradients_of(model)})
        assert_all_near(got[1], got[0], 1e-4, "rows")
    assert statistics_of(static).replays == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_that_compute_outside_a_node(backend):
    def forward(self, x):
        h = self.l(x) * 3
        return F.floor(h) + F.ceil(h) * 2, F.fix(h), F.sign(h) * h

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        for g, w in zip(static(X + i), plain(X + i), strict=True):
            assert_near(g.array, w.array, 1e-5, "output")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalization_finetune(backend):
    def forward(self, x):
        return self.n(x, finetune=True)

    plain, static = pair(lambda: Net(forward, n=L.BatchNormalization(4)), backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        sdbr.static_graph(static, on_dynamic="fallback")
        for i in range(5):
            for model in (plain, static):
                model(X * (i + 1))
            assert static.n.N == plain.n.N
            assert_near(static.n.avg_mean, plain.n.avg_mean, 1e-5, "mean")
            assert_near(static.n.avg_var, plain.n.avg_var, 1e-5, "var")


@pytest.mark.parametrize("backend", BACKENDS)
def test_reported_values(backend):
    """Variables, arrays of Variables and derived numbers reach the observation as they were."""

    def forward(self, x):
        h = self.l(x)
        chainer.report(
            {"v": F.sum(h), "a": F.mean(h).array, "s": np.abs(h.array).max(), "n": 3}, self
        )
        return h

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        got = []
        for model in (plain, static):
            reporter = chainer.Reporter()
            reporter.add_observer("main", model)
            with reporter.scope({}):
                model(X + i)
                got.append(dict(reporter.observation))
        assert list(got[1]) == list(got[0])
        for name, want in got[0].items():
            assert isinstance(got[1][name], chainer.Variable) == isinstance(want, chainer.Variable)
            a, b = (float(getattr(v, "array", v)) for v in (got[1][name], want))
            assert a == pytest.approx(b, rel=1e-5)
    assert statistics_of(static).replays == 3


def test_decorating_again_takes_the_new_options():
    static = sdbr.static_graph(mlp(), backend="numpy")
    static(X)
    again = sdbr.static_graph(static, backend="cython")
    assert again is static and type(static).__mro__[1] is MLP
    for _ in range(3):
        static(X)
    assert (statistics_of(static).calls, statistics_of(static).traces) == (3, 1)
    assert static.schedule_manager.static_schedule.backend == "cython"


@pytest.mark.parametrize("what", ["returned", "reported"])
def test_numbers_computed_out_of_sight(what):
    """A second trace tells that a Python number changes from call to call."""
    numbers = [array.array("d", [0.5 * n for n in range(100)])]

    def forward(self, x):
        number = numbers[0].pop(0)
        if what == "reported":
            chainer.report({"number": number}, self)
            return self.l(x)
        return self.l(x), number

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    reporter = chainer.Reporter()
    reporter.add_observer("main", static)
    with pytest.warns(sdbr.SdbrWarning, match="computed in Python"):
        for n in range(4):
            with reporter.scope({}):
                result = static(X)
                seen = result[1] if what == "returned" else reporter.observation["main/number"]
            assert seen == 0.5 * n


def test_arrays_kept_since_an_earlier_trace():
    """User code may hold what it saw while an earlier call was traced."""
    kept = {}

    def forward(self, x):
        if "first" not in kept:
            kept["first"] = x * 2
        return self.l(x) + self.m(kept["first"])

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3), m=L.Linear(4, 3)))
    first = static(X)
    assert_near(first.array, (static.l(X) + static.m(X * 2)).array, 1e-5, "first")
    for i in range(5):
        want = static.l(X + i) + static.m(X * 2)
        assert_near(static(X + i).array, want.array, 1e-5, f"call {i}")
