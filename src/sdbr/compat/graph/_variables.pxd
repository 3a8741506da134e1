"""What other compiled modules may use of Variables and their gradients."""

from cpython.object cimport PyObject


cdef PyObject *plain_attributes(variable) except? NULL
cdef object new_variable(object array, object requires_grad, object node_class, shape, dtype)
cdef bint is_as_made(dict outside, dict inside) except -1
cdef object without_history(value)
cdef object array_of(variable)
cdef object bare(gradient)
cdef object as_variable(gradient)
cdef object take_gradient(variable)
cdef int give_gradient(variable, gradient, loss_scale) except -1
