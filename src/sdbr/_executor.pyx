"""The compiled executor: runs programs that a backend has prepared.

A prepared program is an array of ``{kernel, operand pointers, integers,
floats}``; the loop calls one kernel after another without the GIL and touches
no Python object until a Python op comes or a kernel reports an error. Which
kernels there are, only the backend knows: it hands in their addresses.
"""

import time

import numpy as np

from sdbr.base.errors import BackendError, OtherAnswer
from sdbr.base.failures import annotate
from sdbr.base.threads import flushed_denormals
from sdbr.program.buffers import FAILED

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as cnp
from numpy cimport ndarray

from sdbr.base._python cimport sdbr_view
from sdbr.program._abi cimport sdbr_bitgen, sdbr_land, sdbr_op, set_blas
from sdbr.program._memory cimport Memory
from sdbr.program._prepared cimport Prepared, PythonOp

cnp.import_array()

cdef extern from "runtime/flush.h":
    enum: SDBR_KEEP
    enum: SDBR_FLUSH_RESULTS
    uint64_t sdbr_flush_begin(int) noexcept nogil
    void sdbr_flush_end(uint64_t) noexcept nogil

cdef extern from "frame/loop.h":
    enum: SDBR_OK
    enum: SDBR_INDEX_ERROR
    enum: SDBR_OTHER_ANSWER
    enum: SDBR_NO_MEMORY
    enum: SDBR_AHEAD
    int64_t sdbr_run_segment(const sdbr_op *, int64_t, int64_t, int *) noexcept nogil
    int64_t sdbr_run_ahead(const sdbr_op *, int64_t, int64_t, int *) noexcept nogil
    int64_t sdbr_run_timed(const sdbr_op *, int64_t, int64_t, int *, double *) noexcept nogil
    double sdbr_clock_cost(int64_t) noexcept nogil
    double sdbr_time_kernel(const sdbr_op *, int64_t) noexcept nogil
    double sdbr_seconds() noexcept nogil
    int64_t sdbr_sync_slots(
        char **, char **, char **, const int64_t *, const int32_t *, const int64_t *, int64_t,
        const int64_t *, const int32_t *, const int64_t *) noexcept nogil

cdef enum:
    MAX_DIMS = 64

# Called with (executable, start, seconds, by op) after every run; None while nobody profiles.
cdef object _observer = None


def observe(observer):
    """Let `observer` see every run of every executable, op by op; None ends it.

    Parameters
    ----------
    observer : callable or None
        ``observer(executable, start, seconds, by_op)``: `start` by the clock of
        `time.perf_counter`, `seconds` float64[n]. With `by_op` each entry is the time of an op,
        with a look at the clock; without, that of a stretch of native ops stands at its first.

    Returns
    -------
    callable or None
        The observer before.
    """
    global _observer
    before = _observer
    _observer = observer
    return before


def measure_clock():
    """How many seconds one look at the clock takes: the least of many."""
    return min([sdbr_clock_cost(200) for _ in range(25)])


def observer():
    """The callable that sees every run, or None."""
    return _observer


cdef int _observed(Executable executable) except -1:
    watching = _observer
    # In turn: a look at the clock costs what it does only in this very program.
    by_op = not executable.whole
    executable.whole = by_op
    start = time.perf_counter()
    watching(executable, start, executable.run_timed(by_op), by_op)
    return 0


