"""Arrays of CuPy: made, copied, looked at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from sdbr.base.errors import OutOfMemoryError

import numpy as np
from chainer.backends import cuda

#: Their class; a stand-in that nothing is of, where CuPy is missing.
Array = cuda.ndarray


#: The classes of arrays, and those of them that are nobody's subclass.
ARRAYS = (np.ndarray, Array)
PLAIN = frozenset(ARRAYS)


def is_on_device(thing: Any) -> bool:
    """Whether `thing` is an array of CuPy, and of no subclass."""
    return type(thing) is Array


def device_of(thing: Any) -> int | None:
    """The number of the GPU that an array lies on; None for the host."""
    return thing.data.device_id if isinstance(thing, Array) else None


#: What CuPy raises without memory.
NO_MEMORY = cuda.cupy.cuda.memory.OutOfMemoryError if cuda.available else MemoryError
_HELP = (
    "smaller batches take less, and so does sdbr.static_graph(memory='low'); "
    "cupy.get_default_memory_pool().free_all_blocks() gives back what CuPy holds and does not use"
)


class NoRoomError(OutOfMemoryError, NO_MEMORY):
    """CuPy's error for memory, and sdbr's."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


def say_for(error: MemoryError, what: str, device: int | None) -> NoReturn:
    """Raise CuPy's error for memory as one that says for what it was, and what helps.

    Raises
    ------
    OutOfMemoryError
        CuPy's as well.
    """
    if isinstance(error, NoRoomError):
        raise error
    text = f"out of memory on GPU {device}, for {what}: {error}; {_HELP}"
    raise NoRoomError(text) from error


def new(shape: tuple, dtype, device: int | None, what: str = "an array"):
    """An uninitialised array of the host (None) or of a GPU.

    Raises
    ------
    OutOfMemoryError
        If the GPU has no memory for it; with `what` it is, and how large.
    """
    if device is None:
        return np.empty(shape, dtype)
    with cuda.Device(device):
        try:
            return Array(shape, dtype)
        except NO_MEMORY as error:
            n = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            text = f"{what} of {n:,} bytes ({n / 2**20:,.1f} MiB)"
            say_for(error, text, device)


def on_device(array: np.ndarray, device: int):
    """A copy of a host's array, C-contiguous, on a GPU."""
    made = new(array.shape, array.dtype, device)
    if array.size:
        with cuda.Device(device):
            made.set(np.ascontiguousarray(array).reshape(array.shape))
    return made


def on_host(array) -> np.ndarray:
    """A copy of an array of a GPU; arrays of the host are given back."""
    return array.get() if isinstance(array, Array) else array


def is_writeable(array) -> bool:
    """Whether an array may be written to; one of a GPU always.

    ``array.flags.writeable`` warns for what ``numpy.broadcast_arrays`` has made.
    """
    return isinstance(array, Array) or bool(array.flags.num & 0x400)  # NPY_ARRAY_WRITEABLE


def contiguous(array):
    """`array` in C order, aligned, without a subclass; itself where it is."""
    if not isinstance(array, Array):
        return _contiguous_on_host(array)
    if type(array) is Array and array.flags.c_contiguous:
        return array
    made = new(array.shape, array.dtype, array.data.device_id, "a copy in C order")
    with array.device:
        made[...] = array
    return made


def _contiguous_on_host(array) -> np.ndarray:
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    return array if lies_in_order(array) else array.copy()


@contextlib.contextmanager
def allocations_noted(noted: set[int]) -> Iterator[None]:
    """Where memory begins that this thread gets of CuPy meanwhile goes to `noted`."""
    allocate = cuda.cupy.cuda.get_allocator()

    def allocator(nbytes: int):
        pointer = allocate(nbytes)
        noted.add(pointer.mem.ptr)
        return pointer

    with cuda.cupy.cuda.using_allocator(allocator):
        yield


def where_it_lies(array) -> contextlib.AbstractContextManager:
    """The GPU of an array is the current one of CuPy for a while; nothing for one of NumPy."""
    return array.device if isinstance(array, Array) else contextlib.nullcontext()


def span(array) -> tuple[int, int]:
    """Where the memory of an array's elements begins and ends, of NumPy or CuPy."""
    if not array.size:
        return 0, 0
    low = _first(array)
    high = low + array.itemsize
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high


def lies_in_order(array) -> bool:
    """Whether an array lies in C order, aligned."""
    flags = array.flags
    return flags.c_contiguous and (isinstance(array, Array) or flags.aligned)


def may_be_read_in_place(array) -> bool:
    """Whether a program can read an array where it lies; else it has a copy."""
    return not array.size or lies_in_order(array) or memory_in_order(array) is not None


def memory_in_order(array) -> tuple[Any, int] | None:
    """The memory that an array's elements lie in, flat, and where the first of them lies there.

    Returns
    -------
    (ndarray, int) or None
        Of one dimension, without gaps, of the same dtype; bytes. None where no such array can be:
        elements that are not aligned, or not at multiples of their size.
    """
    size = array.itemsize
    low, high = span(array)
    steps = [s for n, s in zip(array.shape, array.strides, strict=True) if n > 1]
    if not array.size or low % array.dtype.alignment or any(step % size for step in steps):
        return None
    first = tuple(slice(None, None, -1 if step < 0 else None) for step in array.strides)
    n = (high - low) // size
    if isinstance(array, Array):
        return Array((n,), array.dtype, array[first].data), _first(array) - low
    flat = np.lib.stride_tricks.as_strided(array[first], (n,), (size,), writeable=False)
    return flat, _first(array) - low


def _first(array) -> int:
    """The address of the first element."""
    return array.data.ptr if isinstance(array, Array) else array.__array_interface__["data"][0]


def may_share_memory(a, b) -> bool:
    """Whether elements of two arrays may lie in one place: whether their spans overlap."""
    if isinstance(a, Array) != isinstance(b, Array):
        return False
    if not isinstance(a, Array):
        return np.may_share_memory(a, b)
    (low, high), (start, end) = span(a), span(b)
    return low < end and start < high and device_of(a) == device_of(b)


def view(array, shape: tuple, dtype, strides: tuple, offset: int):
    """A part of the memory of an array of a GPU.

    Parameters
    ----------
    array
        Of CuPy.
    shape : tuple of int
    dtype : numpy.dtype
    strides : tuple of int
    offset : int
        Bytes from its first element on.
    """
    return Array(shape, dtype, array.data + offset, strides)


def current(device: int):
    """Make a GPU the current one of CuPy for a while."""
    return cuda.Device(device)


def current_stream() -> int:
    """The handle of the stream that CuPy works on now; 0: the default one."""
    return cuda.cupy.cuda.get_current_stream().ptr


def stream_of_now():
    """The stream that CuPy works on now, which lives as long as this is kept; None without CuPy."""
    return cuda.cupy.cuda.get_current_stream() if cuda.available else None


def uniform(n: int):
    """The next `n` numbers of single precision in [0, 1) of CuPy's generator."""
    return cuda.cupy.random.rand(n, dtype=np.float32)


def seed() -> int:
    """A number of 62 bits of CuPy's generator."""
    high, low = cuda.cupy.random.randint(0, 2**31 - 1, 2).tolist()
    return high << 31 | low
