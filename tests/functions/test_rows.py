"""What rows refuse and say so, numbers that change between calls, values that are not numbers."""

from __future__ import annotations

import importlib

import sdbr
from sdbr.functions import registry
from sdbr.functions.registry import (
    FunctionRow,
    Node,
    function_of,
    is_transparent,
    lookup,
    registered,
    row_of,
)
from sdbr.program.builder import Builder
from sdbr.trace.gradients import GradientNode

import chainer
import chainer.functions as F
import numpy as np
import pytest
from chainer.functions.array.split_axis import SplitAxis

from tests.tolerances import GRADIENTS, RESULTS

from .cases import CASES
from .lowering import (
    Lowered,
    as_inputs,
    assert_close,
    collecting,
    define_by_run,
    outputs_of,
    watch,
)

f4 = np.float32


def reason_of(f, *arrays):
    """What the row of the last node of `f` says against it."""
    with collecting() as applied:
        f(*as_inputs(arrays))
    a = applied[-1]
    node = Node(
        function_of(a.function),
        tuple(x.shape for x in a.ins),
        tuple(x.dtype for x in a.ins),
        tuple(y.shape for y in a.outs),
        tuple(y.dtype for y in a.outs),
        tuple(x.requires_grad for x in a.ins),
    )
    return row_of(a.function).reason(node)


X = np.ones((3, 4), f4)
REFUSED = [
    ("float16", F.relu, [X.astype("e")], "float16 has no native kernels"),
    ("float16 added", lambda x: F.tile(x, (2, 1)), [X.astype("e")], "float16"),
    ("float16 linear", F.linear, [X.astype("e"), X.astype("e")], "float16"),
    ("mixed linear", F.linear, [X, X.astype("d")], "mixed dtypes: float32, float64"),
    ("mixed matmul", lambda x, y: F.matmul(x, y.T), [X, X.astype("d")], "mixed dtypes"),
    ("integers", lambda x: chainer.Variable(x) + chainer.Variable(x), [np.ones(3, "u1")], "uint8"),
    ("cast to complex", lambda x: F.cast(x, "F"), [X], "complex64"),
    ("index bool", lambda x: x[True], [X], "an index of type bool"),
    ("wide mask", lambda x: F.dropout(x, mask=np.ones((3, 4))), [X], "a mask of dtype float64"),
    ("wide bound", lambda x: F.clip(x, np.float64(0.1), 1), [X], "float64 that float32 cannot"),
    ("array bound", lambda x: F.clip(x, np.zeros(4, "f"), None), [X], "x_min is of type ndarray"),
    ("delta 0", lambda x, y: F.huber_loss(x, y, 0), [X, X], "delta is not positive"),
    ("delta inf", lambda x, y: F.huber_loss(x, y, np.inf), [X, X], "delta is not finite"),
    ("negative base", lambda x: (-2) ** x, [X], "the base is not positive"),
    (
        "falling split",
        lambda x: SplitAxis([3, 1], 1).apply((x,))[0],
        [X],
        "the indices to split at do not rise",
    ),
]


@pytest.mark.parametrize(("name", "f", "arrays", "text"), REFUSED, ids=[r[0] for r in REFUSED])
def test_reason_says_why(name, f, arrays, text):
    assert text in reason_of(f, *arrays)


def test_every_row_belongs_to_a_function_of_chainer():
    for name in registered():
        module, cls = name.rsplit(".", 1)
        kinds = (chainer.FunctionNode, chainer.Function)
        assert issubclass(getattr(importlib.import_module(module), cls), kinds)


def test_a_subclass_has_no_row():
    class Mine(F.activation.relu.ReLU):
        pass

    assert lookup(Mine) is None
    assert lookup(F.activation.relu.ReLU) is not None
    assert not is_transparent(Mine)
    assert is_transparent(F.activation.relu.ReLU)


class Unsaid(FunctionRow):
    """A row that says nothing of gradients of its gradient."""


class Made(lookup(F.activation.tanh.Tanh)):
    """A row of another class of Chainer, made of one that says it."""


@pytest.mark.parametrize("row", [Unsaid, Made, None])
def test_what_does_not_say_that_it_hides_nothing_hides_something(row, monkeypatch):
    monkeypatch.setitem(registry._table, "chainer.functions.math.trigonometric.Sin", row)
    assert not is_transparent(F.math.trigonometric.Sin)


def gradient_inside(x):
    (gx,) = chainer.grad([F.sum(F.sin(x))], [x], enable_double_backprop=True)
    (ggx,) = chainer.grad([F.sum(gx)], [x])
    return ggx


def second_derivatives():
    """Three calls that differentiate the gradient of sin: right in any case; their manager."""
    call = sdbr.static_graph(lambda x: gradient_inside(x))
    x = np.linspace(-1, 1, 5, dtype=f4)
    for k in range(3):
        got = call(chainer.Variable(x + f4(k))).array
        assert_close(got, -np.sin(x + f4(k)), GRADIENTS, "second derivative")
    return call.schedule_manager


