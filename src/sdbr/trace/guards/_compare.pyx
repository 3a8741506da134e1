"""Whether things are as they were when their prints were taken: identity first, then in C.

Nothing here may take for granted that a container stays as it is while it is compared: whatever
runs Python code (a ``repr``, an ``__eq__``) lets other threads write. Items are held while they
are looked at, and sizes are asked again at each step.
"""

from collections import OrderedDict

from sdbr.trace.code.reading import plain_fields

import numpy as np

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from sdbr.base._python cimport PyDict_Next, sdbr_attributes, sdbr_dict_size
from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *) except? NULL
    Py_ssize_t PySequence_Fast_GET_SIZE(object)
    PyObject **PySequence_Fast_ITEMS(object)
    bint PyFloat_CheckExact(object)
    bint PyLong_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyBytes_CheckExact(object)
    bint PyComplex_CheckExact(object)
    bint PyDict_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    bint PyObject_RichCompareBool(object, object, int) except -1
    int Py_EQ

#: What is compared by value; of these and of no other things.
SCALARS = (int, float, str, bool, bytes, complex, type(None), np.generic)
cdef tuple _SCALARS = SCALARS
#: Whether Python counts the writes to a dictionary: a large one then costs no more than a small.
COUNTS_WRITES = bool(SDBR_DICT_VERSIONS)
#: Beyond so many items not even what the traced call does is looked at in full.
cdef Py_ssize_t MOST_HELD = 1 << 20


# --- numbers and texts --------------------------------------------------------------------------
cdef inline bint same_double(double a, double b) noexcept nogil:
    """As their ``repr`` is: 0.0 is not -0.0, and nan is nan."""
    return memcmp(&a, &b, sizeof(double)) == 0 or (a != a and b != b)


cdef bint same_scalar(object thing, object want) except -1:
    """Whether two things that are not the same one are numbers or texts of one type and value."""
    if type(thing) is not type(want):
        return False
    if PyFloat_CheckExact(want):
        return same_double(PyFloat_AS_DOUBLE(thing), PyFloat_AS_DOUBLE(want))
    if PyLong_CheckExact(want) or PyUnicode_CheckExact(want) or PyBytes_CheckExact(want):
        return PyObject_RichCompareBool(thing, want, Py_EQ)
    return isinstance(want, _SCALARS) and repr(thing) == repr(want)


cdef bint as_before(object thing, object want, dict live) except -1:
    """Whether `thing` is what `want` says, a print or the very thing or number."""
    if thing is want:
        return True
    if isinstance(want, Print):
        return (<Print> want).matches(thing, live)
    return same_scalar(thing, want)


def same(thing, want, dict live):
    """Whether `thing` is as it was; `live` maps ids of arrays and Variables to `SAME` or `LIKE`."""
    return as_before(thing, want, live)


cpdef bint same_number(object thing, object want) except -1:
    """Whether two numbers or texts are one, type and sign of zero included."""
    return thing is want or same_scalar(thing, want)


cdef class Print:
    """What something was like."""

    cdef bint matches(self, object thing, dict live) except -1:
        """Whether `thing` is like it."""
        raise NotImplementedError


# --- containers ---------------------------------------------------------------------------------
cdef bint has_prints(object items) except -1:
    for x in items:
        if isinstance(x, Print):
            return True
    return False


cdef class ItemsPrint(Print):
    """A list, tuple, deque or bytearray.

    Parameters
    ----------
    kind : type
    items : list
        A print of each, or the very item.
    """

    def __init__(self, kind, list items):
        self.kind = kind
        self.items = items
        self.is_plain = not has_prints(items)

    cdef bint matches(self, object thing, dict live) except -1:
        cdef Py_ssize_t i, n = len(self.items)
        if type(thing) is not self.kind or len(thing) != n:
            return False
        now = thing if type(thing) is list or type(thing) is tuple else list(thing)
        if PySequence_Fast_GET_SIZE(now) != n:
            return False
        if self.is_plain and n > 0 and memcmp(
            PySequence_Fast_ITEMS(now), PySequence_Fast_ITEMS(self.items), n * sizeof(void *)
        ) == 0:
            return True
        for i in range(n):
            if PySequence_Fast_GET_SIZE(now) != n:
                return False
            item = <object> PySequence_Fast_ITEMS(now)[i]
            if not as_before(item, self.items[i], live):
                return False
        return True


cdef class PlainPrint(Print):
    """A large dict of plain things: looked through only after somebody has written to it.

    Parameters
    ----------
    thing : dict
    kept : bool
        Whether it is looked through then, and a copy is kept for that; else it counts as another.
    """

    def __init__(self, dict thing, bint kept):
        self.kind = type(thing)
        self.version = sdbr_dict_version(<PyObject *> thing)
        self.items = dict(thing) if kept else None

    cdef bint matches(self, object thing, dict live) except -1:
        cdef uint64_t version
        if type(thing) is not self.kind:
            return False
        version = sdbr_dict_version(<PyObject *> thing)
        if SDBR_DICT_VERSIONS and version == self.version:
            return True
        if self.items is None or not same_items(<dict> thing, self.items, live):
            return False
        self.version = version
        return True


cdef class SizePrint(Print):
    """A container too large to be looked through: it has to be the one, and as long as it was."""

    def __init__(self, thing):
        self.thing = thing
        self.size = len(thing)
        if self.size <= MOST_HELD:
            self.items = [*thing, *thing.values()] if isinstance(thing, dict) else list(thing)

    def settle(self):
        """The traced call is over: it has left the items alone."""
        self.items = None

    cdef bint matches(self, object thing, dict live) except -1:
        if thing is not self.thing or len(thing) != self.size:
            return False
        if self.items is None:
            return True
        now = SizePrint(thing).items
        if isinstance(thing, bytearray):
            return now == self.items
        return len(now) == len(self.items) and memcmp(
            PySequence_Fast_ITEMS(now),
            PySequence_Fast_ITEMS(self.items),
            len(now) * sizeof(void *),
        ) == 0


