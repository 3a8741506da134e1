"""The compiled executor: prepares programs and runs them.

A prepared program is an array of ``{kernel, operand pointers, integers,
floats}``; the loop calls one kernel after another without the GIL and touches
no Python object until a Python op comes or a kernel reports an error.
"""

import time

import numpy as np

from sdbr.backends.cpu.prepare.program import prepare_program
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.base.settings import variable
from sdbr.base.threads import flushes_denormals, num_threads
from sdbr.ops.table import OPS
from sdbr.program.buffers import ARENA

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as cnp
from numpy cimport ndarray

from sdbr.program._memory cimport Memory
from sdbr.base._python cimport sdbr_view

cnp.import_array()

#: Opcodes of the ops that read NumPy's bit generator.
DRAWING = [op.opcode for op in OPS if op.family == "random"]

globals()["Memory"] = Memory  # a cimported class is no attribute of the module by itself

cdef extern from "runtime/flush.h":
    uint64_t sdbr_flush_begin() noexcept nogil
    void sdbr_flush_end(uint64_t) noexcept nogil
    enum: SDBR_CAN_FLUSH

cdef extern from "frame/loop.h":
    const char *const sdbr_step_names[]
    ctypedef struct sdbr_limit:
        const char *name
        int value
    const sdbr_limit sdbr_limits[]
    ctypedef struct sdbr_registry_entry:
        const char *name
        sdbr_kernel kernel

    enum: SDBR_OK
    enum: SDBR_INDEX_ERROR
    enum: SDBR_NO_MEMORY
    const char *SDBR_COMPILER
    const char *SDBR_BUILD_FLAGS
    const char *SDBR_BUILD_SIMD
    const char *SDBR_CYTHON_VERSION
    int64_t sdbr_run_segment(const sdbr_op *, int64_t, int64_t, int *) noexcept nogil
    int64_t sdbr_run_timed(const sdbr_op *, int64_t, int64_t, int *, double *) noexcept nogil
    double sdbr_time_kernel(const sdbr_op *, int64_t) noexcept nogil
    double sdbr_seconds() noexcept nogil
    double sdbr_thread_seconds() noexcept nogil
    int64_t sdbr_sync_slots(
        char **, char **, char **, const int64_t *, const int32_t *, const int64_t *, int64_t,
        const int64_t *, const int32_t *, const int64_t *) noexcept nogil
    const sdbr_registry_entry *const *sdbr_registries(int) noexcept nogil
    int sdbr_supports(int) noexcept nogil

cdef enum:
    MAX_DIMS = 64

LEVELS = ("baseline", "avx2", "avx512")


def _choose_level():
    """The highest level that compiler and machine support; SDBR_SIMD may lower it."""
    asked = variable("SDBR_SIMD")
    if asked not in LEVELS:
        raise BackendError(f"SDBR_SIMD must be one of {', '.join(LEVELS)}; got {asked!r}")
    return [i for i in range(LEVELS.index(asked) + 1) if sdbr_supports(i)][-1]


cdef dict _kernel_addresses(int level):
    cdef const sdbr_registry_entry *const *unit = sdbr_registries(level)
    cdef const sdbr_registry_entry *entry
    found = {}
    while unit[0] != NULL:
        entry = unit[0]
        while entry.name != NULL:
            found[entry.name.decode()] = <uintptr_t> entry.kernel
            entry += 1
        unit += 1
    return found


cdef int _level = _choose_level()
cdef dict _kernels = _kernel_addresses(_level)
cdef sdbr_runtime _blas
memset(&_blas, 0, sizeof(_blas))


def build_info():
    """How this module was built.

    Returns
    -------
    dict
        ``compiler``, ``flags``, ``cython`` and ``levels`` (SIMD levels that were built).
    """
    return {
        "compiler": (<bytes> SDBR_COMPILER).decode(),
        "flags": (<bytes> SDBR_BUILD_FLAGS).decode(),
        "cython": (<bytes> SDBR_CYTHON_VERSION).decode(),
        "levels": (<bytes> SDBR_BUILD_SIMD).decode().split(),
    }


def simd_level():
    """The SIMD level in use: ``'baseline'``, ``'avx2'`` or ``'avx512'``."""
    return LEVELS[_level]


def can_flush_denormals():
    """Whether this processor has a mode in which denormals count as zeros."""
    return bool(SDBR_CAN_FLUSH)


def kernel_names():
    """Names of the native kernels, sorted."""
    return sorted(_kernels)


def limits():
    """What the kernels take of each thing at most, see ``kernels/frame/sdbr_limits.h``.

    Returns
    -------
    dict
        Name -> number.
    """
    cdef int i = 0
    found = {}
    while sdbr_limits[i].name != NULL:
        found[sdbr_limits[i].name.decode()] = sdbr_limits[i].value
        i += 1
    return found