cdef class Executable:
    """A program, prepared to run on one memory.

    Parameters
    ----------
    program : Program
        Validated.
    memory : Memory
        Grown to the slots of the program; its arenas are allocated, its constants bound.
    prepared : Prepared
        What a backend has made of the program; executables of one program share it.

    Attributes
    ----------
    native_ops, python_ops : int
        How many ops of each sort the program has.
    runs : int
        How many runs were completed.
    watch : callable or None
        Called with the index of every op that has just run; such runs go op by op.
    """

    def __cinit__(self, program, Memory memory not None, Prepared prepared not None):
        cdef int64_t i
        memory.reserve(program)
        self.program = program
        self.memory = memory
        self.prepared = prepared
        self.python_ops = len(prepared.python)
        self.native_ops = prepared.n_ops - self.python_ops
        memset(&self.runtime, 0, sizeof(self.runtime))
        if prepared.blas is not None:
            set_blas(&self.runtime, prepared.blas)
        self.runtime.threads = prepared.threads
        self.runtime.is_far = prepared.is_far
        memset(&self.flight, 0, sizeof(self.flight))
        self.runtime.flight = &self.flight
        self.flush = flushed_denormals()
        self.ops = <sdbr_op *> _zeroed(prepared.n_ops, sizeof(sdbr_op))
        self.operands = <char **> _zeroed(prepared.n_operands + SDBR_AHEAD, sizeof(char *))
        self.last = <char **> _zeroed(prepared.n_slots, sizeof(char *))
        floats = np.ascontiguousarray(program.float_attributes, np.float64)
        self.floats = <double *> _zeroed(len(floats), sizeof(double))
        memcpy(self.floats, cnp.PyArray_DATA(floats), len(floats) * sizeof(double))
        # An address no array has: the first run patches every operand.
        memset(self.last, 0xFF, prepared.n_slots * sizeof(char *))
        for i in range(prepared.n_ops):
            self.ops[i].kernel = prepared.kernels[i]
            self.ops[i].operands = self.operands + prepared.operand_offsets[i]
            self.ops[i].ints = prepared.ints + prepared.int_starts[i]
            self.ops[i].floats = self.floats + prepared.float_offsets[i]
            self.ops[i].runtime = &self.runtime

    def __dealloc__(self):
        free(self.ops)
        free(self.operands)
        free(self.last)
        free(self.floats)

    cpdef run(self):
        """Run the whole program once.

        Raises
        ------
        BackendError
            If a slot is not bound, or its array is smaller than the program needs.
        IndexError
            If an index that comes from data is out of range; the message names the op.
        """
        self.run_c()

    cdef int run_c(self) except -1:
        cdef int64_t at = 0
        cdef PythonOp op
        if self.watch is not None:
            for i in self.step():
                self.watch(i)
            return 0
        if _observer is not None:
            return _observed(self)
        self.enter()
        try:
            self.sync()
            if self.python_ops:
                for op in self.prepared.python:
                    self.run_segment(at, op.index, NULL)
                    self.run_python(op)
                    at = op.index + 1
            self.run_segment(at, self.prepared.n_ops, NULL)
        finally:
            self.leave()
        self.runs += 1
        return 0

    def step(self, int64_t first=0):
        """Run the program op by op: a generator that yields the index of each op after it ran.

        From op `first` on: what those before make lies in the memory already.
        """
        cdef int64_t i
        self.enter()
        try:
            self.sync()
            python = {(<PythonOp> op).index: op for op in self.prepared.python}
            for i in range(first, self.prepared.n_ops):
                if i in python:
                    self.run_python(python[i])
                else:
                    self.run_segment(i, i + 1, NULL)
                yield i
            self.runs += 1
        finally:
            self.leave()

    def run_timed(self, bint by_op=True):
        """Run once and return the seconds that each op took (float64[n]).

        Otherwise than `by_op` the clock is looked at before and after stretches of native ops
        alone: what they took stands at the first op of each, that of the others is zero.
        """
        cdef int64_t at = 0
        cdef PythonOp op
        cdef double start
        times = np.zeros(self.prepared.n_ops)
        cdef double *seconds = <double *> cnp.PyArray_DATA(times)
        self.enter()
        self.by_op = by_op
        try:
            self.sync()
            for op in self.prepared.python:
                self.run_segment(at, op.index, seconds)
                start = sdbr_seconds()
                self.run_python(op)
                seconds[op.index] = sdbr_seconds() - start
                at = op.index + 1
            self.run_segment(at, self.prepared.n_ops, seconds)
        finally:
            self.leave()
        self.runs += 1
        return times

    cdef int enter(self) except -1:
        if self.running:
            raise BackendError(f"program {self.program.name!r} is running already on this memory")
        if self.out_of_step:
            raise BackendError(
                f"program {self.program.name!r} failed after it had begun to send gradients: ranks "
                "are not at the same place any more, and this process has to end"
            )
        self.running = True
        return 0

    cdef int leave(self) except -1:
        """End a run. One that failed waits for the collectives that it has begun: MPI uses their
        memory, and other ranks take part in them."""
        if self.flight.begun != self.flight.ended:
            self.out_of_step = True
            with nogil:
                sdbr_land(&self.flight, self.flight.begun)
        self.running = False
        return 0

    cdef int sync(self) except -1:
        """Bring operand pointers and floats up to date with the memory."""
        cdef Prepared p = self.prepared
        cdef Memory memory = self.memory
        cdef int64_t wrong = sdbr_sync_slots(
            self.operands, self.last, memory.pointers, memory.sizes, p.slots, p.needed, p.n_slots,
            p.patch_starts, p.patch_operands, p.patch_offsets)
        if wrong >= 0:
            self.raise_unbound(wrong)
        self.read_control()
        return 0

    cdef void read_control(self) noexcept:
        """Bring floats up to date with the control block; code of Python may write there."""
        cdef Prepared p = self.prepared
        cdef int64_t i
        for i in range(p.n_references):
            self.floats[p.references[2 * i]] = self.memory.control[p.references[2 * i + 1]]

    cdef int raise_unbound(self, int64_t local) except -1:
        slot = self.program.slots[local]
        array = self.memory.array(slot.index)
        got = "nothing is bound" if array is None else f"the bound array has {array.nbytes}"
        raise BackendError(
            f"slot {slot.index} ({slot.name!r}) needs {self.prepared.needed[local]} bytes, {got}"
        )

    cdef int run_segment(self, int64_t begin, int64_t end, double *seconds) except -1:
        """Run native ops [begin, end) without the GIL."""
        cdef int64_t at = end
        cdef int status = SDBR_OK
        if begin == end:
            return 0
        if not self.prepared.draws:
            with nogil:
                at = self.run_native(begin, end, seconds, &status)
        else:
            # Fetched at each run: np.random.seed keeps the generator, set_bit_generator does not.
            generator = np.random.mtrand._rand._bit_generator
            capsule = generator.capsule
            with generator.lock:
                self.runtime.bitgen = <sdbr_bitgen *> PyCapsule_GetPointer(capsule, "BitGenerator")
                with nogil:
                    at = self.run_native(begin, end, seconds, &status)
        if at != end:
            self.fail(at, status)
        return 0

    cdef int64_t run_native(
            self, int64_t begin, int64_t end, double *seconds, int *status) noexcept nogil:
        """Run them, in stretches that flush alike; the index of the op that failed, or `end`."""
        cdef int64_t stop
        cdef int64_t ahead = self.prepared.ahead
        cdef uint64_t before = 0
        while begin < end:
            stop = end if begin >= ahead else min(end, ahead)
            self.runtime.flush = self.flush
            if self.flush == SDBR_FLUSH_RESULTS:
                stop = min(stop, <int64_t> self.prepared.stretches[begin])
                if not self.prepared.flushes[begin]:
                    self.runtime.flush = SDBR_KEEP
            if self.runtime.flush != SDBR_KEEP:
                before = sdbr_flush_begin(self.runtime.flush)
            if seconds != NULL:
                begin = self.run_stretch(begin, stop, seconds, status)
            elif begin >= ahead:
                begin = sdbr_run_ahead(self.ops, begin, stop, status)
            else:
                begin = sdbr_run_segment(self.ops, begin, stop, status)
            if self.runtime.flush != SDBR_KEEP:
                sdbr_flush_end(before)
            if begin != stop:
                return begin
        return end

    cdef int64_t run_stretch(
            self, int64_t begin, int64_t end, double *seconds, int *status) noexcept nogil:
        """The same of ops that flush alike, with times: by op, or together at the first."""
        cdef double start
        cdef int64_t at
        if self.by_op:
            return sdbr_run_timed(self.ops, begin, end, status, seconds)
        start = sdbr_seconds()
        if begin >= self.prepared.ahead:
            at = sdbr_run_ahead(self.ops, begin, end, status)
        else:
            at = sdbr_run_segment(self.ops, begin, end, status)
        seconds[begin] = sdbr_seconds() - start
        return at

    cdef int run_python(self, PythonOp op) except -1:
        cdef char **operands = self.operands + op.first_operand
        cdef Py_ssize_t n = len(op.ins)
        cdef Py_ssize_t i
        ins = [_view(self.memory, op.ins[i], operands[i]) for i in range(n)]
        outs = [_view(self.memory, op.outs[i], operands[n + i]) for i in range(len(op.outs))]
        try:
            op.call(self.memory, ins, outs)
        except Exception as error:
            annotate(error, self.note(op.index))
            raise
        self.read_control()
        return 0

    cdef str note(self, int64_t index):
        """Note who has failed, and say where that is."""
        self.memory.state[FAILED] = index
        return self.program.place_of(index)

    cdef int fail(self, int64_t index, int status) except -1:
        """Turn the status of a kernel into an exception."""
        if status == SDBR_OTHER_ANSWER:
            raise OtherAnswer(self.runtime.fault_position, self.runtime.fault_value)
        where = self.note(index)
        if status == SDBR_INDEX_ERROR:
            raise IndexError(
                f"index {self.runtime.fault_value} at position {self.runtime.fault_position} is "
                f"out of range for {self.runtime.fault_bound} entries; {where}"
            )
        if status == SDBR_NO_MEMORY:
            raise MemoryError(where)
        raise BackendError(f"kernel status {status}; {where}")


