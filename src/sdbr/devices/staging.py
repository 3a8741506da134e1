"""Copies from arrays of the host to a GPU that nobody waits for.

They go through memory of the host that stays where it is (*pinned*): the array itself may be
written to as soon as its copy has begun.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools

from sdbr.base.errors import DriverError
from sdbr.base.forks import reentrant_lock
from sdbr.devices.driver import Borrowed, Device, Event, Pinned

import numpy as np

#: Pieces of memory at most, each as large as the largest array that came through it.
MOST = 4
_SMALLEST = 4096  # bytes


class Piece:
    """Memory that one array after another is copied through.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.event = Event(device, timed=False)
        self.nbytes = 0
        self.in_use = False

    def take(self, nbytes: int) -> None:
        """Wait till the array before is gone, and have room for the next one."""
        if self.in_use:
            self.event.wait()
            self.in_use = False
        if nbytes > self.nbytes:
            room = max(_SMALLEST, 1 << (nbytes - 1).bit_length())
            self.memory = Pinned(self.device, room)
            self.nbytes = room
            self.view = np.frombuffer((ctypes.c_char * room).from_address(self.memory.address), "B")

    def send(self, array: np.ndarray, address: int, stream: Borrowed) -> None:
        """Copy an array to an address of the device."""
        held = self.view[: array.nbytes]
        held.view(array.dtype).reshape(array.shape)[...] = array
        stream.to_device(address, held)
        try:
            self.event.record(stream)
        except DriverError:
            with contextlib.suppress(DriverError):  # nobody will know when it is done
                stream.synchronize()
            raise
        self.in_use = True


class Staging:
    """A ring of pieces of pinned memory of a GPU.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = reentrant_lock()
        self._pieces: list[Piece] = []
        self._next = 0

    def copy(self, array: np.ndarray, address: int, stream: Borrowed) -> None:
        """Begin to copy an array of the host, which may be written to when this is back.

        Parameters
        ----------
        array : numpy.ndarray
            Of any layout, with at least one element.
        address : int
            Of memory of the device for its elements in C order.
        stream : Borrowed
            On whose turn they are copied.

        Raises
        ------
        DriverError
            If the driver refuses.
        """
        with self.lock:
            if len(self._pieces) < MOST:
                self._pieces.append(Piece(self.device))
                self._next = len(self._pieces) - 1
            piece = self._pieces[self._next]
            self._next = (self._next + 1) % MOST
            piece.take(array.nbytes)
            piece.send(array, address, stream)


@functools.cache
def staging(device: Device) -> Staging:
    """That of a device."""
    return Staging(device)
