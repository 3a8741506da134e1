"""Reinforcement learning: double DQN on made-up transitions of CartPole's shape.

The network, the update and the greedy action are those of Chainer's DQN example. There is no
environment: the transitions are drawn once, and lie in a replay buffer of plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.cases.base import Case

GAMMA = 0.99
ADAM_EPS = 1e-2
N_TRANSITIONS = 4096

CASE = Case(
    name="dqn_cartpole",
    title="4-100-100-2, double DQN; update with 64 transitions, act with one observation",
    kind="dqn",
    sizes=(4, 100, 100, 2),
    batch=64,
    parts=("update", "act"),
)


@dataclass(frozen=True)
class Buffer:
    """Transitions, one per row; rewards are scaled as in the example."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    obs_next: np.ndarray


def buffer(case: Case = CASE) -> Buffer:
    """Return the replay buffer: float32 arrays, int32 actions."""
    random = np.random.RandomState(case.seed + 3)
    obs = random.standard_normal((N_TRANSITIONS, case.sizes[0])).astype(np.float32)
    return Buffer(
        obs=obs,
        action=random.randint(0, case.sizes[-1], N_TRANSITIONS).astype(np.int32),
        reward=np.full(N_TRANSITIONS, 1e-2, np.float32),
        done=(random.rand(N_TRANSITIONS) < 0.05).astype(np.float32),
        obs_next=obs + 0.1 * random.standard_normal(obs.shape).astype(np.float32),
    )


def target_weights(case: Case = CASE) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the weights of the target network: not those of the network that is trained."""
    random = np.random.RandomState(case.seed + 4)
    return [
        (w + 0.05 * random.standard_normal(w.shape).astype(np.float32), b)
        for w, b in case.weights()
    ]


class Sampler:
    """Draws the rows of a batch, the same ones for every peer."""

    def __init__(self, case: Case = CASE):
        self._batch = case.batch
        self._seed = case.seed + 5
        self.reset()

    def reset(self) -> None:
        """Start over."""
        self._random = np.random.default_rng(self._seed)

    def rows(self) -> np.ndarray:
        """Return int64 row numbers of shape (batch,)."""
        return self._random.integers(0, N_TRANSITIONS, self._batch)
