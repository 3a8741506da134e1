"""Compiled functions of which it is known what calling them reads."""

import builtins
import collections
import copy
import decimal
import functools
import gc
import itertools
import operator
import sys
import types
import weakref

import numpy as np

from sdbr.trace.watch._attributes import ABSENT
from sdbr.trace.watch._calls import MEANINGS
from sdbr.trace.watch._flowing import (
    by_truth,
    by_value,
    compared,
    hashed_first,
    passed_through,
)

from sdbr.trace.watch._attributes cimport attribute, has_attribute, write_attribute
from sdbr.trace.watch._calls cimport read_parts
from sdbr.trace.watch._containers cimport (
    advance,
    all_of,
    computed_from,
    elements,
    identify,
    length,
    subscript,
    through,
)
from sdbr.trace.watch._escaping cimport ASKS, escape, is_number, numbers, show
from sdbr.trace.watch._flowing cimport called_with, each
from sdbr.trace.watch._following cimport computes_unseen, is_followed, runs_followed
from sdbr.trace.watch._looks cimport class_attribute, lookup
from sdbr.trace.watch._notes cimport Notes


def _means(*functions):
    def enter(meaning):
        MEANINGS.update(dict.fromkeys(map(id, functions), meaning))  # no ``__hash__`` is asked
        return meaning

    return enter


@_means(builtins.getattr)
def _getattr(notes, args, kwargs):
    if len(args) == 3 and lookup(args[0], args[1])[0] == ABSENT:
        has_attribute(notes, args[0], args[1])
    if len(args) > 1:
        attribute(notes, args[0], args[1])


@_means(builtins.hasattr)
def _hasattr(notes, args, kwargs):
    if len(args) == 2:
        has_attribute(notes, args[0], args[1])


@_means(builtins.setattr)
def _sets_attribute(notes, args, kwargs):
    if len(args) > 1:
        write_attribute(notes, args[0], args[1], False, args[2] if len(args) > 2 else None)


@_means(builtins.delattr)
def _deletes_attribute(notes, args, kwargs):
    if len(args) > 1:
        write_attribute(notes, args[0], args[1], True)


@_means(builtins.type)
def _type(notes, args, kwargs):
    if len(args) == 1 and not notes.is_own(args[0]):
        notes.read(args[0], "class", None, type(args[0]))
    for x in args[1:]:
        escape(notes, x)


@_means(builtins.callable)
def _callable(notes, args, kwargs):
    _type(notes, args, kwargs)
    for x in args:
        notes.special(x, "__call__")


@_means(builtins.isinstance)
def _isinstance(notes, args, kwargs):
    """What is no plain class may count others to it later."""
    if len(args) > 1 and not notes.is_own(args[0]):
        notes.lineage(type(args[0]))
        for kind in _unusual(notes, args[1]):
            notes.fact(args[0], "isinstance", kind)
    elif len(args) > 1:
        _issubclass(notes, (type(args[0]), args[1]), kwargs)


@_means(builtins.issubclass)
def _issubclass(notes, args, kwargs):
    if len(args) > 1:
        notes.lineage(args[0])
        for kind in _unusual(notes, args[1]):
            notes.fact(args[0], "issubclass", kind)


cdef list _unusual(Notes notes, kinds):
    """Those of these classes that say themselves what is of them, by code of a library."""
    kinds = kinds if type(kinds) is tuple else (kinds,)
    elements(notes, kinds)
    usual = class_attribute(type, "__instancecheck__")
    found = [(kind, class_attribute(type(kind), "__instancecheck__")) for kind in kinds]
    return [k for k, check in found if check is not usual]


@_means(operator.getitem)
def _getitem(notes, args, kwargs):
    if len(args) == 2:
        subscript(notes, args[0], args[1])


@_means(builtins.len)
def _len(notes, args, kwargs):
    for x in args:
        length(notes, x)


@_means(builtins.bool)
def _bool(notes, args, kwargs):
    for x in args:
        numbers(notes, x)
        length(notes, x)


@_means(builtins.vars)
def _vars(notes, args, kwargs):
    for x in args:
        attribute(notes, x, "__dict__")


@_means(builtins.dir)
def _dir(notes, args, kwargs):
    for x in args:
        if not is_followed(class_attribute(type(x), "__dir__")):
            notes.fact(x, "dir")


@_means(builtins.id)
def _id(notes, args, kwargs):
    if notes.layout is None or notes.layout.code.co_filename != copy.__file__:  # its memo
        for x in args:
            notes.fact(x, "identity")


@_means(
    builtins.locals, builtins.super, object, decimal.getcontext, sys.exc_info,
    sys._getframe,
)  # fmt: skip
def _nothing(notes, args, kwargs):
    """Reads nothing by itself."""


