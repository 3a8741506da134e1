"""ResNet-50 as Chainer's ``ResNet50Layers`` builds it, on images of 224 by 224."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, conv, linear, norm

# Name, blocks, channels in, in the middle and out, stride of the first block.
STAGES = (
    ("res2", 3, 64, 64, 256, 1),
    ("res3", 4, 256, 128, 512, 2),
    ("res4", 6, 512, 256, 1024, 2),
    ("res5", 3, 1024, 512, 2048, 2),
)


def blocks(n: int) -> list[str]:
    """Chainer's names of the blocks of a stage: a, b1, b2, ..."""
    return ["a", *(f"b{i}" for i in range(1, n))]


def specs() -> Iterator[Spec]:
    """Weights by the names of ``ResNet50Layers``."""
    yield from conv("conv1", 3, 64, 7)
    yield from norm("bn1", 64)
    for name, n, n_in, n_mid, n_out, _ in STAGES:
        for block in blocks(n):
            path = f"{name}/{block}"
            yield from _unit(path, 1, n_in, n_mid, 1)
            yield from _unit(path, 2, n_mid, n_mid, 3)
            yield from _unit(path, 3, n_mid, n_out, 1)
            if block == "a":
                yield from _unit(path, 4, n_in, n_out, 1)
            n_in = n_out
    yield from linear("fc6", 2048, 1000)


def _unit(path: str, i: int, n_in: int, n_out: int, ksize: int) -> Iterator[Spec]:
    yield from conv(f"{path}/conv{i}", n_in, n_out, ksize, bias=False)
    yield from norm(f"{path}/bn{i}", n_out)


CASE = NetworkCase(
    name="resnet50",
    title="ResNet-50 on 224x224, Adam",
    kind="train",
    batch=4,
    ring=2,
    shape=(3, 224, 224),
    classes=1000,
    specs=specs,
    check_steps=2,
    tolerance=2e-2,
    memory_steps=3,
)
