"""Row 23: shapes and dtypes that depend on values are a question of the call."""

from __future__ import annotations

import io
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

CALLS = 24
#: What a call learns of the results, by numbers and by arrays.
FORMS = {
    "ix_": lambda a: len(np.ix_(a[0] > 0, [0, 1])[0]),
    "indexed by ix_": lambda a: a[np.ix_([0, 1], a[0] > 0)].sum(),
    "unique": lambda a: np.unique(np.sign(a)).shape[0],
    "unique and places": lambda a: np.unique(np.round(a), return_inverse=True)[1].sum(),
    "roots": lambda a: len(np.roots(np.round(a[0]))),
    "sum of roots": lambda a: abs(np.roots(a[0])).sum(),
    "complex roots": lambda a: 1 + np.iscomplexobj(np.roots([1.0, 0.0, 1.0] * a[0])),
    "emath": lambda a: 1 + np.iscomplexobj(np.emath.sqrt(a[0])),
    "eigvals": lambda a: len(np.linalg.eigvals(a[:, :2] * [[0, 1], [1, 0]]).dtype.name),
    "real_if_close": lambda a: len(np.real_if_close(a[0] + 1j * np.maximum(a[1], 0)).dtype.name),
    "lstsq": lambda a: 1 + np.linalg.lstsq(np.maximum(a.T, 0), np.ones(3), rcond=None)[1].size,
    "allclose": lambda a: 2 if np.allclose(a[0], abs(a[0])) else 3,
    "array_equal": lambda a: 2 if np.array_equal(np.sign(a[0]), np.sign(a[1])) else 3,
    "bincount": lambda a: np.bincount((a[0] > 0).astype(int)).size,
    "histogram": lambda a: np.histogram(a, bins=3)[0][0] + 1,
    "trim_zeros": lambda a: np.trim_zeros(np.round(a[0])).size + 1,
    "setdiff1d": lambda a: np.setdiff1d(np.round(a[0]), np.round(a[1])).size + 1,
    "intersect1d": lambda a: np.intersect1d(np.round(a[0]), np.round(a[1])).size + 1,
    "repeat": lambda a: np.repeat(a[0], (a[1] > 0).astype(int)).sum(),
    "split": lambda a: np.split(a[0], np.array([int(a[0].argmax())]))[0].size + 1,
    "delete": lambda a: np.delete(a[0], a[0].argmax()).sum(),
    "compress": lambda a: np.compress(a[0] > 0, a[1]).sum(),
    "compress as a method": lambda a: a[1].compress(a[0] > 0).sum(),
    "where of a list": lambda a: len(np.where([a[0] > 0, a[1] > 0])[0]) + 1,
    "polydiv": lambda a: len(np.polydiv(np.round(a[0]), [1.0, 1.0])[1]),
}


def place(a):
    """A whole number that the call computes."""
    return a[0].argmax()


def axis(a):
    return (a[0, 0] > 0) + 0


def trimmed(a):
    v = np.maximum(a[0], 0) * 1
    r = np.trim_zeros(v)
    r += 5
    return v


def trimmed_before(a):
    v = np.maximum(a[0], 0) * 1
    r = np.trim_zeros(v)
    v += 5
    return r


def itself(a):
    v = np.outer(a[0], np.arange(3.0))
    r = np.linalg.matrix_power(v, place(a))
    v += 9
    return r


def turned(a):
    v = np.outer(a[0], np.arange(3.0))
    np.transpose(v, np.argsort(a[0][:2]))[0] += 9
    return v


