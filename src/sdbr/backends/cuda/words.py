"""The words of a program on a device: what its kernels read, and changes from run to run.

In this order, 8 bytes each: the float attributes of all ops, an address for each row, the lists
of ops with any number of operands, and, for kernels that draw, a seed and the number of the run.
"""

from __future__ import annotations

import ctypes
import math

from sdbr.backends.cuda.launch import THREADS
from sdbr.devices.driver import Borrowed, Device

import numpy as np

KERNEL = "sdbr_write_words"
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
    stream : Borrowed
        On which they are written first.
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
        stream: Borrowed,
        function,
        floats: np.ndarray,
        n_rows: int,
        n_listed: int,
    ) -> None:
        self.function = function
        self.rows = len(floats)
        self.lists = self.rows + n_rows
        self.random = self.lists + n_listed
        self.now = np.zeros(self.random + 2, np.uint64)
        self.now[: self.rows] = floats.view(np.uint64)
        self.sent = self.now.copy()
        self._are_known = True
        self._buffer = device.allocate(self.now.nbytes)
        stream.to_device(self._buffer.address, self.sent)
        stream.synchronize()

    def address(self, place: int) -> int:
        """Where a word lies."""
        return self._buffer.address + 8 * place

    def set_float(self, place: int, value: float) -> None:
        """One float attribute."""
        self.now[place : place + 1].view(np.float64)[0] = value

    def get_float(self, place: int) -> float:
        """One float attribute as the next run sees it."""
        return float(self.now[place : place + 1].view(np.float64)[0])

    def seed(self, value: int) -> None:
        """Begin a stream of random numbers."""
        self.now[self.random] = value

    def draw(self) -> None:
        """Let the next run draw others than the last one."""
        self.now[self.random + 1] += np.uint64(1)

    def forget(self) -> None:
        """After a failure nobody knows what lies there: all are written before the next run."""
        self._are_known = False

    def send(self, stream: Borrowed) -> int:
        """Launch what writes the words that have changed; how many launches it took."""
        changed = np.flatnonzero((self.now != self.sent) | (not self._are_known))
        for begin in range(0, len(changed), MOST):
            places = changed[begin : begin + MOST]
            words = WordsStruct(base=self._buffer.address, count=len(places))
            pairs = np.ctypeslib.as_array(words.words)
            pairs[: 2 * len(places) : 2] = places
            pairs[1 : 2 * len(places) : 2] = self.now[places]
            stream.launch(self.function, 1, THREADS, words)
        self.sent[changed] = self.now[changed]
        self._are_known = True
        return math.ceil(len(changed) / MOST)
