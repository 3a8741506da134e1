"""Row 8: methods of arrays and lists that were kept, and partials, are called as what they are."""

from __future__ import annotations

import functools
import operator

import sdbr

import numpy as np
import pytest

from tests.harness.twins import statistics_of
from tests.tolerances import RESULTS

partial = functools.partial
X = np.array([[1, -2, 3], [-4, 5, 6]], "f")


class Box:
    """A plain object that keeps an array, methods of it, and what calls these."""

    def __init__(self, table):
        self.keep(table)
        self.noise = np.zeros(3, "f")
        self.fill = self.noise.fill

    def keep(self, table):
        self.table = table
        self.take, self.get, self.mean = table.take, table.__getitem__, table.mean
        self.rows = functools.partial(table.take, axis=0)
        self.methods = {"sum": [table.sum]}


def in_a_variable(box, x, t):
    take = box.table.take
    return take(t, 0)


def by_name(box, x, t):
    take = box.table.take
    return take(indices=t, axis=0)


def set_by_a_method(box, x, t):
    box.fill(x[0, 0])
    return box.noise + 1


USES = {
    "in a variable": in_a_variable,
    "by name": by_name,
    "called at once by name": lambda box, x, t: box.table.take(t, axis=0),
    "called at once with a star": lambda box, x, t: box.table.take(*(t, 0)),
    "found by its name": lambda box, x, t: getattr(box.table, "take")(t, axis=0),  # noqa: B009
    "an attribute": lambda box, x, t: box.take(t, axis=0),
    "an item": lambda box, x, t: box.methods["sum"][0](axis=0) * x,
    "a special one": lambda box, x, t: box.get(t),
    "without arguments": lambda box, x, t: x * box.mean(),
    "a partial": lambda box, x, t: functools.partial(box.table.take, axis=0)(t),
    "a partial from outside": lambda box, x, t: box.rows(t),
    "a partial of a partial": lambda box, x, t: functools.partial(box.rows, mode="wrap")(t + 5),
    "in map": lambda box, x, t: next(map(box.table.take, [t], [0])),
    "in reduce": lambda box, x, t: functools.reduce(lambda a, f: f(a), [box.get, abs], t),
    "by a function": lambda box, x, t: (lambda pick: pick(t))(box.get),
    "one that writes": set_by_a_method,
}


def written(box, i):
    box.table *= i


def replaced(box, i):
    box.keep(box.table + i)


@pytest.mark.parametrize("between", [written, replaced])
@pytest.mark.parametrize("name", USES)
def test_methods_of_arrays_from_outside(name, between):
    found = []
    for static in (False, True):
        box, seen = Box(np.arange(15, dtype="f").reshape(5, 3)), []
        call = lambda x, t, box=box: USES[name](box, x, t) * x  # noqa: E731
        call = sdbr.static_graph(call, on_dynamic="raise") if static else call
        for i in range(8):
            seen += [call(X * (i + 1), np.array([i % 5, 1])), box.noise.copy()]
            between(box, i // 4 + 1)
        found.append(seen)
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=RESULTS)
    assert (statistics_of(call).traces, statistics_of(call).replays) == (1, 7)


WRITES = {
    "an item": lambda box, x: operator.setitem(box.table, 0, x[0]),
    "an item of a partial": lambda box, x: partial(operator.setitem, box.table)(1, x[0]),
    "all": lambda box, x: operator.iadd(box.table, x),
    "by a method's name": lambda box, x: operator.methodcaller("fill", 2.0)(box.table),
}


@pytest.mark.parametrize("name", WRITES)
def test_functions_for_operators_write_to_arrays_from_outside(name):
    found = []
    for static in (False, True):
        box, seen = Box(np.ones((2, 3), "f")), []
        call = lambda x, box=box: (WRITES[name](box, x), box.table * x)[1]  # noqa: E731
        call = sdbr.static_graph(call, on_dynamic="raise") if static else call
        for i in range(6):
            seen += [call(X * (i + 1)), box.table.copy()]
            box.table *= i
        found.append(seen)
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=RESULTS)
    assert (statistics_of(call).traces, statistics_of(call).replays) == (1, 5)


