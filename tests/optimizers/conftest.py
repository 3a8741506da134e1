"""Two equal models, one updated by Chainer and one by sdbr, fed the same gradients."""

import copy

import sdbr  # noqa: F401
from sdbr.static_optimizer import static_optimizer

import chainer
import numpy as np
import pytest

from tests.tolerances import FLOOR, UPDATES

SHAPES = [(3, 4), (4,), (1,), (5, 2, 3), (), (7, 1), (33,)]


class Model(chainer.Chain):
    """Parameters of several shapes, in links, chains and chain lists."""

    def __init__(self, dtype=np.float32, shapes=SHAPES, seed=0):
        super().__init__()
        rng = np.random.RandomState(seed)
        with self.init_scope():
            for i, shape in enumerate(shapes):
                setattr(self, f"p{i}", chainer.Parameter(np.asarray(rng.randn(*shape), dtype)))
            self.child = chainer.Link()
            self.many = chainer.ChainList(chainer.Link(), chainer.Link())
        for k, link in enumerate((self.child, *self.many)):
            with link.init_scope():
                link.w = chainer.Parameter(np.asarray(rng.randn(3, k + 1), dtype))


class Pair:
    """The same optimizer twice: `plain` is Chainer's, `static` ours."""

    def __init__(self, make, dtype=np.float32, prepare=None, scale=1.0, **kwds):
        self.rng = np.random.RandomState(7)
        self.scale = scale
        self.plain = make().setup(Model(dtype, **kwds))
        self.static = static_optimizer(make()).setup(Model(dtype, **kwds))
        if prepare is not None:
            self.each(prepare)

    def each(self, action):
        """Do the same to both optimizers, with the same draws; the results."""
        results, seed = [], self.plain.t
        for optimizer in (self.plain, self.static):
            np.random.seed(seed)
            results.append(action(optimizer))
        return tuple(results)

    def gradients(self, skip=()):
        """New gradients for both; None for the parameters whose index is in `skip`."""
        pairs = zip(self.plain.target.params(), self.static.target.params(), strict=True)
        for i, (a, b) in enumerate(pairs):
            a.cleargrad()
            b.cleargrad()
            if i not in skip and a.array is not None:
                g = np.asarray(self.rng.randn(*a.shape) * self.scale, a.dtype)
                a.grad, b.grad = g.copy(), g.copy()

    def step(self, n=1, **kwds):
        for _ in range(n):
            self.gradients(**kwds)
            self.update()
            self.compare()

    def update(self):
        self.each(lambda o: o.update())

    def compare(self):
        assert self.plain.t == self.static.t
        pairs = zip(self.plain.target.namedparams(), self.static.target.namedparams(), strict=True)
        for (name, a), (_, b) in pairs:
            assert_close(a.array, b.array, name)
            assert_close(a.grad, b.grad, f"{name}.grad")
            if a.update_rule is None:
                continue
            assert a.update_rule.t == b.update_rule.t, name
            assert type(b.update_rule.t) is int
            state, other = a.update_rule.state, b.update_rule.state
            assert (state or {}).keys() == (other or {}).keys()
            for key in state or {}:
                assert_close(state[key], other[key], f"{name}.{key}")

    def assert_native(self, calls, builds=1):
        """All updates so far were native, and nothing was Chainer's own code."""
        statistics = self.static.update_statistics
        assert self.static.update_plan.reason is None
        assert statistics.python_updates == statistics.mixed_updates == 0
        assert statistics.native_calls == calls
        assert statistics.builds == builds


def assert_close(a, b, name):
    if a is None or b is None:
        assert a is b is None, name
        return
    assert a.dtype == b.dtype and a.shape == b.shape, name
    scale = np.abs(a).max() if a.size and np.isfinite(a).all() else 1.0
    tolerance = UPDATES[a.dtype.char] * max(float(scale), FLOOR)
    np.testing.assert_allclose(b, a, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture
def pair():
    return Pair


@pytest.fixture(autouse=True, params=["numpy", "cython"])
def backend(request):
    with chainer.using_config("sdbr_backend", request.param):
        yield request.param


@pytest.fixture
def duplicate():
    return copy.deepcopy
