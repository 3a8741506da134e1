"""Ways to learn: loops of their own, gradients of gradients, functions of one's own, trainers."""

from __future__ import annotations

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L
from chainer.training import extensions

from benchmarks.wild.way import MLP, Program, Way, floats, labels, ring


def maml(way: Way) -> Program:
    """A gradient step inside of the call, and a gradient through it."""
    net = MLP(1, 16, 1)

    def adapted(x, params):
        w1, b1, w2, b2 = params
        return F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)

    def meta_loss(tasks):
        layers = list(net.layers)
        params = [p for layer in layers for p in (layer.W, layer.b)]
        loss = 0
        for x, y, later_x, later_y in tasks:
            inner = F.mean_squared_error(adapted(x, params), y)
            grads = chainer.grad([inner], params, enable_double_backprop=True)
            fast = [p - 0.01 * g for p, g in zip(params, grads, strict=True)]
            loss += F.mean_squared_error(adapted(later_x, fast), later_y)
        return loss / len(tasks)

    meta_loss = way.graph(meta_loss)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), net)
    data = ring(lambda rng: [tuple(floats(rng, 10, 1) for _ in range(4)) for _ in range(2)])
    return Program(lambda i: optimizer.update(meta_loss, data[i % 16]) or (), (net,))


class Experts(chainer.Chain):
    """Each example goes to the expert that the gate likes best."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.gate = L.Linear(16, 3)
            self.experts = chainer.ChainList(*[MLP(16, 16, 4) for _ in range(3)])

    def forward(self, x, t):
        """The loss of a batch, experts that nobody goes to left out."""
        gates = F.softmax(self.gate(x))
        chosen = gates.array.argmax(axis=1)
        ys, places = [], []
        for k, expert in enumerate(self.experts):
            (rows,) = np.nonzero(chosen == k)
            if len(rows) == 0:
                continue
            y = expert(x[rows])
            ys.append(y * F.broadcast_to(gates[rows, k][:, None], y.shape))
            places.append(rows)
        back = np.argsort(np.concatenate(places))
        return F.softmax_cross_entropy(F.concat(ys, axis=0)[back], t)


def experts(way: Way) -> Program:
    """As many rows for each expert as the gate decides."""
    model = way.graph(Experts())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 24, 16), labels(rng, 4, 24)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class ODE(chainer.Chain):
    """A network that is a differential equation."""

    def __init__(self, adaptive: bool) -> None:
        super().__init__()
        with self.init_scope():
            self.field = MLP(4, 16, 4)
        self.adaptive = adaptive

    def forward(self, x, y):
        """How far the end is off; the step depends on how much two of them differ."""
        t, h, steps = 0.0, 0.25, 0
        z = chainer.as_variable(x)
        while t < 1.0 - 1e-6 and steps < 12:
            k1 = self.field(z)
            k2 = self.field(z + h * k1)
            if self.adaptive:
                error = float(abs(k2.array - k1.array).max()) * h
                if error > 0.5 and h > 0.1:
                    h *= 0.5
                    continue
            z = z + 0.5 * h * (k1 + k2)
            t, steps = t + h, steps + 1
            h = min(0.25, 1.0 - t) if t < 1.0 else h
        return F.mean_squared_error(z, y)


def _ode(way: Way, adaptive: bool) -> Program:
    model = way.graph(ODE(adaptive))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 16, 4), floats(rng, 16, 4)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def ode(way: Way) -> Program:
    """A fixed step."""
    return _ode(way, False)


def adaptive_ode(way: Way) -> Program:
    """A step that is halved where an error is large."""
    return _ode(way, True)


class Halting(chainer.Chain):
    """Stops thinking when it is sure; remembers how often it did so early."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.body, self.out = L.Linear(16, 16), L.Linear(16, 4)
        self.early = 0

    def forward(self, x, t):
        """The loss of the last answer."""
        h = chainer.as_variable(x)
        for _ in range(4):
            h = F.tanh(self.body(h))
            y = self.out(h)
            if F.softmax(y).array.max(axis=1).mean() > 0.42:
                self.early += 1
                break
        return F.softmax_cross_entropy(y, t)


def early_exit(way: Way) -> Program:
    """A loop that ends by a computed value, and a counter of it."""
    model = way.graph(Halting())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 16, 16), labels(rng, 4, 16)))

    def step(i):
        optimizer.update(model, *data[i % 16])
        return model.early

    return Program(step, (model,))


