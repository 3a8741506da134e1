# cython: language_level=3


cdef class OwnForwards:
    cdef object watch
    cdef dict classes
    cdef dict links
    cdef bint paused

    cpdef object of(self, link, forward)
    cdef bint is_own(self, link, forward) except -1
    cdef bint is_as_it_was(self, cls) except -1
