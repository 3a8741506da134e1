"""What other compiled modules may use of the binding of calls."""

from cpython.array cimport array as int_array

from sdbr._executor cimport Executable
from sdbr.program._memory cimport Memory
from sdbr.call._spec cimport Leaves


cdef class Shown:
    cdef frozenset slots
    cdef dict given               # slot -> the caller's array, where a copy of it is bound
    cdef object copied(self, int slot, array)
    cdef object array(self, int slot, bound)


cdef class Outputs:
    cdef Shown shown
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
    cdef Shown shown
    cdef int_array places         # per parameter: where its array keeps the shape
    cdef Memory memory
    cdef bint bind(self) except -1


cdef class Arguments:
    cdef list positions           # of (argument, slot)
    cdef list attributes          # of (dict, name, slot, shape, dtype)
    cdef frozenset held           # slots of arrays that a function may update in place
    cdef Shown shown
    cdef Memory memory
    cdef bint bind(self, Leaves now, list positions) except -1


cdef struct Step:
    int kind
    int place                     # of the output, or of a store's Variable; else -1
    int at                        # among `writes`; else -1


cdef class Effects:
    cdef readonly dict places     # value index -> its place among `things`
    cdef Step *steps              # what is done after a run, in order
    cdef int n_steps
    cdef list details             # per step: a tuple, by its kind
    cdef list writes              # of (dict, name, place, whether a report comes before it)
    cdef int n_late               # how many of these have a report before them
    cdef bint is_overheard        # whether code of others is told of the reports
    cdef list written             # per write: the Variable or array that was written last
    cdef list observers           # per report
    cdef list reporters           # Chainer's list of this thread, as long as a run is under way
    cdef list kinds               # per output: requires_grad of a Variable, None for an array
    cdef list keep                # per output: whether its array stays in place
    cdef list things              # what is handed out in this run: outputs, then leaves
    cdef int n_outputs
    cdef object node_class
    cdef Outputs outputs
    cdef list in_place(self)
    cdef object thing(self, int place)
    cdef object filled(self, structure, dict places)
    cdef void keep_written(self)
    cdef void forget(self)
    cdef void forget_things(self)
    cdef bint can_report(self) except -1
    cdef int apply(self) except -1
    cdef int report(self, list items, observer) except -1


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
    cdef Shown shown
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Outputs outputs
    cdef Effects effects

    cdef bint bind(self, Leaves now, list positions) except -1
    cdef int run(self) except -1
