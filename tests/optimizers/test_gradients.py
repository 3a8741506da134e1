"""What becomes of gradient arrays: bound, copied, made, written, refused as in Chainer."""

import gc
import warnings
import weakref

import sdbr  # noqa: F401

import chainer
import numpy as np
import pytest
from chainer import optimizers

from tests.harness.update_rules import add_all_hooks


def params(optimizer):
    return list(optimizer.target.params())


@pytest.fixture(params=["plain", "hooks"])
def both(request, pair):
    return pair(optimizers.Adam, prepare=add_all_hooks if request.param == "hooks" else None)


def test_cleared_gradients_become_zeros(both):
    both.step(3, skip=(0, 4))
    assert both.static.target.p0.grad is not None
    both.assert_native(3)


def test_a_gradient_stays_the_users_array(both):
    for _ in range(2):
        both.gradients()
        held = [p.grad for p in params(both.static)]
        both.update()
        both.compare()
        assert all(p.grad is g for p, g in zip(params(both.static), held, strict=True))
    both.assert_native(2)


def test_gradients_in_other_layouts(both):
    def relayout(optimizer):
        p = params(optimizer)
        by_shape = next(q for q in p if q.array.ndim == 3)
        by_shape.grad = np.asfortranarray(by_shape.grad)
        wide = next(q for q in p if q.shape == (3, 4))
        wide.grad = np.repeat(wide.grad, 2, axis=1)[:, ::2]
        held = by_shape.grad, wide.grad
        optimizer.update()
        # Hooks write the very arrays that the user gave.
        assert by_shape.grad is held[0] and wide.grad is held[1]

    for _ in range(3):
        both.gradients()
        both.each(relayout)
        both.compare()
    both.assert_native(3)


def test_one_read_only_gradient_for_two_parameters(pair):
    both = pair(optimizers.Adam, shapes=[(2, 3), (2, 3)])
    for _ in range(2):
        both.gradients()
        shared = np.broadcast_to(np.float32(0.5), (2, 3))

        def share(optimizer, shared=shared):
            optimizer.target.p0.grad = optimizer.target.p1.grad = shared

        both.each(share)
        both.update()
        both.compare()
    both.assert_native(2)


def test_hooks_on_a_read_only_gradient_raise_as_in_chainer(pair):
    both = pair(optimizers.SGD, prepare=add_all_hooks)
    both.step()
    both.gradients()
    for optimizer in (both.plain, both.static):
        optimizer.target.p0.grad = np.broadcast_to(np.float32(0.5), (3, 4))
        with pytest.raises(ValueError, match="read-only"):
            optimizer.update()


def test_one_writeable_gradient_for_two_parameters(pair):
    both = pair(optimizers.SGD, prepare=add_all_hooks, shapes=[(2, 3), (2, 3)])
    for _ in range(2):
        both.gradients()

        def share(optimizer):
            optimizer.target.p0.grad = optimizer.target.p1.grad

        both.each(share)
        both.update()
        both.compare()
    both.assert_native(2)


def test_gradient_of_a_backward(pair):
    """After Chainer's backward the gradient is held by a variable."""
    both = pair(optimizers.Adam, prepare=add_all_hooks)
    for _ in range(3):

        def learn(optimizer):
            optimizer.target.cleargrads()
            loss = sum((p * p).array.sum() * 0 + _sum(p * p) for p in params(optimizer))
            loss.backward()
            optimizer.update()

        both.each(learn)
        both.compare()
    both.assert_native(3)


def _sum(x):
    import chainer.functions as F

    return F.sum(x * x)


def test_invalid_gradient_raises_as_in_chainer(pair):
    import chainer

    both = pair(optimizers.Adam)
    both.step()
    for optimizer in (both.plain, both.static):
        with optimizer.target.child.init_scope():
            optimizer.target.child.lazy = chainer.Parameter(chainer.initializers.One())
        lazy = optimizer.target.child.lazy
        lazy.update_rule = optimizer.create_update_rule()
        with pytest.raises(RuntimeError, match="cleargrad"):
            optimizer.update()
    assert both.static.t == both.plain.t == 2


def test_scalar_gradient(pair):
    """NumPy reductions give scalars, which are no arrays: Chainer's own code."""
    both = pair(optimizers.SGD, shapes=[(), (2,)])
    both.gradients()
    for optimizer in (both.plain, both.static):
        optimizer.target.p0._grad = np.float32(0.25)
    both.update()
    both.compare()
    assert both.static.update_statistics.python_updates == 1


def test_gradient_that_is_the_parameter(pair):
    both = pair(lambda: optimizers.SGD(lr=0.25))
    both.gradients()

    def tie(optimizer):
        optimizer.target.p0.grad = optimizer.target.p0.array

    both.each(tie)
    both.update()
    both.compare()


def test_no_gradient_is_written_without_need(pair):
    both = pair(optimizers.Adam)
    both.gradients()
    for p in params(both.static):
        p.grad.flags.writeable = False
    both.update()
    both.compare()
    both.assert_native(1)


def test_gradients_are_let_go(pair):
    both = pair(optimizers.Adam)
    both.step()
    both.gradients()
    gone = [weakref.ref(p.grad) for p in params(both.static)]
    both.static.update()
    both.static.target.cleargrads()
    assert not any(ref() is not None for ref in gone)


def test_an_optimizer_is_freed(pair):
    optimizer = pair(optimizers.Adam).static
    optimizer.target.cleargrads()
    optimizer.update()
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


def by_variable(param, other):
    param.grad_var = chainer.Variable(other)


def in_the_variable(param, other):
    param.grad_var = chainer.Variable(np.zeros_like(other))
    param.grad_var.array = other


def replaced(param, other):
    param.grad = other


def past_the_property(param, other):
    param.__dict__["_grad"] = other


def in_place(param, other):
    param.grad[...] = other


def cleared(param, other):
    param.cleargrad()


@pytest.mark.parametrize(
    "change", [by_variable, in_the_variable, replaced, past_the_property, in_place, cleared]
)
def test_what_becomes_of_gradients_that_stayed_is_seen(pair, change):
    both = pair(optimizers.MomentumSGD)
    both.gradients()
    for _ in range(3):
        both.update()  # from the very same arrays
        both.compare()
    rng = np.random.RandomState(1)
    for k in range(len(params(both.plain))):
        other = np.asarray(rng.randn(*params(both.plain)[k].shape), "f")
        both.each(lambda o, k=k, other=other: change(params(o)[k], other.copy()))
        both.update()
        both.compare()
    both.assert_native(3 + len(params(both.plain)))


def test_a_gradient_that_stayed_gets_another_shape(pair):
    both = pair(optimizers.SGD, shapes=[(2, 3)])
    both.gradients()
    both.update()
    both.compare()
    gradient = both.static.target.p0.grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy advises against it
        gradient.shape = (3, 2)
    before = both.static.target.p0.array.copy()
    with pytest.raises(ValueError):
        both.static.update()
    np.testing.assert_array_equal(both.static.target.p0.array, before)
