"""A program as a backend has prepared it for the loop: addresses of kernels beside its arrays."""

import numpy as np

from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS
from sdbr.program.buffers import ARENA
from sdbr.program.machine import Machine

from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

from sdbr.program._abi cimport sdbr_kernel

cnp.import_array()

#: Of each opcode whether the op reads NumPy's bit generator.
DRAWS = np.array([bool(op.draws) for op in OPS])
#: And whether it updates parameters.
UPDATES = np.array([bool(op.updates) for op in OPS])


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


# The arrays that the loop reads. A program that was checked may not change afterwards.
_ARRAYS = (
    "opcodes", "operand_offsets", "operands", "n_outputs", "attribute_offsets", "int_attributes",
    "float_attributes", "control_references", "rows", "dims",
)


def _no_preparation():
    return None


def _flushing(program):
    """Which ops flush, and where the ops end that do as each of them."""
    n = len(program)
    flushes = np.zeros(n, bool) if program.flushes is None else np.array(program.flushes, bool)
    ends = np.append(np.flatnonzero(np.diff(flushes)) + 1, n)
    at = np.searchsorted(ends, np.arange(n), side="right")
    return {"flushes": flushes, "stretches": ends[at].astype(np.int32)}


def _floats(program):
    """Where the floats of ops lie, and which of them are control values: (float, control value).

    Ops whose floats are all control values, the same ones, have them in one place: the updates of
    a thousand parameters take one learning rate.
    """
    starts = np.array(program.attribute_offsets[:, 1], np.int32)
    references = np.asarray(program.control_references, np.int32).reshape(-1, 2)
    if not len(references):
        return {"float_offsets": starts, "references": references}
    order = np.argsort(references[:, 0], kind="stable")
    places, values = references[order].T
    firsts = np.searchsorted(places, starts).tolist()
    ends = starts.tolist()
    offsets, kept = starts.copy(), np.ones(len(order), bool)
    known = {}
    for i in range(len(program)):
        begin, end = firsts[i], firsts[i + 1]
        if begin == end or end - begin != ends[i + 1] - ends[i]:
            continue
        first = known.setdefault(values[begin:end].tobytes(), i)
        if first != i:
            offsets[i] = starts[first]
            kept[begin:end] = False
    return {
        "float_offsets": offsets,
        "references": np.ascontiguousarray(np.stack([places[kept], values[kept]], 1)),
    }


def _updates(program, needed):
    """Where updates begin, and how much memory they go through."""
    updates = np.flatnonzero(UPDATES[program.opcodes])
    if not len(updates):
        return len(program), 0
    operands = program.operands[program.operand_offsets[updates[0]]:]
    return int(updates[0]), needed[np.unique(program.rows["slot"][operands])].sum()


def _patches(program):
    """Where operands of ops lie, and which of them each slot moves."""
    rows = program.rows[program.operands]
    order = np.argsort(rows["slot"], kind="stable").astype(np.int32)
    counts = np.bincount(rows["slot"], minlength=len(program.slots))
    return {
        "operand_offsets": np.array(program.operand_offsets, np.int32),
        "slots": np.array([s.index for s in program.slots], np.int32),
        "needed": np.array(
            [s.nbytes or (program.arena_bytes if s.kind == ARENA else 0)
             for s in program.slots], np.int64),
        "patch_starts": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "patch_operands": order,
        "patch_offsets": rows["offset"][order].astype(np.int64),
    }


cdef class Prepared:
    """The part of a prepared program that does not depend on memory; shared by its executables.

    Parameters
    ----------
    program : Program
        Validated; its arrays may not change afterwards.
    kernels : numpy.ndarray
        uintp[n], the address of the kernel of each op; 0 for a Python op.
    int_starts, ints : numpy.ndarray
        int64[n], int64[]: where the integers of each op begin, and the integers.
    choices : dict
        Index of an op -> what was chosen for it where there was a choice; kept alive for the run.
    blas : tuple of int, optional
        Addresses of BLAS, as ``sdbr_runtime`` has them, where a kernel calls it.
    threads : int
        Threads that large ops may use.
    cut_ops : int
        How many ops are cut into parts for them.
    """

    def __init__(
        self, program, kernels, int_starts, ints, dict choices, tuple blas, int threads, cut_ops
    ):
        self.source = tuple([getattr(program, name) for name in _ARRAYS])
        for array in self.source:
            array.flags.writeable = False
        self.choices = choices
        self.blas = blas
        self.threads = threads
        self.cut_ops = cut_ops
        self.n_ops = len(program)
        self.n_operands = len(program.operands)
        self.n_slots = len(program.slots)
        self.draws = bool(DRAWS[program.opcodes].any())
        own = {"kernels": kernels, "int_starts": int_starts, "ints": ints}
        patches = _patches(program)
        first, through = _updates(program, patches["needed"])
        self.ahead = first if through > Machine().cache else self.n_ops
        # To ask ahead costs a fifth where the third cache holds all; that evens out at 6 MiB.
        self.is_far = through > 8 * Machine().cache
        self.point_at({**patches, **_floats(program), **_flushing(program), **own})
        self.python = [PythonOp(program, i) for i in np.flatnonzero(program.opcodes == 0).tolist()]

    cdef int point_at(self, dict arrays) except -1:
        """Keep the arrays that the loop reads, and where they lie."""
        self.arrays = arrays
        self.kernels = <sdbr_kernel *> cnp.PyArray_DATA(arrays["kernels"])
        self.int_starts = <int64_t *> cnp.PyArray_DATA(arrays["int_starts"])
        self.ints = <int64_t *> cnp.PyArray_DATA(arrays["ints"])
        self.flushes = <cnp.npy_bool *> cnp.PyArray_DATA(arrays["flushes"])
        self.stretches = <int32_t *> cnp.PyArray_DATA(arrays["stretches"])
        self.operand_offsets = <int32_t *> cnp.PyArray_DATA(arrays["operand_offsets"])
        self.float_offsets = <int32_t *> cnp.PyArray_DATA(arrays["float_offsets"])
        self.references = <int32_t *> cnp.PyArray_DATA(arrays["references"])
        self.n_references = len(arrays["references"])
        self.slots = <int32_t *> cnp.PyArray_DATA(arrays["slots"])
        self.needed = <int64_t *> cnp.PyArray_DATA(arrays["needed"])
        self.patch_starts = <int64_t *> cnp.PyArray_DATA(arrays["patch_starts"])
        self.patch_operands = <int32_t *> cnp.PyArray_DATA(arrays["patch_operands"])
        self.patch_offsets = <int64_t *> cnp.PyArray_DATA(arrays["patch_offsets"])
        return 0

    cpdef bint fits(self, program) except -1:
        """Whether this was made from the arrays that `program` has now."""
        for name, array in zip(_ARRAYS, self.source):
            if getattr(program, name) is not array:
                return False
        return True

    def __reduce__(self):
        # A pickled program is checked and prepared anew where it is loaded.
        return _no_preparation, ()
