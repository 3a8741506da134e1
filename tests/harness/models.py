"""The models that the tests here train: name -> (make, data, whether all is native)."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L


class Net(chainer.Chain):
    """A chain whose forward is given as a function."""

    def __init__(self, forward, **links):
        super().__init__()
        with self.init_scope():
            for name, link in links.items():
                setattr(self, name, link)
        self._forward = forward

    def forward(self, *args, **kwargs):
        return self._forward(self, *args, **kwargs)


def small_sequential() -> chainer.Sequential:
    np.random.seed(0)
    return chainer.Sequential(L.Linear(4, 5), F.relu, L.Linear(5, 4))


def by_hand(layers, x):
    """What a Sequential computes, define-by-run."""
    for layer in layers:
        x = layer(x)
    return x.array


def floats(*shape):
    return lambda rng: rng.randn(*shape).astype("f")


def labels(n, *shape, dtype="i"):
    return lambda rng: rng.randint(0, n, shape).astype(dtype)


def data(*makers):
    return lambda rng: tuple(make(rng) for make in makers)


ACTIVATIONS = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "clipped_relu": lambda x: F.clipped_relu(x, 1.0),
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
    "softplus": F.softplus,
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
}


class MLP(chainer.Chain):
    def __init__(self, n_in, n_units, n_out, activation=F.relu, ratio=0.0):
        super().__init__()
        self.activation = activation
        self.ratio = ratio
        with self.init_scope():
            self.l1 = L.Linear(n_in, n_units)
            self.l2 = L.Linear(n_units, n_units)
            self.l3 = L.Linear(n_units, n_out)

    def forward(self, x):
        h = self.activation(self.l1(x))
        if self.ratio:
            h = F.dropout(h, self.ratio)
        return self.l3(self.activation(self.l2(h)))


class TwoLayers(chainer.Chain):
    """Layers `l` and `o`, the same in every copy; the forward is given, or of a subclass."""

    def __init__(self, forward=None, sizes=(4, 5, 3)):
        super().__init__()
        n_in, n_units, n_out = sizes
        rng = np.random.RandomState(3)
        with self.init_scope():
            self.l = L.Linear(n_in, n_units, initialW=rng.randn(n_units, n_in).astype("f"))
            self.o = L.Linear(n_units, n_out, initialW=rng.randn(n_out, n_units).astype("f"))
        self._forward = forward

    def forward(self, x, t):
        return self._forward(self, x, t)


class Autoencoder(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.encoder = L.Linear(12, 4)
            self.decoder = L.Linear(4, 12)

    def forward(self, x):
        y = F.sigmoid(self.decoder(F.tanh(self.encoder(x))))
        return F.mean_squared_error(y, x)


class ActorCritic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.body = L.Linear(6, 16)
            self.policy = L.Linear(16, 3)
            self.value = L.Linear(16, 1)

    def forward(self, state, action, reward):
        h = F.tanh(self.body(state))
        log_p = F.log_softmax(self.policy(h))
        value = F.squeeze(self.value(h), axis=1)
        advantage = reward - value.array
        policy_loss = -F.mean(F.select_item(log_p, action) * advantage)
        entropy = -F.mean(F.sum(F.exp(log_p) * log_p, axis=1))
        value_loss = F.mean_squared_error(value, reward)
        loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
        chainer.report({"loss": loss, "entropy": entropy}, self)
        return loss


class DQN(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 16)
            self.l2 = L.Linear(16, 2)

    def q(self, state):
        return self.l2(F.relu(self.l1(state)))

    def forward(self, state, action, reward, done, following):
        q = F.select_item(self.q(state), action)
        with chainer.no_backprop_mode():
            best = F.max(self.q(following), axis=1)
        target = reward + 0.99 * (1 - done) * best.array
        return F.mean(F.huber_loss(q, target, 1.0, reduce="no"))


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.rnn = L.LSTM(3, 5)
            self.out = L.Linear(5, 2)

    def forward(self, x):
        return self.out(self.rnn(x))


class ConvNet(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(1, 3, 3, nobias=True)
            self.norm = L.BatchNormalization(3)
            self.out = L.Linear(None, 2)

    def forward(self, x, t):
        h = F.max_pooling_2d(F.relu(self.norm(self.conv(x))), 2)
        return F.softmax_cross_entropy(self.out(h), t)


class Siamese(chainer.Chain):
    """One layer used twice on two arguments."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.Linear(5, 4)

    def forward(self, a, b):
        return F.sum((F.tanh(self.embed(a)) - F.tanh(self.embed(b))) ** 2, axis=1)


