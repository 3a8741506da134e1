"""The words of a program on a device: what its kernels read, and changes from run to run.

In this order, 8 bytes each: the fault word (`Fault`), the float attributes of all ops, an address
for each row, and the lists of ops with any number of operands.
"""

from __future__ import annotations

import ctypes
import math

from sdbr.backends.cuda.launch import THREADS, Fault
from sdbr.devices.driver import Device, Stream

import numpy as np

KERNEL = "sdbr_write_words"
FAULT = ctypes.sizeof(Fault) // 8
MOST = 255  # in one launch, as in kernels/device/words.cuh


class WordsStruct(ctypes.Structure):
    """``sdbr_words``."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("count", ctypes.c_int64),
        ("words", ctypes.c_uint64 * (2 * MOST)),
    )


class Words:
    """Words on a device, and what is known of them here.

    Parameters
    ----------
    device : Device
    stream : Stream
        That of the kernels that read them.
    function
        The kernel that writes.
    floats : numpy.ndarray
        float64[n], attributes of all ops.
    n_rows : int
        Rows of the program.
    n_listed : int
        Operands in lists.
    """

    def __init__(
        self,
        device: Device,
        stream: Stream,
        function,
        floats: np.ndarray,
        n_rows: int,
        n_listed: int,
    ) -> None:
        self.stream, self.function = stream, function
        self.rows = FAULT + len(floats)
        self.lists = self.rows + n_rows
        self.now = np.zeros(self.lists + n_listed, np.uint64)
        self.now[FAULT : self.rows] = floats.view(np.uint64)
        self._sent = self.now.copy()
        self._buffer = device.allocate(self.now.nbytes)
        stream.to_device(self._buffer.address, self._sent)
        stream.synchronize()

    def address(self, place: int) -> int:
        """Where a word lies."""
        return self._buffer.address + 8 * place

    def set_float(self, place: int, value: float) -> None:
        """One float attribute."""
        self.now[FAULT + place : FAULT + place + 1].view(np.float64)[0] = value

    def send(self) -> int:
        """Launch what writes the words that have changed; how many launches it took."""
        changed = np.flatnonzero(self.now != self._sent)
        for begin in range(0, len(changed), MOST):
            places = changed[begin : begin + MOST]
            words = WordsStruct(base=self._buffer.address, count=len(places))
            pairs = np.ctypeslib.as_array(words.words)
            pairs[: 2 * len(places) : 2] = places
            pairs[1 : 2 * len(places) : 2] = self.now[places]
            self.stream.launch(self.function, 1, THREADS, words)
        self._sent[changed] = self.now[changed]
        return math.ceil(len(changed) / MOST)

    def fault(self) -> Fault:
        """What went wrong first in the runs so far, which are waited for; forgotten by the next."""
        found = np.zeros(FAULT, np.uint64)
        self.stream.to_host(found, self._buffer.address)
        self.stream.synchronize()
        fault = Fault.from_buffer_copy(found)
        if fault.number:
            self._sent[:FAULT] = found
        return fault
