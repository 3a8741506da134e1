"""``cupy.cuda``, without cuDNN and NCCL: ``cupy.cuda.cudnn`` cannot be imported."""

import contextlib

from . import cublas, device, driver, memory, memory_hook, nvtx, runtime, stream
from .device import Device, get_device_id
from .memory import (
    BaseMemory,
    Memory,
    MemoryPointer,
    MemoryPool,
    PinnedMemoryPool,
    UnownedMemory,
    alloc,
    alloc_pinned_memory,
    get_allocator,
    set_allocator,
)
from .stream import Event, ExternalStream, Stream, get_current_stream, get_elapsed_time


@contextlib.contextmanager
def using_allocator(allocator=None):
    """For this thread."""
    before = memory._get_thread_local_allocator()
    memory._set_thread_local_allocator(allocator or memory._malloc)
    try:
        yield
    finally:
        memory._set_thread_local_allocator(before)


nvtx_enabled = False
nccl_enabled = False


def is_available():
    return True


def set_pinned_memory_allocator(allocator=None):
    pass


__all__ = [
    "BaseMemory",
    "Device",
    "Event",
    "ExternalStream",
    "Memory",
    "MemoryPointer",
    "MemoryPool",
    "PinnedMemoryPool",
    "Stream",
    "UnownedMemory",
    "alloc",
    "alloc_pinned_memory",
    "cublas",
    "device",
    "driver",
    "get_allocator",
    "get_current_stream",
    "get_device_id",
    "get_elapsed_time",
    "is_available",
    "memory",
    "memory_hook",
    "nvtx",
    "runtime",
    "set_allocator",
    "set_pinned_memory_allocator",
    "stream",
    "using_allocator",
]
