"""The memory of a schedule instance, for the executor and the compiled call path."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef class Memory:
    cdef char **pointers      # by global slot index
    cdef int64_t *sizes       # bytes behind each pointer
    cdef double *control      # the control block
    cdef readonly int n_slots
    cdef readonly int n_control
    cdef readonly object device  # the GPU it lies on, or None: the host
    cdef list owners          # by global slot index: the ndarray that owns the memory, or None
    cdef readonly set on_host     # slots of the host, where the others lie on a GPU
    cdef public dict state    # per-call state of Python ops

    cdef public bint taken        # by a call that binds it
    cpdef bint take(self)
    cpdef grow(self, int n_slots, int n_control)
    cpdef bind(self, int slot, array)
    cpdef unbind(self, int slot)
    cpdef device_of(self, int slot)
    cpdef set_control(self, int index, double value)
    cdef int bind_fast(self, int slot, PyObject *array) except -1
    cdef int check_device(self, int slot, array) except -1
    cdef int check_slot(self, int slot) except -1


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
    cdef bint bind_on_device(self, Memory memory, given) except -1
