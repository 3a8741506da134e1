"""What iterables give to compiled code, which does something with each element."""

import functools
import gc
import itertools
import types

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.telling import leave_by
from sdbr.trace.watch._escaping import is_asked
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch._looks import MISSING
from sdbr.trace.watch.fingerprints import CONTAINERS, VIEWS, elements_of

from cpython.object cimport PyObject

from sdbr.trace.watch._containers cimport (
    computed_from,
    elements,
    equal,
    identify,
    is_computed,
    length,
    through,
)
from sdbr.trace.watch._escaping cimport ASKS, escape, meet_any
from sdbr.trace.watch._following cimport asks, computes_unseen, is_followed, runs_followed
from sdbr.trace.watch._frames cimport VERSION, frame_locals
from sdbr.trace.watch._looks cimport class_attribute, is_atom
from sdbr.trace.watch._notes cimport Notes

#: Iterators that give what is in others, or in the container that they go through.
_PASS_ON = frozenset({
    filter, itertools.chain, itertools.cycle, itertools.dropwhile, itertools.filterfalse,
    itertools.islice, itertools.takewhile,
    *(type(iter(x)) for x in ([], (), {}, set())), type(reversed([])), reversed,
})  # fmt: skip
_MAP = frozenset({map, itertools.starmap})
_GENERATOR = 0x20


def by_value(notes, thing):
    """An element is compared or hashed, or computed with."""
    meet_any(thing)
    equal(notes, thing, None)
    identify(notes, thing)


def by_truth(notes, thing):
    """An element is asked whether it is true."""
    length(notes, thing)


def in_full(notes, thing):
    """Code that is not followed gets an element."""
    escape(notes, thing)


def passed_through(notes, thing):
    """An element is an iterable itself."""
    through(notes, thing)


def hashed_first(notes, thing):
    """An element is a pair, of a key and a value."""
    if type(thing) is tuple or type(thing) is list:
        elements(notes, thing)
        by_value(notes, thing[0]) if thing else None
    else:
        escape(notes, thing)


def looked_at(notes, thing):
    """Code that is not followed gets what a function returns: it compares that, or so."""
    by_value(notes, thing)
    length(notes, thing)


def compared(notes, thing):
    """All elements of an iterable are compared with each other."""
    if type(thing) is enumerate:
        return
    found = given_by(thing)
    first = [x[0] for x in found or () if type(x) is tuple and x]
    if first and len(first) == len(found) and all([is_atom(x) for x in first]) and (
        len(set(first)) == len(first)
    ):  # nobody gets to what else is in the tuples
        return
    each(notes, thing, by_value)


cdef object given_by(thing):
    """The elements of a container or view; None if nobody knows."""
    kind = type(thing)
    if kind in VIEWS:
        return list(thing)
    if kind is zip:  # tuples, of which the first elements count
        for iterators in gc.get_referents(thing):
            for x in gc.get_referents(iterators[0]) if type(iterators) is tuple else ():
                return [(y,) for y in x] if type(x) in (list, tuple, str) else None
    return elements_of(thing) if issubclass(kind, CONTAINERS) else None


cpdef object each(Notes notes, thing, meaning):
    """Compiled code does something with each element that an iterable gives."""
    cdef list left = [thing]
    cdef set seen = set()
    while left:
        part = left.pop()
        kind = type(part)
        if id(part) in seen or is_atom(part) or is_computed(part):
            continue
        seen.add(id(part))
        found = given_by(part) if kind is not zip or meaning is hashed_first else None
        if found is not None:
            for x in found:
                meaning(notes, x)
        elif kind is types.GeneratorType:
            notes.give_yields(part, meaning)
        elif kind in _PASS_ON:
            left += [x for x in gc.get_referents(part) if not callable(x)]
        elif not _by_code(notes, part, meaning):
            escape(notes, part)


cdef bint _by_code(Notes notes, thing, meaning) except -1:
    """Whether the elements come from code that is followed: what that gives, is seen then."""
    kind = type(thing)
    if kind in _MAP:
        code = code_of([x for x in gc.get_referents(thing) if callable(x)])
    else:
        code = code_of([class_attribute(kind, "__iter__")])
        if code is not None and not code.co_flags & _GENERATOR:
            meaning = functools.partial(_each_of, meaning)
    if code is None:
        return False
    before = notes.yields.get(id(code), meaning)
    notes.yields[id(code)] = meaning if before is meaning else in_full
    notes.kept.append(code)
    return True


def _each_of(meaning, notes, thing):
    each(notes, thing, meaning)


cdef object code_of(list functions):
    """The code of the one function that is followed; None for others."""
    for x in functions:
        while type(x) is types.MethodType:
            x = x.__func__
        if is_followed(x):
            return x.__code__
    return None


cpdef object called_with(Notes notes, function, list iterables):
    """Compiled code calls a function with what it gets from iterables."""
    escape(notes, function, False, ASKS)
    if computes_unseen(function):
        computed_from(notes, iterables, True)
    for x in iterables if not runs_followed(function) else ():
        each(notes, x, is_asked if asks(function) else in_full)


cdef int own_cell(Notes notes, int i, bint writes) except -1:
    """The code reads or writes a variable of its own that functions within it share."""
    if notes.shared is None:
        return 0
    cdef int place = i if VERSION >= 0x030B0000 else i + notes.layout.code.co_nlocals
    cdef PyObject *found = frame_locals(notes.top)[place]
    if found != NULL and type(<object>found) is types.CellType:
        notes.wrote(<object>found, "cell", None) if writes else notes.is_own(<object>found)
    return 0


#: Methods by which Python makes a number of an object.
cdef frozenset CONVERTING = frozenset({
    "__bool__", "__complex__", "__float__", "__hash__", "__index__", "__int__", "__len__",
})  # fmt: skip


cdef bint converts(Notes notes) except -1:
    """Whether the function of the frame is such a method, whatever it calls itself."""
    code = notes.layout.code
    if code.co_name in CONVERTING:
        return True
    cdef PyObject *first = frame_locals(notes.top)[0]
    if first == NULL or is_library_class(type(<object>first)):
        return False
    found = [class_attribute(type(<object>first), name) for name in CONVERTING]
    return any([type(x) is types.FunctionType and x.__code__ is code for x in found])


cdef int iterated(Notes notes, thing) except -1:
    """Compiled code that takes values of numbers gets an iterator to go through."""
    if not is_atom(thing) and class_attribute(type(thing), "__next__") is not MISSING:
        text = "compiled code takes what an iterator gives it"
        held = [thing]
        for _ in range(4):  # a map, what it goes through, and what that goes through
            held = [x for x in gc.get_referents(*held) if not callable(x)]
            leave_by(text, Remedy.STAY_ARRAYS, *held)
        escape(notes, thing)
    return 0
