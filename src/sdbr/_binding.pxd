"""What other compiled modules may use of the binding of calls."""

from cpython.array cimport array as int_array

from sdbr._executor cimport Executable, Memory
from sdbr._spec cimport CallSpec


cdef class Outputs:
    cdef list pools               # per output: a list of arrays
    cdef list arrays              # per output: the array of this run
    cdef list shapes
    cdef list dtypes
    cdef list slots
    cdef list windows             # of (output, slot, Window): those without memory of their own
    cdef list is_window           # per output
    cdef Memory memory
    cdef Py_ssize_t n             # of `pools`: of outputs, then memory that only windows show
    cdef int bind(self, list reused) except -1


cdef class Parameters:
    cdef list params
    cdef list dicts
    cdef list lists
    cdef int_array slots
    cdef list shapes
    cdef list dtypes
    cdef frozenset shown          # slots of which results are views: no copy will do
    cdef int_array places         # per parameter: where its array keeps the shape
    cdef Memory memory
    cdef bint bind(self) except -1


cdef class Arguments:
    cdef list positions           # of (argument, slot)
    cdef list attributes          # of (dict, name, slot, shape, dtype)
    cdef frozenset held           # slots for whose arrays no copy will do
    cdef Memory memory
    cdef bint bind(self, CallSpec spec, list positions) except -1


cdef class Effects:
    cdef list writes              # of (dict, name, output index or -1, value)
    cdef list stores              # of (place, structure, value index -> output index, output or -1)
    cdef list written             # per write: the Variable or array that was written last
    cdef list reports             # of (items, observer)
    cdef list kinds               # per output: requires_grad of a Variable, None for an array
    cdef list keep                # per output: whether its array stays in place
    cdef list things              # per output: what is handed out in this run
    cdef object node_class
    cdef Outputs outputs
    cdef list in_place(self)
    cdef object thing(self, int place)
    cdef object hand_out(self, int place)
    cdef void forget(self)
    cdef bint can_report(self) except -1
    cdef int apply(self) except -1
    cdef int store(self) except -1


cdef class Gradients:
    cdef list dicts
    cdef list shapes              # what the program was made for
    cdef list dtypes
    cdef list arrays
    cdef list slots
    cdef list fresh               # indices of those that have to be published
    cdef Memory memory
    cdef int bind(self) except -1
    cdef int publish(self) except -1


cdef class Binder:
    cdef readonly object executable
    cdef Executable compiled
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Outputs outputs
    cdef Effects effects

    cdef bint bind(self, CallSpec spec, list positions) except -1
    cdef int run(self) except -1
