"""What little of the CUDA runtime has a meaning on the host."""

from __future__ import annotations

from . import device as _device

is_hip = False
_is_hip_environment = False
memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, message="cudaErrorUnknown: unknown error"):
        super().__init__(message)
        self.status = status


def getDeviceCount():
    return _device.COUNT


def getDevice():
    return _device.get_device_id()


def setDevice(device):
    _device.set_device(device)


def deviceSynchronize():
    pass


def streamSynchronize(stream):
    pass


def memGetInfo():
    """Free and total bytes: a device of 8 GB of which nothing else takes any."""
    from .memory import default_pool

    total = 8 << 30
    return total - default_pool.total_bytes(), total


def runtimeGetVersion():
    return 12090


def driverGetVersion():
    return 12090


def getDeviceProperties(device):
    return {"name": b"host", "major": 9, "minor": 0, "multiProcessorCount": 1, "warpSize": 32}


def deviceCanAccessPeer(device, peer):
    return 0
