"""What other compiled modules may use of the binding of calls."""

from cpython.array cimport array as int_array

from sdbr._executor cimport Executable
from sdbr.call._effects cimport Effects
from sdbr.call._outputs cimport Outputs, Shown
from sdbr.call._spec cimport Leaves
from sdbr.call.exits._exits cimport Exits
from sdbr.program._arenas cimport Lodger
from sdbr.program._memory cimport Memory


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
    cdef bint bind_on_device(self, Py_ssize_t i, now) except -1


cdef class Arguments:
    cdef list positions           # of (argument, slot)
    cdef list attributes          # of (dict, name, slot, shape, dtype)
    cdef list compared            # of (dict, name): none of these may be an argument as well
    cdef frozenset held           # slots of arrays that a function may update in place
    cdef Shown shown
    cdef Memory memory
    cdef bint bind(self, Leaves now, list positions) except -1
    cdef bint bind_on_device(self, int slot, thing, shape, dtype) except -1
    cdef bint are_others(self, Leaves now, list positions) except -1


cdef class Staged:
    cdef object executable
    cdef list positions           # of (argument, slot)
    cdef list others              # of (dict or None, name or array, slot, shape, dtype)
    cdef bint bind(self, Leaves now, list positions) except -1


cdef class Written:
    cdef list slots               # of what is written
    cdef list params              # of (dict, slot): parameters among it
    cdef list bound               # slots of all that a call brings
    cdef Shown shown
    cdef Memory memory
    cdef bint lies_apart(self) except -1


cdef class Binder:
    cdef readonly object executable
    cdef Executable compiled
    cdef Shown shown
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Staged staged            # None where nothing comes from the host
    cdef Written written          # None where the call writes nothing that it is given
    cdef Outputs outputs
    cdef Effects effects
    cdef Exits exits              # None where no code of the user's is run
    cdef Lodger lodger            # None where the memory has an arena of its own

    cdef bint bind(self, Leaves now, list positions) except -1
    cdef int run(self) except -1
    cdef int enter(self) except -1
    cdef int leave(self) except -1
