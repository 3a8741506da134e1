"""Row 20, bad input: what define-by-run would do, or a clear error, and the next call works.

Every row is one call that is wrong or unusual, made between good ones, in four ways of calling.
The outcome is define-by-run's: the same exception type (or an error of sdbr), or the same values.
A failed call leaves parameters and optimizer as they were, and the next good call is a replay that
equals define-by-run.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of
from tests.harness.models import MLP, floats, labels
from tests.tolerances import HALF_SUMS, RESULTS, SUMS

# np.matrix is one of the arguments that are refused.
pytestmark = pytest.mark.filterwarnings("default:the matrix subclass:PendingDeprecationWarning")

X = floats(5, 4)(np.random.RandomState(0))
T = labels(3, 5)(np.random.RandomState(1))


class Own(np.ndarray):
    """A subclass of a user."""


def nested(depth: int):
    thing: list = [X]
    for _ in range(depth):
        thing = [thing]
    return thing


def cycle():
    thing: list = [X]
    thing.append(thing)
    return thing


def cyclic_dict():
    thing: dict = {"x": X}
    thing["self"] = {"more": thing}
    return thing


def unaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def with_value(value, at=(2, 1)):
    x = X.copy()
    x[at] = value
    return x


def with_label(value, dtype="i"):
    t = T.astype(dtype)
    t[3] = value
    return t


def readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def memory_mapped(array, tmp_path, mode="r+"):
    path = tmp_path / "array.bin"
    array.tofile(path)
    return np.memmap(path, array.dtype, mode, shape=array.shape)


class Call:
    """A call: positional and keyword arguments."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs


class Row(NamedTuple):
    make: object  # (model, tmp_path) -> Call
    sdbr_error: type | None = None  # instead of what define-by-run does


