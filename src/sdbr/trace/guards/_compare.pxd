"""What other compiled modules may use of the comparison with what was."""

from libc.stdint cimport uint64_t


cdef class Print:
    cdef bint matches(self, object thing, dict live) except -1


cdef class ItemsPrint(Print):
    cdef readonly object kind
    cdef readonly list items
    cdef bint is_plain            # no prints among the items


cdef class PlainPrint(Print):
    cdef readonly dict items
    cdef object kind
    cdef uint64_t version


cdef class SizePrint(Print):
    cdef object thing
    cdef Py_ssize_t size
    cdef readonly list items      # until the traced call is over


cdef class SetPrint(Print):
    cdef readonly list items


cdef class FieldsPrint(Print):
    cdef readonly object owner
    cdef object kind              # the class of `owner`
    cdef readonly bint whole
    cdef readonly dict items
    cdef readonly object names    # of attributes that matter; None: all do
    cdef bint is_direct           # the attributes of `owner` are those in its dictionary
    cdef object numbers           # what counts of an object of a library; None: everything
    cdef list deep                # (name, print)
    cdef uint64_t version
    cdef dict fields_of(self, object thing)
    cdef bint has_names(self, dict fields) except -1


cdef class BothPrint(Print):
    cdef readonly Print items
    cdef readonly Print attributes


cdef bint as_before(object thing, object want, dict live) except -1
cpdef bint same_number(object thing, object want) except -1
