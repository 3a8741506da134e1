"""The same training by Chainer and in whole steps, and everything that it leaves compared."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.tolerances import DOUBLE_TRAINING, GRADIENTS, RESULTS, ROUNDINGS


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 6)
            self.l2 = L.Linear(6, 3)
            self.idle = L.Linear(2, 2)

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)
        return self.loss


class Runs:
    """The same training twice: by Chainer and static."""

    def __init__(self, make, prepare=lambda optimizer: None, dtype=np.float32):
        self.rng = np.random.RandomState(0)
        self.dtype = dtype
        with chainer.using_config("dtype", dtype):
            np.random.seed(0)
            self.plain = make().setup(Net())
            np.random.seed(0)
            self.static = sdbr.static_optimizer(make()).setup(sdbr.static_graph(Net()))
        for optimizer in self.both:
            prepare(optimizer)

    @property
    def both(self):
        return self.plain, self.static

    @property
    def steps(self):
        return self.static.target.schedule_manager.statistics.steps

    def step(self, n=1):
        for _ in range(n):
            x = self.rng.randn(5, 4).astype(self.dtype)
            t = self.rng.randint(0, 3, 5).astype(np.int32)
            for optimizer in self.both:
                np.random.seed(len(x) + t[0])  # the same draws
                assert optimizer.update(optimizer.target, x, t) is None
            self.compare()

    def compare(self):
        plain, static = self.both
        results, gradients = (
            (RESULTS, GRADIENTS) if self.dtype == np.float32 else (DOUBLE_TRAINING,) * 2
        )
        assert (plain.t, plain.epoch) == (static.t, static.epoch)
        close(plain.target.loss.array, static.target.loss.array, results)
        pairs = zip(plain.target.namedparams(), static.target.namedparams(), strict=True)
        for (name, p), (_, q) in pairs:
            close(p.array, q.array, results, name)
            close(p.grad, q.grad, gradients, f"{name}.grad")
            assert p.update_rule.t == q.update_rule.t, name
            for key in p.update_rule.state or {}:
                close(
                    p.update_rule.state[key], q.update_rule.state[key], gradients, f"{name}.{key}"
                )

    def together(self):
        """The static one goes on from where the other is: no difference adds up."""
        plain, static = self.both
        for p, q in zip(plain.target.params(), static.target.params(), strict=True):
            q.array[...] = p.array
            for key, value in (p.update_rule.state or {}).items():
                q.update_rule.state[key][...] = value


def close(a, b, tolerance, name=""):
    atol = tolerance * max(float(np.abs(a).max()), ROUNDINGS)
    np.testing.assert_allclose(b, a, rtol=0, atol=atol, err_msg=name)
