"""Row 8: arrays outside of links, however they lie in memory, show what is written to them."""

from __future__ import annotations

import functools

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.twins import X, agree, pair, statistics_of
from tests.tolerances import RESULTS

#: What is written to, and what the call computes with, of three columns.
LAYOUTS = {
    "transposed": lambda: _with(np.zeros((3, 2), "f"), lambda a: a.T),
    "in Fortran's order": lambda: _with(np.zeros((2, 3), "f", order="F"), lambda a: a[:]),
    "every second row": lambda: _with(np.zeros((4, 3), "f"), lambda a: a[::2]),
    "backwards": lambda: _with(np.zeros((2, 3), "f"), lambda a: a[::-1, ::-1]),
    "backwards, transposed": lambda: _with(np.zeros((3, 4), "f"), lambda a: a.T[::-2][:2]),
    "broadcast": lambda: _with(np.zeros(3, "f"), lambda a: np.broadcast_to(a, (2, 3))),
    "a column": lambda: _with(np.zeros((3, 5), "f"), lambda a: a[:, 2]),
    "large": lambda: _with(np.zeros((200, 500), "f"), lambda a: a.T[:2, :3]),
    "a field": lambda: _with(np.zeros(6, [("a", "f4"), ("b", "i4")]), lambda a: a["a"][:3]),
    "an odd field": lambda: _with(np.zeros(6, [("a", "f4"), ("b", "i1")]), lambda a: a["a"][:3]),
    "real parts": lambda: _with(np.zeros((2, 3), "F"), lambda a: a.real),
}
#: These are compared, and traced again.
COPIED = {"an odd field"}


def _with(base, view):
    return base, view(base)


USES = {
    "an operand": lambda self, x, w: F.sum(F.tanh(self.l(x))) + w,
    "a product": lambda self, x, w: F.matmul(self.l(x), w, transb=w.shape == (2, 3)),
    "a view": lambda self, x, w: F.transpose(chainer.as_variable(w)),
    "all of it": lambda self, x, w: chainer.as_variable(w),
}


