"""Row 12: the cache key: what is part of it, what goes, what misses are told."""

from __future__ import annotations

import warnings

import sdbr
from sdbr.base.settings import SETTINGS

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near, copy_of, gradients_of
from tests.harness.models import Net
from tests.harness.twins import SIX, X, Z, both, mlp, pair, statistics_of
from tests.tolerances import RESULTS, ROUNDINGS


@pytest.fixture
def entry():
    """A name of an entry of the configuration that is gone afterwards."""
    name = "entry_of_users"
    yield name
    for config in (chainer.global_config, chainer.config._local):
        config.__dict__.pop(name, None)


def scaled(entry):
    def forward(self, x):
        return self.l(x) * getattr(chainer.config, entry, 1)

    return sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")


# --- the configuration --------------------------------------------------------------------------
def test_entries_of_users_globally_locally_and_deleted(entry):
    static = scaled(entry)
    want = static.l(X).array

    def twice(factor):
        for _ in range(2):
            assert_near(static(X).array, factor * want, RESULTS, f"factor {factor}")

    twice(1)
    setattr(chainer.global_config, entry, 2)
    twice(2)
    with chainer.using_config(entry, 3):
        twice(3)
        setattr(chainer.global_config, entry, 4)
        twice(3)  # the local one wins
    twice(4)
    delattr(chainer.global_config, entry)
    twice(1)
    setattr(chainer.config, entry, 2)  # the same value, of this thread
    twice(2)
    delattr(chainer.config, entry)
    twice(1)
    statistics = statistics_of(static)
    assert statistics.traces == 4
    assert statistics.replays == 16 - 4


def test_a_float_of_the_configuration_is_part_of_the_key(entry):
    static = scaled(entry)
    want = static.l(X).array
    for factor in (0.5, 0.25, 0.5, 0.25):
        with chainer.using_config(entry, factor):
            for _ in range(3):
                assert_near(static(X).array, np.float32(factor) * want, RESULTS, f"{factor}")
    assert statistics_of(static).traces == 2


def test_every_entry_of_chainer_itself():
    entries = {
        "train": False, "enable_backprop": False, "dtype": np.dtype("d"), "autotune": True,
        "cudnn_deterministic": True, "lazy_grad_sum": True, "keep_graph_on_report": True,
        "type_check": False, "warn_nondeterministic": True, "in_recomputing": True,
    }  # fmt: skip
    for name, value in entries.items():
        static = sdbr.static_graph(mlp())
        static(X)
        with chainer.using_config(name, value):
            static(X)
        assert f"chainer.config.{name}: " in static.schedule_manager.misses[-1][0]
        static(X)
        assert (statistics_of(static).traces, statistics_of(static).replays) == (2, 1), name


#: None of them is what it is in tests (conftest.py).
ANOTHER = {
    "sdbr_num_threads": 2,
    "sdbr_flush_denormals": False,
    "sdbr_disabled_passes": "inplace",
    "sdbr_onednn": "auto",
    "sdbr_tune": True,
    "sdbr_random": "philox",
    "sdbr_launch": "graph",
    "sdbr_tf32": True,
    "sdbr_keep_instructions": False,
}


def test_every_setting_of_the_package_is_in_the_key_unless_it_says_otherwise():
    # Another backend is no reason to trace again, and no call sends gradients.
    outside = {"sdbr_backend", "sdbr_audit", "sdbr_overlap"}
    assert {setting.entry for setting in SETTINGS} - {None} == {*ANOTHER, *outside}
    static = sdbr.static_graph(mlp())
    static(X)
    for n, (name, value) in enumerate(ANOTHER.items(), 2):
        with chainer.using_config(name, value):
            static(X)
        assert statistics_of(static).traces == n, name
    for name, value in (("sdbr_audit", 0.5), ("sdbr_backend", "numpy")):
        with chainer.using_config(name, value):
            static(X)
    statistics = statistics_of(static)
    assert statistics.traces == len(ANOTHER) + 1
    assert statistics.replays == 2


