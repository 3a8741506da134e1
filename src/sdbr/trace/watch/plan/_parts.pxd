"""What a plan is made of: places, and what is tested of them."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.trace.watch.plan._watched cimport sdbr_place, sdbr_seen

# How what lies at a place is compared where nothing vouches for it.
cpdef enum How:
    ANY = 0        # whatever it is: by what is read of it
    WEAK = 1       # by the weak reference `keep`
    SAME = 2       # it has to be `keep`
    ATOM = 3       # or equal
    KIND = 4       # of the class `keep`
    ARRAY = 5      # as the `Like` that is kept
    VARIABLE = 6
    WRAPPED = 7    # a static method or the like: (its class, a weak reference to what it wraps)
    UNKNOWN = 8    # nobody can tell

# What a pair asks for that has no node.
cpdef enum What:
    NOTHING = -1   # there is none of this key
    SIZE = -2      # the key is how many there are
    KEYS = -3      # the keys are these
    FIXED = -4     # the class has not been written to at all

# What a test looks at.
cpdef enum Op:
    FIELDS         # the dictionary of an object, `number` bytes from its address
    ROVING         # the dictionary of an object where that may lie elsewhere in each
    ITEMS          # a dictionary
    TYPE           # the class that an object has
    CLASS          # what a class and those above it have; after `TYPE` of one of its objects
    ALIVE          # a root that is weakly referenced
    AGAIN          # the node itself, whoever vouches for it
    DEFINITION
    FIRST          # whether the array of a parameter is None
    LIST
    TUPLE
    CELL
    IS
    OWN            # the dictionary of a `threading.local` in this thread
    MEMBER         # a slot, `number` bytes from the object's address
    CLOSURE
    SELF
    KIND_OF
    GIVEN
    ARGUMENT
    KEYWORD
    ENVIRONMENT

cdef struct CNode:
    PyObject *now    # borrowed
    PyObject *keep   # one of `Plan.kept`
    PyObject *held   # of ATOM: a reference of its own
    int how

cdef struct CPair:
    PyObject *key
    Py_ssize_t number  # the key, where that is one
    int node         # or a `What`
    sdbr_place place

cdef struct CTest:
    int op
    int node
    int other
    int first
    int last
    Py_ssize_t number
    PyObject *thing  # a class, the dictionary that was found, ...
    PyObject *ref    # of CLASS: weak
    sdbr_seen *seen
    PyObject *kind   # of FIELDS: the class of the object, where that is tested as well
    uint64_t version


cdef class Node:
    cdef readonly object value, keep
    cdef readonly int how
    cdef int index


cdef class Test:
    cdef readonly int op
    cdef readonly Node node, other
    cdef readonly object thing
    cdef readonly Py_ssize_t number
    cdef readonly list pairs
    cdef readonly dict places
