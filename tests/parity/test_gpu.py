"""Kernels on the GPU of this machine."""

from sdbr.backends.cuda.plan import FAMILIES
from sdbr.ops.table import OPS

import pytest

from tests.harness import device

from .generators import cases_of
from .harness import assert_parity

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def gpu():
    device.needs_gpu()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family, dtype):
    names = [op.name for op in OPS if op.family == family]
    names = [name for name in names if name not in (*device.NOT_YET, *device.IN_TURN)]
    with device.simulated(on_gpu=True) as made:
        for name in names:
            assert_parity(cases_of(name, dtype), device.NAME)
    assert len(made) == len(names)
    assert all((len(x.parts), x.recorded, x.others) == (1, 1, []) for x in made)
