"""How a program of the table is run: as plain define-by-run, or static."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

#: Batches that a program goes through in turn.
RING = 16


class Way:
    """Decorates the models, functions and optimizers of a program, or leaves them as they are."""

    def __init__(self, static: bool) -> None:
        self.static = static
        self.targets: list[Any] = []

    def graph(self, target: Any, **options: Any) -> Any:
        """A link or function, static if this is the static way."""
        if self.static:
            target = sdbr.static_graph(target, **options)
            self.targets.append(target)
        return target

    def optimizer(self, optimizer: Any, link: chainer.Link) -> Any:
        """An optimizer of a link, static if this is the static way."""
        if self.static:
            optimizer = sdbr.static_optimizer(optimizer)
        return optimizer.setup(link)

    def managers(self) -> list[Any]:
        """What has served the calls."""
        return [target.schedule_manager for target in self.targets if target.schedule_manager]


class Program(NamedTuple):
    """One program, set up."""

    step: Callable[[int], Any]  # one call or iteration, number i; what it computes
    links: tuple[chainer.Link, ...] = ()  # whose parameters are compared in the end


def floats(rng: np.random.RandomState, *shape: int) -> np.ndarray:
    """Normal numbers of the dtype that models have."""
    return rng.randn(*shape).astype(chainer.config.dtype)


def labels(rng: np.random.RandomState, n: int, *shape: int) -> np.ndarray:
    """Numbers below n."""
    return rng.randint(0, n, shape).astype("i")


def ring(make: Callable[[np.random.RandomState], Any], n: int = RING) -> list[Any]:
    """What is made once for each batch, before anything is timed."""
    return [make(np.random.RandomState(i)) for i in range(n)]


class MLP(chainer.Chain):
    """Linear layers with a rectifier between them."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        with self.init_scope():
            self.layers = chainer.ChainList(*[L.Linear(a, b) for a, b in itertools.pairwise(sizes)])

    def forward(self, x: Any) -> chainer.Variable:
        """The last layer's output."""
        first, *others = self.layers
        h = first(x)
        for layer in others:
            h = layer(F.relu(h))
        return h
