"""Memory of the host in the place of a device's, from a pool that hands out freed blocks again.

As in CuPy, a block that was freed is what the next request of that size gets: who holds on to
the address of an array that is gone sees another array's numbers there.
"""

from __future__ import annotations

import ctypes
import threading

import numpy as np

from cupy import plain

from .device import Device, get_device_id

#: Blocks are multiples of this, and lie at multiples of it.
UNIT = 512


class OutOfMemoryError(MemoryError):
    """The pool may not take more."""

    def __init__(self, size, total, limit=0):
        text = f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes"
        super().__init__(text + (f", limit set to: {limit:,} bytes)." if limit else ")."))


class BaseMemory:
    """A stretch of memory of a device."""

    ptr = size = 0
    device_id = 0

    @property
    def device(self):
        return Device(self.device_id)


class Memory(BaseMemory):
    """Memory of its own, from no pool."""

    identity = "Memory"

    def __init__(self, size):
        self._block = _new_block(size)
        self.ptr, self.size = self._block.ctypes.data, size
        self.device_id = get_device_id()


class UnownedMemory(BaseMemory):
    """Memory of somebody else, who is kept alive."""

    identity = "UnownedMemory"

    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = get_device_id() if device_id < 0 else device_id


class PooledMemory(BaseMemory):
    """A block of a pool, which gets it back when nothing holds it any more."""

    identity = "PooledMemory"

    def __init__(self, pool, block, device_id):
        self._pool, self._block = pool, block
        self.size = block.size
        self.ptr = block.ctypes.data
        self.device_id = device_id

    def free(self):
        block, self._block = self._block, None
        if block is not None:
            self._pool._take_back(block, self.device_id)
            self.ptr = self.size = 0

    def __del__(self):
        try:  # noqa: SIM105  (contextlib's names may be gone as well when the interpreter ends)
            self.free()
        except Exception:
            pass


class MemoryPointer:
    """A place in some memory."""

    def __init__(self, mem, offset):
        self.mem = mem
        self.ptr = mem.ptr + offset

    @property
    def device_id(self):
        return self.mem.device_id

    @property
    def device(self):
        return self.mem.device

    def __int__(self):
        return self.ptr

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset):
        return self + -offset

    def copy_from_device(self, src, size):
        ctypes.memmove(self.ptr, src.ptr, size)

    def copy_from_device_async(self, src, size, stream=None):
        self.copy_from_device(src, size)

    def copy_from_host(self, mem, size):
        ctypes.memmove(self.ptr, getattr(mem, "value", mem), size)

    def copy_from_host_async(self, mem, size, stream=None):
        self.copy_from_host(mem, size)

    def copy_to_host(self, mem, size):
        ctypes.memmove(getattr(mem, "value", mem), self.ptr, size)

    def copy_to_host_async(self, mem, size, stream=None):
        self.copy_to_host(mem, size)

    def memset(self, value, size):
        ctypes.memset(self.ptr, value, size)

    def memset_async(self, value, size, stream=None):
        self.memset(value, size)


class MemoryPool:
    """Blocks by device and size."""

    def __init__(self, allocator=None):
        self._free: dict[tuple[int, int], list[np.ndarray]] = {}
        self._used = self._limit = 0
        self._lock = threading.RLock()
        #: How often memory was asked for: a test may see that it was not at all.
        self.requests = 0

    def malloc(self, size):
        device = get_device_id()
        rounded = -(-size // UNIT) * UNIT
        with self._lock:
            self.requests += 1
            waiting = self._free.get((device, rounded))
            if not waiting and 0 < self._limit < self.total_bytes() + rounded:
                self.free_all_blocks()
                if self._limit < self.total_bytes() + rounded:
                    raise OutOfMemoryError(rounded, self.total_bytes(), self._limit)
            block = waiting.pop() if waiting else _new_block(rounded)
            self._used += rounded
        return MemoryPointer(PooledMemory(self, block, device), 0)

    def _take_back(self, block, device):
        with self._lock:
            self._used -= block.size
            self._free.setdefault((device, block.size), []).append(block)

    def used_bytes(self):
        return self._used

    def free_bytes(self):
        return sum(size * len(blocks) for (_, size), blocks in self._free.items())

    def total_bytes(self):
        return self._used + self.free_bytes()

    def n_free_blocks(self):
        return sum(map(len, self._free.values()))

    def free_all_blocks(self, stream=None):
        with self._lock:
            self._free.clear()

    free_all_free = free_all_blocks

    def get_limit(self):
        return self._limit

    def set_limit(self, size=None, fraction=None):
        self._limit = size or 0


def _new_block(size):
    whole = plain.empty(size + UNIT, np.uint8)
    start = -whole.ctypes.data % UNIT
    return whole[start : start + size]


class PinnedMemoryPool:
    """Nothing on the host needs to be pinned."""

    def n_free_blocks(self):
        return 0

    def free_all_blocks(self):
        pass


default_pool = MemoryPool()
default_pinned_pool = PinnedMemoryPool()
_allocator = default_pool.malloc


def alloc(size):
    """Memory from the current allocator; none at all, at address zero, for no bytes."""
    if size == 0:
        return MemoryPointer(UnownedMemory(0, 0, None), 0)
    return get_allocator()(size)


def _malloc(size):
    return MemoryPointer(Memory(size), 0)


class _OfThread(threading.local):
    allocator = None


_of_thread = _OfThread()


def set_allocator(allocator=None):
    """For all threads; without one, nothing is kept for the next request."""
    global _allocator
    if _of_thread.allocator is not None:
        raise ValueError("Allocator cannot be changed inside of `using_allocator`")
    _allocator = allocator or _malloc


def get_allocator():
    return _of_thread.allocator or _allocator


def _get_thread_local_allocator():
    return _of_thread.allocator


def _set_thread_local_allocator(allocator):
    _of_thread.allocator = allocator


class PinnedMemoryPointer:
    """Memory of the host, with the buffer protocol's address."""

    def __init__(self, size):
        self.mem = plain.empty(size, np.uint8)
        self.ptr = self.mem.ctypes.data

    def size(self):
        return self.mem.size

    def __buffer__(self, flags):
        return memoryview(self.mem)


def alloc_pinned_memory(size):
    return PinnedMemoryPointer(size)