class Tied(chainer.Chain):
    """One parameter in two links."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 4)
            self.l2 = L.Linear(4, 4)
            self.l2.W = self.l1.W

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


class Outputs(chainer.Chain):
    """A dictionary of a list, a tuple, arrays, a number and None."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 3)
            self.l2 = L.Linear(4, 2)

    def forward(self, x):
        a, b = self.l1(x), self.l2(x)
        return {"list": [a, b], "tuple": (F.tanh(a), b.array), "same": a, "n": 3, "none": None}


class Arguments(chainer.Chain):
    """Positional, keyword, None, integer and string arguments, in containers too."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 4)

    def forward(self, pair, n, *, mode, extra=None, more=None):
        h = pair["x"]
        for _ in range(n):
            h = self.l1(h)
            h = F.tanh(h) if mode == "tanh" else F.relu(h)
        if extra is not None:
            h = h + extra
        return h * pair["y"][0] + more["scale"]


def _chain_list():
    net = chainer.ChainList(L.Linear(4, 8), L.Linear(8, 8), L.Linear(8, 2))

    class Deep(chainer.ChainList):
        def forward(self, x):
            for link in self:
                x = F.relu(link(x))
            return x

    return Deep(*net.children())


MODELS = {
    **{
        f"mlp_{name}": (
            lambda f=f: L.Classifier(MLP(4, 8, 3, f)),
            data(floats(6, 4), labels(3, 6)),
            True,
        )
        for name, f in ACTIVATIONS.items()
    },
    "mlp_dropout": (
        lambda: L.Classifier(MLP(4, 8, 3, F.relu, 0.3)),
        data(floats(6, 4), labels(3, 6)),
        True,
    ),
    "lazy_mlp": (
        lambda: L.Classifier(MLP(None, 8, 3)),
        data(floats(6, 4), labels(3, 6)),
        True,
    ),
    "autoencoder": (Autoencoder, data(floats(5, 12)), True),
    "actor_critic": (ActorCritic, data(floats(5, 6), labels(3, 5), floats(5)), None),
    "dqn": (
        DQN,
        data(floats(5, 4), labels(2, 5), floats(5), lambda r: r.randint(0, 2, 5).astype("f"),
             floats(5, 4)),
        None,
    ),
    "conv_net": (ConvNet, data(floats(4, 1, 8, 8), labels(2, 4)), True),
    "sequential": (
        lambda: chainer.Sequential(L.Linear(4, 8), F.relu, L.Linear(8, 2)),
        data(floats(5, 4)),
        True,
    ),
    "chain_list": (_chain_list, data(floats(5, 4)), True),
    "siamese": (Siamese, data(floats(3, 5), floats(3, 5)), True),
    "tied": (Tied, data(floats(3, 4)), True),
    "outputs": (Outputs, data(floats(3, 4)), True),
    "arguments": (
        Arguments,
        lambda r: [
            ({"x": floats(3, 4)(r), "y": [chainer.Variable(floats(3, 4)(r))]}, 2),
            {"mode": "tanh", "extra": None, "more": {"scale": floats(4)(r)}},
        ],
        True,
    ),
    "variable_argument": (
        lambda: MLP(4, 8, 3),
        lambda r: (chainer.Variable(floats(5, 4)(r)),),
        True,
    ),
    "regularised": (
        lambda: Net(
            lambda self, x: F.sum(self.l(x) ** 2) + 0.1 * sum(F.sum(p * p) for p in self.params()),
            l=L.Linear(3, 2),
        ),
        data(floats(4, 3)),
        True,
    ),
    "sigmoid_cross_entropy": (
        lambda: Net(lambda self, x, t: F.sigmoid_cross_entropy(self.l(x), t), l=L.Linear(3, 1)),
        data(floats(4, 3), labels(2, 4, 1)),
        True,
    ),
    "split_and_join": (
        lambda: Net(
            lambda self, x: F.concat(
                [h * (i + 1) for i, h in enumerate(F.split_axis(self.l(x), 3, axis=1))][::-1]
            )[:, 1:-1],
            l=L.Linear(4, 6),
        ),
        data(floats(3, 4)),
        True,
    ),
}  # fmt: skip


class StaticMLP(MLP):
    def __init__(self):
        super().__init__(4, 8, 3)

    @sdbr.static_graph
    def forward(self, x):
        return super().forward(x)
