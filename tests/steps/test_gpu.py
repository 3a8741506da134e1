"""Whole steps on the GPU of this machine."""

import chainer
import numpy as np
import pytest
from chainer import links as L

from tests.harness import device
from tests.harness.models import MLP, MODELS, data, floats, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def gpu():
    device.needs_gpu()


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps(name, chained):
    with device.simulated(chained, on_gpu=True) as made:
        compare(classifier, BATCH, OPTIMIZERS[name], backend=device.NAME)
    assert [len(x.parts) for x in made] == [1]


@pytest.mark.parametrize("name", ["mlp_dropout", "autoencoder", "actor_critic"])
def test_models(name):
    make, batch, native = MODELS[name]
    with device.simulated(on_gpu=True) as made:
        compare(make, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=6, native=bool(native))
    assert any(x.recorded for x in made)


def test_labels_out_of_range():
    with device.simulated(chained=True, on_gpu=True):
        check_labels_out_of_range()


def check_labels_out_of_range():
    _, model, optimizer = train(
        classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME
    )
    before = [p.array.copy() for p in model.params()]
    with pytest.raises(IndexError, match="is out of range for 3 entries"):
        optimizer.update(model, np.ones((8, 4), "f"), np.full(8, 3, "i"))
    for p, array in zip(model.params(), before, strict=True):
        np.testing.assert_array_equal(p.array, array)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_products_by_the_library(name):
    with (
        chainer.using_config("sdbr_tune", True),
        device.by_library(on_gpu=True) as races,
        device.simulated(on_gpu=True, races=races) as made,
    ):
        compare(
            lambda: L.Classifier(MLP(70, 131, 3)), data(floats(37, 70), labels(3, 37)),
            OPTIMIZERS[name], backend=device.NAME, steps=8,
        )  # fmt: skip
    (step,) = made
    assert "cuBLASLt" in {choice.name for choice in step.products.choices.values()}


def test_labels_out_of_range_with_products_by_the_library():
    with device.by_library(on_gpu=True) as races, device.simulated(on_gpu=True, races=races):
        check_labels_out_of_range()
