"""VGG16 with batch normalization on images of CIFAR's size.

There is no dropout, so that all peers compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, conv, norm

# Channels and convolutions of a stage; a pooling behind each.
PLAN = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def specs() -> Iterator[Spec]:
    """Weights as in Chainer's CIFAR example: no biases in front of a normalization."""
    n_in = 3
    for stage, (n_out, repeat) in enumerate(PLAN):
        for i in range(repeat):
            block = f"blocks/{stage}/{i}"
            yield from conv(f"{block}/conv", n_in, n_out, 3, bias=False)
            yield from norm(f"{block}/bn", n_out)
            n_in = n_out
    yield "fc1/W", (512, 512), 512**-0.5
    yield from norm("bn_fc1", 512)
    yield "fc2/W", (10, 512), 512**-0.5


CASE = NetworkCase(
    name="vgg_cifar",
    title="VGG16 with batch normalization on 32x32, no dropout, Adam",
    kind="train",
    batch=16,
    ring=16,
    shape=(3, 32, 32),
    classes=10,
    specs=specs,
    check_steps=2,
    tolerance=1e-2,
    memory_steps=6,
)
