"""Loops around the bodies of the corpus: each turns the body of a forward into a program."""

import functools
import io

import chainer
import chainer.functions as F
import chainer.links as L

#: Rows of each batch; None: the batch before once more.
SIZES = (6, 6, 6, None, 3, 6, 3, 3, 6, 6)
#: The rounds in test mode.
TESTS = (8,)


class Net(chainer.Chain):
    """4 -> 8 -> 3."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)

    def net(self, x):
        return self.l2(F.tanh(self.l1(x)))


class Embedding(chainer.Chain):
    """Words to 6 numbers, to 3."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(10, 6, ignore_label=-1)
            self.out = L.Linear(6, 3)


class Recurrent(chainer.Chain):
    """A stateful LSTM from 4 to 5, and 3 classes."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.lstm = L.LSTM(4, 5)
            self.out = L.Linear(5, 3)


class Normed(chainer.Chain):
    """With batch normalization."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8, nobias=True)  # before normalization its gradient is noise
            self.bn = L.BatchNormalization(8)
            self.l2 = L.Linear(8, 3)


def rows(run, n):
    """A batch of numbers."""
    return (run.array(n, 4),)


def variables(run, n):
    """A batch of numbers in a Variable."""
    return (chainer.Variable(run.array(n, 4)),)


def labelled(run, n):
    """Numbers and labels."""
    return run.array(n, 4), run.labels(n, 3)


def words(run, n):
    """Sentences of 5 words, some ended early with -1."""
    x = run.labels((n, 5), 10)
    for row, length in zip(x, run.labels(n, 5), strict=True):
        row[length + 1 :] = -1
    return (x,)


def sequences(run, n):
    """5 steps of a sequence, batch first."""
    return (run.array(n, 5, 4),)


def images(run, n):
    """Images of one channel."""
    return (run.array(n, 1, 8, 8),)


def held(model):
    """Containers that links hold."""
    return {
        f"{path}/{name}": x
        for path, link in model.namedlinks()
        for name, x in sorted(vars(link).items())
        if isinstance(x, (list, dict, tuple, set)) and not name.startswith("_")
    }


def scope(body):
    """Globals in capitals of the body's module."""
    found = {k: v for k, v in body.__globals__.items() if k.isupper()}
    return {k: v.getvalue() if isinstance(v, io.StringIO) else v for k, v in found.items()}


def batches(run, inputs, sizes=SIZES):
    """The arguments of each round, and whether it trains."""
    args = ()
    for i, n in enumerate(sizes):
        args = args if n is None else inputs(run, n)
        yield i not in TESTS, args


def floating(y):
    """All floating Variables in a result."""
    if isinstance(y, chainer.Variable):
        return [y] if y.dtype.kind == "f" and y.requires_grad else []
    if isinstance(y, dict):
        y = list(y.values())
    return [v for part in y for v in floating(part)] if isinstance(y, (list, tuple)) else []


def build(run, body, net, attributes, whole=False):
    """A model of class `net` with `body` as its forward."""
    cls = type("Model", (net,), {"forward": body if whole else run.static(body)})
    model = cls()
    for name, value in attributes.items():
        setattr(model, name, value() if callable(value) else value)
    return run.static(model) if whole else model


def forward(body=None, *, net=Net, inputs=rows, sizes=SIZES, **attributes):
    """`body` is a static forward; its results are seen, squared and differentiated."""
    if body is None:
        return functools.partial(forward, net=net, inputs=inputs, sizes=sizes, **attributes)

    def program(run):
        model = build(run, body, net, attributes)
        for train, args in batches(run, inputs, sizes):
            with chainer.using_config("train", train):
                y = model(*args)
            run.see("y", y, args)
            model.cleargrads()
            ys = floating(y)
            if ys:
                sum(F.sum(v * v) for v in ys).backward()
            run.see("model", model, held(model), scope(body), args)

    program.__doc__ = body.__doc__
    return program


def loss(body=None, *, net=Net, inputs=labelled, sizes=SIZES, rule="SGD", **attributes):
    """`body` is the loss of a static model; whole steps of a static optimizer, reports seen."""
    if body is None:
        return functools.partial(loss, net=net, inputs=inputs, sizes=sizes, rule=rule, **attributes)

    def program(run):
        model = build(run, body, net, attributes, whole=True)
        optimizer = run.optimizer(getattr(chainer.optimizers, rule)()).setup(model)
        for train, args in batches(run, inputs, sizes):
            with chainer.using_config("train", train):
                run.observe(model, optimizer.update, model, *args)
            run.see("model", model, held(model), scope(body), args)

    program.__doc__ = body.__doc__
    return program


def function(body=None, *, inputs=rows, sizes=SIZES):
    """`body` is a static function of arrays; without parameters."""
    if body is None:
        return functools.partial(function, inputs=inputs, sizes=sizes)

    def program(run):
        call = run.static(body)
        for train, args in batches(run, inputs, sizes):
            with chainer.using_config("train", train):
                run.see("y", call(*args), args, scope(body))

    program.__doc__ = body.__doc__
    return program


def table(module, loop, bodies, **options):
    """Programs of many bodies."""
    for name, body in bodies.items():
        module[f"p_{name}"] = loop(body, **options)
