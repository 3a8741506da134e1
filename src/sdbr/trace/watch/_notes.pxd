"""What a call reads from outside, noted."""

from sdbr.trace.watch._events cimport Events
from sdbr.trace.watch._fresh cimport Fresh, Shared


cdef class Notes(Events):
    cdef readonly object reads
    cdef readonly dict owners      # address of a dictionary -> the object whose attributes it holds
    cdef public object asked       # (object, name): its attribute is what comes on the stack next
    cdef public bint evaluates     # the next frame has a copy of the local variables of this one
    cdef readonly Fresh fresh
    cdef dict sources              # (kind, parent's number, key) -> Source
    cdef dict homes                # address -> the source by which the object was first reached
    cdef set facts                 # (kind, number of the source, key)
    cdef set written               # (address, kind, key)
    # Address of a generator's frame, or of code -> what is done with its values; None: whatever
    # compiled code does.
    cdef dict yields
    cdef dict writers              # what was written -> the things in which
    cdef set touched               # addresses of what was written to
    cdef set given_away            # addresses of what code that is not followed has got
    # Address of a dictionary that code which is not followed may write to -> what was in it before
    # the call.
    cdef dict starts
    cdef dict before               # address -> (container, what was in it before "*" was written)
    cdef dict shown                # address of what stands for an array -> where that lies
    cdef public object meets       # is told of generators, Variables, links, and what escapes
    cdef public object writes      # is told of what is written to, before that is
    cdef public object shows       # gives what the code gets of an array from outside
    cdef public object knows       # gives what stands for an array that the call has made
    cdef public object stands      # gives what is called in the place of a function
    cdef public object holds_nodes  # is told when the code may get hold of function nodes
    cdef set beside                # as `written`, of what runs in each replay
    cdef Notes inner               # watches code that runs in each replay as well
    cdef Notes around              # of such a watch: that of the call
    cdef Shared shared             # what the call has made and such code has a part in
    cdef list places               # what was written to, and where
    cdef dict ran                  # address -> code of the user's that ran, and what it has called
    cdef list kept                 # what has an address in one of these

    cpdef bint is_own(self, thing) except -1
    cdef bint has(self, thing) except -1
    cpdef object root(self, thing)
    cpdef object place(self, str kind, parent, key, value, str name=*)
    cpdef int read(self, thing, str kind, key, value) except -1
    cpdef int fact(self, thing, str kind, key=*) except -1
    cpdef int compare(self, one, other, bint is_asked=*) except -1
    cdef object lies_at(self, thing)
    cpdef int wrote(self, thing, str kind, key, bint new=*, str name=*) except -1
    cdef int has_part(self, thing) except -1
    cpdef int wrote_beside(self, Notes other, bint is_free) except -1
    cdef int read_beside(self, thing, str kind, key) except -1
    cdef bint has_read(self, source, str kind, key) except -1
    cpdef bint is_written(self, thing, str kind, key) except -1
    cpdef int numbers_behind(self, shown) except -1
    cpdef int look_back(self) except -1
    cdef int apart(self, thing, str kind, key) except -1
    cpdef object special(self, thing, str name)
    cpdef object lineage(self, kind)
    cpdef int give_yields(self, generator, meaning) except -1
    cpdef int mark_dynamic(self, str text) except -1
    cpdef int runs(self, thing) except -1
    cpdef int is_made(self, thing) except -1
    cpdef bint is_new_to(self, thing) except -1
