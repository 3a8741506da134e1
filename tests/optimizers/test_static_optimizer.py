"""The object: the same optimizer, still what it was for Chainer, copies and files."""

import copy
import importlib
import pickle
import warnings

import sdbr  # noqa: F401
from sdbr.static_optimizer import StaticUpdate, static_optimizer

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS

CLASSES = [
    optimizers.SGD,
    optimizers.MomentumSGD,
    optimizers.Adam,
    optimizers.AdamW,
    optimizers.AMSGrad,
    optimizers.AdaBound,
    optimizers.AMSBound,
    optimizers.RMSprop,
]


# `sdbr.static_optimizer` is the function, not the module that it comes from.
module = importlib.import_module("sdbr.static_optimizer")


def params(optimizer):
    return list(optimizer.target.params())


@pytest.mark.parametrize("cls", CLASSES)
def test_the_same_object(cls):
    optimizer = cls()
    attributes = dict(optimizer.__dict__)
    static = static_optimizer(optimizer)
    assert static is optimizer
    assert isinstance(static, cls) and isinstance(static, chainer.GradientMethod)
    assert static.__dict__ == attributes
    assert static_optimizer(static) is static
    assert type(static) is type(static_optimizer(cls()))
    assert type(static).__mro__.count(StaticUpdate) == 1


@pytest.mark.parametrize("value", [None, "adam", optimizers.Adam, L.Linear(2, 2)])
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError, match=r"optimizer: expected .* got \w+"):
        static_optimizer(value)


def test_an_optimizer_in_use(pair):
    both = pair(optimizers.Adam)
    late = copy.deepcopy(both.plain)
    for p, q in zip(params(both.plain), params(late), strict=True):
        np.testing.assert_array_equal(p.array, q.array)
    both.static = late
    both.step(2)
    static_optimizer(late)
    both.step(2)
    both.assert_native(2)


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("used", [False, True])
def test_copies(pair, how, used):
    both = pair(optimizers.AMSGrad)
    both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.1)))
    if used:
        both.step(2)
    make = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda o: pickle.loads(pickle.dumps(o)),
    }[how]
    original = both.static
    both.plain, both.static = both.each(make)
    assert type(both.static) is type(original) and both.static is not original
    assert both.static.target is not original.target or how == "copy"
    both.step(3)
    both.assert_native(3)
    assert original.update_statistics.native_calls == 2 * used
    assert original.t == 2 * used


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_protocols(protocol):
    optimizer = static_optimizer(optimizers.Adam(alpha=0.5))
    again = pickle.loads(pickle.dumps(optimizer, protocol))
    assert type(again) is type(optimizer) and again.alpha == 0.5


class Stateful(optimizers.SGD):
    """Pickles itself in its own way."""

    def __init__(self, note):
        super().__init__(lr=0.5)
        self.note = note

    def __reduce__(self):
        return (Stateful, (self.note,), {"t": self.t})