@pytest.mark.parametrize("place", ["a variable", "a list"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_to_is_seen(layout, use, place):
    base, w = LAYOUTS[layout]()
    assert not (w.flags.c_contiguous and w.flags.aligned)
    outside, compute = [w], USES[use]

    def forward(self, x):
        return compute(self, x, w if place == "a variable" else outside[0])

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for i in range(6):
        target = base["a"] if base.dtype.names else base
        target += np.arange(target.size, dtype="f").reshape(target.shape) - i
        agree(plain, static, X)
    statistics = static.schedule_manager.statistics
    if layout not in COPIED:
        assert statistics.traces == 1
        assert statistics.replays >= 4
    assert statistics.python_ops == 0


# --- by whatever path -----------------------------------------------------------------------------
GLOBAL = np.zeros(3, "f")
T = np.array([2, 0])


class Box:
    """A plain object that keeps arrays."""

    shared = np.zeros(3, "f")

    def __init__(self):
        self.m, self.d, self.both = np.zeros(3, "f"), {"k": np.ones(3, "f")}, None
        self.table = np.arange(15, dtype="f").reshape(5, 3)
        Box.shared[...] = GLOBAL[...] = 0
        self.rows = [self.table, self.table[::-1]]
        self.scaled = Net(lambda self, m, by: F.sigmoid(m) * by)
        self.net = L.Linear(3, 3, initialW=np.eye(3, 3, 1, "f"))

    def arrays(self):
        """All of them."""
        return [self.m, self.d["k"], self.table, Box.shared, GLOBAL, *self.rows]


def running_mean(box, x, t):
    box.m *= 0.9
    box.m += 0.1 * x.mean(0)
    return F.tanh(x) * box.m


def into_an_item(box, x, t):
    box.d["k"] += 1
    return F.tanh(x) * box.d["k"]


def by_out(box, x, t):
    return F.tanh(x) * np.add(box.d["k"], 1, out=box.d["k"])


def parts(box, x, t):
    box.m[0] = x[1, 2]
    box.m[1:] = 0
    return F.tanh(x) + box.m


def of_a_class(box, x, t):
    box.shared[...] = x[0]
    return F.tanh(x) + type(box).shared


def of_a_module(box, x, t):
    GLOBAL[...] += x[0]
    return F.tanh(x) + GLOBAL


def rows(box, x, t):
    return F.tanh(x) + box.table[t] + sum(row[t] for row in box.rows)


def by_method(box, x, t):
    return F.tanh(x) * box.table.take(t, axis=0).max(axis=0)


def given_to_links(box, x, t):
    spread = {"by": GLOBAL + 1}
    scaled = box.scaled(box.m, by=box.d["k"]) + box.scaled(*[box.d["k"]], **spread)
    return F.tanh(x) + scaled * box.net(box.table)[t] + F.sum(box.net(*[box.table]), axis=0)


OUTSIDE = [
    running_mean, into_an_item, by_out, parts, of_a_class, of_a_module, rows, by_method,
    given_to_links,
]  # fmt: skip


def replaced(box, i):
    if i == 3:
        box.m, box.d["k"] = box.m.copy(), box.d["k"] + 1
        box.table = box.rows[0] = box.table * 2


def written(box, i):
    if i >= 3:
        for array in box.arrays():
            array += i


@pytest.mark.parametrize("between", [replaced, written])
@pytest.mark.parametrize("function", OUTSIDE)
def test_an_array_is_found_where_it_lies_and_written_there(function, between):
    found = []
    for static in (False, True):
        box, seen = Box(), []
        forward = lambda x, t, box=box: function(box, x, t)  # noqa: E731
        call = sdbr.static_graph(forward, on_dynamic="raise") if static else forward
        for i in range(8):
            x = np.random.RandomState(i).randn(2, 3).astype("f")
            seen += [call(x, T + i % 2).array, *map(np.copy, box.arrays())]
            assert {type(array) for array in box.arrays()} == {np.ndarray}
            between(box, i)
        found.append(seen)
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        np.testing.assert_allclose(got, want, rtol=RESULTS, err_msg=str(i))
    assert (statistics_of(call).traces, statistics_of(call).replays) == (1, 7)


BY, PLUS = np.ones(2, "f"), np.ones(2, "f")


def of_default(x, by=BY, *, plus=PLUS):
    return F.tanh(x) * by[0] + plus.sum()


def test_parts_of_the_defaults_of_functions_that_are_called():
    call = sdbr.static_graph(lambda x: of_default(x), on_dynamic="raise")
    for i in range(6):
        BY[0] = PLUS[1] = i
        np.testing.assert_allclose(call(X).array, np.tanh(X) * i + 1 + i, rtol=RESULTS)
    assert statistics_of(call).replays == 5


def test_an_array_that_is_an_argument_as_well():
    """The next call may be given another one."""
    call = sdbr.static_graph(lambda x: F.tanh(x) + GLOBAL, on_dynamic="raise")
    GLOBAL[...] = 1
    for x in (GLOBAL, GLOBAL, X[0, :3], X[1, :3]):
        np.testing.assert_allclose(call(x).array, np.tanh(x) + GLOBAL, rtol=RESULTS)
    assert statistics_of(call).replays == 3


LEAVING = {
    "a bound": lambda x, m: F.clip(F.tanh(x), float(m[0]) - 1, 2.0),
    "a branch": lambda x, m: F.tanh(x) * (2 if m[0] > 0 else 3),
    "a length": lambda x, m: F.tanh(x) * int(m[0] + 2),
    "a text": lambda x, m: F.tanh(x) + np.frombuffer(m.tobytes(), "f"),
    "a list": lambda x, m: F.tanh(x) * len([v for v in m.tolist() if v > 0]),
    "a selection": lambda x, m: F.tanh(x) * float(m[m > 0].sum()),
}


@pytest.mark.parametrize("name", LEAVING)
def test_numbers_of_an_array_that_decide(name):
    box = Box()
    call = sdbr.static_graph(lambda x: LEAVING[name](x, box.m), on_dynamic="raise")
    box.m[...] = 1
    for i in range(9):
        if i == 4:
            box.m[0] = -1
        if i == 7:
            box.m = np.ones(3, "f")
        x = np.full((2, 3), i / 9, "f")
        np.testing.assert_allclose(call(x).array, LEAVING[name](x, box.m).array, rtol=RESULTS)
    assert statistics_of(call).replays >= 3


# --- what is written before it decides, what is one, what is kept ------------------------------
def counted(box, x):
    box.m += 1
    return x * 2 if box.m[0] % 2 == 0 else x * 1


def counted_into_a_length(box, x):
    box.m[...] = np.roll(box.m, 1)
    return x * len(box.m[box.m > 0]) * int(box.m.argmax() + 1)


def counted_into_the_largest(box, x):
    np.copyto(box.m, x)
    array = box.m
    return x + max(array) + max(box.m) + sum(box.m)


def flipped_in_compiled_code(box, x):
    kept = [box.m]
    box.m *= -1
    return (x * 2 if max(map(np.sum, kept)) > 0 else x * 3) * box.m


def chosen_by_a_mask(box, x):
    return x * len(box.rows[0][box.mask]) + np.repeat(box.table, box.times, axis=0).sum()


def copied(box, x):
    box.kept = box.m.copy()
    return x * 1, box.kept.copy()


def named(box, x):
    return x * box.names.get(id(box.m), 3.0)


def kept_in_a_partial(box, x):
    box.kept = functools.partial(np.add, box.m)
    return x * 1


def kept_in_a_default(box, x):
    def function(array=box.m):
        return array

    box.kept = function
    return x * 1


def kept_in_a_slice(box, x):
    box.kept = slice(box.m)
    return x * 1


#: What compiled code takes after it was written, and what keeps an array where nobody can look.
DYNAMIC = {
    flipped_in_compiled_code, kept_in_a_partial, kept_in_a_default, kept_in_a_slice,
}  # fmt: skip


def seen_of(thing):
    """What lies in it, as numbers and classes."""
    if isinstance(thing, functools.partial):
        thing = thing.args[0]
    elif isinstance(thing, slice):
        thing = thing.stop
    elif callable(thing):
        thing = thing()
    return type(thing), None if thing is None else thing.copy()


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize(
    "function",
    [
        counted, counted_into_a_length, counted_into_the_largest,
        flipped_in_compiled_code, chosen_by_a_mask, copied, named,
        kept_in_a_partial,
        kept_in_a_default, kept_in_a_slice,
    ],
)  # fmt: skip
def test_as_define_by_run(function):
    found = []
    for static in (False, True):
        box, seen = Box(), []
        box.mask, box.times, box.kept = np.array([1, 0, 1, 0, 0], bool), np.arange(5), None
        box.m[1], box.names = 1, {id(box.m): 2.0}
        call = sdbr.static_graph(lambda x, box=box: function(box, x)) if static else None
        for i in range(8):
            if i == 4:
                box.mask[1] = True
                box.times[0] = 3
            x = np.full(3, i + 1, "f")
            result = call(x) if static else function(box, x)
            parts = result if isinstance(result, tuple) else (result,)
            same = [part is box.kept for part in parts]
            parts[-1][0] += 1
            seen.append((same, *map(np.copy, parts), box.m.copy(), *seen_of(box.kept)))
        found.append(seen)
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        for a, b in zip(want, got, strict=True):
            np.testing.assert_equal(b, a, err_msg=f"call {i}")
    assert (statistics_of(call).replays > 0) == (function not in DYNAMIC)


def test_an_array_of_a_parameter_as_well():
    layer = L.Linear(3, 1, initialW=1)
    array = layer.W.array
    call = sdbr.static_graph(lambda x: F.sum(layer(x) * array), on_dynamic="raise")
    for i in range(6):
        if i == 3:
            layer.W.array = np.full((1, 3), 9, "f")
        x = np.full((1, 3), i, "f")
        want = F.sum(layer(x) * array).array
        np.testing.assert_allclose(call(x).array, want, rtol=RESULTS)
    assert statistics_of(call).replays == 5


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_one_that_becomes_an_attribute_and_is_written():
    class Model(chainer.Chain):
        h = None

        def forward(self, x):
            self.h = box.m
            self.h[1:] += x[1:]
            return x * self.h

    found = []
    for wrap in (lambda model: model, sdbr.static_graph):
        box, seen = Box(), []
        model = wrap(Model())
        for i in range(7):
            if i == 4:
                box.m = np.full(3, 50, "f")
            seen += [model(np.ones(3, "f")), model.h.copy(), model.h is box.m]
        found.append(seen)
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)
    assert statistics_of(model).replays == 0  # whoever writes to one of them means both


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_is_in_a_call_that_has_become_dynamic():
    box = Box()
    box.both = box.m

    def forward(x):
        box.m += 1
        str(x.sum())
        return x * (2 if box.m is box.both else 1)

    call = sdbr.static_graph(forward)
    for _ in range(3):
        np.testing.assert_array_equal(call(np.ones(3, "f")), np.full(3, 2, "f"))


#: Numbers of an array that decide, while replays read the array itself anew.
DECIDING = {
    "mapped": lambda a, b: max(map(np.sum, [a])) > 0,
    "mapped by code": lambda a, b: max(q.sum() for q in [a]) > 0,
    "reduced": lambda a, b: functools.reduce(np.add, [a, b])[0] > 0,
    "by a key": lambda a, b: sorted([a, b], key=np.sum)[0].sum() >= 0,
    "filtered": lambda a, b: len(list(filter(np.all, [a > 0]))) > 0,
    "stacked": lambda a, b: bool(np.array([a, a]).sum() > 0),
    "a list of them": lambda a, b: np.sum([a, a]) > 0,
    "spread": lambda a, b: np.sum(*[a]) > 0,
    "by a partial": lambda a, b: functools.partial(np.sum, a)() > 0,
    "listed": lambda a, b: list(a)[1] > 0,
    "the least": lambda a, b: min(a) > 0,
    "a text": lambda a, b: f"{a[0]:.1f}" == "1.0",
    "a buffer": lambda a, b: memoryview(a)[0] > 0,
    "contained": lambda a, b: 1 in a,
    "a function of Chainer's": lambda a, b: F.sum(F.stack([a, b])).array > 0,
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("where", ["between the calls", "in the call"])
@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_is_compared(name, where):
    found = []
    for static in (False, True):
        box, seen = Box(), []
        box.m[...] = 1

        def forward(x, box=box):
            if where == "in the call":
                box.m *= -1
            return (x * 2 if DECIDING[name](box.m, box.d["k"] * 0) else x * 3) * box.m

        call = sdbr.static_graph(forward) if static else forward
        for i in range(7):
            seen += [call(np.full(3, i + 1, "f")), box.m.copy()]
            if where == "between the calls":
                box.m *= -1
        found.append(seen)
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)