def step_codes():
    """The steps that a fused op may consist of: name -> position of its row function.

    Returns
    -------
    dict
    """
    cdef int i = 0
    codes = {}
    while sdbr_step_names[i] != NULL:
        codes[sdbr_step_names[i].decode()] = i
        i += 1
    return codes


cdef int _load_blas() except -1:
    """Fetch the BLAS that SciPy was built with, as function pointers.

    Kernels pass 64-bit integers whose address serves 32-bit readers as well
    (every supported platform is little-endian), so both builds of SciPy work.
    """
    if _blas.sgemm != NULL:
        return 0
    try:
        from scipy.linalg import cython_blas
        api = cython_blas.__pyx_capi__
        pointers = [_pointer(api[name]) for name in ("dgemm", "sgemv", "dgemv", "sgemm")]
    except (ImportError, AttributeError, KeyError) as error:
        raise BackendError(f"scipy.linalg.cython_blas is not usable: {error!r}") from error
    _blas.dgemm = <void *> <uintptr_t> pointers[0]
    _blas.sgemv = <void *> <uintptr_t> pointers[1]
    _blas.dgemv = <void *> <uintptr_t> pointers[2]
    _blas.sgemm = <void *> <uintptr_t> pointers[3]
    return 0


cdef object _pointer(object capsule):
    return <uintptr_t> PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


# Called with (executable, start, seconds of each op) after every run; None while nobody profiles.
cdef object _observer = None


def observe(observer):
    """Let `observer` see every run of every executable, op by op; None ends it.

    Parameters
    ----------
    observer : callable or None
        ``observer(executable, start, seconds)``: `start` by the clock of `time.perf_counter`,
        `seconds` float64[n], one per op.

    Returns
    -------
    callable or None
        The observer before.
    """
    global _observer
    before = _observer
    _observer = observer
    return before


def observer():
    """The callable that sees every run, or None."""
    return _observer


cdef int _observed(Executable executable) except -1:
    watching = _observer
    start = time.perf_counter()
    watching(executable, start, executable.run_timed())
    return 0


cdef class PythonOp:
    """What a run needs to know of one Python op."""

    def __init__(self, program, index):
        rows_in, rows_out = program.operands_of(index)
        self.index = index
        self.first_operand = program.operand_offsets[index]
        self.call = program.objects[program.attributes_of(index)[0][0]]
        self.ins = tuple([_layout(program, row) for row in rows_in])
        self.outs = tuple([_layout(program, row) for row in rows_out])


def _layout(program, row):
    slot = program.slots[program.rows["slot"][row]].index
    dtype = DTYPES[program.rows["type"][row]]
    return dtype, program.row_shape(row), program.row_strides(row), slot


# The arrays that the executor reads. A program that was checked may not change afterwards.
_ARRAYS = (
    "opcodes", "operand_offsets", "operands", "n_outputs", "attribute_offsets", "int_attributes",
    "float_attributes", "control_references", "rows", "dims",
)


def _no_preparation():
    return None


