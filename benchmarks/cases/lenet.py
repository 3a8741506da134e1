"""The first convolutional network that anybody trains."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, conv, linear


def specs() -> Iterator[Spec]:
    """Weights of two convolutions and two linear layers."""
    yield from conv("conv1", 1, 20, 5)
    yield from conv("conv2", 20, 50, 5)
    yield from linear("fc1", 800, 500)
    yield from linear("fc2", 500, 10)


CASE = NetworkCase(
    name="lenet",
    title="conv 5x5x20, pool, conv 5x5x50, pool, 500, 10 on 28x28, Adam",
    kind="train",
    batch=64,
    ring=32,
    shape=(1, 28, 28),
    classes=10,
    specs=specs,
    check_steps=5,
    tolerance=1e-3,
)