ROWS = {
    # --- shapes ---
    "wider": Row(lambda m, p: Call(floats(5, 6)(np.random.RandomState(2)), T)),
    "narrower": Row(lambda m, p: Call(X[:, :3], T)),
    "one axis": Row(lambda m, p: Call(X[0], T)),
    "three axes": Row(lambda m, p: Call(np.stack([X, X]), T)),
    "three axes that fit": Row(lambda m, p: Call(X[:, :, None], T)),
    "zero axes": Row(lambda m, p: Call(np.array(1.0, "f"), T)),
    "empty batch": Row(lambda m, p: Call(X[:0], T[:0])),
    "no features": Row(lambda m, p: Call(X[:, :0], T)),
    "another batch": Row(lambda m, p: Call(X[:2], T[:2])),
    "batches that differ": Row(lambda m, p: Call(X, T[:3])),
    "labels of two axes": Row(lambda m, p: Call(X, T[:, None])),
    "no labels axis": Row(lambda m, p: Call(X, np.array(1, "i"))),
    # --- dtypes ---
    "float16": Row(lambda m, p: Call(X.astype("e"), T)),
    "float64": Row(lambda m, p: Call(X.astype("d"), T)),
    "long double": Row(lambda m, p: Call(X.astype("g"), T)),
    "integers": Row(lambda m, p: Call(X.astype("i"), T)),
    "booleans": Row(lambda m, p: Call(X > 0, T)),
    "complex": Row(lambda m, p: Call(X.astype("F"), T)),
    "objects": Row(lambda m, p: Call(X.astype(object), T)),
    "strings": Row(lambda m, p: Call(X.astype("U8"), T)),
    "bytes": Row(lambda m, p: Call(X.astype("S8"), T)),
    "dates": Row(lambda m, p: Call(np.zeros((5, 4), "M8[s]"), T)),
    "records": Row(lambda m, p: Call(np.zeros((5, 4), [("a", "f"), ("b", "i")]), T)),
    "big-endian": Row(lambda m, p: Call(X.astype(">f4"), T)),
    "big-endian labels": Row(lambda m, p: Call(X, T.astype(">i4"))),
    "integers that require gradients": Row(
        lambda m, p: Call(chainer.Variable(X.astype("i"), requires_grad=True), T)
    ),
    "labels that require gradients": Row(
        lambda m, p: Call(X, chainer.Variable(T, requires_grad=True))
    ),
    "float labels": Row(lambda m, p: Call(X, T.astype("f"))),
    "boolean labels": Row(lambda m, p: Call(X, T > 0)),
    "wide labels": Row(lambda m, p: Call(X, T.astype("l"))),
    "unsigned labels": Row(lambda m, p: Call(X, T.astype("B"))),
    "object labels": Row(lambda m, p: Call(X, T.astype(object))),
    # --- values ---
    "nan": Row(lambda m, p: Call(with_value(np.nan), T)),
    "infinity": Row(lambda m, p: Call(with_value(np.inf), T)),
    "minus infinity": Row(lambda m, p: Call(with_value(-np.inf), T)),
    "largest": Row(lambda m, p: Call(with_value(np.finfo("f").max), T)),
    "denormal": Row(lambda m, p: Call(with_value(1e-45), T)),
    "label too large": Row(lambda m, p: Call(X, with_label(3))),
    "label far too large": Row(lambda m, p: Call(X, with_label(2**31 - 1))),
    "label that is ignored": Row(lambda m, p: Call(X, with_label(-1))),
    "label that wraps": Row(lambda m, p: Call(X, with_label(-2))),
    "label too small": Row(lambda m, p: Call(X, with_label(-4))),
    "wide label too large": Row(lambda m, p: Call(X, with_label(2**40, "l"))),
    # --- layouts ---
    "read-only": Row(lambda m, p: Call(readonly(X), readonly(T))),
    "column order": Row(lambda m, p: Call(np.asfortranarray(X), T)),
    "strided": Row(lambda m, p: Call(np.repeat(X, 2, axis=1)[:, ::2], np.repeat(T, 3)[::3])),
    "backwards": Row(lambda m, p: Call(X[::-1], T[::-1])),
    "broadcast": Row(lambda m, p: Call(np.broadcast_to(X[:1], X.shape), np.broadcast_to(T[:1], 5))),
    "unaligned": Row(lambda m, p: Call(unaligned(X), unaligned(T))),
    "mapped": Row(lambda m, p: Call(memory_mapped(X, p), T)),
    "mapped read-only": Row(lambda m, p: Call(memory_mapped(X, p, "r"), T)),
    "masked": Row(lambda m, p: Call(np.ma.masked_array(X, X > 1), T)),
    "matrix": Row(lambda m, p: Call(np.asmatrix(X), T)),
    "own subclass": Row(lambda m, p: Call(X.view(Own), T)),
    "parameter as argument": Row(lambda m, p: Call(m.predictor.l1.W.array[:5], T)),
    "parameter itself as argument": Row(lambda m, p: Call(m.predictor.l1.W[:5], T)),
    "output as argument": Row(lambda m, p: Call(F.tile(m.y, (1, 2))[:, :4].array, T)),
    "view of the output as argument": Row(lambda m, p: Call(m.y.array[:, [0, 1, 2, 0]], T)),
    # --- no arrays ---
    "lists": Row(lambda m, p: Call(X.tolist(), T)),
    "None": Row(lambda m, p: Call(None, T)),
    "a string": Row(lambda m, p: Call("x", T)),
    "a number": Row(lambda m, p: Call(1.5, T)),
    "a NumPy number": Row(lambda m, p: Call(np.float32(1.5), T)),
    "a set": Row(lambda m, p: Call({1, 2}, T)),
    "an object": Row(lambda m, p: Call(object(), T)),
    "a generator": Row(lambda m, p: Call((x for x in X), T)),
    "variable without array": Row(lambda m, p: Call(chainer.Variable(), T)),
    "uninitialised parameter": Row(lambda m, p: Call(chainer.Parameter(), T)),
    "nested deeply": Row(lambda m, p: Call(nested(60), T)),
    "nested too deeply": Row(lambda m, p: Call(nested(5000), T)),
    "cyclic": Row(lambda m, p: Call(cycle(), T)),
    "cyclic dictionary": Row(lambda m, p: Call(cyclic_dict(), T)),
    # --- arguments ---
    "no arguments": Row(lambda m, p: Call()),
    "too few": Row(lambda m, p: Call(X)),
    "too many": Row(lambda m, p: Call(X, T, T)),
    "unknown keyword": Row(lambda m, p: Call(X, T, nothing=1)),
    "labels by another name": Row(lambda m, p: Call(X, labels=T)),
    "the other way round": Row(lambda m, p: Call(T, X)),
    "variables": Row(lambda m, p: Call(chainer.Variable(X), chainer.Variable(T))),
    "the same twice": Row(lambda m, p: Call(X, X)),
}  # fmt: skip


def make_model():
    np.random.seed(0)
    return L.Classifier(MLP(4, 8, 3))


def good(k: int):
    rng = np.random.RandomState(k)
    return Call(floats(5, 4)(rng), labels(3, 5)(rng))


def by_step(model, optimizer, call):
    optimizer.update(model, *call.args, **call.kwargs)
    return model.loss