def test_a_whole_step_looks_at_the_configuration(entry):
    static = sdbr.static_graph(
        Net(lambda self, x: F.sum(self.l(x) * getattr(chainer.config, entry, 1)), l=L.Linear(4, 3))
    )
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(1)).setup(static)
    for i in range(12):
        before = static.l.b.array.copy()
        factor = 1 + i // 4
        with chainer.using_config(entry, factor):
            optimizer.update(static, X)
        assert_near(before - static.l.b.array, np.full(3, 5 * factor, "f"), RESULTS, f"step {i}")
    assert statistics_of(static).traces == 3
    assert statistics_of(static).steps >= 6


# --- explained misses ---------------------------------------------------------------------------
def test_each_miss_names_the_part_that_differs(entry):
    static = sdbr.static_graph(
        Net(lambda self, x, *a, **k: self.l(x) + len(a) + len(k), l=L.Linear(4, 3))
    )
    other = X + 1

    def expect(text, *args, **kwargs):
        static(*args, **kwargs)
        found, line = static.schedule_manager.misses[-1]
        assert text in found
        assert "test_cache_key.py" in line

    static(X)
    expect("argument 0: float32[5,4] -> float32[3,4]", X[:3])
    expect("-> Variable float32[5,4], requires_grad=True", chainer.Variable(X))
    expect("argument 1: missing -> 2", X, 2)
    expect("argument 1: 2 -> 'two'", X, "two")
    expect("argument 'flag': missing -> True", X, flag=True)
    expect("argument 'd': missing -> {'k': [array]}", X, d={"k": [Z]})
    expect("argument 'd'['k'][0]: float32[5,4] -> float32[2,4]", X, d={"k": [Z[:2]]})
    static(X, other)
    expect("which arguments are the same object", X, X)
    with chainer.using_config("train", False):
        expect("chainer.config.train: True -> False", X)
    setattr(chainer.global_config, entry, [1, "a"])
    expect(f"chainer.config.{entry}: missing -> [1, 'a']", X)
    static.schedule_manager.clear()
    static(X)
    delattr(chainer.global_config, entry)
    expect(f"chainer.config.{entry}: [1, 'a'] -> missing", X)
    text = str(sdbr.explain(static))
    assert f"chainer.config.{entry}" in text


def test_a_miss_by_what_the_call_read_names_it():
    def forward(self, x, c=1.0):
        y = self.l(x) * int(c * 8)
        if self.state is not None:
            y = y + self.state
        return y * (2 if self.mode == "on" else 3) * self.options["n"]

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    static.state, static.mode, static.options = None, "on", {"n": 1}

    def expect(text, *args):
        static(X, *args)
        assert text in static.schedule_manager.misses[-1][0]

    static(X)
    static.state = chainer.Variable(np.zeros((5, 3), "f"))
    expect("'state'")
    static.mode = "off"
    expect("'mode'")
    static.options["n"] = 2
    expect("self.options['n']")
    static(X, 0.5)
    expect("argument 1: 0.5 -> 0.75", 0.75)


# --- eviction and the warning -------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:.*max_schedules=3")
def test_schedules_that_differ_in_what_they_read_count_for_eviction():
    static = sdbr.static_graph(
        Net(lambda self, x: self.l(x) * int(self.n), l=L.Linear(4, 3)), max_schedules=3
    )

    def run(*numbers):
        for n in numbers:
            static.n = str(n)
            static(X)
            assert sum(map(len, static.schedule_manager.schedules.values())) <= 3
        return statistics_of(static).traces

    assert run(1, 2, 3, 4, 3, 2) == 3  # 4 is used no more than the others
    assert run(4, 3, 4) == 4  # and now more than 1, which is driven out
    before = statistics_of(static).replays
    assert run(4, 3, 2) == 4
    assert statistics_of(static).replays == before + 3
    assert run(1) == 4


