"""The memory of a schedule instance, for the executor and the compiled call path."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef class Memory:
    cdef char **pointers      # by global slot index
    cdef int64_t *sizes       # bytes behind each pointer
    cdef double *control      # the control block
    cdef readonly int n_slots
    cdef readonly int n_control
    cdef list owners          # by global slot index: the ndarray that owns the memory, or None
    cdef public dict state    # per-call state of Python ops

    cdef public bint taken        # by a call that binds it
    cpdef bint take(self)
    cpdef grow(self, int n_slots, int n_control)
    cpdef bind(self, int slot, array)
    cpdef unbind(self, int slot)
    cpdef set_control(self, int index, double value)
    cdef void bind_fast(self, int slot, PyObject *array)
    cdef int check_slot(self, int slot) except -1


cdef class Arena:
    cdef readonly object array    # uint8[bytes], or None
    cdef bint taken               # by a program that runs
    cdef list lodgers             # weak references to those that work in it


cdef class Lodger:
    cdef object __weakref__
    cdef readonly Arena arena     # None: it has memory of its own
    cdef readonly Memory memory
    cdef readonly int slot
    cdef readonly int64_t nbytes
    cdef bint runs
    cdef int enter(self) except -1
    cdef int leave(self) except -1


cdef class Followed:
    cdef readonly int place
    cdef readonly int slot
    cdef int source
    cdef Py_ssize_t offset
    cdef tuple shape
    cdef tuple strides
    cdef object dtype
    cdef object whole
    cdef object layout            # intp[2 n]: shape, strides
    cdef bint bind(self, Memory memory, PyObject *array) except -1
