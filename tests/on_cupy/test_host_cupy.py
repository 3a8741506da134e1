"""The look-alike's own rules: what is like CuPy, so that tests may depend on it."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import weakref

import chainer
import cupy
import cupyx
import cupyx.scipy.linalg
import cupyx.scipy.special
import numpy as np
import pytest
import scipy.special
from chainer.backends import cuda


class Kept(cupy.ndarray):
    """Remembers what it was made from."""

    def __array_finalize__(self, obj):
        self.made_from = obj


def kept(*shape):
    return cupy.arange(float(np.prod(shape))).reshape(shape).view(type=Kept)


def test_chainer_takes_it_for_cupy():
    assert cuda.available is True and cuda.cudnn_enabled is False
    assert "host_cupy" in cupy.__file__
    assert cuda.ndarray is cupy.ndarray and cuda.Device is cupy.cuda.Device
    assert chainer.get_device("@cupy:1").name == "@cupy:1"
    assert chainer.backend.get_array_module(cupy.zeros(2)) is cupy
    for name in ("cudnn", "cuda.cudnn", "cuda.nccl"):
        with pytest.raises(ImportError):
            __import__(f"cupy.{name}", fromlist=["x"])


# --- arrays --------------------------------------------------------------------------------------


def test_the_constructor():
    x = cupy.ndarray((2, 3), "f", order="F")
    assert (x.shape, x.strides, x.dtype, x.itemsize) == ((2, 3), (4, 8), np.float32, 4)
    assert (x.size, x.nbytes, x.ndim, len(x)) == (6, 24, 2, 2)
    assert x.flags.f_contiguous and not x.flags.c_contiguous and x.flags.owndata
    assert x.base is None and isinstance(x.data, cupy.cuda.MemoryPointer)
    memory = cupy.cuda.alloc(64)
    y = cupy.ndarray((3,), "i", memory + 8, strides=(16,))
    y[...] = 7
    whole = cupy.ndarray((16,), "i", memory)
    assert whole.get()[[2, 6, 10]].tolist() == [7, 7, 7]
    assert (y.data.ptr, memory.mem.size >= 64) == (memory.ptr + 8, True)
    for dtype in ("O", "U3", "M8[s]", "g"):
        with pytest.raises(ValueError, match="Unsupported dtype"):
            cupy.ndarray((2,), dtype)
    with pytest.raises(ValueError, match="Negative"):
        cupy.ndarray((-1,))


def test_it_is_no_numpy_array_and_has_no_attributes_of_others():
    x = cupy.zeros(2)
    assert not isinstance(x, np.ndarray)
    assert weakref.ref(x)() is x
    with pytest.raises(AttributeError):
        x.name = "x"
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    for name in ("size", "dtype", "strides"):
        with pytest.raises(AttributeError):
            setattr(x, name, getattr(x, name))


def test_addresses():
    x = cupy.arange(6.0).reshape(2, 3)
    assert x.data.ptr == x._host.ctypes.data and x.data.ptr % 512 == 0
    assert x[1, 1:].data.ptr == x.data.ptr + 32
    assert x[::-1].data.ptr == x.data.ptr + 24
    assert x[1, 1:].data.mem is x.data.mem
    assert cupy.zeros((0, 3)).data.ptr == 0
    assert x.__cuda_array_interface__["data"] == (x.data.ptr, False)


@pytest.mark.parametrize(
    "convert", [np.asarray, np.array, lambda x: np.ones(3) + x, lambda x: x * np.ones(3)]
)
def test_nothing_is_converted_by_itself(convert):
    with pytest.raises(TypeError, match=r"Implicit conversion|Unsupported type"):
        convert(cupy.ones(3))


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: operator.iadd(x, y),
        lambda x, y: cupy.add(x, y),
        lambda x, y: cupy.maximum(y, x),
        lambda x, y: cupy.concatenate([x, y]),
        lambda x, y: cupy.where(x > 0, x, y),
        lambda x, y: cupy.dot(x, y),
        lambda x, y: cupy.sum(y),
        lambda x, y: cupy.copyto(x, y),
        lambda x, y: np.maximum(x, y),
        lambda x, y: x + np.array(1.0),
    ],
)
def test_arrays_of_the_host_are_no_operands(mix):
    with pytest.raises(TypeError):
        mix(cupy.ones(3), np.ones(3))


def test_scalars_are_operands_and_promote_as_in_numpy_2():
    x = cupy.ones(2, "f")
    for other, dtype in [
        (2, "f"), (2.5, "f"), (True, "f"), (np.float32(2), "f"), (np.float64(2), "d"),
        (np.int64(2), "d"), (1j, "F"), (cupy.ones((), "d"), "d"),
    ]:  # fmt: skip
        for got in (x * other, other * x, cupy.multiply(x, other)):
            assert (type(got), got.dtype) == (cupy.ndarray, np.dtype(dtype)), other
    assert (cupy.ones(2, "b") + 1).dtype == np.int8
    assert cupy.result_type(x, 1.0, np.int8) == np.float32


def test_results_are_never_scalars():
    x = cupy.arange(6.0).reshape(2, 3)
    for y in (x.sum(), x[1, 2], cupy.max(x), x.argmax(), cupy.dot(x[0], x[1]), cupy.exp(x[0, 0])):
        assert type(y) is cupy.ndarray and y.shape == ()
    assert (float(x.sum()), int(x[1, 2]), bool(x[0, 0]), x[1, 1].item()) == (15.0, 5, False, 4.0)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(ValueError, match="size 1"):
        x.item()


def test_to_the_host_and_from_it():
    x = cupy.arange(6.0).reshape(2, 3)
    out = np.empty((2, 3))
    assert x.get(out=out) is out and out.sum() == 15
    assert x.T.get().flags.c_contiguous and x.T.get(order="A").flags.f_contiguous
    host = x.get()
    host[...] = 0
    assert x.sum().item() == 15
    x.set(np.ones((2, 3)))
    assert x.sum().item() == 6
    for wrong in (np.ones((2, 3), "f"), [1]):
        with pytest.raises(TypeError):
            x.set(wrong)
    with pytest.raises(ValueError, match="Shape mismatch"):
        x.set(np.ones(3))
    assert cupy.asnumpy(x).sum() == 6 and cupy.asnumpy(3) == 3
    again = pickle.loads(pickle.dumps(x))
    assert type(again) is cupy.ndarray and (again == x).all()
    assert copy.copy(x).base is None and (copy.deepcopy(x) == x).all()


def test_indexing():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = cupy.asarray(a)
    rows, mask = np.array([1, 0, 1]), a > 7
    for index in [
        0, -1, (0, 1), (0, 1, 2), slice(None, None, -1), (..., 2), (None, 1), (slice(1), None, 0),
        (0, slice(None), slice(None, None, 2)), [0, 1],
    ]:  # fmt: skip
        np.testing.assert_array_equal(x[index].get(), a[index])
    np.testing.assert_array_equal(x[cupy.asarray(rows)].get(), a[rows])
    np.testing.assert_array_equal(x[:, cupy.asarray(rows), 1].get(), a[:, rows, 1])
    np.testing.assert_array_equal(x[cupy.asarray(mask)].get(), a[mask])
    x[0], x[1, cupy.asarray([0, 2])], x[x > 20] = 1.0, cupy.zeros(4), -1
    a[0], a[1, [0, 2]] = 1, 0
    a[a > 20] = -1
    np.testing.assert_array_equal(x.get(), a)
    assert [row.shape for row in x] == [(3, 4)] * 2
    with pytest.raises(ValueError, match="cannot be used for fill"):
        x[0] = np.zeros((3, 4))


def test_views_share_and_know_their_base():
    x = cupy.arange(6.0).reshape(2, 3).copy()
    views = [x[0], x.T, x.reshape(3, 2), x.ravel(), x[0, 0], x.view(), cupy.diagonal(x), x[0:0]]
    for view in (*views, cupy.broadcast_to(x, (2, 2, 3)), cupy.expand_dims(x, 0), x.T.T[1:]):
        assert view.base is x and not view.flags.owndata, view
        assert view.data.mem is x.data.mem
    x[0, 0] = 9
    assert (x[0] + 0).base is None and x[0, 0].item() == 9
    for made in (x.copy(), x.T.reshape(6), x.astype("f"), x[cupy.asarray([0])], x.T.ravel()):
        assert made.base is None and not cupy.may_share_memory(made, x)
    assert x.squeeze() is x and x.astype("d", copy=False) is x and x.real is x and x.conj() is x
    assert cupy.asarray(x) is x and cupy.ascontiguousarray(x) is x and x[0].T.base is x
    x.shape = (6,)
    assert x.shape == (6,)


def test_what_is_refused():
    x = cupy.zeros((3, 4))
    for sort in (x[:, 1].sort, x.T.sort, functools.partial(x.T.partition, 1)):
        with pytest.raises(NotImplementedError, match="non-contiguous"):
            sort()
    for function in (cupy.ascontiguousarray, cupy.asfortranarray):
        with pytest.raises(TypeError, match="incorrect type"):
            function(np.zeros(3))


def test_arrays_of_numpy_are_made_by_its_functions(monkeypatch):
    """As CuPy makes them: whoever watches those sees it."""
    x, seen = cupy.arange(4.0), []
    for name in ("empty", "asarray"):
        original = getattr(np, name)
        monkeypatch.setattr(
            np, name, lambda *args, f=original, **more: seen.append(f.__name__) or f(*args, **more)
        )
    for ask in (x.get, x.tolist, x.tobytes, x[1].item, x[1].__float__, x[1].__bool__):
        ask()
        assert "empty" in seen, ask
        seen.clear()
    x.fill(1)
    assert "asarray" in seen


def test_layouts_of_new_arrays():
    x = cupy.zeros((2, 3, 4)).transpose(1, 2, 0)
    assert x.copy().flags.c_contiguous and (x + 1).flags.c_contiguous
    for made in (x.astype("f"), cupy.zeros_like(x, "f"), cupy.array(x, "f")):
        assert made.strides == tuple(n // 2 for n in x.strides)
    assert cupy.asarray(np.asfortranarray(np.zeros((2, 3)))).flags.f_contiguous
    assert cupy.asfortranarray(x).flags.f_contiguous


def test_numpy_finds_the_functions():
    x = cupy.arange(3.0) + 1
    for y in (np.log(x), np.sum(x), np.concatenate([x, x]), np.add(x, 1), np.linalg.norm(x)):
        assert type(y) is cupy.ndarray
    out = cupy.zeros(3)
    assert np.exp(x, out=out) is out and cupy.exp(x, out) is out
    assert np.add.reduce(x).item() == 6
    assert cupyx.scipy.special.gammaln(x).get() == pytest.approx(scipy.special.gammaln(x.get()))
    assert cupyx.rsqrt(x * x).get() == pytest.approx(1 / x.get())


def test_universal_functions():
    assert isinstance(cupy.add, cupy.ufunc) and cupy.true_divide is cupy.divide
    assert (cupy.add.name, cupy.add.nin, cupy.add.nout, cupy.add.nargs) == ("cupy_add", 2, 1, 3)
    x = cupy.arange(4, dtype="i")
    assert cupy.add(x, x, dtype="d").dtype == np.float64
    with pytest.raises(TypeError, match="cast"):
        cupy.add(x, 1.5, x)
    with pytest.raises(TypeError, match="Wrong number of arguments"):
        cupy.add(x)
    with pytest.raises(ValueError, match="Out shape is mismatched"):
        cupy.add(x, x, cupy.zeros((2, 4)))
    fraction, whole = cupy.modf(x * 0.5)
    assert (fraction.get() + whole.get()).tolist() == (x.get() * 0.5).tolist()
    assert not (cupy.log(cupy.zeros(1)) > 0).any()


def test_comparisons():
    x = cupy.arange(3)
    assert (x == 1).get().tolist() == [False, True, False]
    assert (x == None).get().tolist() == [False] * 3  # noqa: E711
    assert (x != object()).all() and (x >= np.array(1)).sum() == 2
    assert (x < x[::-1]).get().tolist() == [True, False, False]


def test_scatter_add():
    x = cupy.zeros((3, 2))
    cupyx.scatter_add(x, cupy.asarray([0, 0, 2]), cupy.ones((3, 2)))
    assert x.get().tolist() == [[2, 2], [0, 0], [1, 1]]


# --- subclasses ----------------------------------------------------------------------------------


def test_the_constructor_finalizes_with_none():
    x = Kept((2,), "f")
    assert x.made_from is None and x.dtype == np.float32
    x.more = 1
    assert cupy.zeros(2).view(Kept).made_from.shape == (2,)
    with pytest.raises(ValueError, match="twice"):
        cupy.zeros(2).view(Kept, Kept)
    with pytest.raises(ValueError, match="sub-type"):
        cupy.zeros(2).view(type=np.ndarray)


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x[0], lambda x: x[0, 0], lambda x: x.T, lambda x: x.view(), lambda x: x.ravel(),
        lambda x: x.reshape(3, 2), lambda x: x.view("i8"), lambda x: cupy.expand_dims(x, 0),
        lambda x: cupy.broadcast_to(x, (2, 2, 3)),
    ],
)  # fmt: skip
def test_views_are_of_the_class(of):
    x = kept(2, 3)
    y = of(x)
    assert type(y) is Kept and y.made_from is x


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x + 1, lambda x: 1 - x, lambda x: cupy.ones(3) * x, np.exp, lambda x: x == 1,
        lambda x: -x, lambda x: cupy.clip(x, 0, 1), lambda x: cupy.where(x > 0, x, 0),
    ],
)  # fmt: skip
def test_universal_functions_give_the_class(of):
    x = kept(2, 3)
    y = of(x)
    assert type(y) is Kept and y.base is None
    assert type(y.made_from) is Kept and y.made_from.shape == x.shape


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x.copy(), lambda x: x.astype("f"), lambda x: x.sum(), lambda x: x.max(axis=0),
        lambda x: x @ x.T, lambda x: x[cupy.asarray([0])], lambda x: x[x > 1], cupy.zeros_like,
        lambda x: x.T.reshape(6), lambda x: cupy.array(x), lambda x: cupy.concatenate([x, x]),
        lambda x: cupy.ElementwiseKernel("T x", "T y", "y = x", "same")(x), copy.copy,
    ],
)  # fmt: skip
def test_everything_else_gives_plain_arrays(of):
    assert type(of(kept(2, 3))) is cupy.ndarray


def test_the_first_subclass_wins_and_outputs_stay_what_they_are():
    class Other(Kept):
        pass

    x, y, out = kept(3), kept(3).view(Other), cupy.zeros(3)
    assert type(x + y) is Kept and type(y + x) is Other and type(cupy.ones(3) + y) is Other
    assert cupy.add(x, y, out) is out and type(out) is cupy.ndarray
    z = x
    z += y
    assert z is x


def test_chainer_takes_subclasses():
    x = kept(2, 3)
    assert isinstance(chainer.Variable(x).array, Kept)
    assert chainer.get_device(chainer.backend.get_device_from_array(x)).name == "@cupy:0"


# --- linear algebra ------------------------------------------------------------------------------


def test_linear_algebra():
    a = np.random.default_rng(0).standard_normal((3, 3))
    a = a @ a.T + 3 * np.eye(3)
    x = cupy.asarray(a)
    np.testing.assert_allclose(cupy.linalg.cholesky(x).get(), np.linalg.cholesky(a))
    np.testing.assert_allclose(cupy.linalg.inv(x).get(), np.linalg.inv(a))
    lower = cupyx.scipy.linalg.solve_triangular(cupy.tril(x), cupy.ones(3), lower=True)
    np.testing.assert_allclose((cupy.tril(x) @ lower).get(), np.ones(3))
    np.testing.assert_allclose(chainer.functions.inv(x).array.get(), np.linalg.inv(a))


def test_memoized_by_device():
    calls = []

    @cupy.memoize(for_each_device=True)
    def known(x):
        calls.append(x)
        return len(calls)

    assert (known(1), known(1)) == (1, 1)
    with cupy.cuda.Device(1):
        assert known(1) == 2
    cupy.clear_memo()
    assert known(1) == 3