def test_class_with_its_own_reduce():
    optimizer = static_optimizer(Stateful("x"))
    optimizer.t = 3
    for again in (copy.copy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert type(again) is type(optimizer)
        assert (again.note, again.t, again.lr) == ("x", 3, 0.5)


class Regression(chainer.Chain):
    def __init__(self, seed=0):
        super().__init__()
        np.random.seed(seed)
        with self.init_scope():
            self.l1 = L.Linear(None, 5)
            self.l2 = L.Linear(5, 1)
            self.unused = L.Linear(2, 2)

    def forward(self, x, t, weight=1.0):
        return F.mean_squared_error(self.l2(F.tanh(self.l1(x))), t) * weight


class LossPair:
    def __init__(self, make):
        self.rng = np.random.RandomState(0)
        self.plain = make().setup(Regression())
        self.static = static_optimizer(make()).setup(Regression())

    def step(self, n=1):
        for _ in range(n):
            x, t = self.rng.randn(4, 3).astype("f"), self.rng.randn(4, 1).astype("f")
            for optimizer in (self.plain, self.static):
                np.random.seed(1)
                assert optimizer.update(optimizer.target, x, t, weight=2.0) is None
            pairs = zip(
                self.plain.target.namedparams(), self.static.target.namedparams(), strict=True
            )
            for (name, p), (_, q) in pairs:
                np.testing.assert_allclose(
                    q.array, p.array, rtol=RESULTS, atol=ROUNDINGS, err_msg=name
                )
                np.testing.assert_allclose(
                    q.grad, p.grad, rtol=GRADIENTS, atol=ROUNDINGS, err_msg=name
                )
                assert p.update_rule.t == q.update_rule.t


def test_loss_function_that_is_not_static():
    both = LossPair(lambda: optimizers.Adam(alpha=0.05))
    both.step(20)
    assert both.static.update_statistics.native_calls == 20
    assert both.static.update_plan.reason is None


def test_zerograds_mode():
    def make():
        optimizer = optimizers.SGD(lr=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            optimizer.use_cleargrads(False)
        return optimizer

    both = LossPair(make)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        both.step(3)
    assert both.static.update_statistics.native_calls == 3


@pytest.mark.parametrize("hooked", [False, True])
def test_static_loss_scale(hooked):
    both = LossPair(lambda: optimizers.SGD(lr=0.1))
    for optimizer in (both.plain, both.static):
        optimizer.set_loss_scale(16.0)
        if hooked:
            optimizer.add_hook(optimizer_hooks.WeightDecay(0.1))
    both.step(4)
    for optimizer in (both.plain, both.static):
        optimizer.set_loss_scale(4.0)
    both.step(2)
    # One link takes no part: its parameters have no loss scale, the others do.
    statistics = both.static.update_statistics
    assert (statistics.native_calls, statistics.python_updates) == (6, 0)


def test_loss_scale_of_all(pair):
    both = pair(optimizers.Adam)

    def lossfun(target):
        return sum(F.sum(F.square(p)) for p in target.params())

    for scale in (2.0, 2.0, 8.0, 3):
        for optimizer in (both.plain, both.static):
            optimizer.set_loss_scale(scale)
            optimizer.update(lossfun, optimizer.target)
        both.compare()
    both.assert_native(4)


def test_a_failing_loss_updates_nothing(pair):
    both = pair(optimizers.Adam)
    both.step()

    def lossfun():
        raise KeyError("no data")

    with pytest.raises(KeyError, match="no data"):
        both.static.update(lossfun)
    both.compare()
    assert both.static.t == 1


def test_the_whole_step_is_offered_first(pair, monkeypatch):
    both = pair(optimizers.SGD)
    calls = []

    def whole_step(optimizer, lossfun, args, kwds):
        calls.append((optimizer, lossfun, args, kwds))
        return module.MADE, False, None

    monkeypatch.setattr(module, "whole_step", whole_step)
    lossfun = object()
    assert both.static.update(lossfun, 1, b=2) is None
    assert calls == [(both.static, lossfun, (1,), {"b": 2})]
    assert both.static.t == 0


def test_trainer(tmp_path):
    from chainer.training import StandardUpdater, Trainer, extensions

    data = [(np.full(3, i, np.float32), np.full(1, i, np.float32)) for i in range(8)]
    results = []
    for wrap in (lambda o: o, static_optimizer):
        optimizer = wrap(optimizers.MomentumSGD(lr=0.01)).setup(Regression())
        np.random.seed(3)
        iterator = chainer.iterators.SerialIterator(data, 4, shuffle=False)
        updater = StandardUpdater(iterator, optimizer)
        trainer = Trainer(updater, (4, "epoch"), out=str(tmp_path))
        trainer.extend(extensions.ExponentialShift("lr", 0.5), trigger=(1, "epoch"))
        trainer.extend(extensions.snapshot(filename="s{.updater.iteration}"), trigger=(2, "epoch"))
        trainer.run()
        results.append((optimizer, [p.array for p in optimizer.target.params()]))
    (plain, a), (static, b) = results
    assert (plain.t, plain.epoch, plain.lr) == (static.t, static.epoch, static.lr)
    for p, q in zip(a, b, strict=True):
        np.testing.assert_allclose(q, p, rtol=RESULTS, atol=ROUNDINGS)
    assert static.update_statistics.native_calls == 8
    # A snapshot of the plain optimizer is one of the static one, and the other way round.
    chainer.serializers.load_npz(tmp_path / "s4", static, path="updater/optimizer:main/")
    assert static.t == 4


def test_what_is_said(pair):
    both = pair(lambda: static_optimizer(optimizers.Adam()))
    both.static.add_hook(optimizer_hooks.GradientClipping(1.0))
    plan = both.static.update_plan
    assert plan.describe() == "native: adam x 10, clip_norm"
    assert plan.python_parts == [] and plan.reason is None
    both.static.update()
    text = both.static.update_program.disassemble()
    assert text.count("adam") == 10 and "GradientClipping" in text
