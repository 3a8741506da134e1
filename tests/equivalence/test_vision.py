"""The big networks of chainer.links.model.vision, on small images."""

from __future__ import annotations

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import initializers

from tests.equivalence.link_cases import BIG
from tests.tolerances import RESULTS, SUMS

from .harness import assert_near

# Name, side of the images, layers to look at: those that a small image reaches. The fully
# connected layers of VGG take 100 million weights, and images of 224 x 224.
TABLE = [
    ("GoogLeNet", 64, ["inception_3b", "inception_5b"]),
    ("ResNet50Layers", 33, ["res3", "pool5", "prob"]),
    ("ResNet101Layers", 32, ["prob"]),
    ("ResNet152Layers", 32, ["prob"]),
    ("VGG16Layers", 32, ["conv4_3", "pool5"]),
    ("VGG19Layers", 32, ["pool5"]),
]
TOO_BIG = 3e6  # a fully connected layer of VGG: no small image reaches it
NAMES = [name for name, _, _ in TABLE]


@pytest.fixture(autouse=True)
def quick_weights(monkeypatch):
    """Drawing 140 million normal numbers takes longer than all the rest."""
    drawn = np.random.RandomState(0).standard_normal(10007).astype("f")

    base = initializers.Constant.__mro__[1]  # of the zeros and of the NaNs of first gradients, too
    constant = base.__call__

    def fill_constant(self, array):
        if array.size < TOO_BIG:
            constant(self, array)

    def fill(self, array):
        if array.size >= TOO_BIG:
            return
        scale = np.sqrt(2 / max(1, array[0].size)) if array.ndim > 1 else 0
        array[...] = np.resize(drawn, array.shape) * scale

    for cls in (initializers.Normal, initializers.HeNormal, initializers.LeCunUniform):
        monkeypatch.setattr(cls, "__call__", fill)
    monkeypatch.setattr(initializers.LeCunNormal, "__call__", fill)
    monkeypatch.setattr(base, "__call__", fill_constant)


def make(name):
    return getattr(L, name)(pretrained_model=None)


def images(rng, side, n=1):
    return rng.standard_normal((n, 3, side, side)).astype("f")


@pytest.mark.parametrize(("name", "side", "layers"), TABLE, ids=NAMES)
def test_features(name, side, layers):
    plain = make(name)
    rng = np.random.default_rng(2)
    static = sdbr.static_graph(lambda x: plain(x, layers=layers), on_dynamic="raise")
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for i in range(3):
            x = images(rng, side)
            want, got = plain(x, layers=layers), static(x)
            assert list(got) == list(want)
            for layer in want:
                assert_near(got[layer].array, want[layer].array, RESULTS, f"call {i}: {layer}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 2)


@pytest.mark.parametrize(("name", "layer"), [("ResNet50Layers", "res3"), ("GoogLeNet", "pool3")])
def test_training(name, layer):
    """Gradients and, for ResNet, the running statistics of batch normalization."""
    found = []
    for wrap in (lambda f: f, lambda f: sdbr.static_graph(f, on_dynamic="raise")):
        model = make(name)
        loss = wrap(lambda x, model=model: F.mean(model(x, layers=[layer])[layer] ** 2))
        rng = np.random.default_rng(3)
        records = []
        for _ in range(3):
            model.cleargrads()
            y = loss(images(rng, 32, 2))
            y.backward()
            used = {n: p.grad.copy() for n, p in model.namedparams() if p.grad is not None}
            used["loss"] = y.array.copy()
            # A bias before batch normalization: its gradient is zero but for rounding.
            used.pop("/conv1/b" if name.startswith("ResNet") else None, None)
            for path, link in model.namedlinks():
                if isinstance(link, L.BatchNormalization):
                    used[f"{path} mean"] = link.avg_mean.copy()
            records.append(used)
        found.append(records)
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        assert got.keys() == want.keys()
        for part in want:
            assert_near(got[part], want[part], SUMS, f"call {i}: {part}")
    assert loss.schedule_manager.statistics.replays == 2


def test_every_big_link_is_here():
    assert set(NAMES) == BIG
