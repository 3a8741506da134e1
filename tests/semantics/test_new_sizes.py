"""Calls that differ in a size alone: built of two traces where that is sound, else traced."""

from __future__ import annotations

import functools
import operator
import threading

import sdbr
from sdbr.schedule import sizes as rules

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import GRADIENTS, RESULTS

pytestmark = pytest.mark.filterwarnings("ignore:::sdbr")

#: Traced, traced, and then others: smaller, larger, odd.
SIZES = (16, 20, 11, 30, 14)
TABLE = np.linspace(-1, 1, 400).astype("f").reshape(100, 4)


class Net(chainer.Chain):
    """Two layers, and a forward that is given."""

    def __init__(self, forward, **attributes):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 4)
            self.l2 = L.Linear(4, 3)
        self.way = 1.0
        for name, thing in attributes.items():
            setattr(self, name, thing)
        self.body = forward

    def forward(self, *args):
        """What was given."""
        return self.body(self, *args)


def inputs(n, seed=0):
    """A batch of this size."""
    return np.random.RandomState(seed + n).uniform(-1, 1, (n, 4)).astype("f")


def labelled(n, seed=0):
    """A batch and its labels."""
    rng = np.random.RandomState(seed + n)
    return rng.uniform(-1, 1, (n, 4)).astype("f"), rng.randint(0, 3, n).astype("i")


def images(n, seed=0):
    """Small images."""
    return np.random.RandomState(seed + n).uniform(-1, 1, (n, 2, 7, 7)).astype("f")


def twins(make):
    """Two of the same: plain, and static."""
    np.random.seed(3)
    plain = make()
    np.random.seed(3)
    return plain, sdbr.static_graph(make())


def run(net, args):
    """Result and gradients, or the error, of one call and its backward."""
    np.random.seed(5)
    net.cleargrads()
    try:
        y = net(*args)
    except Exception as error:
        return type(error)
    total = F.sum(y)
    if total.requires_grad:
        total.backward()
    grads = [None if p.grad is None else p.grad.copy() for p in net.params()]
    return y.array.copy(), *grads


def check(plain, static, args, note=""):
    """A call of both, compared."""
    want, got = run(plain, args), run(static, args)
    assert isinstance(want, type) == isinstance(got, type), (note, want, got)
    if isinstance(want, type):
        return
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        assert (a is None) == (b is None), note
        if a is not None:
            tolerance = GRADIENTS if i else RESULTS
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=str(note))


def sweep(make, batch=inputs, sizes=SIZES):
    """Calls of these sizes, each twice; how many were traced and built."""
    plain, static = twins(make)
    for n in sizes:
        for seed in (0, 1000):
            given = batch(n, seed)
            check(plain, static, given if isinstance(given, tuple) else (given,), (n, seed))
    for a, b in zip(plain.links(), static.links(), strict=True):
        for name in a._persistent:
            want, got = getattr(a, name), getattr(b, name)
            np.testing.assert_allclose(got, want, rtol=RESULTS, atol=RESULTS, err_msg=name)
    statistics = static.schedule_manager.statistics
    return statistics.traces, statistics.builds


# --- what is built -------------------------------------------------------------------------------
def mlp(self, x, t):
    """A loss."""
    return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)


def reported(self, x, t):
    """A loss, a report and an attribute."""
    y = self.l2(F.tanh(self.l1(x)))
    self.loss = F.softmax_cross_entropy(y, t)
    chainer.report({"loss": self.loss, "accuracy": F.accuracy(y, t)}, self)
    return self.loss


def helper(net, h):
    """Another function of the user's."""
    for layer in (net.l1, net.l1):
        h = F.sigmoid(layer(h))
    return h


