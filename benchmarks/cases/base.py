"""What a case is: a problem as plain data, so that every peer starts from the same numbers.

Only NumPy is needed here: the peers live in environments of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Layers = list[tuple[np.ndarray, np.ndarray]]
Weights = Layers | dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One benchmark case: a perceptron, unless a subclass says otherwise.

    ``kind`` says what is done: 'train' (loss, backward, update), 'chain' (a deep chain trained by
    SGD), 'infer' (forward only), 'trainer' ('train' through Chainer's Trainer) or 'dqn'.
    ``parts`` are the things timed; ``ring`` is the number of different batches used in turn, large
    enough that the network cannot learn them by heart while it is timed; ``transitions`` is the
    length of the replay buffer of a 'dqn'.
    """

    name: str
    title: str
    kind: str
    sizes: tuple[int, ...]
    batch: int
    ring: int = 64
    parts: tuple[str, ...] = ("step",)
    check_steps: int = 10
    tolerance: float = 1e-4
    seed: int = 0
    transitions: int = 4096
    memory_steps: int = 20

    @property
    def network(self) -> str:
        """Name of the network; the peers hold one implementation each."""
        return "perceptron"

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.sizes[0],)

    @property
    def n_classes(self) -> int:
        """Number of outputs."""
        return self.sizes[-1]

    def weights(self) -> Weights:
        """Weights (out, in) drawn as Chainer's LeCunNormal does, and zero biases, in float32."""
        random = np.random.RandomState(self.seed)
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        if self.kind == "chain":
            return [_signal_keeping(random, n) for n, _ in pairs]
        return [
            (
                (random.standard_normal((n_out, n_in)) / n_in**0.5).astype(np.float32),
                np.zeros(n_out, np.float32),
            )
            for n_in, n_out in pairs
        ]

    def inputs(self) -> np.ndarray:
        """Return the batches: float32 of shape (ring, batch, first size)."""
        random = np.random.RandomState(self.seed + 1)
        return random.rand(self.ring, self.batch, *self.sample_shape).astype(np.float32)

    def labels(self) -> np.ndarray:
        """Return the classes of the batches: int32 of shape (ring, batch)."""
        random = np.random.RandomState(self.seed + 2)
        return random.randint(0, self.n_classes, (self.ring, self.batch)).astype(np.int32)


def _signal_keeping(random: np.random.RandomState, n: int) -> tuple[np.ndarray, np.ndarray]:
    # Near the identity: ordinary random weights would silence 500 layers of ReLU, and a network
    # of zeros would be a poor check that every peer computes the same.
    weight = np.eye(n) + random.standard_normal((n, n)) * 0.01
    return weight.astype(np.float32), np.zeros(n, np.float32)
