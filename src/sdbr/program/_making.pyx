# cython: nonecheck=True
"""Makes rows and instructions, compiled: every build makes thousands of them."""

from sdbr.program.rows import is_c_contiguous, plain_layout

import numpy as np

from sdbr.program._layout cimport Instruction, Row, sdbr_fill_instruction, sdbr_fill_row


cdef object _dtype = np.dtype


def new_root(list rows, shape, dtype, slot, str name):
    """A C-contiguous row that owns its memory, at the end of `rows`."""
    cdef Row row = Row.__new__(Row)
    cdef tuple lengths = shape if type(shape) is tuple else tuple(shape)
    cdef Py_ssize_t itemsize
    if type(dtype) is type or not isinstance(dtype, _dtype):
        dtype = _dtype(dtype)
    itemsize = dtype.itemsize
    strides, size = plain_layout(lengths, itemsize)
    sdbr_fill_row(
        row, dtype, len(rows), True, name, size * itemsize, 0, 0, row, lengths, size, slot, strides
    )
    rows.append(row)
    return row


def new_view(list rows, Row base, shape, strides, offset, str name):
    """A window into the memory of `base`, at the end of `rows`; `offset` from its start."""
    cdef Row row = Row.__new__(Row)
    cdef tuple lengths = tuple(shape), steps = tuple(strides)
    cdef Py_ssize_t itemsize = base.dtype.itemsize
    plain, size = plain_layout(lengths, itemsize)
    sdbr_fill_row(
        row, base.dtype, len(rows), steps == plain or is_c_contiguous(lengths, steps, itemsize),
        name or base.name, size * itemsize, base.offset + offset, 0, base.root, lengths, size,
        base.slot, steps,
    )
    rows.append(row)
    return row


def new_instruction(op, ins, outs, ints, floats, label, line, link, obj, set made, set gradients):
    """An instruction; notes what it makes in `made`.

    What is made of one of `gradients` flushes, and is one of them, see `Instruction`.
    """
    cdef Instruction instruction = Instruction.__new__(Instruction)
    cdef list reads = list(ins), writes = list(outs)
    cdef Row row, root
    cdef bint of_gradients = False
    if gradients:
        for row in reads:
            root = row.root
            if root.index in gradients:
                of_gradients = True
                break
    for row in writes:
        root = row.root
        made.add(root.index)
        if of_gradients:
            gradients.add(root.index)
    sdbr_fill_instruction(
        instruction, tuple(floats), of_gradients and not op.keeps_denormals, reads, tuple(ints),
        label, line, link, obj, op, writes,
    )
    return instruction
