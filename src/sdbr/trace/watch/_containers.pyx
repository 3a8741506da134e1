"""What reading of a container means: items, elements, their order, how many there are."""

import collections
import decimal
import gc
import itertools
import types

from sdbr.devices.arrays import ARRAYS, PLAIN
from sdbr.trace.arrays.asked import gives_in_list, plain
from sdbr.trace.arrays.stripping import holds_known
from sdbr.trace.watch._looks import MISSING
from sdbr.trace.watch.fingerprints import CONTAINERS, SETS, VARIABLES, VIEWS, elements_of
from sdbr.trace.watch.reads import is_ours
from sdbr.trace.watch._following import is_library_class

import numpy as np

from sdbr.trace.watch._escaping cimport ASKS, IS_SEEN, TAKES, escape, is_number, meet, numbers, show
from sdbr.trace.watch._following cimport asks, is_followed, runs_followed
from sdbr.trace.watch._looks cimport (
    class_attribute,
    field,
    is_a,
    is_atom,
    is_plain_key,
    item,
    lookup,
)
from sdbr.trace.watch._notes cimport Notes

_COMPUTED = (*ARRAYS, np.generic, *VARIABLES)
HOST = (np.ndarray,)
FLAT = (np.flatiter,)
_KEYED = (dict, types.MappingProxyType, *SETS)
cdef int DEEPEST = 6  # containers within others, before they are guarded whole
_APPLY = (
    map, filter, itertools.starmap, itertools.accumulate, itertools.takewhile, itertools.dropwhile,
    itertools.filterfalse, itertools.groupby, itertools.compress,
)  # fmt: skip


cpdef bint is_computed(thing) except -1:
    """Whether all that is in `thing` are numbers: an array, a Variable."""
    return is_a(thing, _COMPUTED) and not (is_a(thing, ARRAYS) and thing.dtype == object)