def test_nothing_goes_when_everything_is_to_be_kept():
    static = sdbr.static_graph(lambda x: F.relu(x), max_schedules=2, minimize_cache_size=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            for n in range(1, 17):  # of more the others are not traced the first time
                static(np.ones(n, "f"))
    statistics = statistics_of(static)
    assert (statistics.traces, statistics.builds) == (3, 13)
    assert statistics.replays == 13 + 16
    assert len(static.schedule_manager.schedules) == 16


CHANGING = {
    "shape": (lambda static, i: static(np.ones((i + 1, 4), "f")), r"argument 0: float32"),
    "number": (lambda static, i: static(X, i), r"argument 1: 6 -> 7.*a text"),
    "configuration": (
        lambda static, i: _configured(static, i),
        r"chainer.config.entry_of_users: 6 -> 7",
    ),
    "attribute": (lambda static, i: _with_attribute(static, i), r"'n'"),
}


def _configured(static, i):
    with chainer.using_config("entry_of_users", i):
        static(X)


def _with_attribute(static, i):
    static.n = "n" * i
    static(X)


@pytest.mark.parametrize("name", CHANGING)
def test_five_traces_in_eight_calls_warn_once_and_name_the_part(name, entry):
    call, text = CHANGING[name]
    static = sdbr.static_graph(
        Net(lambda self, x, m=1: self.l(x) * len(range(m)) * len(self.n), l=L.Linear(4, 3)),
        on_dynamic="raise",
    )
    static.n = "n"
    with pytest.warns(sdbr.SdbrWarning, match=text) as caught:
        for i in range(20):
            call(static, i)
    found = [w for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    assert len(found) == 1
    assert "five of the last eight calls" in str(found[0].message)


def test_a_changing_number_may_be_a_float():
    static = sdbr.static_graph(
        Net(lambda self, x, m: self.l(x) * m * self.n, l=L.Linear(4, 3)), on_dynamic="raise"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(20):
            static.n = 1.0 + i
            static(X, 0.5 * i)
    assert statistics_of(static).traces == 1


def test_every_entry_of_the_configuration_is_part_of_the_key():
    def forward(self, x):
        return self.l(x) * (2 if chainer.config.my_entry == "twice" else 1)

    chainer.global_config.my_entry = "once"
    try:
        static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
        want = static.l(X).array
        for _ in range(2):
            assert_near(static(X).array, want, RESULTS, "once")
            with chainer.using_config("my_entry", "twice"):
                assert_near(static(X).array, 2 * want, RESULTS, "twice")
            chainer.global_config.my_entry = "twice"
            assert_near(static(X).array, 2 * want, RESULTS, "twice")
            chainer.global_config.my_entry = "once"
        assert (statistics_of(static).traces, statistics_of(static).replays) == (2, 4)
    finally:
        del chainer.global_config.my_entry


@pytest.mark.parametrize("where", ["global", "local"])
def test_entries_of_the_configuration_that_change_in_place(where):
    entries = {"list": [2], "dict": {"a": {"b": 2}}, "set": {2}, "tuple": ([2],)}

    def factor():
        value = chainer.config.my_entry
        while not isinstance(value, int):
            value = max(value.values() if isinstance(value, dict) else value)
        return value

    told = 0
    config = chainer.config if where == "local" else chainer.global_config
    try:
        for name, entry in entries.items():
            static = sdbr.static_graph(Net(lambda self, x: self.l(x) * factor(), l=L.Linear(4, 3)))
            want = static.l(X).array
            config.my_entry = entry
            for _ in range(3):
                assert_near(static(X).array, 2 * want, RESULTS, name)
            inner = entry["a"] if name == "dict" else entry[0] if name == "tuple" else entry
            {"list": list.append, "tuple": list.append, "set": set.add}.get(
                name, lambda d, value: d.update(b=value)
            )(inner, 3)
            for _ in range(3):
                assert_near(static(X).array, 3 * want, RESULTS, f"{name}, changed")
            assert (statistics_of(static).traces, statistics_of(static).replays) == (2, 4), name
            ((differs, _),) = static.schedule_manager.misses
            told += "[3]" in differs or "{2, 3}" in differs
    finally:
        del config.my_entry
    assert told


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
            assert_near(got, want, ROUNDINGS, f"{args} {kwargs}")
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
            assert_near(y.array, want.array, ROUNDINGS, "output")
            assert y.requires_grad == want.requires_grad
            assert y.creator is not None or not y.requires_grad
    assert statistics_of(static).traces == len(inputs)


@pytest.mark.filterwarnings("ignore:.*max_schedules=2")
def test_a_schedule_goes_for_one_that_is_used_more():
    static = sdbr.static_graph(lambda x: F.relu(x), max_schedules=2)
    a, b, c = (np.ones(n, "f") for n in (1, 2, 3))
    for x in (a, b, a, c):  # a and b were used as much, or more
        static(x)
    assert statistics_of(static).traces == 2
    static(a)
    assert statistics_of(static).traces == 2
    static(c)  # b has not been used for twice as long as c
    assert statistics_of(static).traces == 2
    static(c)
    assert statistics_of(static).traces == 3
    replays = statistics_of(static).replays
    static(a)
    static(c)
    assert (statistics_of(static).traces, statistics_of(static).replays) == (3, replays + 2)
    static(b)
    assert (statistics_of(static).traces, statistics_of(static).replays) == (3, replays + 2)
    everything = sdbr.static_graph(lambda x: F.relu(x), max_schedules=2, minimize_cache_size=False)
    for _ in range(2):
        for n in range(1, 6):
            everything(np.ones(n, "f"))
    found = statistics_of(everything)
    assert (found.traces, found.builds) == (3, 2)  # those of 4 and 5 are built of 2 and 3


@pytest.mark.filterwarnings("ignore:.*max_schedules=1")
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


class SometimesDynamic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        if chainer.config.train and float(str(x.sum())) > 1e9:
            return self.l(x)
        return self.l(x) * 2


@pytest.mark.parametrize("on_dynamic", ["fallback", "raise"])
def test_new_keys_of_a_call_that_was_always_dynamic_are_not_traced(on_dynamic):
    static = sdbr.static_graph(SometimesDynamic(), on_dynamic=on_dynamic)
    xs = [np.ones((n, 4), "f") for n in range(1, 11)]
    if on_dynamic == "raise":
        for x in xs:
            with pytest.raises(sdbr.NotStaticError, match="str"):
                static(x)
    else:
        with pytest.warns(sdbr.SdbrWarning, match="define-by-run"):
            for x in xs:
                assert_near(static(x).array, 2 * static.l(x).array, RESULTS, "dynamic")
    assert statistics_of(static).traces == 4
    # Another configuration may be static, and is.
    with chainer.using_config("train", False):
        for x in xs[:3]:
            for _ in range(2):
                assert_near(static(x).array, 2 * static.l(x).array, RESULTS, "static")
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
    assert "argument 0: float32[5,4] -> float32[2,4]" in first and "test_cache_key.py" in line
    assert "chainer.config.train: True -> False" in second


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_batch_size_and_back_does_not_retrace(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        x = SIX[i % 6][: 5 - i % 3]
        y = model(x)
        model.cleargrads()
        F.sum(y * y).backward()
        return {"y": copy_of(y.array), **gradients_of(model)}

    both(plain, static, iteration, 9)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (3, 6)


def test_clear():
    static = sdbr.static_graph(mlp())
    for _ in range(3):
        static(X)
    static.schedule_manager.clear()
    assert not static.schedule_manager.schedules
    static(X)
    assert statistics_of(static).traces == 2
