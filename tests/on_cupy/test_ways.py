"""Ways to write a step with arrays of CuPy: each sees what define-by-run sees, and is compiled."""

import os

import chainer
import chainer.functions as F
import chainer.links as L
import pytest
from chainer import optimizers

from .programs import Way, assert_alike, normal, programs, seen, state, whole

STEPS = 6
program, PROGRAMS = programs()


def perceptron(self, x, t):
    self.y = self.out(F.tanh(self.layer(x)))
    return F.softmax_cross_entropy(self.y, t)


def trained(way, backward, n=1):
    """Steps by hand whose backward is ``backward(loss)``; `n` batches each."""
    model = way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))
    optimizer = optimizers.Adam().setup(model)
    found = []
    for k in range(STEPS):
        model.cleargrads()
        for i in range(n):
            loss = model(normal(5, 3, seed=10 * k + i), whole(2, 5, seed=10 * k + i))
            backward(loss)
        found += [seen(loss), seen(model.y), {p.name: seen(p.grad) for p in model.params()}]
        optimizer.update()
        found.append(state(model))
    return found


@program()
def by_hand(way):
    return trained(way, lambda loss: loss.backward())


@program()
def accumulated(way):
    return trained(way, lambda loss: loss.backward(), 3)


@program()
def scaled(way):
    return trained(way, lambda loss: loss.backward(loss_scale=16.0))


@program()
def retained(way):
    return trained(way, lambda loss: loss.backward(retain_grad=True))


@program()
def cut(way):
    return trained(way, lambda loss: (loss.backward(), loss.unchain_backward()))


@program()
def loss_outside(way):
    model = way.model(
        lambda self, x: self.out(F.tanh(self.layer(x))),
        layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2),
    )  # fmt: skip
    optimizer = optimizers.SGD(0.1).setup(model)
    found = []
    for k in range(STEPS):
        x = chainer.Variable(normal(5, 3, seed=k))
        y = model(x)
        loss = F.softmax_cross_entropy(y, whole(2, 5, seed=k)) + F.mean(y**2)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        found += [seen(loss), seen(x.grad), state(model)]
    return found


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_ways(program, python):
    way = Way(True)
    assert_alike(program(way), program(Way(False)))
    (statistics,) = way.statistics()
    backwards = STEPS * (3 if program is accumulated else 1)
    # All but that of the traced call; those that are audited run beside define-by-run.
    if os.environ["SDBR_AUDIT"] == "off":
        assert statistics.compiled_backwards >= backwards - 1
    assert statistics.python_ops == python