class ConvNet(chainer.Chain):
    """Two convolutions."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.c1 = L.Convolution2D(2, 5, 3, pad=1)
            self.bn = L.BatchNormalization(5)
            self.c2 = L.Convolution2D(5, 6, 3, stride=2)
            self.l = L.Linear(6, 3)

    def forward(self, x):
        """As many have it."""
        h = F.max_pooling_2d(F.relu(self.bn(self.c1(x))), 2)
        h = F.average_pooling_2d(F.relu(self.c2(h)), 1)
        return self.l(F.dropout(F.reshape(h, (-1, 6)), 0.25))


class Words(chainer.Chain):
    """Words of a padded sentence, averaged."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(50, 6)
            self.l = L.Linear(6, 3)

    def forward(self, x):
        """A row for each sentence."""
        return self.l(F.mean(F.tanh(self.embed(x)), axis=1))


BUILT = {
    "mlp": (lambda: Net(mlp), labelled),
    "report": (lambda: Net(reported), labelled),
    "classifier": (lambda: L.Classifier(L.Linear(4, 3)), labelled),
    "sequential": (
        lambda: chainer.Sequential(L.Linear(4, 3), F.relu, L.Linear(3, 2), F.tanh), inputs,
    ),
    "conv": (ConvNet, images),
    "helper": (lambda: Net(lambda self, x: helper(self, x)), inputs),
    "reshape": (lambda: Net(lambda self, x: F.reshape(self.l1(x), (-1, 2)) * 3), inputs),
    "mean": (lambda: Net(lambda self, x: F.mean(self.l1(x) * x)), inputs),
    "sum": (lambda: Net(lambda self, x: F.sum(self.l1(x), axis=0) / 7), inputs),
    "dropout": (lambda: Net(lambda self, x: F.dropout(self.l1(x), 0.4)), inputs),
    "floats": (lambda: Net(lambda self, x: self.l1(x) * self.way), inputs),
    "squared error": (
        lambda: Net(lambda self, x: F.mean_squared_error(self.l1(x), x)), inputs,
    ),
    "transposed": (
        lambda: Net(lambda self, x: F.matmul(self.l1(x), x, transa=True)), inputs,
    ),
    "products": (
        lambda: Net(lambda self, x: F.matmul(self.l1(x), x, transb=True)), inputs,
    ),
    "concat": (lambda: Net(lambda self, x: F.concat((self.l1(x), x), axis=0)), inputs),
    "mean of columns": (lambda: Net(lambda self, x: F.mean(self.l1(x), axis=0)), inputs),
    "words": (Words, lambda n, seed: np.random.RandomState(seed + n).randint(0, 50, (n, 7), "i")),
    "lengths": (Words, lambda n, seed: np.random.RandomState(seed + n).randint(0, 50, (5, n), "i")),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_a_third_size_is_built_of_two_traces(name):
    assert sweep(*BUILT[name]) == (2, len(SIZES) - 2)


# --- what is not, and has to be right ------------------------------------------------------------
class Sized(chainer.FunctionNode):
    """A function of the user's that scales by the batch size."""

    def forward(self, inputs):
        return (inputs[0] * (2 if len(inputs[0]) > 17 else 3),)

    def backward(self, indexes, grads):
        return (grads[0] * (2 if grads[0].shape[0] > 17 else 3),)


class Holder:
    """A plain object."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def big(self, x):
        """Whether a batch is large."""
        return len(x) > 17


class Limited(L.Linear):
    """A layer that looks at its batch."""

    def forward(self, x, n_batch_axes=1):
        """Twice as much for large batches."""
        y = super().forward(x, n_batch_axes)
        return y * 2 if len(x) > 17 else y


def by_iteration(self, x):
    """Rows one by one."""
    h = self.l1(x)
    for _ in x[:12]:
        h = h * 2
    return h


def by_rows(self, x):
    """Rows that are added."""
    h = 0
    for row in F.separate(self.l1(x), axis=0):
        h = h + row
    return h


def by_unpacking(self, x):
    """How many are left."""
    _first, *rest = x
    h = self.l1(x)
    for _ in rest:
        h = h * 1.1
    return h


def by_error(self, x):
    """Sizes that cannot be reshaped."""
    try:
        return F.reshape(self.l1(x), (16, -1))
    except Exception:
        return self.l1(x)


def by_index(self, x):
    """The first row that is not there."""
    try:
        return self.l1(x) * x[15, 0]
    except IndexError:
        return self.l1(x)


def by_pattern(self, x):
    """Python's matching."""
    match x:
        case [*rows] if len(rows) > 17:
            return self.l1(x)
    return self.l1(x) * 2


def by_counting(self, x):
    """A zip that ends with the shorter."""
    h = self.l1(x)
    for _ in zip(range(12), x):  # noqa: B905
        h = h * 1.1
    return h


def by_default(self, x, size=len):
    """The function is a default."""
    return self.l1(x) * size(x)


def by_import(self, x):
    """The module is imported here."""
    import numpy

    return self.l1(x) * float(numpy.shape(x)[0])


def by_eval(self, x):
    """Code that nobody can read."""
    return self.l1(x) * eval("len(x)")


def by_closure():
    """The function is in a closure."""
    size = operator.length_hint

    def forward(self, x):
        return self.l1(x) * (2 if size(x) > 17 else 1)

    return forward


def by_wrapper():
    """It is wrapped."""

    def wrapped(function):
        @functools.wraps(function)
        def inner(self, x):
            return function(self, x) * (2 if len(x) > 17 else 1)

        return inner

    return wrapped(lambda self, x: self.l1(x))


def by_generator(self, x):
    """A generator counts."""
    return self.l1(x) * sum(1 for _ in x)


def big(x):
    """Another function of the user's."""
    return x.shape[0] > 17


class Behind(Net):
    """What asks is behind members of its class."""

    rows = staticmethod(len)
    count = property(lambda self: operator.length_hint)
    hint = property(operator.attrgetter("__len__"))


class Lossy(L.Classifier):
    """Chainer calls a method of the user's."""

    def __init__(self):
        super().__init__(L.Linear(4, 3))
        del self.lossfun

    def lossfun(self, y, t):
        """Twice as much for large batches."""
        return F.softmax_cross_entropy(y, t) * (2 if len(y) > 17 else 1)


class Odd(chainer.Variable):
    """A Variable of the user's."""

    def __mul__(self, other):
        return chainer.Variable.__mul__(self, other * (2 if len(self) > 17 else 1))


TRACED = {
    "len": lambda self, x: self.l1(x) * (2 if len(x) > 17 else 1),
    "one over len": lambda self, x: self.l1(x) / len(x),
    "shape": lambda self, x: self.l1(x) * (2 if x.shape[0] > 17 else 1),
    "size": lambda self, x: self.l1(x) * (2 if x.size > 70 else 1),
    "nbytes": lambda self, x: self.l1(x) * (2 if x.nbytes > 300 else 1),
    "strides": lambda self, x: self.l1(x) * (2 if x.T.strides[1] > 17 else 1),
    "of a result": lambda self, x: self.l1(x) * (2 if self.l1(x).shape[0] > 17 else 1),
    "its array": lambda self, x: self.l1(x) * (2 if self.l1(x).array.size > 70 else 1),
    "arange": lambda self, x: self.l1(x) + np.arange(len(x), dtype="f")[:, None],
    "ones_like": lambda self, x: self.l1(x) * (2 if np.ones_like(x).sum() > 70 else 1),
    "sum of ones": lambda self, x: self.l1(x) * (2 if F.sum(self.l1(x) * 0 + 1).array > 70 else 1),
    "np.shape": lambda self, x: self.l1(x) * np.shape(x)[0],
    "np.size": lambda self, x: self.l1(x) * (2 if np.size(x) > 70 else 1),
    "self.xp": lambda self, x: self.l1(x) * (2 if self.xp.size(x) > 70 else 1),
    "utils": lambda self, x: self.l1(x) * chainer.utils.size_of_shape(x.shape),
    "dunder": lambda self, x: self.l1(x) * (2 if x.__len__() > 17 else 1),
    "getattr": lambda self, x: self.l1(x) * getattr(x, "sha" + "pe")[0],
    "attrgetter": lambda self, x: self.l1(x) * operator.attrgetter("shape")(x)[0],
    "format": lambda self, x: self.l1(x) * (2 if "(16," in f"{x.shape}" else 1),
    "memoryview": lambda self, x: self.l1(x) * (2 if memoryview(x).nbytes > 300 else 1),
    "global array": lambda self, x: self.l1(x) + TABLE[: len(x)],
    "another function": lambda self, x: self.l1(x) * (2 if big(x) else 1),
    "enumerate": lambda self, x: self.l1(x) * max(i for i, _ in enumerate(x)),
    "list": lambda self, x: F.stack([self.l1(r[None]) for r in list(x)]),
    "map": lambda self, x: self.l1(x) * next(map(len, [x])),
    "slice": lambda self, x: F.sum(self.l1(x)[:12]),
    "last rows": lambda self, x: self.l1(x)[-12:],
    "index": lambda self, x: self.l1(x)[10],
    "index array": lambda self, x: F.get_item(self.l1(x), np.array([1, 10])),
    "halves": lambda self, x: F.split_axis(self.l1(x), 2, axis=0)[0],
    "node": lambda self, x: Sized().apply((self.l1(x),))[0],
    "weights": lambda self, x: F.average(self.l1(x), axis=0, weights=F.sum(x, axis=1)),
    "number of rows": lambda self, x: F.reshape(self.l1(x), (len(x), 2, 2)),
    "draws": lambda self, x: self.l1(x) + np.random.rand(*x.shape).astype("f"),
    "iteration": by_iteration, "rows": by_rows, "unpacking": by_unpacking, "error": by_error,
    "index error": by_index, "pattern": by_pattern, "zip": by_counting, "default": by_default,
    "import": by_import, "eval": by_eval, "closure": by_closure(), "wrapper": by_wrapper(),
    "generator": by_generator,
    "partial": lambda self, x: self.l1(x) * functools.partial(len, x)(),
    "isinstance alone": lambda self, x: self.l1(x) * (2 if isinstance(x[9:10], str) else 1),
    "spread": lambda self, x: self.l1(x) * (2 if (lambda *rows: rows)(*x)[9:][0][0] > 2 else 1),
    "dtype": lambda self, x: self.l1(x) * (x.nbytes // x.dtype.itemsize),
    "in place of": lambda self, x: F.broadcast_to(F.sum(self.l1(x)), (3, 3)) * x.ndim,
}  # fmt: skip
HELD = {
    "len as attribute": (lambda self, x: self.l1(x) * (2 if self.f(x) > 17 else 1), {"f": len}),
    "module": (lambda self, x: self.l1(x) * self.f.alen(x), {"f": np}),
    "np.size as attribute": (lambda self, x: self.l1(x) * self.f(x), {"f": np.size}),
    "descriptor": (
        lambda self, x: self.l1(x) * self.f.__get__(x)[0], {"f": np.ndarray.shape},
    ),
    "module of an object": (
        lambda self, x: self.l1(x) * self.f.numpy.size(x), {"f": Holder(numpy=np)},
    ),
    "in a list": (lambda self, x: self.l1(x) * self.f[0](x), {"f": [len]}),
    "in a dict": (lambda self, x: self.l1(x) * self.f["m"].shape(x)[0], {"f": {"m": np}}),
    "object": (lambda self, x: self.l1(x) * (2 if self.f.big(x) else 1), {"f": Holder()}),
    "method": (lambda self, x: self.l1(x) * (2 if self.f(x) else 1), {"f": Holder().big}),
    "lambda": (
        lambda self, x: self.l1(x) * (2 if self.f(x) else 1), {"f": lambda x: x.shape[0] > 17},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*TRACED, *HELD])
def test_what_asks_for_a_size_is_never_built(name):
    forward, attributes = HELD.get(name) or (TRACED[name], {})
    _, builds = sweep(lambda: Net(forward, **attributes))
    assert builds == 0


def test_a_layer_of_the_users_that_asks():
    def make():
        net = Net(lambda self, x: self.limited(x))
        with net.init_scope():
            net.limited = Limited(4, 4)
        return net

    assert sweep(make)[1] == 0


# --- sizes that are special ----------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_size_that_broadcasts_or_coincides_is_traced(n):
    """One row, none, and as many as there are features."""
    plain, static = twins(lambda: Net(lambda self, x: self.l2(F.relu(self.l1(x))) + 1))
    for size in (16, 20, 30):
        check(plain, static, (inputs(size),))
    assert static.schedule_manager.statistics.builds == 1
    check(plain, static, (inputs(n),))
    check(plain, static, (inputs(n, 7),))
    assert static.schedule_manager.statistics.builds == 1
    assert static.schedule_manager.statistics.traces == 3


def test_one_row_is_no_sample():
    traced = sweep(lambda: Net(lambda self, x: self.l1(x) + x), sizes=(1, 16, 20, 30))
    assert traced == (3, 1)


def test_two_sizes_at_once_are_traced():
    """Of images whose number and height change together nothing is known."""

    def given(n, seed):
        return np.random.RandomState(seed).uniform(-1, 1, (n, 2, n + 1, 7)).astype("f")

    make = lambda: Net(lambda self, x: F.sum(F.relu(x), axis=(1, 2)))  # noqa: E731
    assert sweep(make, given) == (len(SIZES), 0)


def test_sizes_that_pooling_rounds_are_traced():
    def given(n, seed):
        return np.random.RandomState(seed).uniform(-1, 1, (2, 3, n, 5)).astype("f")

    make = lambda: Net(lambda self, x: F.max_pooling_2d(x, 2))  # noqa: E731
    assert sweep(make, given) == (len(SIZES), 0)


def test_a_row_of_two_batches_with_two_sizes():
    """The second batch has a size of its own: one of both changes at a time."""
    plain, static = twins(lambda: Net(lambda self, x, y: F.sum(self.l1(x)) * F.sum(self.l1(y))))
    for a, b in ((16, 20), (16, 30), (16, 40), (22, 40), (22, 50)):
        check(plain, static, (inputs(a), inputs(b)))
        check(plain, static, (inputs(a, 9), inputs(b, 9)))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (4, 1)


@pytest.mark.parametrize("ignored", [0, 5])
def test_labels_that_count(ignored):
    """What a loss divides by is how many labels there are, whatever they were in the traces."""

    def given(n, seed):
        x, t = labelled(n, seed)
        t[: ignored + seed // 1000] = -1
        return x, t

    assert sweep(lambda: Net(mlp), given) == (2, len(SIZES) - 2)


def test_state_that_has_a_size_is_traced():
    """A recurrent network keeps a state as large as its batch."""

    class Recurrent(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 4)
            self.h = None

        def forward(self, x):
            y = self.l(x) if self.h is None else self.l(x) + F.tanh(self.h)
            self.h = y
            return y

    plain, static = twins(Recurrent)
    for n in SIZES:
        plain.h = static.h = None
        for seed in range(3):
            check(plain, static, (inputs(n, seed),), (n, seed))


def test_a_progress_bar_has_a_thread_of_its_own():
    """What draws there is no matter to code that draws from nothing."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert sweep(lambda: Net(mlp), labelled) == (2, len(SIZES) - 2)
    finally:
        over.set()
        thread.join()


def test_an_attribute_that_is_another_one():
    """Both traces have to fit as things are now."""
    plain, static = twins(lambda: Net(lambda self, x: self.l1(x) * self.n, n=2))
    check(plain, static, (inputs(16),))
    plain.n = static.n = 3
    check(plain, static, (inputs(20),))
    check(plain, static, (inputs(30),))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (3, 0)
    check(plain, static, (inputs(11),))
    assert (statistics.traces, statistics.builds) == (3, 1)
    plain.n = static.n = 4  # what was built has the guards of what was traced
    check(plain, static, (inputs(11),))
    assert (statistics.traces, statistics.builds) == (4, 1)


def test_modes_have_traces_of_their_own():
    plain, static = twins(lambda: Net(lambda self, x: F.dropout(self.l1(x), 0.5)))
    for n in (16, 20, 30):
        for train in (True, False):
            with chainer.using_config("train", train):
                check(plain, static, (inputs(n),))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (4, 2)


# --- how it is served ----------------------------------------------------------------------------
def test_only_the_first_is_compared_with_define_by_run():
    _, static = twins(lambda: Net(mlp))
    audits = static.schedule_manager.audits
    for n, passed in ((16, 0), (20, 0), (11, 1), (30, 1), (14, 1)):
        static(*labelled(n))
        assert audits.passed == passed, n
    assert static.schedule_manager.statistics.define_by_run_calls == 0


def test_one_that_is_wrong_is_never_used(monkeypatch):
    """What differs from define-by-run is said, and nothing more is built of these traces."""
    plain, static = twins(lambda: Net(lambda self, x: self.l1(x) * 2))
    original = rules.sized_schedule

    def spoiled(*args):
        schedule = original(*args)
        for node in schedule.trace.nodes:
            if hasattr(node.function, "value"):
                node.function.value = node.template.value = 5.0
        return schedule

    monkeypatch.setattr("sdbr.schedule.families.sized_schedule", spoiled)
    for n in (16, 20):
        check(plain, static, (inputs(n),))
    with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run"):
        check(plain, static, (inputs(30),))
    for n in (30, 11, 14):
        check(plain, static, (inputs(n),))
    statistics = static.schedule_manager.statistics
    assert statistics.builds == 1 and static.schedule_manager.audits.failed == 1
    assert statistics.replays == 1  # the one that was compared


def test_whole_steps():
    """They are built as one program."""
    models = twins(lambda: Net(mlp))
    rules_ = chainer.optimizers.Adam, sdbr.static_optimizer
    optimizers = [rules_[0]().setup(models[0]), rules_[1](rules_[0]()).setup(models[1])]
    for n in SIZES:
        for seed in (0, 1):
            for optimizer, model in zip(optimizers, models, strict=True):
                optimizer.update(model, *labelled(n, seed))
            for p, q in zip(models[0].params(), models[1].params(), strict=True):
                np.testing.assert_allclose(q.array, p.array, rtol=GRADIENTS, atol=GRADIENTS)
    statistics = models[1].schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (2, len(SIZES) - 2)
    assert statistics.steps == 2 * len(SIZES) - 2


def test_explain_tells_builds_from_traces():
    _, static = twins(lambda: Net(mlp))
    for n in SIZES:
        static(*labelled(n))
    report = sdbr.explain(static)
    assert report.to_dict()["managers"][0]["statistics"]["builds"] == len(SIZES) - 2
    assert "built for new sizes 3" in str(report)
    assert "built for this size of what was traced at" in str(report)


BEHIND = {
    "static method": lambda self, x: self.l1(x) * (2 if self.rows(x) > 17 else 1),
    "property": lambda self, x: self.l1(x) * (2 if self.count(x) > 17 else 1),
}


@pytest.mark.parametrize("name", BEHIND)
def test_members_of_classes_that_ask(name):
    assert sweep(lambda: Behind(BEHIND[name]))[1] == 0


def test_methods_that_chainer_calls():
    assert sweep(Lossy, labelled)[1] == 0


def test_variables_of_the_users():
    def given(n, seed):
        return Odd(inputs(n, seed))

    assert sweep(lambda: Net(lambda self, x: self.l1(x * 3)), given)[1] == 0


def test_functions_of_chainer_that_are_the_users_own(monkeypatch):
    original = F.relu
    monkeypatch.setattr(F, "relu", lambda x: original(x) * (2 if len(x) > 17 else 1))
    assert sweep(lambda: Net(lambda self, x: F.relu(self.l1(x))))[1] == 0


def test_functions_in_the_configuration():
    with chainer.using_config("rows", len):
        make = lambda: Net(  # noqa: E731
            lambda self, x: self.l1(x) * (2 if chainer.config.rows(x) > 17 else 1)
        )
        assert sweep(make)[1] == 0