#: Numbers and arrays of the call that decide about the form of what a function keeps otherwise, or
#: about where a view lies.
DECIDED = {
    "counts by name": lambda a: np.repeat(a[0], repeats=(a[1] > 0) + 0),
    "parts by name": lambda a: np.split(a[0], indices_or_sections=np.cumsum(a[0] > 0))[0],
    "the place of a view": trimmed,
    "the place of a view, written before": trimmed_before,
    "the axes of a view": turned,
    "what may be the array itself": itself,
    "sum": lambda a: np.sum(a, axis(a)),
    "sum as a method": lambda a: a.sum(axis(a)),
    "sum as a method, by name": lambda a: a.sum(axis=axis(a)),
    "sum of a constant": lambda a: np.ones((2, 3)).sum(axis(a)),
    "take": lambda a: np.take(a, [0, 1], axis(a)),
    "concatenate": lambda a: np.concatenate([a, a], axis(a)),
    "stack": lambda a: np.stack([a, a], axis(a)),
    "append": lambda a: np.append(a, a, axis(a)),
    "expand_dims": lambda a: np.expand_dims(a, place(a)),
    "swapaxes": lambda a: np.swapaxes(a, 0, axis(a)),
    "rot90": lambda a: np.rot90(a, place(a)),
    "transpose as a method": lambda a: a.transpose(np.argsort(a[:, 0])),
    "diagonal": lambda a: np.diagonal(np.outer(a[0], a[0]), place(a)),
    "diagonal as a method": lambda a: np.outer(a[0], a[0]).diagonal(place(a)),
    "diff": lambda a: np.diff(a[0], place(a)),
    "polyder": lambda a: np.polyder(a[0], place(a)),
    "tensordot": lambda a: np.tensordot(a, a, axes=([axis(a)], [axis(a)])),
    "linspace": lambda a: np.linspace(a[0, 0], 1, num=place(a) + 1),
    "fft": lambda a: abs(np.fft.fft(a[0], place(a) + 1)),
    "fft2": lambda a: abs(np.fft.fft2(a, s=(place(a) + 1, 2))),
    "fftshift": lambda a: np.fft.fftshift(a, axes=axis(a)),
    "full": lambda a: np.full(place(a) + 1, a[0, 0]),
    "full_like": lambda a: np.full_like(a, a[0, 0], shape=(place(a) + 1,)),
    "zeros_like of several": lambda a: np.zeros_like(a, shape=(a[1, :2] > 0) + 1),
    "a mask without dimensions": lambda a: a[a[0, 0] > 0],
    "zeros_like": lambda a: np.zeros_like(a, shape=place(a) + 1),
    "tile": lambda a: np.tile(a[0], (a[1] > 0) + 1),
    "pad": lambda a: np.pad(a[0], (a[1, :2] > 0) + 0),
    "resize": lambda a: np.resize(a[0], (a[1, :2] > 0) + 1),
    "broadcast_to": lambda a: np.broadcast_to(a[0, 0], (a[1, :2] > 0) + 1),
}
#: Whole numbers that are data.
TAKING = {
    "by how much it is rolled": lambda a: np.roll(a, place(a)),
    "chosen": lambda a: np.where(a > 0, place(a), a),
    "a bound": lambda a: np.clip(a, 0, place(a)),
    "an element": lambda a: np.take(a[0], place(a)),
}


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).uniform(-1.5, 1.5, (2, 3)).astype("f"))