cdef int some_numbers(Notes notes, thing, key) except -1:
    """The code takes ``thing[key]``, which is a copy."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        numbers(notes, part)
        if is_a(part, HOST) and is_ours(part):
            notes.numbers_behind(part)
    parts = [np.ndarray.view(x, np.ndarray) if is_a(x, HOST) and is_ours(x) else x for x in parts]
    if not all([type(part) in (int, slice, list, np.ndarray) for part in parts]):
        return numbers(notes, thing)
    if type(thing) is np.ndarray and thing.dtype != object and id(thing) in notes.homes:
        if notes.homes[id(thing)].root().kind not in ("argument", "keyword"):
            copied = tuple([x.copy() if type(x) in (list, np.ndarray) else x for x in parts])
            notes.fact(thing, "some", copied)
        return 0
    return numbers(notes, thing)


cpdef int computed_from(Notes notes, list things, bint one_by_one=False) except -1:
    """Code that is not followed computes of these, or writes to them, unless something traced takes
    part, which tells of it."""
    cdef list parts = []
    take_parts(notes, things, parts, 0)
    if one_by_one:
        for x in list(parts):
            if is_a(x, CONTAINERS):
                parts += dict.values(x) if is_a(x, (dict,)) else elements_of(x)
        parts = [x for x in parts if is_a(x, ARRAYS) and not is_ours(x)]
    elif any([is_a(x, VARIABLES) or (is_a(x, ARRAYS) and holds_known(x)) for x in parts]):
        return 0
    for x in parts:
        if is_a(x, CONTAINERS):
            notes.reads.computed.add(notes.root(x).number)
            notes.fact(x, "contents")
        else:
            numbers(notes, x)
    return 0


cdef int take_parts(Notes notes, list things, list parts, int depth) except -1:
    """The arrays in what the call has made, and the containers that were there before."""
    for thing in things:
        if not is_a(thing, CONTAINERS):
            if is_a(thing, ARRAYS) or is_a(thing, VARIABLES):
                parts.append(thing)
        elif not notes.is_own(thing):
            parts.append(thing)
        elif depth < DEEPEST:
            inside = dict.values(thing) if is_a(thing, (dict,)) else elements_of(thing)
            take_parts(notes, list(inside), parts, depth + 1)
    return 0


cdef bint is_view(thing, key) except -1:
    """Whether an item of an array is a view, whose numbers are read where it lies."""
    cdef int n = 0
    for part in key if type(key) is tuple else (key,):
        if type(part) is int:
            n += 1
        elif part is not None and part is not Ellipsis and type(part) is not slice:
            return False
    return n < thing.ndim if is_a(thing, ARRAYS) else False


cpdef object subscript(Notes notes, thing, key):
    """The code reads ``thing[key]``."""
    if is_atom(thing):
        return
    if is_computed(thing) or is_a(thing, FLAT):
        escape(notes, key)
        if not is_ours(thing):
            if is_a(thing, (*HOST, *FLAT)) and holds_known(key):  # by code that shows nobody
                notes.mark_dynamic(f"picks from a {type(thing).__name__} by an array of the call")
            elif not is_view(thing, key):
                some_numbers(notes, thing, key)
        return
    if is_a(thing, (type,)):
        notes.special(thing, "__getitem__")
        if not is_library_class(thing):
            notes.read(thing, "attribute", "__class_getitem__",
                       lookup(thing, "__class_getitem__")[1])  # fmt: skip
    elif not is_followed(notes.special(thing, "__getitem__")):
        get_item(notes, thing, key)


cpdef object get_item(Notes notes, thing, key):
    """Compiled code reads an item."""
    if not is_a(thing, (*CONTAINERS, types.MappingProxyType)):
        if any(map(gives_in_list, key if type(key) is tuple else (key,))):
            notes.mark_dynamic(f"gives an array in a list to {type(thing).__name__}[...]")
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
    if is_a(thing, (dict,)):
        identify(notes, key)
    if found is MISSING and is_a(thing, (dict,)):
        notes.fact(thing, "item", key)
        if is_a(thing, (collections.defaultdict,)):  # what makes the item
            escape(notes, thing)
            notes.wrote(thing, "item", key, True)
        return
    if not is_a(thing, (dict,)) and type(key) is int and key < 0:
        notes.fact(thing, "length")
    notes.read(thing, "item", key, found)


cpdef object identify(Notes notes, key):
    """A key or element is hashed: it counts which object it is, if that is by its address."""
    if is_atom(key) or is_number(key):
        return
    compute = notes.special(key, "__hash__")
    if compute is object.__hash__:
        notes.fact(key, "identity")
    elif type(key) is tuple or type(key) is frozenset:
        elements(notes, key)
        for x in key:
            identify(notes, x)
    elif compute is not None and not is_followed(compute):
        escape(notes, key)


cpdef bint elements(Notes notes, thing) except -1:
    """The code goes through a container; whether it is one whose elements can be told."""
    if is_atom(thing):
        return True
    owner = notes.owners.get(id(thing))
    if owner is not None:
        notes.fact(owner, "names")
        return True
    if not is_a(thing, CONTAINERS):
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
    if is_computed(thing):
        numbers(notes, thing)
        return
    if is_atom(thing) or is_followed(notes.special(thing, "__iter__")):
        return
    if elements(notes, thing):
        return
    if not notes.is_own(thing):
        if type(thing) is types.GeneratorType:
            notes.mark_dynamic("goes through a generator that others may move")
        escape(notes, thing)
    else:
        found = applied(thing)
        if found is not None:
            escape(notes, thing, False, ASKS if all([asks(x) for x in found]) else TAKES)


cdef list applied(iterator):
    """Compiled functions by which an iterator, or one within it, looks at what it goes through.

    None where it looks at nothing."""
    cdef list left = [iterator]
    cdef set seen = set()
    while left:
        part = left.pop()
        kind = type(part)
        if id(part) in seen or kind.__flags__ & 1 << 9 or kind is types.GeneratorType or (
            class_attribute(kind, "__next__") is MISSING
        ):
            continue
        seen.add(id(part))
        parts = gc.get_referents(part)
        if is_a(part, _APPLY) and not any([runs_followed(x) for x in parts]):
            return [x for x in parts if callable(x)]
        for x in parts:
            left += x if type(x) is tuple else (x,)
    return None


cpdef object all_of(Notes notes, thing):
    """Compiled code takes all of an iterable, the values of a dict, too."""
    values(notes, thing) if is_a(thing, (dict,)) else through(notes, thing)


cpdef object length(Notes notes, thing):
    """The code asks how many there are, or whether there are any."""
    if is_atom(thing) or is_computed(thing) or is_number(thing):
        if type(thing) in PLAIN and thing.size == 1:
            numbers(notes, thing)
        return
    for name in ("__bool__", "__len__"):
        found = notes.special(thing, name)
        if found is not MISSING:
            if not is_followed(found):
                count(notes, thing)
            return


cpdef object count(Notes notes, thing):
    """Compiled code asks how many there are."""
    if id(thing) in notes.owners:
        notes.fact(notes.owners[id(thing)], "names")
    elif is_a(thing, CONTAINERS):
        notes.fact(thing, "length")
    elif type(thing) in VIEWS:
        for x in gc.get_referents(thing):  # the dict
            count(notes, x)
    else:
        escape(notes, thing)


cpdef object contains(Notes notes, thing, key):
    """The code asks ``key in thing``."""
    if is_number(key) and is_a(thing, (tuple,)):
        for x in thing:
            meet(x, key)
    if not is_atom(thing) and not is_followed(notes.special(thing, "__contains__")):
        holds(notes, thing, key)


cpdef object holds(Notes notes, thing, key):
    """Compiled code asks whether a key is in a container."""
    if is_a(thing, _KEYED) and is_plain_key(key):
        identify(notes, key)
        owner = notes.owners.get(id(thing))
        if owner is not None and type(key) is str:
            notes.fact(owner, "field", key)
            return
        if not is_a(thing, (types.MappingProxyType,)):
            notes.fact(thing, "item", key)
            return
    if elements(notes, thing):
        for x in elements_of(thing):
            equal(notes, x, key)
        if is_a(thing, SETS):
            identify(notes, key)
    else:
        through(notes, thing)
        if not is_followed(class_attribute(type(thing), "__iter__")):
            escape(notes, thing)


cpdef object equal(Notes notes, one, other, int depth = 0):
    """The code compares two things by ``==``, ``<`` and the like."""
    if type(one) is type(other) and type(one) in (list, tuple) and depth < DEEPEST:
        elements(notes, one)
        elements(notes, other)
        for x, y in zip(one, other):
            equal(notes, x, y, depth + 1)
        return
    meet(one, other)
    if type(one) in PLAIN or type(other) in PLAIN:
        computed_from(notes, [one, other])
    for thing in (one, other):
        if is_atom(thing) or is_computed(thing) or is_number(thing):
            continue
        compare = notes.special(thing, "__eq__")
        if compare is object.__eq__:
            if not is_atom(one) and not is_atom(other):
                notes.compare(one, other)
        elif not is_followed(compare):
            escape(notes, thing)


cpdef object operate(Notes notes, one, other, bint modulo = False):
    """The code computes with an operator."""
    if modulo and is_a(one, (str, bytes)):
        parts = elements_of(other) if is_a(other, (tuple,)) and elements(notes, other) else (other,)
        for x in parts:
            show(notes, x)
    if type(one) in PLAIN or type(other) in PLAIN:
        computed_from(notes, [one, other])
    for thing in (one, other):
        if type(thing) is decimal.Decimal:
            escape(notes, thing)
        if is_atom(thing) or is_computed(thing) or is_number(thing):
            continue
        if is_a(thing, (dict,)):
            values(notes, thing)
        elif is_a(thing, CONTAINERS):
            elements(notes, thing)
        elif is_library_class(type(thing)):
            escape(notes, thing)


cpdef object write_item(Notes notes, thing, key, bint deletes = False, value = None):
    """The code writes ``thing[key]``, or deletes it."""
    how = class_attribute(type(thing), "__setitem__")
    if not (deletes or is_a(thing, CONTAINERS) or is_followed(how)):
        escape(notes, value, False, IS_SEEN if is_ours(thing) else TAKES)
    if is_a(thing, ARRAYS):
        if thing.dtype == object and id(thing) in notes.homes:
            notes.mark_dynamic("writes to an array of objects")
        return numbers(notes, thing) or None  # which are others then
    if not is_followed(notes.special(thing, "__delitem__" if deletes else "__setitem__")):
        if type(key) is not str and not notes.is_own(thing):  # no replay puts another there
            plain(value)
        set_item(notes, thing, key, deletes)


cpdef object put(Notes notes, thing, str name, list args):
    """Compiled code adds something to a set, or takes it away, or updates a dict."""
    cdef bint was_there
    if name == "update":
        for key in args[0]:
            set_item(notes, thing, key)
    elif len(args) == 1 and is_plain_key(args[0]):
        was_there = item(thing, args[0]) is not MISSING
        notes.wrote(thing, "item", args[0], was_there == (name != "add"))
    else:
        notes.wrote(thing, "*", None)


cpdef object set_item(Notes notes, thing, key, bint deletes = False):
    """Compiled code writes an item or deletes it, which it cannot where there is none."""
    owner = notes.owners.get(id(thing))
    if owner is not None and type(key) is str:
        if deletes:
            notes.fact(owner, "field", key)
        notes.wrote(owner, "attribute", key, deletes or field(owner, key) is MISSING)
        return
    if not is_a(thing, (dict,)):
        count(notes, thing)
    elif deletes:
        holds(notes, thing, key)
    if is_a(thing, CONTAINERS) and is_plain_key(key) and type(key) is not slice:
        found = item(thing, key)
        if is_a(thing, (dict,)):
            identify(notes, key)
        elif deletes or found is MISSING:
            return notes.wrote(thing, "*", None) or None
        notes.wrote(thing, "item", key, deletes or found is MISSING)
    else:
        notes.wrote(thing, "*", None)


cpdef object advance(Notes notes, iterator):
    """The code takes what an iterator gives next."""
    found = notes.special(iterator, "__next__")
    if notes.is_own(iterator):
        notes.wrote(iterator, "*", None)
    elif not is_followed(found):
        text = f"moves {notes.root(iterator)}, an iterator, which goes on from call to call"
        notes.mark_dynamic(text)
