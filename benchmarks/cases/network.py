"""Cases of networks that are more than a perceptron: their weights have names.

A name is the path that Chainer gives the parameter, without the first slash: ``conv1/W``. The
networks of the other peers have the same paths, so that a weight finds its place by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.cases.base import Case

#: Path, shape, and the deviation of its normal draw; 0 for zeros, None for ones.
Spec = tuple[str, tuple[int, ...], float | None]


@dataclass(frozen=True, kw_only=True)
class NetworkCase(Case):
    """A case whose network is written out once per peer.

    Attributes
    ----------
    specs : callable
        Gives path, shape and deviation of every weight, in Chainer's layouts.
    shape : tuple of int
        Of one sample.
    classes : int
    words : int
        Samples are integers below this; 0 for float32 images.
    of : str
        The network's name where it is not that of the case.
    """

    specs: Callable[[], Iterator[Spec]]
    shape: tuple[int, ...]
    classes: int
    words: int = 0
    of: str = ""
    sizes: tuple[int, ...] = ()

    @property
    def network(self) -> str:
        return self.of or self.name

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def n_classes(self) -> int:
        return self.classes

    def weights(self) -> dict[str, np.ndarray]:
        """Weights by path, drawn in the order of `specs`."""
        random = np.random.RandomState(self.seed)
        return {path: _drawn(random, shape, scale) for path, shape, scale in self.specs()}

    def inputs(self) -> np.ndarray:
        """Return the batches: (ring, batch, shape of a sample), or sequences as `words` says."""
        random = np.random.RandomState(self.seed + 1)
        shape = (self.ring, self.batch, *self.shape)
        if self.words:
            return random.randint(0, self.words, shape).astype(np.int32)
        return random.standard_normal(shape).astype(np.float32)

    def labels(self) -> np.ndarray:
        """Return one class per sample, or per word: int32 of shape (ring, number of classes)."""
        random = np.random.RandomState(self.seed + 2)
        n = self.batch * (math.prod(self.shape) if self.words else 1)
        return random.randint(0, self.classes, (self.ring, n)).astype(np.int32)


def _drawn(random: np.random.RandomState, shape: tuple[int, ...], scale: float | None):
    if scale is None:
        return np.ones(shape, np.float32)
    if not scale:
        return np.zeros(shape, np.float32)
    return random.standard_normal(shape).astype(np.float32) * np.float32(scale)


def linear(path: str, n_in: int, n_out: int) -> Iterator[Spec]:
    """Weights of a linear layer with a bias."""
    yield f"{path}/W", (n_out, n_in), n_in**-0.5
    yield f"{path}/b", (n_out,), 0.0


def conv(path: str, n_in: int, n_out: int, ksize: int, bias: bool = True) -> Iterator[Spec]:
    """Weights of a convolution, for ReLU behind it."""
    yield f"{path}/W", (n_out, n_in, ksize, ksize), (2 / (n_in * ksize * ksize)) ** 0.5
    if bias:
        yield f"{path}/b", (n_out,), 0.0


def norm(path: str, n: int) -> Iterator[Spec]:
    """Weights of a batch or layer normalization."""
    yield f"{path}/gamma", (n,), None
    yield f"{path}/beta", (n,), 0.0


def embed(path: str, n_words: int, n_units: int) -> Iterator[Spec]:
    """Weights of an embedding."""
    yield f"{path}/W", (n_words, n_units), 1.0
