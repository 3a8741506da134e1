"""Rows, slots and instructions as compiled code sees them: their fields without a look-up.

They stay classes of Python with ``__slots__``, which CPython lays out in the order of their names.
The size is compared when a module is imported, each field by `sdbr.program._rows`.
"""

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *array, *dtype, *host, *index, *kind, *name, *nbytes, *shape;
    } sdbr_slot;
    typedef struct {
        PyObject_HEAD
        PyObject *dtype, *index, *is_contiguous, *name, *nbytes, *offset, *place, *root, *shape;
        PyObject *size, *slot, *strides;
    } sdbr_row;
    typedef struct {
        PyObject_HEAD
        PyObject *floats, *flushes, *ins, *ints, *label, *line, *link, *obj, *op, *outs;
    } sdbr_instruction;

    /* The fields of objects that have just been made are empty. */
    static CYTHON_INLINE void sdbr_fill(PyObject **fields, PyObject *const *values, int n)
    {
        for (int i = 0; i < n; i++) {
            Py_INCREF(values[i]);
            fields[i] = values[i];
        }
    }
    static CYTHON_INLINE void sdbr_fill_row(
        sdbr_row *row, PyObject *dtype, PyObject *index, PyObject *is_contiguous, PyObject *name,
        PyObject *nbytes, PyObject *offset, PyObject *place, PyObject *root, PyObject *shape,
        PyObject *size, PyObject *slot, PyObject *strides)
    {
        PyObject *values[] = {
            dtype, index, is_contiguous, name, nbytes, offset, place, root, shape, size, slot,
            strides,
        };
        sdbr_fill(&row->dtype, values, 12);
    }
    static CYTHON_INLINE void sdbr_fill_instruction(
        sdbr_instruction *made, PyObject *floats, PyObject *flushes, PyObject *ins, PyObject *ints,
        PyObject *label, PyObject *line, PyObject *link, PyObject *obj, PyObject *op,
        PyObject *outs)
    {
        PyObject *values[] = {floats, flushes, ins, ints, label, line, link, obj, op, outs};
        sdbr_fill(&made->floats, values, 10);
    }
    """

    ctypedef class sdbr.program.rows.Slot [object sdbr_slot, check_size error]:
        cdef object array, dtype, host, index, kind, name, nbytes, shape

    ctypedef class sdbr.program.rows.Row [object sdbr_row, check_size error]:
        cdef object dtype, index, is_contiguous, name, nbytes, offset, place, root, shape
        cdef object size, slot, strides

    ctypedef class sdbr.program.instruction.Instruction [object sdbr_instruction, check_size error]:
        cdef object floats, flushes, ins, ints, label, line, link, obj, op, outs

    void sdbr_fill_row(
        Row row, object dtype, object index, object is_contiguous, object name, object nbytes,
        object offset, object place, object root, object shape, object size, object slot,
        object strides,
    )
    void sdbr_fill_instruction(
        Instruction made, object floats, object flushes, object ins, object ints, object label,
        object line, object link, object obj, object op, object outs,
    )
