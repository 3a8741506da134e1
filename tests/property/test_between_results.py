"""Random calls with several results, and random things done to these, against define-by-run."""

from __future__ import annotations

import random

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import SUMS


class Doubled(chainer.FunctionNode):
    """Has no row, and code of a user in its backward."""

    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        return (gys[0] * 2,)


def _cut(a, b):
    y = F.sin(a)
    y.unchain()
    return (y,)


STEPS = [
    lambda a, b: (F.tanh(a),),
    lambda a, b: (a + b,),
    lambda a, b: (a - b,),
    lambda a, b: (a * b,),
    lambda a, b: F.split_axis(F.concat([a, b], axis=1), 2, axis=1),
    lambda a, b: (F.clip(a, -1.0, 1.0) * b,),
    lambda a, b: Doubled().apply((a,)),
    lambda a, b: (F.matmul(a, b),),
    lambda a, b: (chainer.Variable(a.array),),
    _cut,
]


def random_call(choose: random.Random):
    """A function of three Variables that returns some of what it makes."""
    steps, n = [], 3
    for _ in range(choose.randint(3, 8)):
        step = choose.choice(STEPS)
        steps.append((step, choose.randrange(n), choose.randrange(n)))
        n += 2 if step is STEPS[4] else 1
    shown = sorted(choose.sample(range(3, n), choose.randint(2, min(5, n - 3))))

    def call(*xs):
        things = list(xs)
        for step, a, b in steps:
            things += step(things[a], things[b])
        return tuple(things[i] for i in shown)

    return call


def history(call, choose: random.Random, numbers: np.random.RandomState) -> list:
    """Do random things to the results of two calls in a row; all gradients after each of them."""

    def seed():
        return numbers.randn(3, 3).astype("f")

    xs = [chainer.Variable(seed()) for _ in range(3)]
    first = call(*xs)
    ys = [*first, *call(first[0], xs[1], first[-1])] if choose.random() < 0.5 else list(first)
    every, log = xs + ys, []
    for _ in range(choose.randint(1, 5)):
        way = choose.choice(["backward", "set", "grad", "unchain", "cut", "all", "loss", "clear"])
        y, other, x, z = choose.choice(ys), choose.choice(ys), choose.choice(every), seed()
        retain = choose.random() < 0.5
        if way == "backward":
            y.grad = z
            y.backward(retain_grad=retain)
        elif way == "set":
            y.grad = z
        elif way == "grad":
            wanted = [x, choose.choice(every)]
            log += chainer.grad([y], wanted, [chainer.Variable(z)], retain_grad=retain)
        elif way == "unchain":
            y.unchain()
        elif way == "cut":
            y.unchain_backward()
        elif way == "all":
            for y in ys:
                y.grad = seed()
            chainer.backward(ys)
        elif way == "loss":
            F.sum(F.sin(y) * other).backward(retain_grad=retain)
        else:
            for y in every:
                y.cleargrad()
        log += [None if y.grad is None else y.grad.copy() for y in every]
    return [g.array if isinstance(g, chainer.Variable) else g for g in log]


@pytest.mark.parametrize("number", range(60))
def test_between_results(number):
    call = random_call(random.Random(number))
    static = sdbr.static_graph(lambda *xs: call(*xs), on_dynamic="raise")
    for i in range(4):
        seed = 10 * number + i
        want = history(call, random.Random(seed), np.random.RandomState(seed))
        got = history(static, random.Random(seed), np.random.RandomState(seed))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert (g is None) == (w is None)
            if w is not None:
                np.testing.assert_allclose(g, w, rtol=0, atol=SUMS * max(1, np.abs(w).max()))
    assert static.schedule_manager.statistics.replays >= 3