def by_call(model, optimizer, call):
    loss = model(*call.args, **call.kwargs)
    model.cleargrads()
    loss.backward()
    return loss


def by_call_and_update(model, optimizer, call):
    loss = by_call(model, optimizer, call)
    optimizer.update()
    return loss


def in_test_mode(model, optimizer, call):
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return model(*call.args, **call.kwargs)


WAYS = {f.__name__: f for f in (by_step, by_call, by_call_and_update, in_test_mode)}
COMBINATIONS = [*[(way, "cython") for way in WAYS], ("by_step", "numpy")]


def outcome(way, model, optimizer, call):
    """``(exception or None, record)``: what a call gives and leaves behind."""
    with np.errstate(all="ignore"):
        try:
            loss = way(model, optimizer, call)
        except Exception as error:
            return error, None
    record = {"loss": copy_of(loss.array)}
    for name, p in sorted(model.namedparams()):
        record[name] = copy_of(p.array)
        record[f"{name} gradient"] = copy_of(p.grad)
    for x in (*call.args, *call.kwargs.values()):
        if isinstance(x, chainer.Variable) and not isinstance(x, chainer.Parameter):
            record["argument gradient"] = copy_of(x.grad)
    return None, record


def assert_same_record(got: dict, want: dict, what: str) -> None:
    tolerance = HALF_SUMS if want["loss"].dtype == np.float16 else SUMS
    for name in want:
        g, w = got[name], want[name]
        if w is not None and w.dtype.kind == "f":
            assert g is not None and (g.shape, g.dtype) == (w.shape, w.dtype), (what, name)
            # Infinities and NaNs in the same places.
            np.testing.assert_array_equal(np.isfinite(g), np.isfinite(w), f"{what}: {name}")
            g, w = np.where(np.isfinite(w), g, 0), np.where(np.isfinite(w), w, 0)
        assert_near(g, w, tolerance, f"{what}: {name}")


class Twins:
    """The same model and optimizer twice, define-by-run and static, after a few good calls."""

    def __init__(self, way, backend):
        self.way = WAYS[way]
        self.models = [make_model(), sdbr.static_graph(make_model(), backend=backend)]
        self.optimizers = [
            chainer.optimizers.Adam().setup(self.models[0]),
            sdbr.static_optimizer(chainer.optimizers.Adam()).setup(self.models[1]),
        ]
        self.calls = 0

    def good(self, replay=True) -> None:
        self.calls += 1
        statistics = self.models[1].schedule_manager.statistics
        before = statistics.replays
        found = [outcome(self.way, m, o, good(self.calls)) for m, o in self.pairs]
        assert found[1][0] is found[0][0] is None
        assert_same_record(found[1][1], found[0][1], f"good call {self.calls}")
        if replay:
            assert statistics.replays == before + 1

    def follow(self) -> None:
        """Make the define-by-run twin what the static one is."""
        (plain, other), (static, optimizer) = self.pairs
        plain.copyparams(static)
        other.t = optimizer.t
        for (_, p), (_, q) in zip(
            sorted(plain.namedparams()), sorted(static.namedparams()), strict=True
        ):
            state = q.update_rule.state
            p.update_rule.t = q.update_rule.t
            p.update_rule._state = state and {k: copy_of(a) for k, a in state.items()}

    @property
    def pairs(self):
        return list(zip(self.models, self.optimizers, strict=True))

    def state(self) -> list:
        """Of both: parameters, state of the rules and counts."""
        states = []
        for model, optimizer in self.pairs:
            state = {n: copy_of(p.array) for n, p in sorted(model.namedparams())}
            for n, p in sorted(model.namedparams()):
                state[f"{n} t"] = np.array(p.update_rule.t)
                for key, array in sorted((p.update_rule.state or {}).items()):
                    state[f"{n} {key}"] = copy_of(array)
            states.append({**state, "t": np.array(optimizer.t)})
        return states


@pytest.mark.parametrize(("way", "backend"), COMBINATIONS)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning", "ignore::RuntimeWarning")
def test_arguments(name, way, backend, tmp_path):
    row = ROWS[name]
    with chainer.using_config("sdbr_backend", backend):
        twins = Twins(way, backend)
        for k in range(3):
            twins.good(replay=k > 0)
        for attempt in range(2):
            before = twins.state()
            calls = [row.make(m, tmp_path) for m in twins.models]
            (want_error, want), (error, got) = [
                outcome(twins.way, m, o, c) for (m, o), c in zip(twins.pairs, calls, strict=True)
            ]
            what = f"{name}, attempt {attempt}"
            if row.sdbr_error is not None:
                assert isinstance(error, row.sdbr_error), what
                # define-by-run may have made sense of it.
                twins.models[0].copyparams(twins.models[1])
            elif want_error is not None:
                assert type(error) is type(want_error), (what, want_error, error)
            else:
                assert error is None, what
                assert_same_record(got, want, what)
            if error is not None:
                plain, static = twins.state()
                nothing = all(np.array_equal(plain[n], before[0][n]) for n in plain)
                if nothing or row.sdbr_error is not None:
                    assert_all_near(static, before[1], 0, what)
                else:  # Chainer itself fails half-way
                    assert_all_near(static, plain, SUMS, what)
            twins.good()


