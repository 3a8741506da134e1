"""What other compiled modules may use of the backwards of an instance."""

from cpython.array cimport array as int_array
from cpython.object cimport PyObject

from sdbr._executor cimport Executable
from sdbr.compat.graph._graph cimport Compiled
from sdbr.program._memory cimport Memory
from sdbr.schedule._kinds cimport Kinds
from sdbr.schedule._statistics cimport Statistics


cdef class BackwardRun:
    cdef readonly object plan
    cdef readonly object executable
    cdef Executable compiled      # the same, where the loop runs it
    cdef object instance
    cdef Memory memory
    cdef tuple given
    cdef tuple wanted
    cdef bint retained
    cdef list seeds               # slots of the incoming gradients
    cdef list seed_values
    cdef Kinds seed_kinds
    cdef list grads               # Gradient or None, then those of outputs
    cdef Kinds kinds
    cdef int_array ways
    cdef int_array slots
    cdef list temporary
    cdef list followed
    cdef int arena                # slot of the memory that a run needs, or -1
    cdef long long arena_bytes
    cdef bint may_borrow          # whether an instance's own arena is as large as that
    cdef object bind_gradient(self, Py_ssize_t k)
    cdef int prepare(self) except -1
    cdef object lender(self)
    cdef list run(self, Backwards owner, list gys, list sources, tuple results)
    cdef list run_bound(self, Backwards owner, list gys, list sources, tuple results)
    cdef int bind_seeds(self, list gys) except -1


cdef class Backwards(Compiled):
    cdef object instance
    cdef object forward
    cdef object lock
    cdef Memory memory
    cdef list values
    cdef Kinds kinds
    cdef int_array slots
    cdef str outputs_name
    cdef bint comes_apart
    cdef bint suits
    cdef dict known               # Pattern -> BackwardRun
    cdef BackwardRun last
    cdef BackwardRun run_of(self, tuple given, tuple wanted, bint retained)
    cdef list go(
        self, BackwardRun run, list gys, list sources, tuple results, Statistics statistics
    )
    cdef int bind(self, list sources) except -1
    cdef int bind_source(self, int i, source) except -1
    cdef int retain(self, dict attributes, list gys, list inner) except -1
