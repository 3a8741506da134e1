"""Attributes and items, found without running anybody's code."""

cdef enum How:
    VALUE = 0         # the thing itself
    METHOD = 1        # a function that is bound to the object
    CLASS_METHOD = 2  # one that is bound to its class
    CODE = 3          # a descriptor, whose code gives it
    ABSENT = 4

cpdef object class_attribute(kind, name)
cpdef tuple lookup(thing, name)
cpdef bint is_atom(thing) except -1
cpdef bint is_plain_key(key) except -1
cpdef object field(thing, name)
cpdef object item(thing, key)
cpdef bint is_a(thing, tuple kinds) noexcept
cpdef object token_of(key)
cdef object shown(key)