cdef class Prepared:
    """The part of a prepared program that does not depend on memory; shared by its executables.

    Attributes
    ----------
    choices : dict
        Index of an op -> what was chosen for it where there was a choice; kept alive for the run.
    threads : int
        Threads that large ops may use.
    cut_ops : int
        How many ops are cut into parts for them.
    """

    def __init__(self, program):
        program.validate()
        self.source = tuple([getattr(program, name) for name in _ARRAYS])
        for array in self.source:
            array.flags.writeable = False
        self.threads = num_threads()
        plan = prepare_program(program, self.threads)
        missing = [name for name in plan.names if name not in _kernels]
        if missing:
            i = int(np.flatnonzero(plan.kernels == plan.names.index(missing[0]))[0])
            raise BackendError(
                f"no kernel {missing[0]!r} at SIMD level {LEVELS[_level]}; "
                f"op {program.describe_op(i).strip()}"
            )
        addresses = np.array([_kernels[name] for name in plan.names] + [0], np.uintp)
        for position, kernel in plan.inner:
            plan.ints[position] = addresses[kernel]
        rows = program.rows[program.operands]
        order = np.argsort(rows["slot"], kind="stable").astype(np.int32)
        counts = np.bincount(rows["slot"], minlength=len(program.slots))
        arrays = {
            "kernels": addresses[plan.kernels],
            "int_starts": plan.int_starts,
            "ints": plan.ints,
            "operand_offsets": np.array(program.operand_offsets, np.int32),
            "float_offsets": np.array(program.attribute_offsets[:, 1], np.int32),
            "slots": np.array([s.index for s in program.slots], np.int32),
            "needed": np.array(
                [s.nbytes or (program.arena_bytes if s.kind == ARENA else 0)
                 for s in program.slots], np.int64),
            "patch_starts": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "patch_operands": order,
            "patch_offsets": rows["offset"][order].astype(np.int64),
        }
        self.arrays = arrays
        self.choices = plan.choices
        self.cut_ops = int(np.count_nonzero(plan.kernels == plan.names.index("split"))) \
            if "split" in plan.names else 0
        self.n_ops = len(program)
        self.n_operands = len(program.operands)
        self.n_slots = len(program.slots)
        self.draws = bool(np.isin(program.opcodes, DRAWING).any())
        self.blas = any("_blas_" in name for name in plan.names)
        self.kernels = <sdbr_kernel *> cnp.PyArray_DATA(arrays["kernels"])
        self.int_starts = <int64_t *> cnp.PyArray_DATA(arrays["int_starts"])
        self.ints = <int64_t *> cnp.PyArray_DATA(arrays["ints"])
        self.operand_offsets = <int32_t *> cnp.PyArray_DATA(arrays["operand_offsets"])
        self.float_offsets = <int32_t *> cnp.PyArray_DATA(arrays["float_offsets"])
        self.slots = <int32_t *> cnp.PyArray_DATA(arrays["slots"])
        self.needed = <int64_t *> cnp.PyArray_DATA(arrays["needed"])
        self.patch_starts = <int64_t *> cnp.PyArray_DATA(arrays["patch_starts"])
        self.patch_operands = <int32_t *> cnp.PyArray_DATA(arrays["patch_operands"])
        self.patch_offsets = <int64_t *> cnp.PyArray_DATA(arrays["patch_offsets"])
        self.python = [PythonOp(program, i) for i in np.flatnonzero(program.opcodes == 0).tolist()]

    cdef bint fits(self, program) except -1:
        """Whether this was made from the arrays that `program` has now."""
        for name, array in zip(_ARRAYS, self.source):
            if getattr(program, name) is not array:
                return False
        return True

    def __reduce__(self):
        # A pickled program is checked and prepared anew where it is loaded.
        return _no_preparation, ()