def test_what_hides_nothing_is_recorded_function_by_function():
    assert is_transparent(F.math.trigonometric.Sin)
    assert second_derivatives().statistics.replays == 2


def test_what_hides_something_is_one_node_that_is_not_seen_through(monkeypatch):
    monkeypatch.setattr(lookup(F.math.trigonometric.Sin), "transparent", False)
    with pytest.warns(sdbr.SdbrWarning, match="a gradient was taken through SinGrad"):
        manager = second_derivatives()
    assert manager.statistics.replays == 0
    ((schedule,),) = manager.schedules.values()
    assert "sin" in [n.of.label for n in schedule.trace.nodes if isinstance(n, GradientNode)]


WATCHED = [
    ("LeakyReLU", "slope", F.leaky_relu, 0.2, -0.4),
    ("ELU", "alpha", F.elu, 1.0, 0.3),
    ("ClippedReLU", "cap", F.clipped_relu, 0.5, 0.9),
    ("Softplus", "beta", F.softplus, 1.0, 2.0),
    ("Dropout", "dropout_ratio", F.dropout, 0.5, 0.2),
    ("Clip", "x_min", lambda x, v: F.clip(x, v, 3), 0.1, -0.2),
    ("Clip", "x_max", lambda x, v: F.clip(x, -3, v), 0.1, 0.3),
    ("HuberLoss", "delta", lambda x, v: F.huber_loss(x, x * 3, v), 1.0, 0.3),
    ("AddConstant", "value", lambda x, v: x + v, 1.0, 2.5),
    ("SubFromConstant", "value", lambda x, v: v - x, 1.0, 2.5),
    ("MulConstant", "value", lambda x, v: x * v, 1.0, 2.5),
    ("DivFromConstant", "value", lambda x, v: v / x, 1.0, 2.5),
    ("PowVarConst", "value", lambda x, v: (x * x) ** v, 1.0, 2.5),
    ("PowConstVar", "value", lambda x, v: v**x, 1.5, 2.5),
]


@pytest.mark.parametrize("backend", ["numpy", "cython"])
@pytest.mark.parametrize(
    ("cls", "attribute", "f", "traced", "later"), WATCHED, ids=[f"{w[0]}.{w[1]}" for w in WATCHED]
)
def test_a_watched_number_is_read_at_each_run(cls, attribute, f, traced, later, backend):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 5)).astype(f4)

    # Other constants of the function belong to nodes of other classes.
    lowered = Lowered(lambda x: f(x, traced), [x], [True], [0], watch(cls, attribute, traced))
    gy = rng.standard_normal(lowered.results[0].shape).astype(f4)
    for value in (traced, later):
        np.random.seed(0)
        (want,), (want_gx,) = define_by_run(lambda x: f(x, value), [x], [gy], [0])  # noqa: B023
        np.random.seed(0)
        (got,), (got_gx,) = lowered.run(backend, [x], [gy], [value])
        assert_close(got, want, RESULTS, "output")
        assert_close(got_gx, want_gx, GRADIENTS, "gradient")


def test_a_given_mask_draws_nothing():
    mask = (np.random.default_rng(0).random((3, 4)) > 0.5).astype(f4) * 2
    lowered = Lowered(lambda x: F.dropout(x, 0.5, mask=mask), [X], [True], [0])
    assert [i.op.name for i in lowered.forward_ops] == ["multiply", "copy"]
    (y,), (gx,) = lowered.run("numpy", [X * 3], [X])
    np.testing.assert_array_equal(y, 3 * mask)
    np.testing.assert_array_equal(gx, mask)


def test_masks_differ_between_runs_and_follow_the_seed():
    x = np.ones((20, 20), f4)
    lowered = Lowered(lambda x: F.dropout(x, 0.5), [x], [True], [0])
    np.random.seed(3)
    first, second = (lowered.run("numpy", [x], [x])[0][0] for _ in range(2))
    assert not np.array_equal(first, second)
    np.random.seed(3)
    np.testing.assert_array_equal(first, F.dropout(x, 0.5).array)
    np.testing.assert_array_equal(second, F.dropout(x, 0.5).array)


VIEWS = [
    ("reshape", lambda x: F.reshape(x, (4, 3))),
    ("transpose", F.transpose),
    ("swapaxes", lambda x: F.swapaxes(x, 0, 1)),
    ("rollaxis", lambda x: F.rollaxis(x, 1)),
    ("moveaxis", lambda x: F.moveaxis(x, 0, 1)),
    ("expand_dims", lambda x: F.expand_dims(x, 1)),
    ("squeeze", lambda x: F.squeeze(F.expand_dims(x, 1))),
    ("broadcast_to", lambda x: F.broadcast_to(x, (2, 3, 4))),
    ("get_item", lambda x: x[1:, ::2]),
    ("flip", lambda x: F.flip(x, 1)),
    ("split_axis", lambda x: F.split_axis(x, 2, 1)[1]),
    ("separate", lambda x: F.separate(x)[2]),
    ("identity", F.identity),
    ("cast to the same", lambda x: F.cast(x, f4)),
]


