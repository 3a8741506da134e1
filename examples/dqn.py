"""Double deep Q-learning of a pole on a cart, which is simulated here.

    python examples/dqn.py [--explain]

Look at the two static calls of a step. Choosing an action is a call for one row, a few
microseconds. The update is a whole step: Q values, targets of the other network, loss, backward
and Adam in one native call. The target network is no child of the loss, so the optimizer leaves it
alone; `copyparams` writes into its arrays and costs no new trace. Times are those of a step with
one action, one step of the simulation, a sample of the past, and an update.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np


class CartPole:
    """Balance a pole by pushing a cart left or right, for 500 steps; -1 when it falls."""

    scale = np.array([2.4, 2, 0.21, 2])  # of place, speed, angle and its speed

    def reset(self) -> np.ndarray:
        self.state, self.n = np.random.uniform(-0.05, 0.05, 4), 0
        return self.seen()

    def seen(self) -> np.ndarray:
        """The state in numbers of the size of one."""
        return (self.state / self.scale).astype(np.float32)

    def step(self, action: int) -> tuple[np.ndarray, bool, bool]:
        """The next state, whether it fell, and whether the episode is over."""
        _, speed, angle, turn = self.state.tolist()
        sin, cos = np.sin(angle), np.cos(angle)
        force = (10.0 if action else -10.0) + 0.05 * turn**2 * sin  # of a pole of 0.1 kg, 1 m
        spin = (9.8 * sin - cos * force / 1.1) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        push = force / 1.1 - 0.05 * spin * cos / 1.1
        self.state = self.state + 0.02 * np.array([speed, push, turn, spin])
        self.n += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.seen(), fell, fell or self.n == 500


class Past:
    """The last transitions, in arrays."""

    def __init__(self, size: int):
        states, numbers = np.zeros((size, 4), np.float32), np.zeros(size, np.float32)
        actions = np.zeros(size, np.int32)
        self.arrays = states, actions, numbers, states.copy()
        self.size, self.n = size, 0

    def add(self, *transition) -> None:
        for array, thing in zip(self.arrays, transition, strict=True):
            array[self.n % self.size] = thing
        self.n += 1

    def sample(self, n: int) -> tuple[np.ndarray, ...]:
        rows = np.random.randint(0, min(self.n, self.size), n)
        return tuple(array[rows] for array in self.arrays)


class QFunction(chainer.Chain):
    """States to the values of both actions."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(4, 128), L.Linear(128, 128)
            self.out = L.Linear(128, 2)

    def forward(self, state):
        return self.out(F.relu(self.l2(F.relu(self.l1(state)))))


class TemporalDifference(chainer.Chain):
    """The loss: Huber's, between Q values and what one step more says of them."""

    def __init__(self, q: QFunction):
        super().__init__()
        with self.init_scope():
            self.q = q
        self.target = q.copy(mode="copy")  # outside of init_scope: no child

    def forward(self, state, action, fell, following):
        y = F.select_item(self.q(state), action)
        with chainer.no_backprop_mode():
            best = F.argmax(self.q(following), axis=1)
            after = F.select_item(self.target(following), best)
        self.loss = F.mean(F.huber_loss(y, 0.99 * (1 - fell) * after - fell, 1.0, reduce="no"))
        return self.loss


def train(steps):
    """Train; return both static chains, and what each episode gave."""
    q = QFunction()
    learner = sdbr.static_graph(TemporalDifference(q))
    actor = sdbr.static_graph(q)  # inside of the loss it is traced into that
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam(alpha=3e-4)).setup(learner)

    world, past, returns = CartPole(), Past(20_000), []
    state = world.reset()
    for i in steps:
        if np.random.rand() < max(0.02, 1 - i / 3000):
            action = np.random.randint(2)
        else:
            with chainer.no_backprop_mode():
                action = int(actor(state[None]).array.argmax())
        following, fell, over = world.step(action)
        past.add(state, action, fell, following)
        state = following
        if over:
            returns.append(world.n)
            state = world.reset()
        optimizer.update(learner, *past.sample(64))
        steps.log(learner.loss)
        if i % 500 == 0:
            learner.target.copyparams(q)
    steps.say(f"{len(returns)} episodes; the last ten lasted {np.mean(returns[-10:]):.0f} steps")
    return learner, actor, returns


def draw(axes, trained):
    """How long the pole stood."""
    returns = trained[-1]
    axes.plot(returns, ".", markersize=3)
    mean = [np.mean(returns[max(0, i - 9) : i + 1]) for i in range(len(returns))]
    axes.plot(mean, label="mean of ten")
    axes.set(xlabel="episode", ylabel="steps until the pole fell (500 at most)")
    axes.legend()


if __name__ == "__main__":
    common.main(train, draw, steps=30000, plain=1500, quick=60)
