# cython: boundscheck=False, wraparound=False
"""The part of a run on a GPU that comes every time: changed words, and a graph.

Everything else (what moves, what is not bound, errors) is left to Python, which is asked then.
"""

from sdbr.backends.cuda.launch import THREADS

import numpy as np

from libc.stdint cimport int64_t, intptr_t, uint64_t
from libc.string cimport memcpy

from sdbr.backends.cuda._in_flight cimport InFlight
from sdbr.program._memory cimport Memory

ctypedef int (*launch_kernel)(
    void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
    void **
) noexcept nogil
ctypedef int (*with_two)(void *, void *) noexcept nogil
ctypedef int (*with_one)(void *) noexcept nogil

cdef enum:
    MOST = 255  # words in one launch, as in kernels/device/words.cuh

ctypedef struct Change:
    uint64_t place
    uint64_t value

ctypedef struct WordsStruct:
    uint64_t base
    int64_t count
    Change words[MOST]


cdef class Launcher:
    """Runs the graph of a program that consists of nothing else.

    Parameters
    ----------
    memory : Memory
    words : Words
    slots : numpy.ndarray
        int32[n]: the slots of the program in `memory`.
    controls : list of (int, int)
        Float attributes that are read from the control block: place, place there.
    device : Device
    in_flight : InFlight
    """

    cdef Memory memory
    cdef InFlight in_flight
    cdef object words, driver
    cdef uint64_t[::1] now, sent, fixed
    cdef int[::1] slots
    cdef unsigned char[::1] moving
    cdef int64_t[::1] places       # in the words, of rows that move
    cdef int64_t[::1] place_slots  # their slots, by their number in the program,
    cdef uint64_t[::1] offsets     # and how far from the beginning of these
    cdef int64_t[:, ::1] controls
    cdef int64_t random            # place of the number of the run
    cdef uint64_t base
    cdef void *function
    cdef void *context
    cdef launch_kernel launch
    cdef with_two launch_graph
    cdef with_one push, pop
    cdef WordsStruct changes
    cdef unsigned threads
    cdef readonly bint ready

    def __init__(self, Memory memory, words, slots, controls, device, InFlight in_flight):
        self.memory, self.words, self.in_flight = memory, words, in_flight
        self.driver = device.driver
        self.now, self.sent = words.now, words.sent
        self.slots = np.asarray(slots, np.intc)
        self.controls = np.asarray(controls, np.int64).reshape(-1, 2)
        self.threads = THREADS
        self.base = words.address(0)
        self.random = words.random + 1
        self.function = <void *> <intptr_t> words.function.value
        self.context = <void *> <intptr_t> device.context.value
        find = device.driver.address
        self.launch = <launch_kernel> <intptr_t> find("cuLaunchKernel")
        self.launch_graph = <with_two> <intptr_t> find("cuGraphLaunch")
        self.push = <with_one> <intptr_t> find("cuCtxPushCurrent_v2")
        self.pop = <with_one> <intptr_t> find("cuCtxPopCurrent_v2")

    def forget(self):
        """Nothing runs until addresses are known again: they are others, or words are."""
        self.ready = False

    def know(self, fixed, moving, row_slots, offsets, list_rows, on_host=frozenset()):
        """Take the addresses that the graph was recorded with.

        Parameters
        ----------
        fixed : numpy.ndarray
            uint64[n], by slot of the program.
        moving : set of int
            Slots whose addresses are read from the words.
        row_slots, offsets : numpy.ndarray
            Of each row.
        list_rows : numpy.ndarray
            Rows of the lists.
        on_host : set of int
            Slots that no kernel reads, wherever they lie.
        """
        words = self.words
        self.fixed = fixed
        moves = np.array([k in moving for k in range(len(fixed))], np.uint8)
        self.moving = np.array([k in moving or k in on_host for k in range(len(fixed))], np.uint8)
        rows = np.concatenate([np.arange(len(row_slots)), list_rows]).astype(np.int64)
        places = words.rows + np.arange(len(rows), dtype=np.int64)
        which = moves[row_slots[rows]].astype(bool)
        self.places = places[which]
        self.place_slots = row_slots[rows][which].astype(np.int64)
        self.offsets = offsets[rows][which]
        self.ready = True

    def run(self, intptr_t graph, intptr_t stream):
        """Launch the graph on a stream.

        To be asked only where it `fits`.

        Raises
        ------
        IndexError
            For what went wrong in a run before.
        BackendError
            For errors of the driver.
        """
        cdef int status
        cdef void *other
        self.in_flight.before(stream)
        with nogil:
            status = self.push(self.context)
            if status == 0:
                status = self.begin(<void *> graph, <void *> stream)
                self.pop(&other)  # what is done is done; the next call says what is wrong with it
        if status:
            self.driver.refuse("a run of a program", status)

    def fits(self):
        """Whether everything lies where it lay, but for what moves."""
        cdef Py_ssize_t i
        cdef uint64_t address
        cdef char **pointers = self.memory.pointers
        if not self.ready:
            return False
        for i in range(self.slots.shape[0]):
            address = <uint64_t> <intptr_t> pointers[self.slots[i]]
            if address == 0 or (address != self.fixed[i] and not self.moving[i]):
                return False
        return True

    cdef int begin(self, void *graph, void *stream) noexcept nogil:
        """Write words and launch; the status of the driver."""
        cdef Py_ssize_t i
        cdef uint64_t word
        cdef int status
        self.changes.base, self.changes.count = self.base, 0
        for i in range(self.controls.shape[0]):
            memcpy(&word, &self.memory.control[self.controls[i, 1]], sizeof(double))
            status = self.change(self.controls[i, 0], word, stream)
            if status:
                return status
        for i in range(self.places.shape[0]):
            word = <uint64_t> <intptr_t> self.memory.pointers[self.slots[self.place_slots[i]]]
            status = self.change(self.places[i], word + self.offsets[i], stream)
            if status:
                return status
        status = self.change(self.random, self.now[self.random], stream)
        if status == 0:
            status = self.send(stream)
        return status if status else self.launch_graph(graph, stream)

    cdef int change(self, int64_t place, uint64_t word, void *stream) noexcept nogil:
        """Note a word that is another one than that on the device."""
        cdef Change *one
        if self.sent[place] == word:
            return 0
        self.now[place] = self.sent[place] = word
        one = &self.changes.words[self.changes.count]
        one.place, one.value = place, word
        self.changes.count += 1
        return self.send(stream) if self.changes.count == MOST else 0

    cdef int send(self, void *stream) noexcept nogil:
        """Launch the kernel that writes what was noted."""
        cdef size_t size = sizeof(WordsStruct)
        cdef void *extra[5]
        cdef int status
        if self.changes.count == 0:
            return 0
        extra[0], extra[1], extra[2], extra[3] = <void *> 1, &self.changes, <void *> 2, &size
        extra[4] = NULL
        status = self.launch(self.function, 1, 1, 1, self.threads, 1, 1, 0, stream, NULL, extra)
        self.changes.count = 0
        return status