def test_an_array_from_outside_in_a_partial_that_is_mapped():
    box = Box(np.ones((2, 3), "f"))
    function = lambda x: sum(map(partial(np.multiply, box.table), [x, 2.0]))  # noqa: E731
    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(6):
        box.table += i
        np.testing.assert_allclose(static(X), function(X), rtol=RESULTS)
    assert statistics_of(static).replays == 5


def test_a_kept_method_gives_way_to_another():
    box = Box(np.arange(6, dtype="f").reshape(2, 3))
    function = lambda x: x * box.mean(axis=0)  # noqa: E731
    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(9):
        box.mean = box.table.max if 3 <= i < 6 else box.table.mean
        np.testing.assert_allclose(static(X), function(X), rtol=RESULTS)
    assert statistics_of(static).replays >= 5


# --- lists and partials: the smaller row comes first ----------------------------------------------
BY_SUM = {"key": np.sum}


def kept_sort(x):
    rows = [[x[0]], [x[1]]]
    sort = rows.sort
    sort(key=np.sum)
    return rows


def sorted_with_stars(x):
    rows = [[x[0]], [x[1]]]
    rows.sort(**BY_SUM)
    return rows


def sorted_by_a_partial(x):
    rows = [[x[0]], [x[1]]]
    functools.partial(rows.sort, key=np.sum)()
    return rows


CHOOSING = {
    "sort": kept_sort,
    "with stars": sorted_with_stars,
    "by a partial": sorted_by_a_partial,
    "a partial": lambda x: partial(sorted, key=np.sum)([[x[0]], [x[1]]]),
    "of the rows": lambda x: partial(sorted, [[x[0]], [x[1]]])(key=np.sum),
    "the least": lambda x: [partial(min, [x[0]], key=np.sum)([x[1]])],
    "of a partial": lambda x: [partial(partial(min, [x[0]]), key=np.sum)([x[1]])],
    "mapped": lambda x: [[min(partial(map, np.sum)([[x[0]], [x[1]]])) * x[0]]],
    "reduced": lambda x: [partial(functools.reduce, np.subtract)([[x[0]], [x[1]]])],
}


@pytest.mark.parametrize("name", CHOOSING)
def test_arrays_in_lists_that_methods_and_partials_get(name):
    function = lambda x: CHOOSING[name](x)[0][0] * 1  # noqa: E731
    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(8):
        x = X * (-1) ** i
        np.testing.assert_allclose(static(x), function(x), rtol=RESULTS)
    assert statistics_of(static).replays >= 6


PARTIALS = {
    "a keyword": (lambda i: partial(np.sum, axis=i), lambda f, x: f([x, x])),
    "an argument": (lambda i: partial(np.power, i + 2.0), lambda f, x: f([x, x])),
    "a function": (lambda i: partial((np.sum, np.max)[i]), lambda f, x: f([x, x]) * x),
    "a universal one": (lambda i: partial((np.add, np.multiply)[i].reduce), lambda f, x: f([x, x])),
    "none": (lambda i: (np.sum, np.max)[i], lambda f, x: f([x, x]) * x),
    "a reduction": (lambda i: (np.add, np.multiply)[i].reduce, lambda f, x: f([x, x])),
    "another": (lambda i: partial(np.sum, axis=i), lambda f, x: partial(f, keepdims=True)(x)),
    "mapped": (lambda i: partial(np.sum, axis=i), lambda f, x: next(map(f, [[x, x]]))),
    "a list's": (lambda i: partial(np.stack, axis=i), lambda f, x: f([*x])),
    "a method": (lambda i: partial(X.take, axis=i), lambda f, x: f([0, 1])),
}


@pytest.mark.parametrize("name", PARTIALS)
def test_what_a_partial_gives_is_compared(name):
    (make, use), box = PARTIALS[name], Box(X)
    function = lambda x: np.sum(x) * use(box.rows, x)[0]  # noqa: E731
    static = sdbr.static_graph(function, on_dynamic="raise")
    for k, i in enumerate((0, 0, 0, 1, 1, 1, 0, 0)):
        box.rows = make(i)
        np.testing.assert_allclose(static(X + k), function(X + k), rtol=RESULTS)
    assert statistics_of(static).replays >= 4
