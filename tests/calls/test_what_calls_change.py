"""Calls that change what they read themselves, outside of links.

Replays count where nothing but the number is used; else the call is dynamic, said with the line.
"""

from __future__ import annotations

import functools

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS, ROUNDINGS

X = np.linspace(0, 1, 8).astype("f").reshape(2, 4)

count = 0
sizes: list[int] = []
table: dict[str, int] = {}


class Counter:
    """An object that counts."""

    n = 0


counter = Counter()


def _global():
    global count
    count += 1
    return count


def _object():
    counter.n += 1
    return counter.n


def _class():
    Counter.n += 1
    return Counter.n


def _list():
    sizes.append(3)
    return len(sizes)


def _dict():
    table["n"] = table.get("n", 0) + 1
    return table["n"]


def _closure():
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    return bump


@pytest.fixture(autouse=True)
def zero():
    """Nothing counted yet."""
    global count
    count = Counter.n = 0
    sizes.clear()
    table.clear()
    counter.__dict__.clear()


CASES = {
    "global": (_global, "'count'", "count += 1", 5),
    "object": (_object, "'counter.n'", "counter.n += 1", 5),
    "class": (_class, "'Counter.n'", "Counter.n += 1", 5),
    "dict": (_dict, "\"table['n']\"", 'table["n"] =', 6),
    "closure": (None, "'n'", "n += 1", 5),
}


def written_down(n: int) -> int:
    """The number, by its text: nobody follows it there."""
    return int(f"{n}")


@pytest.mark.parametrize("audit", ["off", "auto"])
@pytest.mark.parametrize("case", CASES)
def test_a_call_that_counts_replays(case, audit):
    """The first trace in which the number lies there as another one knows that it moves."""
    bump, traces = CASES[case][0] or _closure(), CASES[case][3] - 3
    static = sdbr.static_graph(lambda x: F.relu(x) * bump())
    with chainer.using_config("sdbr_audit", audit):
        for i in range(1, 21):
            np.testing.assert_allclose(static(X).array, X * i, rtol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (
        traces, 20 - traces, 0,
    )  # fmt: skip
    assert all(type(n) is int for n in (count, Counter.n, counter.n, *table.values()))


@pytest.mark.parametrize("audit", ["off", "auto"])
@pytest.mark.parametrize("case", CASES)
def test_where_the_number_itself_is_used_it_is_dynamic_and_says_so(case, audit):
    bump, name, code, traces = CASES[case]
    bump = bump or _closure()
    static = sdbr.static_graph(lambda x: F.relu(x) * written_down(bump()))
    with chainer.using_config("sdbr_audit", audit), pytest.warns(sdbr.SdbrWarning) as caught:
        for i in range(1, 21):
            np.testing.assert_allclose(static(X).array, X * i, rtol=ROUNDINGS)
    (said,) = [str(w.message) for w in caught]
    text = f"{name}, which the call reads, is changed by each call"
    assert f"{text} at {__file__}:" in said
    line = int(said.split(f"{__file__}:")[1].split()[0])
    with open(__file__) as file:
        assert code in file.readlines()[line - 1]
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (traces, 0)
    assert statistics.define_by_run_calls == 20 - traces


@pytest.mark.parametrize("audit", ["off", "auto"])
def test_a_call_that_asks_what_it_has_changed_is_dynamic_at_once(audit):
    static = sdbr.static_graph(lambda x: F.relu(x) * _list())
    with chainer.using_config("sdbr_audit", audit), pytest.warns(sdbr.SdbrWarning) as caught:
        for i in range(1, 6):
            np.testing.assert_allclose(static(X).array, X * i, rtol=ROUNDINGS)
    (said,) = [str(w.message) for w in caught]
    assert f"the call asks for len(sizes) after it has written to it at {__file__}:" in said
    # The second time as it might have been made for later calls, and no longer be changed.
    assert static.schedule_manager.statistics.traces == 2


def test_raised_where_that_is_asked_for():
    static = sdbr.static_graph(lambda x: F.relu(x) * written_down(_object()), on_dynamic="raise")
    for _ in range(4):
        static(X)
    for _ in range(3):
        with pytest.raises(sdbr.NotStaticError, match=r"'counter.n'.*changed by each call"):
            static(X)


def test_a_counter_that_is_reset_before_each_call_replays():
    global count
    static = sdbr.static_graph(lambda x: F.relu(x) * _global())
    for _ in range(8):
        count = 0
        np.testing.assert_allclose(static(X).array, X, rtol=ROUNDINGS)
        assert count == 1
    assert static.schedule_manager.statistics.replays == 7


def test_a_counter_that_begins_anew_replays():
    def cyclic(x):
        global count
        count = (count + 1) % 4
        return F.relu(x) * written_down(count)

    static = sdbr.static_graph(cyclic)
    for i in range(1, 21):
        np.testing.assert_allclose(static(X).array, X * (i % 4), rtol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (4, 16)


def test_what_others_set_before_each_call_is_no_counter():
    """The call writes a mark, and finds there what was put there since."""
    global count

    def mark(x):
        global count
        y = F.relu(x) * written_down(count)
        count = -1
        return y

    static = sdbr.static_graph(mark)
    for _ in range(2):
        for i in range(1, 7):
            count = i
            np.testing.assert_allclose(static(X).array, X * i, rtol=ROUNDINGS)
            assert count == -1
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (6, 6, 0)


def test_what_is_set_up_once_for_each_key_is_no_counter():
    def cached(x):
        if len(x) not in table:
            table[len(x)] = 2
        return F.relu(x) * table[len(x)]

    static = sdbr.static_graph(cached)
    for _ in range(6):
        for n in (1, 2, 3, 4, 5):
            x = np.ones((n, 4), "f")
            np.testing.assert_allclose(static(x).array, 2 * x, rtol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0 and statistics.replays >= 15


class Net(chainer.Chain):
    """Counts in a wrapper around its forward."""

    calls = 0

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    @sdbr.static_graph
    def forward(self, x):
        """A layer."""
        return self.l(x)


def _counted(method):
    @functools.wraps(method)
    def wrapper(self, x):
        type(self).calls += 1
        return method(self, x) * type(self).calls

    return wrapper


def test_a_wrapper_that_counts_in_its_class():
    class Wrapped(Net):
        forward = _counted(Net.forward)

    static = sdbr.static_graph(Wrapped())
    for i in range(1, 13):
        want = F.linear(X, static.l.W, static.l.b).array * i
        assert_near(static(X).array, want, RESULTS, "values")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (2, 10, 0)
