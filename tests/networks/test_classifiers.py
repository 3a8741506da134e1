"""Classifiers of images replay as define-by-run, and hold no Python op."""

import sdbr

import chainer
import numpy as np
import pytest

from . import classifiers
from .harness import assert_native, assert_replayed, check

NETWORKS = [
    classifiers.LeNet,
    classifiers.Vgg16,
    classifiers.ResNet50,
    classifiers.GoogLeNet,
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_no_python_op(network):
    check(network)


def test_chainers_resnet50_holds_no_python_op():
    model = classifiers.Labelled(classifiers.ResNetLogits())
    optimizer = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(1e-4)).setup(model)
    sdbr.static_graph(model, on_dynamic="raise")
    for _ in range(2):
        optimizer.update(model, *classifiers.images(np.random.RandomState(0), 1, 3, 64, 1000))
    assert_replayed(model, traces=1)
    assert assert_native(model) == {"forward", "backward", "step"}
    assert np.isfinite(model.loss.array)