class Stopping(chainer.Chain):
    """Watches its own loss, and freezes its body when it no longer falls."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.body, self.out = MLP(16, 32, 16), L.Linear(16, 4)
        self.best, self.bad = np.inf, 0

    def forward(self, x, t):
        """The loss of a batch."""
        h = F.relu(self.body(x))
        if self.bad > 20:
            h.unchain_backward()
        loss = F.softmax_cross_entropy(self.out(h), t)
        value = float(loss.array)
        if value < self.best - 1e-3:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return loss


def patience(way: Way) -> Program:
    """The best loss and a counter in attributes."""
    model = way.graph(Stopping())
    optimizer = way.optimizer(chainer.optimizers.SGD(0.01), model)
    data = ring(lambda rng: (floats(rng, 16, 16), labels(rng, 4, 16)))

    def step(i):
        optimizer.update(model, *data[i % 16])
        return model.best, model.bad

    return Program(step, (model,))


def accumulation(way: Way) -> Program:
    """Four small batches for each update; the last one of an epoch is smaller."""
    model = way.graph(L.Classifier(MLP(16, 32, 4)))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 30, 16), labels(rng, 4, 30)))

    def step(i):
        x, t = data[i % 16]
        model.cleargrads()
        total = 0
        for k in range(0, 30, 8):
            loss = model(x[k : k + 8], t[k : k + 8]) / 4
            loss.backward()
            total += float(loss.array)
        optimizer.update()
        return total

    return Program(step, (model,))


def trainer(way: Way) -> Program:
    """An updater with iterators, an evaluator and a log, a few iterations at a time."""
    model = way.graph(L.Classifier(MLP(16, 32, 4)))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    rng = np.random.RandomState(0)
    train, test = (
        chainer.datasets.TupleDataset(floats(rng, n, 16), labels(rng, 4, n)) for n in (100, 40)
    )
    iterator = chainer.iterators.SerialIterator(train, 16)
    updater = chainer.training.StandardUpdater(iterator, optimizer)
    shown = chainer.reporter.Reporter()
    shown.add_observer("main", model)
    evaluator = extensions.Evaluator(
        chainer.iterators.SerialIterator(test, 16, repeat=False, shuffle=False), model
    )

    def step(i):
        observation: dict = {}
        with shown.scope(observation):
            updater.update()
        if updater.is_new_epoch:
            observation.update(evaluator())
        return [observation[k] for k in sorted(observation)]

    return Program(step, (model,))


class Swish(chainer.FunctionNode):
    """A function of one's own, by NumPy."""

    def forward(self, inputs):
        """x times its sigmoid."""
        self.retain_inputs((0,))
        (x,) = inputs
        return (x / (1 + np.exp(-x)),)

    def backward(self, indexes, grads):
        """By functions, so that it can be gone through again."""
        (x,) = self.get_retained_inputs()
        s = F.sigmoid(x)
        return (grads[0] * (s + x * s * (1 - s)),)


def own_function(way: Way) -> Program:
    """A FunctionNode between layers."""
    l1, l2 = L.Linear(16, 32), L.Linear(32, 4)
    both = chainer.ChainList(l1, l2)

    def loss_of(x, t):
        return F.softmax_cross_entropy(l2(Swish().apply((l1(x),))[0]), t)

    loss_of = way.graph(loss_of)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), both)
    data = ring(lambda rng: (floats(rng, 32, 16), labels(rng, 4, 32)))
    return Program(lambda i: optimizer.update(loss_of, *data[i % 16]) or (), (both,))


def sequential(way: Way) -> Program:
    """A chainer.Sequential with dropout and normalization."""
    model = chainer.Sequential(L.Linear(16, 32), L.BatchNormalization(32), F.relu)
    model.append(lambda x: F.dropout(x, 0.2))
    model.append(L.Linear(32, 4))
    model = way.graph(model)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 32, 16), labels(rng, 4, 32)))

    def step(i):
        x, t = data[i % 16]
        loss = F.softmax_cross_entropy(model(x), t)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        return loss

    return Program(step, (model,))


