"""Two devices, both of which are the host; each thread has a current one, as in CUDA."""

from __future__ import annotations

import threading

COUNT = 2


class _Current(threading.local):
    device = 0


_current = _Current()


def get_device_id() -> int:
    return _current.device


def set_device(device: int) -> None:
    if not 0 <= device < COUNT:
        from cupy.cuda.runtime import CUDARuntimeError

        raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
    _current.device = device


class Device:
    """One of the devices: compared by its id, current inside of ``with``."""

    def __init__(self, device=None):
        self.id = get_device_id() if device is None else int(device)
        # One object may be entered several times, also inside of itself.
        self._entered: list[int] = []

    def __int__(self):
        return self.id

    def __enter__(self):
        self._entered.append(get_device_id())
        set_device(self.id)
        return self

    def __exit__(self, *args):
        set_device(self._entered.pop())

    def __repr__(self):
        return f"<CUDA Device {self.id}>"

    def use(self):
        set_device(self.id)

    def synchronize(self):
        """Everything is done as soon as it is called."""

    @property
    def compute_capability(self):
        return "90"

    @property
    def cublas_handle(self):
        return self.id + 1

    @property
    def attributes(self):
        return {"MultiProcessorCount": 1, "WarpSize": 32, "MaxThreadsPerBlock": 1024}

    @property
    def mem_info(self):
        from cupy.cuda import runtime

        return runtime.memGetInfo()

    def __hash__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        return isinstance(other, Device) and self.id < other.id
