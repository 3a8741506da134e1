"""Networks that act and learn from what they did."""

from __future__ import annotations

import chainer
import chainer.functions as F
import numpy as np
from chainer import optimizers

from benchmarks.examples.example import Example, Static
from benchmarks.examples.images import MLP


def _samples(rng):
    reward, done = rng.randn(64).astype("f"), (rng.rand(64) < 0.1).astype("f")
    return rng.randn(64, 4).astype("f"), rng.randn(64, 4).astype("f"), reward, done


def q_learning(double: bool):
    """One action and one update on a sample of the past."""

    def prepare(static: Static):
        q, target = static(MLP(100, 2)), static(MLP(100, 2))
        optimizer = static.optimizer(optimizers.Adam(eps=1e-2)).setup(q)
        rng = np.random.RandomState(1)

        def step():
            with chainer.no_backprop_mode():
                int(q(rng.randn(1, 4).astype("f")).array[0].argmax())
            state, following, reward, done = _samples(rng)
            y = F.select_item(q(state), rng.randint(0, 2, 64).astype("i"))
            with chainer.no_backprop_mode():
                if double:
                    best = F.select_item(target(following), F.argmax(q(following), axis=1))
                else:
                    best = F.max(target(following), axis=1)
                goal = reward + 0.99 * (1 - done) * best.array
            loss = F.mean(F.huber_loss(y, goal, delta=1.0, reduce="no"))
            q.cleargrads()
            loss.backward()
            optimizer.update()

        return step, [q]

    return prepare


class Policy(MLP):
    def __init__(self):
        super().__init__(100, 1)

    def forward(self, x):
        return F.tanh(super().forward(x)) * 2


class StateActionValue(MLP):
    def __init__(self):
        super().__init__(100, 1)

    def forward(self, state, action):
        return super().forward(F.concat((state, action)))


def ddpg(static: Static):
    """The gradient of one call flows through another; targets follow slowly."""
    q, policy = static(StateActionValue()), static(Policy())
    q_target, policy_target = static(StateActionValue()), static(Policy())
    rules = [static.optimizer(optimizers.Adam(eps=1e-3)).setup(link) for link in (q, policy)]
    rng = np.random.RandomState(1)

    def step():
        state, following, reward, done = _samples(rng)
        with chainer.no_backprop_mode():
            action = policy(state).array + 0.1 * rng.randn(64, 1).astype("f")
            after = F.squeeze(q_target(following, policy_target(following)), axis=1).array
        loss = F.mean_squared_error(
            F.squeeze(q(state, action), axis=1), reward + 0.99 * (1 - done) * after
        )
        q.cleargrads()
        loss.backward()
        rules[0].update()
        gain = -F.mean(q(state, policy(state)))
        policy.cleargrads()
        gain.backward()
        rules[1].update()
        for source, target in ((q, q_target), (policy, policy_target)):
            for s, t in zip(source.params(), target.params(), strict=True):
                if t.array is not None:
                    t.array[...] += 0.01 * (s.array - t.array)

    return step, [q, policy]


EXAMPLES = [
    Example("dqn", "`QFunction.forward`, optimizer", q_learning(False)),
    Example("double dqn", "the same", q_learning(True)),
    Example("ddpg", "`forward` of both networks, optimizers", ddpg),
]