cdef class Executable:
    """A program, prepared to run on one memory.

    Parameters
    ----------
    program : Program
        Validated and prepared at its first use; executables of one program share that work.
    memory : Memory
        Grown to the slots of the program; its arenas are allocated, its constants bound.

    Attributes
    ----------
    native_ops, python_ops : int
        How many ops of each sort the program has.
    runs : int
        How many runs were completed.
    watch : callable or None
        Called with the index of every op that has just run; such runs go op by op.

    Raises
    ------
    ValidationError
        If the program is malformed.
    BackendError
        If an op has no native kernel.
    """

    def __cinit__(self, program, Memory memory not None):
        cdef int64_t i
        cdef Prepared prepared = getattr(program, "prepared", None)
        if prepared is None or not prepared.fits(program):
            prepared = Prepared(program)
            program.prepared = prepared
        memory.reserve(program)
        if prepared.blas:
            _load_blas()
        self.program = program
        self.memory = memory
        self.prepared = prepared
        self.python_ops = len(prepared.python)
        self.native_ops = prepared.n_ops - self.python_ops
        self.runtime = _blas
        self.runtime.threads = prepared.threads
        self.runtime.flush = flushes_denormals()
        references = np.ascontiguousarray(program.control_references, np.int32)
        self.references = references
        self.control_references = <int32_t *> cnp.PyArray_DATA(references)
        self.n_control_references = len(references)
        self.ops = <sdbr_op *> _zeroed(prepared.n_ops, sizeof(sdbr_op))
        self.operands = <char **> _zeroed(prepared.n_operands, sizeof(char *))
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
            self.running = False
        self.runs += 1
        return 0

    def step(self):
        """Run the program op by op: a generator that yields the index of each op after it ran."""
        cdef int64_t i
        self.enter()
        try:
            self.sync()
            python = {(<PythonOp> op).index: op for op in self.prepared.python}
            for i in range(self.prepared.n_ops):
                if i in python:
                    self.run_python(python[i])
                else:
                    self.run_segment(i, i + 1, NULL)
                yield i
            self.runs += 1
        finally:
            self.running = False

    def run_timed(self):
        """Run once and return the seconds that each op took (float64[n])."""
        cdef int64_t at = 0
        cdef PythonOp op
        cdef double start
        times = np.zeros(self.prepared.n_ops)
        cdef double *seconds = <double *> cnp.PyArray_DATA(times)
        self.enter()
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
            self.running = False
        self.runs += 1
        return times

    cdef int enter(self) except -1:
        if self.running:
            raise BackendError(f"program {self.program.name!r} is running already on this memory")
        self.running = True
        return 0

    cdef int sync(self) except -1:
        """Bring operand pointers and floats up to date with the memory."""
        cdef Prepared p = self.prepared
        cdef Memory memory = self.memory
        cdef int64_t i
        cdef int64_t wrong = sdbr_sync_slots(
            self.operands, self.last, memory.pointers, memory.sizes, p.slots, p.needed, p.n_slots,
            p.patch_starts, p.patch_operands, p.patch_offsets)
        if wrong >= 0:
            self.raise_unbound(wrong)
        for i in range(self.n_control_references):
            self.floats[self.control_references[2 * i]] = \
                memory.control[self.control_references[2 * i + 1]]
        return 0

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
        cdef uint64_t mode = 0
        if begin == end:
            return 0
        if self.runtime.flush:
            mode = sdbr_flush_begin()
        try:
            at = self.run_native(begin, end, seconds, &status)
        finally:
            if self.runtime.flush:
                sdbr_flush_end(mode)
        if at != end:
            self.fail(at, status)
        return 0

    cdef int64_t run_native(
            self, int64_t begin, int64_t end, double *seconds, int *status) except -1:
        """Run them; the index of the op that failed, or `end`."""
        cdef int64_t at = end
        if not self.prepared.draws:
            with nogil:
                if seconds == NULL:
                    at = sdbr_run_segment(self.ops, begin, end, status)
                else:
                    at = sdbr_run_timed(self.ops, begin, end, status, seconds)
        else:
            # Fetched at each run: np.random.seed keeps the generator, set_bit_generator does not.
            generator = np.random.mtrand._rand._bit_generator
            capsule = generator.capsule
            with generator.lock:
                self.runtime.bitgen = <sdbr_bitgen *> PyCapsule_GetPointer(capsule, "BitGenerator")
                with nogil:
                    if seconds == NULL:
                        at = sdbr_run_segment(self.ops, begin, end, status)
                    else:
                        at = sdbr_run_timed(self.ops, begin, end, status, seconds)
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
            _annotate(error, f"in {_where(self.program, op.index)}")
            raise
        return 0

    cdef int fail(self, int64_t index, int status) except -1:
        """Turn the status of a kernel into an exception."""
        where = f"in {_where(self.program, index)}"
        if status == SDBR_INDEX_ERROR:
            raise IndexError(
                f"index {self.runtime.fault_value} at position {self.runtime.fault_position} is "
                f"out of range for {self.runtime.fault_bound} entries; {where}"
            )
        if status == SDBR_NO_MEMORY:
            raise MemoryError(where)
        raise BackendError(f"kernel status {status}; {where}")


def _where(program, index):
    """The program, the op and its index, its operands, the user's line."""
    return f"{program.name or 'program'}, op {' '.join(program.describe_op(index).split())}"


def _annotate(error, text):
    """Say where an exception came from, without changing its type."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{text}", *error.args[1:])


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


def kernel_seconds(name, ints, list operands, double budget, int runs, bint alone=False):
    """Seconds of each run of one kernel on arrays; no more once they are `budget` together.

    With `alone`, the time that this thread computes: right for a kernel that uses no other thread,
    and not disturbed by what else the machine does.

    Raises
    ------
    BackendError
        If there is no such kernel, or it reports an error.
    """
    cdef sdbr_runtime runtime
    cdef sdbr_op op
    cdef double seconds
    cdef double total = 0.0
    cdef int status = SDBR_OK
    cdef int64_t at
    if name not in _kernels:
        raise BackendError(f"no kernel {name!r} at SIMD level {LEVELS[_level]}")
    _load_blas()
    numbers = np.array(list(ints) or [0], np.int64)
    addresses = np.array([a.ctypes.data for a in operands] or [0], np.uintp)
    runtime = _blas
    runtime.threads = 1 if alone else num_threads()
    memset(&op, 0, sizeof(op))
    op.kernel = <sdbr_kernel> <uintptr_t> _kernels[name]
    op.operands = <char **> cnp.PyArray_DATA(addresses)
    op.ints = <const int64_t *> cnp.PyArray_DATA(numbers)
    op.runtime = &runtime
    taken = []
    while len(taken) < runs and total < budget:
        with nogil:
            seconds = sdbr_thread_seconds() if alone else sdbr_seconds()
            at = sdbr_run_segment(&op, 0, 1, &status)
            seconds = (sdbr_thread_seconds() if alone else sdbr_seconds()) - seconds
        if at != 1:
            raise BackendError(f"kernel {name!r} gave status {status}")
        taken.append(seconds)
        total += seconds
    return taken


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