class Penalized(chainer.Chain):
    """The gradient with respect to the input is part of the loss."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(8, 32), L.Linear(32, 1)

    def forward(self, x, y, slope):
        """How far values and slopes are off."""
        x = chainer.Variable(x)
        out = self.l2(F.tanh(self.l1(x)))
        (gx,) = chainer.grad([out], [x], enable_double_backprop=True)
        return F.mean_squared_error(out, y) + 0.1 * F.mean_squared_error(gx, slope)


def slopes(way: Way) -> Program:
    """Double backprop inside of the call."""
    model = way.graph(Penalized())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: [floats(rng, 16, n) for n in (8, 1, 8)])
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Tasks(chainer.Chain):
    """Some labels are missing, and weights of the tasks are learned."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.body = MLP(16, 32, 16)
            self.heads = chainer.ChainList(*[L.Linear(16, 1) for _ in range(3)])
            self.log_var = chainer.Parameter(np.zeros(3, chainer.config.dtype))
        self.names = ["a", "b", "c"]

    def forward(self, x, targets):
        """The sum over tasks of what is known."""
        h = F.relu(self.body(x))
        total, observed = 0, {}
        for k, (name, head) in enumerate(zip(self.names, self.heads, strict=True)):
            t = targets[name]
            known = ~np.isnan(t)
            if not known.any():
                continue
            off = (head(h)[:, 0] - np.where(known, t, 0).astype(h.dtype)) ** 2
            loss = F.sum(off * known) / known.sum()
            observed[name] = float(loss.array)
            total += F.exp(-self.log_var[k]) * loss + self.log_var[k]
        chainer.report(observed, self)
        return F.sum(total)


def multi_task(way: Way) -> Program:
    """A dict of targets with holes; a task without any is left out."""
    model = way.graph(Tasks())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        targets = {}
        for name in "abc":
            t = floats(rng, 16)
            t[rng.rand(16) < (1.0 if name == "c" and rng.rand() < 0.2 else 0.3)] = np.nan
            targets[name] = t
        return floats(rng, 16, 16), targets

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def distillation(way: Way) -> Program:
    """A teacher that is a moving average of its pupil."""
    pupil, teacher = way.graph(MLP(16, 32, 4)), way.graph(MLP(16, 32, 4))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), pupil)
    data = ring(lambda rng: (floats(rng, 32, 16), labels(rng, 4, 32)))

    def step(i):
        x, t = data[i % 16]
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            soft = F.softmax(teacher(x) / 2).array
        y = pupil(x)
        loss = F.softmax_cross_entropy(y, t)
        loss -= min(1.0, i / 50) * F.mean(F.sum(soft * F.log_softmax(y / 2), axis=1))
        pupil.cleargrads()
        loss.backward()
        optimizer.update()
        for p, q in zip(pupil.params(), teacher.params(), strict=True):
            q.array = 0.99 * q.array + p.array * 0.01
        return loss

    return Program(step, (pupil, teacher))


class Debugged(chainer.Chain):
    """Counts, prints now and then, keeps a history in a list."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.net = MLP(16, 32, 4)
        self.history: list[float] = []
        self.text = ""

    def forward(self, x, t):
        """The loss of a batch."""
        loss = F.softmax_cross_entropy(self.net(x), t)
        self.history.append(float(loss.array))
        if len(self.history) % 50 == 0:
            self.text = f"{len(self.history)}: {np.mean(self.history[-50:]):.3f}"
        return loss


def history(way: Way) -> Program:
    """A list of losses that grows, and a text made of it."""
    model = way.graph(Debugged())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 16, 16), labels(rng, 4, 16)))

    def step(i):
        optimizer.update(model, *data[i % 16])
        return model.history[-1]

    return Program(step, (model,))


def curriculum(way: Way) -> Program:
    """The batch size grows, the rate falls, an int argument says how far it is."""
    net = MLP(16, 32, 4)

    def loss_of(x, t, epoch):
        return F.softmax_cross_entropy(net(x), t) * (1 + 0.1 * epoch)

    loss_of = way.graph(loss_of)
    optimizer = way.optimizer(chainer.optimizers.SGD(0.01), net)
    data = ring(lambda rng: (floats(rng, 96, 16), labels(rng, 4, 96)))

    def step(i):
        x, t = data[i % 16]
        n = 8 + i // 4
        optimizer.lr = 0.01 / (1 + i / 100)
        optimizer.update(loss_of, x[:n], t[:n], i // 10)
        return ()

    return Program(step, (net,))
