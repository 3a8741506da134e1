"""Double DQN, written as Chainer code that can be decorated.

Two pieces are static: the targets, which need no gradient, and the loss. Both are ordinary chains;
define-by-run uses the same ones without decorators.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import chainer
import chainer.functions as F
import numpy as np

from benchmarks.cases import replay
from benchmarks.cases.base import Case
from benchmarks.peers.chainer_peer import ChainerRunner


class Targets(chainer.Chain):
    """r + gamma (1 - done) Q'(s', argmax Q(s'))."""

    def __init__(self, q: chainer.Chain, q_target: chainer.Chain):
        super().__init__()
        with self.init_scope():
            self.q = q
            self.q_target = q_target

    def forward(self, reward, not_done, obs_next):
        best = F.argmax(self.q(obs_next), axis=1)
        value = F.select_item(self.q_target(obs_next), best)
        # The variable comes first: GAMMA * not_done would be NumPy's product, outside Chainer.
        return value * not_done * replay.GAMMA + reward


class TdLoss(chainer.Chain):
    """Mean Huber loss between Q(s, a) and the targets."""

    def __init__(self, q: chainer.Chain):
        super().__init__()
        with self.init_scope():
            self.q = q

    def forward(self, obs, action, target):
        value = F.select_item(self.q(obs), action)
        return F.mean(F.huber_loss(value, target, delta=1.0, reduce="no"))


class Dqn(ChainerRunner):
    """Updates and greedy actions."""

    def __init__(self, case: Case, style: str):
        super().__init__(case, style)
        q = self.network(case.weights())
        q_target = self.network(replay.target_weights(case))
        self.q = self.static(q)
        self.targets = self.static(Targets(q, q_target))
        adam = chainer.optimizers.Adam(eps=replay.ADAM_EPS)
        self.with_optimizer(adam, self.static(TdLoss(q)))
        self.buffer = replay.buffer(case)
        self.sampler = replay.Sampler(case)
        self.observations = list(self.buffer.obs[: case.ring])

    def managed(self) -> list[Any]:
        return [self.model, self.targets, self.q]

    def reset(self) -> None:
        super().reset()
        self.sampler.reset()

    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw a batch and compute its targets: observations, actions, targets."""
        buffer = self.buffer
        rows = self.sampler.rows()
        not_done = 1 - buffer.done[rows]
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            target = self.targets(buffer.reward[rows], not_done, buffer.obs_next[rows])
        return buffer.obs[rows], buffer.action[rows], target.array

    def run(self, part: str, n: int) -> None:
        if part == "act":
            for obs in islice(cycle(self.observations), n):
                self.act(obs)
            return
        model, update = self.model, self.optimizer.update
        for _ in range(n):
            update(model, *self.sample())

    def act(self, obs: np.ndarray) -> int:
        """Return the greedy action for one observation."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            values = self.q(obs[None]).array[0]
        return int(values.argmax())

    def check(self, part: str) -> list[float]:
        self.reset()
        if part == "act":
            actions = [self.act(obs) for obs in self.observations]
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                values = [self.q(obs[None]).array for obs in self.observations]
            return [*actions, *np.concatenate(values).ravel().tolist()]
        losses = []
        for _ in range(self.case.check_steps):
            batch = self.sample()
            with chainer.no_backprop_mode():
                losses.append(float(self.model(*batch).array))
            self.optimizer.update(self.model, *batch)
        return losses
