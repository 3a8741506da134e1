"""What was launched on a GPU and may still run: on which stream, and whether anything was wrong.

Nobody waits for a run. What is wrong in one is noted on the device, where later ops look, and in
memory of the host, where the next call looks.
"""

import ctypes
import functools
import threading
import weakref

from sdbr.backends.cuda.launch import Fault
from sdbr.devices import arrays, runs
from sdbr.devices.driver import PER_THREAD

import numpy as np

from libc.stdint cimport intptr_t, uint64_t


cdef class InFlight:
    """Runs on a GPU, of all programs.

    Parameters
    ----------
    device : Device

    Attributes
    ----------
    fault : int
        The address of the `Fault` on the device.
    """

    def __init__(self, device):
        self.device, self.programs, self.number = device, [], 1
        self.per_thread = PER_THREAD
        with device.current():
            self.pinned = device.pin(ctypes.sizeof(Fault))
            self.buffer = device.allocate(ctypes.sizeof(Fault))
        self.fault = self.buffer.address
        self.noted = <uint64_t *> <intptr_t> self.pinned.address
        self.clear()

    def enlist(self, executable, int n_ops):
        """Number the ops of a program that will run; that of the first.

        When the executable goes, its runs are waited for: then nothing reads its memory anymore.
        """
        self.programs = [entry for entry in self.programs if entry[1]() is not None]
        first = self.number
        self.programs.append((range(first, first + n_ops), weakref.ref(executable)))
        self.number += n_ops
        weakref.finalize(executable, self.device.wait_quietly).atexit = False
        return first

    cpdef before(self, intptr_t stream):
        """Let what is launched on this stream come after all other runs.

        Raises
        ------
        IndexError
            As `check`.
        """
        if self.noted[0]:
            self.check()
        if stream != self.stream or not self.runs or stream == self.per_thread:
            self.turn_to(stream)

    cdef turn_to(self, intptr_t stream):
        """Runs on another stream wait for what the last one has: programs share memory."""
        thread = threading.get_ident()
        if self.runs and stream == self.stream and thread == self.thread:
            return
        # Whoever made the stream may let it go before anybody asks what was last on it.
        held = arrays.stream_of_now()
        if self.runs:
            if self.stream == self.per_thread:  # of a thread: no other one can ask for it
                self.device.wait()
            else:
                self.device.order(self.stream, stream)
        self.held, self.stream, self.thread, self.runs = held, stream, thread, True

    def wait(self):
        """Wait for all runs.

        Raises
        ------
        IndexError
            As `check`.
        """
        self.device.wait()
        self.runs, self.held = False, None
        self.check()

    def wait_quietly(self):
        """Wait for all runs; what went wrong in them is told by the next call."""
        self.device.wait_quietly()

    def is_noted(self):
        """Whether something went wrong in runs that have come so far, and nobody was told."""
        return self.noted[0] != 0

    def check(self):
        """Raise for what went wrong in runs that have come so far.

        Raises
        ------
        IndexError
            For a label that is out of range: it names the op. What was launched after it has
            left parameters, moments, and arrays that were there before alone.
        """
        if not self.noted[0]:
            return
        self.device.wait()  # what came after it writes nothing as long as the note stands
        fault = Fault.from_buffer_copy(ctypes.string_at(self.pinned.address, ctypes.sizeof(Fault)))
        self.clear()
        error = IndexError(
            f"index {fault.value} at position {fault.position} is out of range for "
            f"{fault.bound} entries"
        )
        error.is_fault = True  # see `sdbr.devices.runs`
        for numbers, program in self.programs:
            executable = program()
            if fault.number in numbers and executable is not None:
                executable.explain(error, fault.number - numbers.start)
        raise error

    cdef clear(self):
        note = np.zeros(1, Fault)
        note["on_host"] = self.pinned.address
        self.device.write(self.fault, note)
        ctypes.memset(self.pinned.address, 0, ctypes.sizeof(Fault))


@functools.cache
def in_flight(device):
    """Those of a device."""
    made = InFlight(device)
    runs.enter(device.ordinal, made)
    _ALL.append(made)
    return made


_ALL = []


def synchronize():
    """Wait for all runs on all GPUs.

    Raises
    ------
    IndexError
        As `InFlight.check`.
    """
    for one in _ALL:
        one.wait()
