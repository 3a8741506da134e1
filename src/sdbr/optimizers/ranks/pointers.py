"""Where kernels find ``MPI_Allreduce``: an address and handles of the MPI that mpi4py uses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

#: Bytes that kernels have for a status of MPI, and for a request.
_STATUS, _REQUEST = 128, 8


def allreduce(mpi_comm: Any, dtype: np.dtype, begins: bool = False) -> tuple[int, ...] | None:
    """Integers of the op ``allreduce``; None where the library does not show its function.

    Parameters
    ----------
    mpi_comm : mpi4py.MPI.Comm
    dtype : dtype
        float32 or float64.
    begins : bool
        Those of ``allreduce_begin``, but for its number.

    Returns
    -------
    tuple of int or None
        Function, communicator, dtype, operation, ``MPI_IN_PLACE``, whether handles are pointers; of
        one that begins ``MPI_Test`` and ``MPI_Wait`` as well.
    """
    from mpi4py import MPI

    if MPI._sizeof(MPI.Status) > _STATUS or MPI._sizeof(MPI.Request) > _REQUEST:
        return None
    try:
        library = ctypes.CDLL(MPI.__file__)
        function = library.MPI_Iallreduce if begins else library.MPI_Allreduce
        more = (library.MPI_Test, library.MPI_Wait) if begins else ()
        in_place = int(MPI.IN_PLACE)
    except (OSError, AttributeError, TypeError):
        return None
    kind = {"f": MPI.FLOAT, "d": MPI.DOUBLE}[np.dtype(dtype).char]
    handles = [_handle(thing) for thing in (mpi_comm, kind, MPI.SUM)]
    wide = MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p)
    return (_address(function), *handles, in_place, int(wide), *map(_address, more))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _handle(thing: Any) -> int:
    """What C code passes for an object of mpi4py: a pointer, or an int."""
    from mpi4py import MPI

    wide = MPI._sizeof(type(thing)) == ctypes.sizeof(ctypes.c_void_p)
    place = ctypes.c_int64 if wide else ctypes.c_int32
    return place.from_address(MPI._addressof(thing)).value
