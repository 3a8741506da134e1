"""Update rules that make the same step."""

from libc.stdint cimport uint64_t

cdef enum:
    LINKS = 4  # of a chain whose values are kept


cdef class Group:
    cdef readonly object rule_row
    cdef readonly object dtype
    cdef str attribute                # of the rules, which the scalars take; or None
    cdef object carry                 # what makes its next value, or None
    cdef readonly object hyperparam
    cdef readonly tuple options
    cdef readonly int number
    cdef int first                    # an entry of the group
    cdef readonly int offset          # of its scalars in the control block
    cdef tuple chain                  # dictionaries to look in; None: ask the object
    cdef tuple names
    cdef tuple known                  # the values of the chain as of `versions`; None: look
    cdef uint64_t[LINKS] versions
    cdef tuple option_places
    cdef object scalars
    cdef readonly int n_scalars
    cdef object function              # whose arithmetic the rule is, or None

    cdef tuple values(self)
    cdef tuple look(self)
    cdef bint options_hold(self, tuple values)


cdef double as_number(value) except? -1.0
