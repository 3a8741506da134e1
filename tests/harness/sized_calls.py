"""Calls that cannot, and that can, tell one size of their arguments from another."""

from __future__ import annotations

import functools
import operator

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

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


def without_backprop(self, x):
    """A part that wants no gradients."""
    with chainer.no_backprop_mode(), chainer.using_config("train", False):
        h = self.l1(x)
    return self.l2(h)


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
    "without backprop": (lambda: Net(without_backprop), inputs),
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


def by_any_error(self, x):
    """The same, of a Variable, which leaves nothing in the trace."""
    h = self.l1(x)
    try:
        h[15]
    except:  # noqa: E722
        return h * 2
    return h


class Swallows:
    """A context in which errors do not count."""

    def __enter__(self):
        """Begin."""

    def __exit__(self, *error):
        """Whatever it is."""
        return True


def by_context(self, x):
    """An error that leads out of a block."""
    h, factor = self.l1(x), 2.0
    with Swallows():
        h[15]
        factor = 3.0
    return h * factor


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
    "index error": by_index, "any error": by_any_error, "context": by_context,
    "pattern": by_pattern, "zip": by_counting, "default": by_default,
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
