"""What reading of a container means: items, elements, their order, how many there are."""

import collections
import decimal
import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.watch._looks import MISSING
from sdbr.trace.watch.fingerprints import CONTAINERS, SETS, VARIABLES, elements_of
from sdbr.trace.watch._following import is_library_class

import numpy as np

from sdbr.trace.watch._escaping cimport escape, show
from sdbr.trace.watch._following cimport is_followed
from sdbr.trace.watch._looks cimport (
    class_attribute,
    field,
    is_a,
    is_atom,
    is_plain_key,
    item,
)
from sdbr.trace.watch._notes cimport Notes

_COMPUTED = (*ARRAYS, np.generic, *VARIABLES)
_PLAIN = (str, bytes, type)
_FIELDS = (dict, types.MappingProxyType)


cpdef object subscript(Notes notes, thing, key):
    """The code reads ``thing[key]``."""
    kind = type(thing)
    if is_a(thing, ARRAYS):
        if thing.dtype == object:
            escape(notes, thing)
        return
    if is_atom(thing) or is_a(thing, (*_COMPUTED, *_PLAIN)):
        return
    if is_followed(class_attribute(kind, "__getitem__")):
        return
    if not is_a(thing, (*CONTAINERS, types.MappingProxyType)):
        escape(notes, thing)
        escape(notes, key)
    elif type(key) is slice:
        elements(notes, thing)
    elif not is_plain_key(key) or (id(thing) not in notes.owners and not is_a(thing, CONTAINERS)):
        escape(notes, key)
        escape(notes, thing)
    else:
        _item(notes, thing, key)


cdef object _item(Notes notes, thing, key):
    owner = notes.owners.get(id(thing))
    if owner is not None and type(key) is str:
        notes.read(owner, "field", key, field(owner, key))
        return
    found = item(thing, key)
    if found is MISSING and is_a(thing, (dict,)):
        notes.fact(thing, "item", key)
        if is_a(thing, (collections.defaultdict,)):  # what makes the item
            escape(notes, thing)
        return
    if not is_a(thing, (dict,)) and type(key) is int and key < 0:
        notes.fact(thing, "length")
    notes.read(thing, "item", key, found)


cpdef bint elements(Notes notes, thing) except -1:
    """The code goes through a container; whether it is one whose elements can be told."""
    if is_atom(thing):
        return True
    owner = notes.owners.get(id(thing))
    if owner is not None:
        notes.fact(owner, "names")
        return True
    if not is_a(thing, CONTAINERS) or is_followed(class_attribute(type(thing), "__iter__")):
        return False
    if notes.is_own(thing):
        return True
    if is_a(thing, (dict,)):
        notes.fact(thing, "keys")
    elif is_a(thing, SETS):
        notes.fact(thing, "elements")
    else:
        notes.fact(thing, "length")
        for i, x in enumerate(elements_of(thing)):
            notes.read(thing, "item", i, x)
    return True


cpdef object values(Notes notes, thing):
    """The code goes through the values of a dict."""
    if elements(notes, thing) and (id(thing) in notes.owners or not notes.is_own(thing)):
        for key in list(thing) if type(thing) is types.MappingProxyType else elements_of(thing):
            if is_plain_key(key):
                _item(notes, thing, key)
            else:
                escape(notes, thing)


cpdef object through(Notes notes, thing):
    """Compiled code takes an iterable: all of it is read."""
    if elements(notes, thing) or is_a(thing, _COMPUTED):
        return
    if type(thing) is types.GeneratorType:
        if not notes.is_own(thing):
            notes.mark_dynamic("goes through a generator that others may move")
    elif not is_followed(class_attribute(type(thing), "__iter__")):
        escape(notes, thing)


cpdef object all_of(Notes notes, thing):
    """Compiled code takes all of an iterable, the values of a dict, too."""
    values(notes, thing) if is_a(thing, (dict,)) else through(notes, thing)


cpdef object length(Notes notes, thing):
    """The code asks how many there are, or whether there are any."""
    if is_atom(thing) or is_a(thing, _COMPUTED):
        return
    if id(thing) in notes.owners:
        notes.fact(notes.owners[id(thing)], "names")
        return
    if is_a(thing, CONTAINERS):
        if not is_followed(class_attribute(type(thing), "__len__")):
            notes.fact(thing, "length")
        return
    for name in ("__bool__", "__len__"):
        found = class_attribute(type(thing), name)
        if found is not MISSING:
            if not is_followed(found):
                escape(notes, thing)
            return


cpdef object contains(Notes notes, thing, key):
    """The code asks ``key in thing``."""
    if is_atom(thing) or is_followed(class_attribute(type(thing), "__contains__")):
        return
    if is_a(thing, _FIELDS) and is_plain_key(key):
        owner = notes.owners.get(id(thing))
        if owner is not None and type(key) is str:
            notes.fact(owner, "field", key)
            return
        if is_a(thing, (dict,)):
            notes.fact(thing, "item", key)
            return
    if elements(notes, thing):
        for x in elements_of(thing):
            equal(notes, x, key)
    else:
        escape(notes, thing)


cpdef object equal(Notes notes, one, other):
    """The code compares two things by ``==``, ``<`` and the like."""
    for thing in (one, other):
        if is_atom(thing) or is_a(thing, _COMPUTED):
            continue
        compare = class_attribute(type(thing), "__eq__")
        if compare is object.__eq__:
            if not is_atom(one) and not is_atom(other):
                notes.compare(one, other)
        elif not is_followed(compare):
            escape(notes, thing)


cpdef object operate(Notes notes, one, other, bint modulo = False):
    """The code computes with an operator."""
    if modulo and type(one) in (str, bytes):
        show(notes, other)
    for thing in (one, other):
        if type(thing) is decimal.Decimal:
            escape(notes, thing)
        if is_atom(thing) or is_a(thing, _COMPUTED):
            continue
        if is_a(thing, (dict,)):
            values(notes, thing)
        elif is_a(thing, CONTAINERS):
            elements(notes, thing)
        elif is_library_class(type(thing)):
            escape(notes, thing)


cpdef object write_item(Notes notes, thing, key):
    """The code writes ``thing[key]``, or deletes it."""
    if is_a(thing, CONTAINERS):
        owner = notes.owners.get(id(thing))
        if owner is not None and type(key) is str:
            notes.wrote(owner, "attribute", key, field(owner, key) is MISSING)
        elif is_plain_key(key) and type(key) is not slice:
            notes.wrote(thing, "item", key, item(thing, key) is MISSING)
        else:
            notes.wrote(thing, "*", None)
    elif not is_a(thing, ARRAYS) and not is_followed(class_attribute(type(thing), "__setitem__")):
        notes.wrote(thing, "*", None)