@pytest.mark.parametrize(("name", "f"), VIEWS, ids=[v[0] for v in VIEWS])
def test_moving_data_is_a_view_not_an_op(name, f):
    """The one op of the forward program is the copy into the user's array."""
    lowered = Lowered(f, [X], [True] if not isinstance(f(X), tuple) else [True, False], [0])
    assert [i.op.name for i in lowered.forward_ops] == ["copy"]


def test_a_transposed_matrix_is_multiplied_without_a_copy():
    def f(x, y):
        return F.matmul(x.T, y.T)

    lowered = Lowered(f, [np.ones((4, 3), f4), np.ones((5, 4), f4)], [True], [0, 1])
    names = [i.op.name for i in lowered.forward_ops]
    assert names == ["gemm", "copy"]
    assert lowered.forward_ops[0].ints == (1, 1, 0)


def test_an_index_of_ints_alone_points_into_the_row():
    b = Builder()
    x = b.table.bound((3, 4), f4, "x")
    row = b.slice(x, (1, -1))
    assert (row.shape, row.offset) == ((), (4 + 3) * 4)


SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2, 1e30, -1e30, 1e-40], f4)


@pytest.mark.parametrize("backend", ["numpy", "cython"])
@pytest.mark.parametrize(
    "f",
    [
        F.relu,
        F.leaky_relu,
        F.elu,
        F.clipped_relu,
        F.sigmoid,
        F.tanh,
        F.softplus,
        F.absolute,
        F.sqrt,
        F.square,
        F.exp,
        F.log,
        lambda x: F.clip(x, -1, 1),
        lambda x: F.maximum(x, x[::-1]),
        lambda x: F.minimum(x, x[::-1]),
        lambda x: x / x[::-1],
        lambda x: 2 - x * 3,
    ],
)
def test_values_that_are_not_ordinary(f, backend):
    """NaN, infinities and huge numbers come out where define-by-run has them."""
    lowered = Lowered(f, [SPECIAL], [True], [])
    (want,), _ = define_by_run(f, [SPECIAL], [SPECIAL], [])
    (got,), _ = lowered.run(backend, [SPECIAL], [SPECIAL])
    np.testing.assert_allclose(got, want, rtol=RESULTS)


@pytest.mark.parametrize("backend", ["numpy", "cython"])
@pytest.mark.parametrize("bad", [3, -4])
@pytest.mark.parametrize("f", [F.softmax_cross_entropy, F.select_item])
def test_a_label_out_of_range_raises(f, bad, backend):
    x, t = np.ones((5, 3), f4), np.zeros(5, np.int32)
    lowered = Lowered(f, [x, t], [True], [0])
    gy = np.ones(lowered.results[0].shape, f4)
    t = t.copy()
    t[2] = bad
    with pytest.raises(IndexError):
        lowered.run(backend, [x, t], [gy])


def test_a_delta_that_becomes_infinite_is_not_replayed_natively():
    """Chainer's formula gives NaN throughout, which the native op does not."""

    @sdbr.static_graph
    def loss(x, delta):
        return F.huber_loss(x, np.zeros_like(X), delta, reduce="no")

    for delta in (1.0, 2.0, 3.0, np.inf, np.inf, 2.0):
        with np.errstate(invalid="ignore"):
            want = F.huber_loss(X, np.zeros_like(X), delta, reduce="no").array
            got = loss(chainer.Variable(X), float(delta)).array
        np.testing.assert_allclose(got, want, RESULTS)
    assert loss.schedule_manager.statistics.replays >= 3


#: Ops whose kernels raise IndexError in a forward, and rows that give them constants alone.
LOOK_UP = {"take", "put", "scatter_add", "select_item", "negate_item", "max_pooling_pick", "ctc"}
LOOK_UP |= {"softmax_cross_entropy", "softmax_cross_entropy_no_reduce"}
CONSTANT_PLACES = {"Im2Col", "Repeat"}


def test_rows_that_look_up_indices_say_so():
    seen = set()
    for _, f, specs in CASES:
        arrays = [make(np.random.default_rng(1), "f") for make in specs]
        with np.errstate(all="ignore"):
            n = len(outputs_of(f(*as_inputs(arrays))))
        lowered = Lowered(f, arrays, [False] * n, [])
        if LOOK_UP.isdisjoint(op.op.name for op in lowered.forward_ops):
            continue
        rows = [row for a in lowered.applied if (row := row_of(a.function)) is not None]
        names = {row.__name__ for row in rows}
        seen |= names
        assert any(row.checks for row in rows) or names & CONSTANT_PLACES, names
    assert {"EmbedID", "GetItem", "SelectItem", "SoftmaxCrossEntropy"} <= seen