# --- what happens to the model between good calls -------------------------------------------------
class Event(NamedTuple):
    """Something that is done to model and optimizer before a call, and undone after it."""

    do: object  # (model, optimizer) -> what `undo` gets
    undo: object  # (model, optimizer, what `do` returned)
    right: bool = False  # static gives the right answer where Chainer fails


def put(path, array):
    """Replace the array of a parameter; returns the one before."""

    def do(model, optimizer):
        p = dict(model.namedparams())[path]
        before, p.array = p.array, array(p.array)
        return before

    return do


def put_back(path):
    def undo(model, optimizer, before):
        dict(model.namedparams())[path].array = before

    return undo


W, B = "/predictor/l2/W", "/predictor/l2/b"


def lock(model, optimizer):
    dict(model.namedparams())[W].array.flags.writeable = False


def unlock(model, optimizer, _):
    dict(model.namedparams())[W].array.flags.writeable = True


def remove_link(model, optimizer):
    link = model.predictor.l2
    del model.predictor.l2
    return link


def put_link_back(model, optimizer, link):
    model.predictor.__dict__.pop("l2", None)
    model.predictor._children.discard("l2")
    with model.predictor.init_scope():
        model.predictor.l2 = link


def replaced_link(model, optimizer):
    link = remove_link(model, optimizer)
    np.random.seed(7)
    with model.predictor.init_scope():
        model.predictor.l2 = L.Linear(8, 8)
    optimizer.setup(model)
    return link


EVENTS = {
    "another shape": Event(put(W, lambda w: w[:, :5].copy()), put_back(W)),
    "another number of axes": Event(put(B, lambda b: b[None]), put_back(B)),
    "float64": Event(put(W, lambda w: w.astype("d")), put_back(W)),
    "float16": Event(put(W, lambda w: w.astype("e")), put_back(W)),
    "integers": Event(put(W, lambda w: w.astype("i")), put_back(W)),
    "big-endian": Event(put(W, lambda w: w.astype(">f4")), put_back(W)),
    "column order": Event(put(W, np.asfortranarray), put_back(W)),
    "nan": Event(put(B, lambda b: b + np.float32(np.nan)), put_back(B)),
    "matrix": Event(put(W, np.asmatrix), put_back(W), right=True),
    "read-only": Event(put(W, readonly), put_back(W)),
    "locked in place": Event(lock, unlock),
    "link removed": Event(remove_link, put_link_back),
    "another link": Event(replaced_link, put_link_back),
}


@pytest.mark.parametrize(("way", "backend"), COMBINATIONS)
@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning", "ignore::RuntimeWarning")
def test_events(name, way, backend):
    event = EVENTS[name]
    with chainer.using_config("sdbr_backend", backend):
        twins = Twins(way, backend)
        for k in range(3):
            twins.good(replay=k > 0)
        for attempt in range(2):
            what = f"{name}, attempt {attempt}"
            kept = [event.do(m, o) for m, o in twins.pairs]
            before = twins.state()
            (want_error, want), (error, got) = [
                outcome(twins.way, m, o, Call(X, T)) for m, o in twins.pairs
            ]
            if want_error is None:
                assert error is None, what
                assert_same_record(got, want, what)
            elif not (event.right and error is None):
                assert type(error) is type(want_error), (what, want_error, error)
                assert_all_near(twins.state()[1], before[1], 0, what)
            for (m, o), k in zip(twins.pairs, kept, strict=True):
                event.undo(m, o, k)
            # What Chainer changed of the twin before it failed.
            twins.follow()
            twins.good(replay=False)  # what fitted no longer may have been forgotten
            twins.good()


