"""Arrays of links that a call writes in place, and who else has their memory."""

import warnings

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest

from .programs import Way, assert_alike, normal, seen

CALLS = 9


class Held(chainer.Chain):
    def __init__(self, forward):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 4, initialW=np.eye(4, dtype="f"))
        self.to_device("@cupy:0")
        self.a, self.b = cupy.ones(4, "f"), normal(4, seed=1)
        self.flat = cupy.arange(8, dtype="f").reshape(2, 4)
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


def accumulated(self, x):
    self.a += x[0]
    return self.l(x) * self.a


def both_read(self, x):
    self.a += x[0]
    return self.l(x) * (self.a + self.b)


def kernel_on_both(self, x):
    KERNEL(self.a, x[0], self.b)
    return self.l(x) * self.b


KERNEL = cupy.ElementwiseKernel("T a, T x", "T b", "b = a + x + b", "summed_up")


def one_array_in_two_places(model, k):
    if k == 3:
        model.b = model.a
    if k == 6:
        model.b = model.a.copy()


def two_that_part(model, k):
    if k == 0:
        model.b = model.a
    if k == 4:
        model.b = model.a.copy()


def a_part(model, k):
    if k == 3:
        model.a, model.b = model.flat[0], model.flat[0]
    if k == 6:
        model.b = model.flat[1]


def a_column(model, k):
    if k == 3:
        model.a = cupy.ones((4, 2), "f")[:, 0]
    if k == 6:
        model.a = cupy.ones(4, "f")


def another(model, k):
    if k in (3, 6):
        model.a = normal(4, seed=k)


def results_of_a_replay(model, k):
    """Those are windows on memory that others show as well."""
    if k == 2:
        pair = sdbr.static_graph(lambda x: (x * 2, F.reshape(x * 3, (8,))))
        for _ in range(3):
            _, z = pair(chainer.Variable(cupy.ones((2, 4), "f")))
        model.a, model.b = z.array[:4], z.array[2:6]
    if k == 6:
        model.b = model.b.copy()


CHANGES = [
    one_array_in_two_places, two_that_part, a_part, a_column, another, results_of_a_replay,
]  # fmt: skip


def run(way, forward, change):
    model, found = Held(forward), []
    if way.is_static:
        model = sdbr.static_graph(model)
    for k in range(CALLS):
        change(model, k)
        y = model(normal(3, 4, seed=k))
        found.append(seen([y, model.a, model.b, model.flat]))
    return model, found


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("change", CHANGES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("forward", [accumulated, both_read, kernel_on_both])
def test_what_lies_together(forward, change):
    _, want = run(Way(False), forward, change)
    model, got = run(Way(True), forward, change)
    assert_alike(got, want)
    if change is another:
        assert model.schedule_manager.statistics.replays == CALLS - 1


@pytest.mark.parametrize("which", ["itself", "a row of it", "every second"])
def test_an_argument_that_is_written_through_an_attribute(which):
    def own(model):
        if which == "itself":
            return model.a[None]
        if which == "a row of it":
            model.a = model.flat[1]
            return model.flat
        return cupy.lib.stride_tricks.as_strided(model.a, (1, 4), (4, 0))

    found = []
    for way in (Way(False), Way(True)):
        model = Held(accumulated)
        model = sdbr.static_graph(model) if way.is_static else model
        x, of_way = cupy.ones((2, 4), "f"), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sdbr.SdbrWarning)
            for k in range(8):
                y = model(own(model) if k == 4 else x)
                of_way.append(seen([y, model.a, model.flat]))
        found.append(of_way)
    assert_alike(found[1], found[0])


def test_whoever_holds_the_array_sees_it():
    model = sdbr.static_graph(Held(accumulated))
    mine, part = model.a, model.a[1:]
    for k in range(4):
        before, x = mine.copy(), normal(3, 4, seed=k)
        model(x)
        assert model.a is mine
        assert_alike(seen(mine), seen(before + x[0]))
        assert_alike(seen(part), seen(mine[1:]))
    assert model.schedule_manager.statistics.replays == 3


def behind_strides(x):
    y = x * 2
    part = cupy.lib.stride_tricks.as_strided(y, (2, 2), (16, 4))
    y[0] = 1
    return F.relu(y) * part.sum()


def through_strides(x):
    y = x * 2
    cupy.lib.stride_tricks.as_strided(y, (4,), (4,))[...] = 1
    return F.relu(y)


def behind_windows(x):
    y = x * 2
    windows = cupy.lib.stride_tricks.sliding_window_view(y, 2, axis=1)
    y[0] = 1
    return F.relu(y) * windows.sum()


def through_flat(x):
    y = x * 2
    y.flat[3] = 7
    return F.relu(y)


def by_its_pointer(x):
    y = x * 2
    cupy.ndarray((4,), "f", y.data)[...] = 3
    return F.relu(y)


def in_another_shape(x):
    y = x * 2
    y.shape = (4, 3)
    return F.relu(y)


UNCLEAR = [
    behind_strides, through_strides, behind_windows, through_flat, by_its_pointer,
    in_another_shape,
]  # fmt: skip


@pytest.mark.parametrize("function", UNCLEAR, ids=lambda function: function.__name__)
def test_what_cannot_be_followed_is_said(function):
    static = sdbr.static_graph(lambda x: function(x))
    want = [seen(function(normal(3, 4, seed=k))) for k in range(4)]
    with pytest.warns(sdbr.SdbrWarning):
        got = [seen(static(normal(3, 4, seed=k))) for k in range(4)]
    assert_alike(got, want)
    assert static.schedule_manager.statistics.replays == 0


def test_windows_that_nobody_writes_behind():
    static = sdbr.static_graph(
        lambda x: F.relu(cupy.lib.stride_tricks.sliding_window_view(x * 2, 2, axis=1))
    )
    for k in range(4):
        x = normal(3, 4, seed=k)
        want = F.relu(cupy.lib.stride_tricks.sliding_window_view(x * 2, 2, axis=1))
        assert_alike(seen(static(x)), seen(want))
    assert static.schedule_manager.statistics.replays == 3
