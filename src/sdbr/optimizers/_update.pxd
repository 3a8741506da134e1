"""What other compiled modules may use of an update plan."""

from sdbr.optimizers._basis cimport UpdateBasis
from sdbr.program._memory cimport Memory


cdef class Update(UpdateBasis):
    cdef public int n_control  # how many control values prepare writes

    cpdef bint prepare(self, Memory memory, int control_base)
    cpdef bint look_ahead(self)
    cdef bint idle_are_valid(self)
    cpdef commit(self)
    cpdef count(self)
    cpdef end(self)
    cpdef bint gradients_are_there(self)
    cpdef advance(self, Memory memory, int control_base)
    cpdef int bind_parameters(self, Memory memory)
    cpdef Py_ssize_t bind_gradients(self, Memory memory, bint written)
    cpdef int unbind_gradients(self, Memory memory)
