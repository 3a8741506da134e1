"""Arenas that programs share, for the compiled call path."""

from libc.stdint cimport int64_t

from sdbr.program._memory cimport Memory


cdef class Arena:
    cdef readonly object array    # uint8[bytes], or None
    cdef object device            # that of those that work in it
    cdef bint taken               # by a program that runs
    cdef list lodgers             # weak references to those that work in it


cdef class Lodger:
    cdef object __weakref__
    cdef readonly Arena arena     # None: it has memory of its own
    cdef readonly Memory memory
    cdef readonly int slot
    cdef readonly int64_t nbytes
    cdef bint runs
    cdef int enter(self) except -1
    cdef int leave(self) except -1