@_means(builtins.globals)
def _globals(Notes notes, args, kwargs):
    """Gives the dictionary of a module: what is done to it is done to the module."""
    space = (<object>notes.top).f_globals
    module = sys.modules.get(space.get("__name__"))
    if getattr(module, "__dict__", None) is space:
        notes.owners[id(space)] = module


@_means(builtins.eval, builtins.exec)
def _eval(notes, args, kwargs):
    """What the text does is followed."""
    notes.evaluates = len(args) == 1 and not kwargs


@_means(gc.freeze, gc.unfreeze)
def _freezes(notes, args, kwargs):
    notes.fresh.lose()
    notes.mark_dynamic("moves all objects out of the collector's sight")


@_means(sys.settrace)
def _traces_itself(notes, args, kwargs):
    """A trace function of the code's own does not expect events of single instructions."""
    notes.give_up()


@_means(builtins.iter)
def _iter(notes, args, kwargs):
    for x in args:
        through(notes, x) if len(args) == 1 else escape(notes, x)


@_means(builtins.next)
def _next(notes, args, kwargs):
    for x in args[:1]:
        advance(notes, x)
        through(notes, x) if notes.is_own(x) else None


@_means(builtins.print)
def _print(notes, args, kwargs):
    for x in (*args, kwargs.get("sep"), kwargs.get("end")):
        show(notes, x)
    if not is_followed(class_attribute(type(kwargs.get("file")), "write")):
        notes.wrote(kwargs.get("file"), "*", None)


@_means(np.fromfile)
def _fromfile(notes, args, kwargs):
    notes.mark_dynamic("reads a file: numpy.fromfile")


@_means(builtins.repr, str, builtins.format, builtins.hash, builtins.ascii)
def _text(notes, args, kwargs):
    for x in (*args, *kwargs.values()):
        show(notes, x)


@_means(enumerate, zip, reversed, list, tuple, collections.deque)
def goes_through(notes, args, kwargs):
    for x in args:
        all_of(notes, x)


def _by(meaning):
    """What is done with each element, perhaps by compiled code of theirs."""

    def with_each(notes, args, kwargs):
        goes_through(notes, args, kwargs)
        for x in args:
            each(notes, x, meaning)
        for x in kwargs.values():
            escape(notes, x)

    return with_each


_means(set, frozenset, collections.Counter, sum)(_by(by_value))
_means(dict, collections.OrderedDict)(_by(hashed_first))
_means(any, all)(_by(by_truth))
MEANINGS[itertools.chain] = _by(passed_through)


@_means(min, max, sorted)
def _compares(notes, args, kwargs):
    key = kwargs.get("key")
    goes_through(notes, args, kwargs)
    if key is not None:
        called_with(notes, key, args)
    elif len(args) > 1:
        for x in args:
            by_value(notes, x)
    else:
        for x in args:
            compared(notes, x)
    for name in ("default", "reverse"):
        escape(notes, kwargs.get(name))


@_means(functools.reduce)
def _reduces(notes, args, kwargs):
    if args:
        goes_through(notes, args[1:2], kwargs)
        called_with(notes, args[0], args[1:2])
        for x in args[2:] if not runs_followed(args[0]) else ():
            escape(notes, x)


@_means(map)
def _maps(notes, args, kwargs):
    """What compiled functions look at, is seen to where somebody goes through it."""
    goes_through(notes, args[1:], kwargs)
    for x in args[:1]:
        escape(notes, x, True)
        if computes_unseen(x):
            computed_from(notes, list(args[1:]), True)


@_means(filter)
def _filters(notes, args, kwargs):
    goes_through(notes, args[1:], kwargs)
    for x in args[:1]:
        escape(notes, x, False, ASKS)
        if computes_unseen(x):
            computed_from(notes, list(args[1:]), True)


@_means(weakref.ref)
def _refers(notes, args, kwargs):
    """It is hashed and compared as what it refers to."""
    for x in args[:1]:
        identify(notes, x)


@_means(functools.partial)
def _binds(notes, args, kwargs):
    """What another partial calls and gives that, is its own from now on."""
    for x in args[:1]:
        read_parts(notes, x)


@_means(
    types.SimpleNamespace, types.MethodType, property, staticmethod, classmethod,
    *(x for x in vars(builtins).values() if isinstance(x, type) and issubclass(x, BaseException)),
)  # fmt: skip
def _keeps(notes, args, kwargs):
    """What an object does no more with than to keep it, is seen to where that is used."""


@_means(float, int, complex, builtins.abs, builtins.round, builtins.divmod, range)
def _computes(notes, args, kwargs):
    """A number is made of others, or of objects that say by code of theirs what they are."""
    for x in args:
        numbers(notes, x)
        asks = [is_followed(class_attribute(type(x), name)) for name in _NUMBERS]
        if not is_number(x) and not any(asks):
            escape(notes, x)


_NUMBERS = (
    "__float__", "__int__", "__index__", "__complex__", "__abs__", "__round__", "__divmod__",
)  # fmt: skip
