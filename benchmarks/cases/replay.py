"""Made-up transitions in a replay buffer of plain arrays, for the cases of kind 'dqn'.

The update and the greedy action are those of Chainer's DQN example. There is no environment: the
transitions are drawn once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.cases.base import Case, Weights

GAMMA = 0.99
ADAM_EPS = 1e-2


@dataclass(frozen=True)
class Buffer:
    """Transitions, one per row; rewards are scaled as in the example."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    obs_next: np.ndarray


def buffer(case: Case) -> Buffer:
    """Return the replay buffer: float32 arrays, int32 actions."""
    random = np.random.RandomState(case.seed + 3)
    n = case.transitions
    obs = random.standard_normal((n, *case.sample_shape)).astype(np.float32)
    return Buffer(
        obs=obs,
        action=random.randint(0, case.n_classes, n).astype(np.int32),
        reward=np.full(n, 1e-2, np.float32),
        done=(random.rand(n) < 0.05).astype(np.float32),
        obs_next=obs + 0.1 * random.standard_normal(obs.shape).astype(np.float32),
    )


def target_weights(case: Case) -> Weights:
    """Return the weights of the target network: not those of the network that is trained."""
    random = np.random.RandomState(case.seed + 4)

    def moved(w: np.ndarray, share: float) -> np.ndarray:
        return w + np.float32(share) * random.standard_normal(w.shape).astype(np.float32)

    weights = case.weights()
    if isinstance(weights, dict):
        return {name: moved(w, 0.05 * float(w.std())) for name, w in weights.items()}
    return [(moved(w, 0.05), b) for w, b in weights]


class Sampler:
    """Draws the rows of a batch, the same ones for every peer."""

    def __init__(self, case: Case):
        self._case = case
        self.reset()

    def reset(self) -> None:
        """Start over."""
        self._random = np.random.default_rng(self._case.seed + 5)

    def rows(self) -> np.ndarray:
        """Return int64 row numbers of shape (batch,)."""
        return self._random.integers(0, self._case.transitions, self._case.batch)
