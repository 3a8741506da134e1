"""Rows, slots and instructions as compiled code sees them: their fields without a look-up.

They stay classes of Python with ``__slots__``, which CPython lays out in the order of their names.
The size is compared when a module is imported, each field by `sdbr.program._rows`.
"""

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *array, *dtype, *index, *kind, *name, *nbytes, *shape;
    } sdbr_slot;
    typedef struct {
        PyObject_HEAD
        PyObject *dtype, *index, *is_contiguous, *name, *nbytes, *offset, *place, *root, *shape;
        PyObject *size, *slot, *strides;
    } sdbr_row;
    typedef struct {
        PyObject_HEAD
        PyObject *floats, *flushes, *ins, *ints, *label, *line, *obj, *op, *outs;
    } sdbr_instruction;
    """

    ctypedef class sdbr.program.buffers.Slot [object sdbr_slot, check_size error]:
        cdef object array, dtype, index, kind, name, nbytes, shape

    ctypedef class sdbr.program.buffers.Row [object sdbr_row, check_size error]:
        cdef object dtype, index, is_contiguous, name, nbytes, offset, place, root, shape
        cdef object size, slot, strides

    ctypedef class sdbr.program.builder.Instruction [object sdbr_instruction, check_size error]:
        cdef object floats, flushes, ins, ints, label, line, obj, op, outs
