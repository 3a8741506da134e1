"""Kernels on the GPU of this machine."""

from sdbr.backends.cuda.machine import FAMILIES, NOT_YET
from sdbr.ops.table import OPS

import chainer
import pytest

from tests.harness import device

from .generators import cases_of
from .harness import assert_parity

pytestmark = pytest.mark.gpu
NAMES = [
    op.name for op in OPS if op.family in FAMILIES and op.name not in (*NOT_YET, *device.IN_TURN)
]


@pytest.fixture(scope="module", autouse=True)
def gpu():
    device.needs_gpu()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_op(name, dtype):
    with device.simulated(on_gpu=True) as made:
        assert_parity(cases_of(name, dtype), device.NAME)
    (one,) = made
    assert (len(one.parts), one.recorded, one.others) == (1, 1, [])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_by_the_library(dtype):
    """However small they are; what the library does not take is done by our own kernels."""
    with (
        chainer.using_config("sdbr_tune", True),
        device.by_library(on_gpu=True) as races,
        device.simulated(on_gpu=True, races=races) as made,
    ):
        for name in (op.name for op in OPS if op.family == "product"):
            assert_parity(cases_of(name, dtype), device.NAME)
    names = {choice.name for x in made for choice in x.products.choices.values()}
    assert "cuBLASLt" in names