cdef void *_zeroed(size_t n, size_t size) except NULL:
    cdef void *block = calloc(n if n else 1, size)
    if block == NULL:
        raise MemoryError
    return block


cdef object _view(Memory memory, tuple layout, char *data):
    """An ndarray on operand memory."""
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef cnp.npy_intp strides[MAX_DIMS]
    cdef tuple sizes = <tuple> layout[1]
    cdef tuple steps = <tuple> layout[2]
    cdef int ndim = <int> len(sizes)
    cdef int i
    cdef cnp.dtype dtype = layout[0]
    cdef ndarray owner = memory.owners[<int> layout[3]]
    for i in range(ndim):
        shape[i] = sizes[i]
        strides[i] = steps[i]
    return sdbr_view(dtype, ndim, shape, strides, data, owner)


def dispatch_baseline(Executable executable not None, int repeats=1):
    """Seconds of a plain C loop that calls the kernel of op 0 as often as the program has ops.

    What remains of a run after this is subtracted is the cost of dispatch.
    The best of `repeats`; op 0 must be native.
    """
    cdef double seconds
    cdef double best = -1.0
    if executable.prepared.n_ops == 0 or executable.ops[0].kernel == NULL:
        raise BackendError("dispatch_baseline takes a program whose first op is native")
    executable.sync()
    for _ in range(repeats):
        with nogil:
            seconds = sdbr_time_kernel(executable.ops, executable.prepared.n_ops)
        best = seconds if best < 0 else min(best, seconds)
    return best


def loop_seconds(Executable executable not None, int repeats=1):
    """Seconds of the loop alone over a program without Python ops; the best of `repeats`."""
    cdef double start, seconds
    cdef double best = -1.0
    cdef int status = SDBR_OK
    if executable.python_ops:
        raise BackendError("loop_seconds takes a program without Python ops")
    executable.sync()
    for _ in range(repeats):
        with nogil:
            start = sdbr_seconds()
            sdbr_run_segment(executable.ops, 0, executable.prepared.n_ops, &status)
            seconds = sdbr_seconds() - start
        best = seconds if best < 0 else min(best, seconds)
    return best