@pytest.mark.parametrize("name", FORMS)
def test_which_shapes_and_dtypes_there_are(name):
    def function(x):
        found = FORMS[name](x.array)
        return F.tanh(x) * 2, np.multiply(found, x.array)

    static = sdbr.static_graph(function, on_dynamic="raise")
    with chainer.using_config("sdbr_audit", "off"), np.errstate(all="ignore"):
        for i in range(CALLS):
            (y, z), (want, other) = static(batch(i)), function(batch(i))
            assert_near(y.array, want.array, RESULTS, f"call {i}")
            assert (z.dtype, z.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(z, other, RESULTS, RESULTS)
    statistics = static.schedule_manager.statistics
    assert statistics.replays + statistics.traces == CALLS and statistics.replays >= CALLS // 2


@pytest.mark.parametrize("name", [*DECIDED, *TAKING])
def test_numbers_that_decide_about_shapes(name):
    look = {**DECIDED, **TAKING}[name]
    static = sdbr.static_graph(lambda x: (F.tanh(x), look(x.array)), on_dynamic="raise")
    with chainer.using_config("sdbr_audit", "off"):
        for i in range(CALLS):
            want, got = look(batch(i).array), static(batch(i))[1]
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, RESULTS, RESULTS)
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= CALLS // 2
    if name in TAKING:
        assert statistics.traces == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda a: len(a[0][[x > 0 for x in a[0]]]),
        lambda a: a[0].compress([True, False, True], out=np.zeros(2, "f")),
    ],
    ids=["a list of truths", "out"],
)
def test_forms_that_nobody_asks_for(look):
    static = sdbr.static_graph(lambda x: (x * 2, look(x.array)), on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(6):
            np.testing.assert_allclose(static(batch(i))[1], look(batch(i).array), RESULTS)
    assert static.schedule_manager.statistics.replays == 0


def rooted(row):
    if row.sum() < 0:
        raise ValueError
    return np.sqrt(row.sum())


#: What raises for some values.
RAISING = {
    "apply_along_axis": lambda a: np.apply_along_axis(rooted, 0, a).sum(),
    "eigvals": lambda a: np.linalg.eigvals(np.diag(np.where(a[0] > 1, np.inf, a[0]))).sum().real,
    "bincount": lambda a: np.bincount(np.round(a[0]).astype(int)).size,
    "histogram": lambda a: np.histogram(np.where(a[0] > 1, np.nan, a[0]), 3)[0].sum(),
    "repeat": lambda a: np.repeat(a[0], np.round(a[1]).astype(int)).sum(),
    "average": lambda a: np.average(a[0], weights=a[0] > 0.2),
    "digitize": lambda a: np.digitize(a[0], a[1]).sum(),
    "power": lambda a: np.power(2, np.round(a[0] + 0.9).astype(int)).sum(),
    "compress": lambda a: np.compress(a[0] > 0, a[0], out=np.zeros(2, "f")).sum(),
}


@pytest.mark.parametrize("name", RAISING)
def test_errors_of_values_that_are_caught(name):
    def function(x):
        try:
            return x * RAISING[name](x.array)
        except (ValueError, ZeroDivisionError):
            return x * 7

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(CALLS):
            assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")


class Selecting(chainer.Chain):
    """A loss of what a mask chooses."""

    def __init__(self, loss):
        super().__init__()
        self.mask, self.columns = np.ones(6, bool), np.array([True, False, True, False])
        self.loss = loss
        with self.init_scope():
            self.l = L.Linear(3, 4)

    def forward(self, x, t):
        return self.loss(self, self.l(x), t)


def hardest(model, h, t):
    losses = F.softmax_cross_entropy(h, t, reduce="no")
    return F.mean(losses[losses.array > np.median(losses.array)])


SELECTIONS = {
    "rows by an argument": lambda m, h, t: F.sum(h[t > 1] ** 2),
    "elements by their values": lambda m, h, t: F.sum(h[h.array > 0]),
    "by name": lambda m, h, t: F.sum(F.get_item(h, (h.array > 0,))),
    "beside a slice": lambda m, h, t: F.sum(h[t > 1, 1:3] ** 2),
    "columns": lambda m, h, t: F.sum(h[:, h.array[0] > 0] ** 2),
    "an array outside": lambda m, h, t: F.sum(h[m.mask] ** 2),
    "a constant one": lambda m, h, t: F.sum(h[:, m.columns] ** 2),
    "labels as well": lambda m, h, t: F.softmax_cross_entropy(h[t != 2], t[t != 2]),
    "before dropout": lambda m, h, t: F.sum(F.dropout(h[t > 0]) ** 2),
    "the hardest": hardest,
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_variables_selected_by_masks(name):
    """Gradients go back to what was chosen."""
    both = []
    for decorate in (False, True):
        np.random.seed(0)
        model, optimizer = Selecting(SELECTIONS[name]), chainer.optimizers.SGD(0.05)
        if decorate:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        both.append(optimizer.setup(model))
    for i in range(CALLS):
        rng = np.random.RandomState(i)
        x, t = rng.randn(6, 3).astype("f"), rng.randint(0, 4, 6).astype("i")
        t[:2] = 1, 3
        for optimizer in both:
            optimizer.target.mask[1:] = np.random.RandomState(i // 5).rand(5) > 0.5
            np.random.seed(i)
            optimizer.update(optimizer.target, x, t)
        assert_near(both[1].target.l.W.array, both[0].target.l.W.array, RESULTS, f"call {i}")
    statistics = both[1].target.schedule_manager.statistics
    assert statistics.steps >= CALLS // 2 and not statistics.define_by_run_calls


FORGOTTEN = {
    "a mask": lambda y: y[y.array[:, 0] > 0] * 2,
    "a function of NumPy": lambda y: y[: np.unique(y.array.astype("i")[:, 0]).size] * 2,
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_shapes_inside_of_forget(name):
    """Its function runs twice in define-by-run; what it gives may have another shape each time."""

    def function(x):
        h = x * 1
        h = h[h.array[:, 1] > -1]
        return F.sum(F.forget(FORGOTTEN[name], h)) + F.sum(h)

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(8):
            found = []
            for call in (function, static):
                x = batch(i)
                y = call(x)
                y.backward()
                found += [y.array, x.grad]
            assert_near(found[2], found[0], RESULTS, f"call {i}")
            assert_near(found[3], found[1], RESULTS, f"gradient {i}")


@pytest.mark.parametrize("loss", [F.mean_squared_error, F.mean_absolute_error])
def test_losses_of_nothing(loss):
    """The backward divides by how many there are."""

    def function(x):
        chosen = x.array[:, 0] > 0
        return loss(x[chosen], x.array[chosen] * 2)

    static = sdbr.static_graph(function, on_dynamic="raise")
    raised = 0
    for i in range(CALLS):
        nothing = not (batch(i).array[:, 0] > 0).any()
        raised += nothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if nothing:
                for call in (function, static):
                    with pytest.raises(ZeroDivisionError):
                        call(batch(i)).backward()
                continue
            found = []
            for call in (function, static):
                x = batch(i)
                call(x).backward()
                found.append(x.grad)
        assert_near(found[1], found[0], RESULTS, f"gradient {i}")
    assert raised >= 3 and static.schedule_manager.statistics.replays >= CALLS // 2


NUMBERS = {
    "of NaN": lambda a: int(np.sqrt(a[0, 0])),
    "of a draw": lambda a: np.random.binomial(3, np.clip(a[:1, 0], -9, 1)).sum() * 0,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_errors_of_the_first_call_that_are_caught(name):
    """They say nothing about the calls that come."""

    def function(x):
        try:
            k = NUMBERS[name](x.array)
        except ValueError:
            return x * 3
        return x * 2 + k

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in sorted(range(12), key=lambda i: batch(i).array[0, 0]):
            np.random.seed(i)
            want = function(batch(i)).array
            np.random.seed(i)
            assert_near(static(batch(i)).array, want, RESULTS, f"call {i}")


class Weighted(chainer.Chain):
    """Classes by how often they come up in the batch."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)

    def forward(self, x, t):
        weights = np.bincount(t, minlength=4).astype("f") + 1
        return F.softmax_cross_entropy(self.l(x), t, class_weight=weights) * len(np.unique(t))


def test_whole_steps():
    found = []
    for decorate in (False, True):
        np.random.seed(0)
        model, optimizer = Weighted(), chainer.optimizers.Adam()
        if decorate:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for i in range(30):
            rng = np.random.RandomState(i)
            x, t = rng.randn(6, 3).astype("f"), rng.randint(0, 4, 6).astype("i")
            optimizer.update(model, x, t)
        found.append(model.l.W.array)
    assert_near(found[1], found[0], RESULTS, "W")
    statistics = model.schedule_manager.statistics
    assert statistics.steps == statistics.replays == 30 - statistics.traces > 20


class Positive(chainer.FunctionNode):
    """A node of a user's own; `count`: how often it has run."""

    count = 0

    def forward(self, inputs):
        Positive.count += 1
        self.chosen = inputs[0] > 0
        return (inputs[0][self.chosen],)

    def backward(self, indexes, grads):
        gx = np.zeros(self.chosen.shape, "f")
        gx[self.chosen] = grads[0].array
        return (chainer.Variable(gx),)


class Rectified(chainer.Chain):
    """Draws, running averages and a counter before such a node, which happen once."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        with self.init_scope():
            self.l, self.bn = L.Linear(3, 4), L.BatchNormalization(4)

    def forward(self, x):
        self.calls += 1
        h = F.dropout(self.bn(self.l(x)), 0.3)
        return 0.1 * F.sum(Positive().apply((h,))[0] ** 2)


@pytest.mark.parametrize("whole", [False, True])
def test_nodes_of_ones_own_end_the_call_define_by_run(whole):
    found = []
    for decorate in (False, True):
        np.random.seed(0)
        Positive.count = 0
        model, optimizer = Rectified(), chainer.optimizers.SGD(0.01)
        if decorate:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", sdbr.SdbrWarning)
            for i in range(9):
                x = np.random.RandomState(i // 3).randn(6, 3).astype("f")
                np.random.seed(i // 3)  # three times the same
                if whole:
                    optimizer.update(model, x)
                else:
                    loss = model(x)
                    model.cleargrads()
                    loss.backward()
                    optimizer.update()
        state = [model.l.W.array, model.bn.avg_mean, np.random.rand(2)]
        found.append([*state, np.array([model.calls, Positive.count])])
    for one, other in zip(*found, strict=True):
        assert_near(other, one, RESULTS, "state")
    assert "its shape depends on values; such calls are ended" in str(caught[0].message)
    assert model.schedule_manager.statistics.replays >= 2


def test_functions_that_call_code_of_the_users_run_once():
    """That code may count how often it runs."""
    count = []

    def twice(v):
        count.append(1)
        return v * 2

    def function(x):
        return x * np.piecewise(x.array, [x.array > 0], [twice, 3.0]).sum()

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(4):
            assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    assert len(count) == 8


def test_functions_that_do_more_than_compute():
    """What gives no arrays makes the call dynamic, and has run once in it."""
    static = sdbr.static_graph(lambda x, to: np.save(to, x.array) or x * 2, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(4):
            to, alone = io.BytesIO(), io.BytesIO()
            static(batch(i), to)
            np.save(alone, batch(i).array)
            assert to.getvalue() == alone.getvalue()