# --- one array into functions that take anything --------------------------------------------------
ARRAYS = {
    "0-d": lambda p: np.array(2.0, "f"),
    "0-d integer": lambda p: np.array(2, "i"),
    "a NumPy number": lambda p: np.float32(2),
    "a number": lambda p: 2.0,
    "an integer": lambda p: 3,
    "empty": lambda p: X[:0],
    "empty in the middle": lambda p: np.zeros((2, 0, 3), "f"),
    "one element": lambda p: X[:1, :1],
    "eight axes": lambda p: X.reshape(1, 1, 1, 5, 1, 4, 1, 1),
    "booleans": lambda p: X > 0,
    "bytes of integers": lambda p: (X * 10).astype("b"),
    "unsigned": lambda p: np.abs(X * 10).astype("Q"),
    "integers": lambda p: (X * 10).astype("i"),
    "float16": lambda p: X.astype("e"),
    "float64": lambda p: X.astype("d"),
    "long double": lambda p: X.astype("g"),
    "complex": lambda p: X.astype("F"),
    "objects": lambda p: X.astype(object),
    "strings": lambda p: X.astype("U8"),
    "dates": lambda p: np.zeros((5, 4), "M8[s]"),
    "big-endian": lambda p: X.astype(">f4"),
    "big-endian integers": lambda p: (X * 10).astype(">i8"),
    "read-only": lambda p: readonly(X),
    "column order": lambda p: np.asfortranarray(X),
    "backwards": lambda p: X[::-1, ::-1],
    "broadcast": lambda p: np.broadcast_to(X[:1], (5, 4)),
    "unaligned": lambda p: unaligned(X),
    "mapped": lambda p: memory_mapped(X, p),
    "masked": lambda p: np.ma.masked_array(X, X > 1),
    "matrix": lambda p: np.asmatrix(X),
    "own subclass": lambda p: X.view(Own),
    "nan and infinities": lambda p: np.array([np.nan, np.inf, -np.inf, -0.0], "f"),
}  # fmt: skip

FUNCTIONS = {
    "arithmetic": lambda x: (x * 2 + 1) / 3,
    "sum": lambda x: F.sum(x),
    "concat": lambda x: F.concat([x, x], axis=-1),
    "reshape": lambda x: F.reshape(x, (-1,)) * 1,
    "transpose": lambda x: F.transpose(x) + 0,
    "slice": lambda x: x[..., :1] * 2,
    "cast": lambda x: F.cast(x, "f") * 2,
    "numpy": lambda x: F.broadcast_to(
        chainer.as_variable((1 - x.array) * 0.5 + np.sqrt(np.abs(x.array))), x.shape
    ),
    "maximum": lambda x: F.maximum(x, x * 0),
    "as it is": lambda x: x,
}


def outcome_of(function, make, variable: bool):
    """Type of the exception, or output and gradient."""
    with np.errstate(all="ignore"):
        try:
            x = make()
            if variable:
                x = chainer.Variable(x)
            y = function(x)
            y = chainer.as_variable(y)
            if y.requires_grad and y.size and y.dtype.kind == "f" and y.creator is not None:
                y.grad = np.ones_like(y.array)
                y.backward()
            return y.array, x.grad if variable else None
        except Exception as error:
            return error


def assert_same_outcome(got, want, what: str) -> None:
    if isinstance(want, Exception):
        assert type(got) is type(want), (what, got, want)
        return
    assert not isinstance(got, Exception), (what, got)
    for g, w in zip(got, want, strict=True):
        assert type(g) is type(w), what
        if w is None:
            continue
        assert (g.shape, g.dtype) == (w.shape, w.dtype), what
        if w.dtype.kind not in "fc":
            np.testing.assert_array_equal(g, w, what)
        else:
            tolerance = HALF_SUMS if w.dtype.itemsize == 2 else RESULTS
            np.testing.assert_allclose(g, w, tolerance, tolerance, err_msg=what)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings(
    "ignore::sdbr.SdbrWarning", "ignore::RuntimeWarning", "ignore::PendingDeprecationWarning",
    "ignore:Casting complex",
)  # fmt: skip
def test_arrays(name, tmp_path):
    for function_name, function in FUNCTIONS.items():
        for backend, variable in zip(BACKENDS, itertools.cycle((True, False)), strict=False):
            if name.startswith("0-d") and function_name in ("numpy", "maximum"):
                continue  # NumPy makes scalars of 0-d arrays, which Chainer refuses
            if function_name == "numpy" and not variable:
                continue  # x.array
            static = sdbr.static_graph(function, backend=backend)
            for k in range(5):
                make = functools.partial(ARRAYS[name], tmp_path) if k % 2 else lambda: X
                want = outcome_of(function, make, variable)
                got = outcome_of(static, make, variable)
                what = f"{function_name} of {name}, {backend}, variable={variable}, call {k}"
                assert_same_outcome(got, want, what)