cdef class SetPrint(Print):
    """A set or frozenset, in the order in which it is gone through."""

    def __init__(self, thing):
        self.items = list(thing)

    cdef bint matches(self, object thing, dict live) except -1:
        if not isinstance(thing, (set, frozenset)) or len(thing) != len(self.items):
            return False
        now = list(thing)
        return len(now) == len(self.items) and all(map(same_key, now, self.items))


cpdef bint same_key(object key, object want) except -1:
    """Whether two keys of dictionaries, or members of sets, are one."""
    return key is want or (type(key) is type(want) and key == want)


# --- dictionaries and attributes ----------------------------------------------------------------
cdef bint same_items(dict now, dict want, dict live) except -1:
    """Whether a dictionary has the keys of `want` and no other, in order, and what that says."""
    cdef PyObject *key
    cdef PyObject *value
    cdef PyObject *wanted_key
    cdef PyObject *wanted
    cdef Py_ssize_t place = 0, wanted_place = 0
    if sdbr_dict_size(<PyObject *> now) != len(want):
        return False
    while PyDict_Next(<PyObject *> want, &wanted_place, &wanted_key, &wanted):
        if not PyDict_Next(<PyObject *> now, &place, &key, &value):
            return False
        item = <object> value  # held: the key's `__eq__` may take it away
        if key != wanted_key and not same_key(<object> key, <object> wanted_key):
            return False
        if not as_before(item, <object> wanted, live):
            return False
    return True


cdef bint same_fields(dict now, dict want, dict live) except -1:
    """Whether a dictionary has the keys of `want`, and what that says of each."""
    cdef PyObject *found
    cdef PyObject *key
    cdef PyObject *value
    cdef Py_ssize_t place = 0
    while PyDict_Next(<PyObject *> want, &place, &key, &value):
        found = PyDict_GetItemWithError(<PyObject *> now, key)
        if found == NULL:
            return False
        if found != value and not as_before(<object> found, <object> value, live):
            return False
    return True


cdef class FieldsPrint(Print):
    """A dict, or the attributes of a plain object, which has to be the very one.

    Parameters
    ----------
    owner : object
        None for a dict.
    items : dict
        A print of each, or the very thing.
    whole : bool
        False for an object of a library, of which only `numbers` counts.
    names : frozenset or None
        Attributes that matter, whether there or not; None: all of them.
    numbers : callable or None
        What counts among the attributes of an object of a library.
    """

    def __init__(self, owner, dict items, bint whole, names, numbers):
        self.owner = owner
        self.kind = type(owner)
        self.items = items
        self.whole = whole
        self.names = names
        self.numbers = numbers
        self.is_direct = owner is not None and is_direct(owner)
        self.deep = [(name, x) for name, x in items.items() if isinstance(x, Print)]

    def now(self, thing):
        """What `thing` holds now; a copy, for another thread may write; None if it is no such."""
        fields = self.fields_of(thing)
        if fields is None:
            return None
        fields = dict(fields)
        if self.names is not None:
            fields = {k: x for k, x in fields.items() if k in self.names}
        return fields if self.numbers is None else self.numbers(fields)

    cdef dict fields_of(self, object thing):
        if self.owner is None:
            if isinstance(thing, OrderedDict):  # whose own order the dictionary below does not have
                return dict(thing)
            if isinstance(thing, dict):
                return <dict> thing
            return dict(thing) if isinstance(thing, _Proxy) else None
        if thing is not self.owner or type(thing) is not self.kind:
            return None
        if self.is_direct:
            fields = sdbr_attributes(thing, NULL)
            if type(fields) is dict:
                return <dict> fields
        return plain_fields(thing)

    cdef bint has_names(self, dict fields) except -1:
        """Whether none of the attributes that matter has come to be."""
        cdef PyObject *key
        cdef PyObject *value
        cdef Py_ssize_t place = 0
        if self.names is None:
            return sdbr_dict_size(<PyObject *> fields) == len(self.items)
        while PyDict_Next(<PyObject *> fields, &place, &key, &value):
            if PyDict_GetItemWithError(<PyObject *> self.items, key) == NULL:
                if <object> key in self.names:
                    return False
        return True

    cdef bint matches(self, object thing, dict live) except -1:
        cdef uint64_t version
        cdef dict fields = self.fields_of(thing)
        if fields is None:
            return False
        version = sdbr_dict_version(<PyObject *> fields)
        if SDBR_DICT_VERSIONS and version == self.version:
            # The very numbers, and containers that may have changed.
            for name, want in self.deep:
                found = fields.get(name)
                if not as_before(found, want, live):
                    return False
            return True
        now = fields if self.numbers is None else <dict> self.numbers(dict(fields))
        if self.owner is None:
            if not same_items(now, self.items, live):
                return False
        elif not self.has_names(now) or not same_fields(now, self.items, live):
            return False
        self.version = version
        return True


cdef class BothPrint(Print):
    """A container that has attributes as well."""

    def __init__(self, Print items, Print attributes):
        self.items = items
        self.attributes = attributes

    cdef bint matches(self, object thing, dict live) except -1:
        return self.items.matches(thing, live) and self.attributes.matches(thing, live)


cdef object _Proxy = type(type.__dict__)


cdef bint is_direct(object owner) except -1:
    """Whether the attributes of `owner` can be read past its class."""
    try:
        return plain_fields(owner) is sdbr_attributes(owner, NULL)
    except AttributeError:  # a proxy, which shows those of another
        return False
