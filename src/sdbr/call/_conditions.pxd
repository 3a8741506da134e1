"""What other compiled modules may use of the conditions besides arguments."""

from sdbr.call._spec cimport CallSpec
from sdbr.program._memory cimport Memory
from sdbr.trace.guards._definitions cimport Definitions
from sdbr.trace.guards._held cimport Conditions
from sdbr.trace.guards._versions cimport Dicts
from sdbr.trace.watch.plan._checks cimport Checks


cdef class WriteWatch:
    cdef object guards
    cdef object version
    cdef Dicts dicts              # None while `version` is
    cdef Conditions volatile      # those of the guards
    cdef Definitions definitions
    cdef Checks seen              # what the traced call was seen to read; None: nothing
    cdef bint hold(self)


cdef class Numbers:
    cdef readonly bint active     # whether there is anything to look at
    cdef list scalars
    cdef list holders             # per scalar: the dictionary of an attribute, else None
    cdef list names
    cdef list exact               # numbers that are left behind as Python computes them
    cdef list kept                # what they are in this call
    cdef bint mixed               # whether arguments are compared with what may change itself
    cdef object guards
    cdef object accepted          # floats among the arguments that the guards accepted last
    cdef int n
    cdef double *values
    cdef bint read(self, CallSpec spec) except -1
    cdef bint look(self, tuple floats) except -1
    cdef void write(self, Memory memory, int base)
    cdef dict show(self, dict things)


cdef bint hooks_are_off()
