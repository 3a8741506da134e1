"""What passes ask of rows; see `sdbr.program._rows`."""

from sdbr.program._layout cimport Instruction, Row

cpdef bint whole(Row row) except -1
cpdef bint is_bound(Row row) except -1
cpdef list written(Instruction instruction)
cpdef tuple layout(Row row)
cpdef tuple extent(Row row)
cpdef bint overlap(Row row, Py_ssize_t low, Py_ssize_t high) except -1
cdef bint reach(Row row, Py_ssize_t *low, Py_ssize_t *high) except -1
