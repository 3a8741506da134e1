"""What other compiled modules may use of the look after user code in a replay."""

from sdbr.call._conditions cimport WriteWatch
from sdbr.optimizers._update cimport Update
from sdbr.program._memory cimport Memory


cdef class Exits:
    cdef object schedule
    cdef object met               # where the guards look
    cdef list asked               # there: of conditions
    cdef list fixed               # what always lies at sources, by their numbers
    cdef list looks               # how to look at the others
    cdef list filled              # of containers
    cdef tuple objects            # what lay there when the replay began: they stay until it ends
    cdef WriteWatch write_watch
    cdef Update update            # that the program makes, or None
    cdef Memory memory
    cdef list params              # their dictionaries
    cdef list places              # of (dict or the like, name): of other arrays, and of numbers
    cdef bint draws
    cdef object slots             # of arrays that the program writes and that somebody may see
    cdef list arrays              # these, and what they held before the code that runs now
    cdef list given               # Variables among the arguments
    cdef dict local               # the configuration before the code that runs now
    cdef dict shared
    cdef bint active              # whether the forward of a replay is under way
    cdef list bound               # what lay at these places when it began
    cdef list notes
    cdef tuple words              # of NumPy's generator, before the code that runs now
    cdef int begin(self, tuple given) except -1
    cdef int note(self, error, kind, tuple what) except -1
    cdef int end(self) except -1
    cdef list now(self)
    cdef tuple lying(self)
    cdef bint is_bound(self) except -1
    cdef bint is_configured(self) except -1
    cdef bint is_update(self) except -1
    cdef list moved(self)
