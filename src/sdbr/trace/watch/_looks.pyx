"""Attributes and items, found without running anybody's code.

What Python itself would run (a property, ``__getattr__``, ``__missing__``, ``__eq__``) is code that
is followed where it is the user's, so that nobody has to ask it here.
"""

import collections
import decimal
import enum
import types

import numpy as np

from cpython.object cimport PyObject, PyTypeObject
from cpython.set cimport PyAnySet_Check, PySet_Contains
from cpython.type cimport PyType_Check, PyType_IsSubtype

cdef extern from "Python.h":
    PyObject *_PyType_Lookup(PyTypeObject *, PyObject *) noexcept
    object PyObject_GenericGetAttr(object, object)
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *) except? NULL
    PyTypeObject *type_of "Py_TYPE"(PyObject *) noexcept
    bint PyType_HasFeature(PyTypeObject *, unsigned long) noexcept
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    bint PyDict_Check(object)
    bint PyList_Check(object)
    bint PyTuple_Check(object)

#: Stands for what is not there.
MISSING = type("Missing", (), {"__repr__": lambda self: "nothing", "__slots__": ()})()

cdef object Missing = MISSING
cdef tuple SCALARS = (np.generic,)
cdef object Property = property
cdef tuple FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)
cdef object Method = types.MethodType
cdef tuple BOUND = (Method, types.BuiltinMethodType, types.MethodWrapperType)
cdef tuple BY_NAME = (types.MethodDescriptorType, types.WrapperDescriptorType)
cdef object own_dict = object.__getattribute__


#: Classes whose objects are nothing but their value.
ATOMS = frozenset({
    int, float, str, bool, type(None), bytes, complex, type(...), type(NotImplemented), range,
    decimal.Decimal, type(MISSING),
})
cdef frozenset Atoms = ATOMS


cpdef bint is_atom(thing) except -1:
    """Whether `thing` is nothing but a value: a number, a text, a tuple of such things."""
    kind = type(thing)
    if kind in Atoms:
        return True
    if kind is tuple or kind is frozenset:
        for x in thing:
            if not is_atom(x):
                return False
        return True
    if kind is slice:
        return is_atom(thing.start) and is_atom(thing.stop) and is_atom(thing.step)
    return is_a(thing, SCALARS) and kind is not np.void


cpdef bint is_plain_key(key) except -1:
    """Whether no code of the user's runs where `key` is looked up."""
    if is_atom(key):
        return True
    kind = type(key)
    if kind is tuple:
        for x in key:
            if not is_plain_key(x):
                return False
        return True
    hashed = class_attribute(kind, "__hash__")
    return class_attribute(kind, "__eq__") is object.__eq__ and (
        hashed is object.__hash__ or hashed is enum.Enum.__hash__)


cpdef bint is_a(thing, tuple kinds) noexcept:
    """``isinstance`` by the class that an object has, whatever it says of itself."""
    for kind in kinds:
        if PyType_IsSubtype(<type>type(thing), <type>kind):
            return True
    return False


cpdef object class_attribute(kind, name):
    """What a class, or one above it, has under a name; MISSING for nothing."""
    cdef PyObject *found
    if type(name) is not str:
        return Missing
    found = _PyType_Lookup(<PyTypeObject *>kind, <PyObject *>name)
    return Missing if found == NULL else <object>found


cdef inline bint has(thing, str name) noexcept:
    """Whether the class of an object has an attribute."""
    return _PyType_Lookup(type_of(<PyObject *>thing), <PyObject *>name) != NULL


cpdef tuple lookup(thing, name):
    """How an object has an attribute, and what that is: a value, a function or a descriptor."""
    kind = type(thing)
    found = class_attribute(kind, name)
    if found is not Missing and (has(found, "__set__") or has(found, "__delete__")):
        if type(found) not in FIELDS:
            return CODE, found
        try:
            return VALUE, found.__get__(thing, kind)
        except AttributeError:  # a slot that holds nothing
            return ABSENT, Missing
    if PyType_Check(thing):
        own = class_attribute(thing, name)
        if own is not Missing:
            return of_class(own)
    else:
        own = own_attribute(thing, name, found)
        if own is not Missing:
            return VALUE, own
    if found is Missing:
        return ABSENT, Missing
    if is_method(found):
        return METHOD, found
    if type(found) is classmethod:
        return CLASS_METHOD, found.__func__
    if type(found) is staticmethod:
        return VALUE, found.__func__
    return (CODE if has(found, "__get__") else VALUE), found


cdef inline bint is_method(thing) noexcept:
    """Whether a thing in a class is bound to objects when it is asked for."""
    return PyType_HasFeature(type_of(<PyObject *>thing), Py_TPFLAGS_METHOD_DESCRIPTOR)


cdef tuple of_class(own):
    """An attribute of a class, read from the class itself."""
    kind = type(own)
    if kind is staticmethod:
        return VALUE, own.__func__
    if kind is classmethod:
        return (METHOD if is_method(own.__func__) else CODE), own.__func__
    if is_method(own) or kind is Property or kind in FIELDS:
        return VALUE, own
    return (CODE if has(own, "__get__") else VALUE), own


cdef object own_attribute(thing, name, found):
    """What the object itself holds under a name that its class has `found`; without making it
    a dictionary where it has none yet."""
    if found is Missing or is_method(found) or not has(found, "__get__"):
        try:
            own = PyObject_GenericGetAttr(thing, name)
        except AttributeError:
            return Missing
        if found is not Missing and (own is found or is_bound(own, thing, found)):
            return Missing
        return own
    return field(thing, name)


cdef bint is_bound(own, thing, found) except -1:
    """Whether Python has just made `own` of what the class has `found`: the object has another."""
    if not is_a(own, BOUND) or own.__self__ is not thing:
        return False
    if type(own) is Method:
        return own.__func__ is found
    return is_a(found, BY_NAME) and own.__name__ == found.__name__


cpdef object field(thing, name):
    """What lies under a name in the dictionary of an object, class or module."""
    try:
        fields = type.__dict__["__dict__"].__get__(thing) if PyType_Check(thing) \
            else own_dict(thing, "__dict__")
    except AttributeError:
        return Missing
    if PyType_Check(thing):
        return fields.get(name, Missing)
    return item(fields, name)


def superior(start, thing, kind, name):
    """What ``super(start, thing)`` finds under a name."""
    order = kind.__mro__
    if start in order:
        for above in order[order.index(start) + 1:]:
            found = field(above, name)
            if found is not Missing:
                return found
    return Missing


cpdef object item(thing, key):
    """An item of a dict, list, tuple or deque, by a key whose comparison runs no user code.

    Of a set, the key itself.
    """
    cdef PyObject *found
    if PyDict_Check(thing):
        found = PyDict_GetItemWithError(<PyObject *>thing, <PyObject *>key)
        return Missing if found == NULL else <object>found
    try:
        if PyList_Check(thing):
            return list.__getitem__(thing, key)
        if PyTuple_Check(thing):
            return tuple.__getitem__(thing, key)
        if is_a(thing, (collections.deque,)):
            return collections.deque.__getitem__(thing, key)
        if PyAnySet_Check(thing):
            return key if PySet_Contains(thing, key) else Missing
    except (IndexError, TypeError):
        pass
    return Missing


cpdef object token_of(key):
    """What tells a key from others: those that are no values, by which object it is."""
    if is_atom(key):
        return key
    if type(key) is tuple:
        return Missing, *map(token_of, key)
    return Missing, <size_t><PyObject *>key


cdef object shown(key):
    """What stands for a key in a text, where no code of the user's may run."""
    return key if is_atom(key) or type(key) is type else type(key)
