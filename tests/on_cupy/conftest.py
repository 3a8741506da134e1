"""Programs of these tests run on the driver without a device, or on the GPU of this machine."""

import functools
import os
from unittest import mock

from sdbr.backends.cuda import arrays, gpus

import pytest
from chainer.backends import cuda

from tests.conftest import ON
from tests.harness import device

if ON == "gpu":
    collect_ignore = ["test_host_cupy.py", "test_host_devices.py", "test_kernels.py"]
if not cuda.available:  # named by hand, where there is none
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    """Where replays are audited, no test may pass because define-by-run's results count."""
    if os.environ["SDBR_AUDIT"] != "off":
        text = "error:.*differs from (define-by-run|Chainer's):sdbr.SdbrWarning"
        for item in items:
            item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture
def chained():
    """Whether small ops are one kernel, which has to be compiled for each program; overridden."""
    return False


@pytest.fixture
def races():
    """A GPU to the algorithms of the library for large products there; overridden."""
    return lambda number: None


@pytest.fixture(autouse=True)
def executables(chained, races):
    """The executables of a test, as they are made."""
    made = []

    class Noted(arrays.ArrayExecutable):
        def __init__(self, program, memory, *gpu, races):
            super().__init__(program, memory, *gpu, chained=chained, races=races)
            made.append(self)

    with mock.patch.object(arrays, "ArrayExecutable", Noted):
        if ON == "gpu":
            yield made
            return
        device.device().driver.count = device.setting("devices").value = 2
        gpu = functools.cache(lambda number: (device.device(number), device.machine_code))
        patches = {"gpu": gpu, "require": lambda: None, "races": races}
        with mock.patch.multiple(gpus, **patches):
            yield made
