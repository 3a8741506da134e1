"""The GPUs of this machine that programs run on, and what compiles for them."""

from __future__ import annotations

import functools

from sdbr.backends.cuda.executable import Compile
from sdbr.backends.cuda.races import Races
from sdbr.base.cache_folder import cache_folder
from sdbr.base.errors import BackendError
from sdbr.devices import cublaslt
from sdbr.devices.compiled import cubin
from sdbr.devices.driver import Device, Driver
from sdbr.devices.nvrtc import nvrtc


@functools.cache
def _driver() -> Driver:
    return Driver()


@functools.cache
def gpu(number: int) -> tuple[Device, Compile]:
    """A GPU, and what makes machine code for it.

    Raises
    ------
    BackendError
        If the driver is missing or too old, or there is no such device.
    """
    device = Device(_driver(), number)
    return device, lambda text, headers: cubin(text, headers, device.architecture)


@functools.cache
def races(number: int) -> Races | None:
    """The algorithms of cuBLASLt on a GPU; None where it is missing."""
    device, _ = gpu(number)
    try:
        library = cublaslt.cublaslt(device.driver.version[0])
        return Races(cublaslt.Handle(library, device), cache_folder())
    except BackendError:
        return None


def require() -> None:
    """See to it that there is a GPU, and a compiler.

    Raises
    ------
    BackendError
        If there is not; it says what is missing.
    """
    gpu(0)
    nvrtc()
