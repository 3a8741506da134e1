"""What guards compare: as much of an object as the code has learnt by reading it."""

from __future__ import annotations

import array
import collections
import contextlib
import decimal
import enum
import functools
import io
import operator
import re
import types
import weakref
from collections.abc import Iterator
from typing import Any

from sdbr.base._by_class import ByClass
from sdbr.devices.arrays import ARRAYS, device_of, on_host
from sdbr.trace.code._library import COMPILED
from sdbr.trace.code.moving import draws_next
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch._looks import (
    ATOMS,
    MISSING,
    class_attribute,
    field,
    is_a,
    is_atom,
    is_plain_key,
    item,
    lookup,
)
from sdbr.trace.watch.sources import hold

import chainer
import numpy as np

C_FUNCTION, METHOD = types.BuiltinFunctionType, types.MethodType
#: Compiled functions; ``__self__`` is an object, a module or None.
C_BOUND = (C_FUNCTION, type(re.compile("").sub), types.MethodWrapperType)
#: Compared by identity: what is read of them has guards of its own.
ITSELF = (
    types.FunctionType, COMPILED, *C_BOUND, types.MethodDescriptorType,
    types.WrapperDescriptorType, type, types.ClassMethodDescriptorType, types.ModuleType,
    types.CodeType, types.MemberDescriptorType, types.GetSetDescriptorType, property,
    staticmethod, classmethod, chainer.Link, chainer.Parameter, chainer.Optimizer,
    chainer.UpdateRule, np.ufunc, type(np.sum), np.dtype, enum.Enum, re.Pattern,
)  # fmt: skip
SEQUENCES = (list, tuple, collections.deque)
SETS = (set, frozenset)
CONTAINERS = (*SEQUENCES, *SETS, dict)
VARIABLES = (chainer.Variable,)
LOOSE = (*ARRAYS, np.generic, *VARIABLES)
VIEWS = tuple(type(view) for d in ({}, collections.OrderedDict())
               for view in (d.keys(), d.values(), d.items()))  # fmt: skip
OWNERLESS = (types.ModuleType, type(None))
GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
#: Where some are equal that are not the same.
_BY_TEXT = (complex, decimal.Decimal)
_NUMBERS = (float, int, str, bytes, complex, np.generic)
_FLAGS = type(np.ones(1).flags)
MOST = 20_000
#: Of an array whose numbers are kept to be compared; of a larger one, in how many places.
_MOST_BYTES = 1 << 16
_PLACES = 256


class Same:
    """An object that is compared by identity, and not kept alive where that can be helped."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        # NumPy resizes no array that has a weak reference.
        self.thing = (lambda: thing) if is_a(thing, ARRAYS) else hold(thing)

    def __eq__(self, other) -> bool:
        thing = self.thing()
        return type(other) is Same and thing is not None and thing is other.thing()

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.thing())


class Numbers:
    """Those in an array, unless each replay reads them anew; of very many, some.

    Parameters
    ----------
    array : ndarray
        Held until `freeze` or `let_move`.
    """

    __slots__ = ("array", "at", "found", "moves")

    def __init__(self, array):
        self.array, self.at, self.found = array, (), None
        # What stands for an array in a traced call is a value of its trace.
        self.moves = plain_kind(type(array)) is not type(array)

    def freeze(self) -> None:
        """Keep what they are now; `at`: ids of the array, and of those whose memory it shares."""
        if self.moves:
            self.array = None
            return
        self.found = self._now()
        while is_a(self.array, ARRAYS):
            self.at, self.array = (*self.at, id(self.array)), self.array.base
        self.array = None

    def let_move(self) -> None:
        """They may be others: each replay reads them anew."""
        self.found, self.array, self.moves = None, None, True

    def _now(self):
        return self.found if self.array is None or self.moves else some_of(self.array)

    def __eq__(self, other) -> bool:
        if type(other) is not Numbers:
            return False
        return self.moves or other.moves or self._now() == other._now()

    __hash__ = None


def some_of(array) -> bytes:
    """The numbers in an array; of a large one those in some places."""
    if array.dtype == object:
        return b""
    if array.nbytes <= _MOST_BYTES:
        return on_host(array).tobytes()
    if not is_a(array, (np.ndarray,)):
        return b""
    return array.flat[_places(array.size)].tobytes()


@functools.lru_cache(maxsize=256)
def _places(size: int) -> np.ndarray:
    return np.linspace(0, size - 1, _PLACES).astype(np.intp)


def numbers_in(want) -> Iterator[Numbers]:
    """What is compared of arrays in a fingerprint."""
    if type(want) is Numbers:
        yield want
    elif type(want) is tuple:
        for part in want:
            if type(part) is Numbers or type(part) is tuple:
                yield from numbers_in(part)


def module_of(kind: type) -> str:
    """The module of a class; ``_cython_`` for Cython's functions: theirs shows that of each."""
    name = kind.__module__
    return name if isinstance(name, str) else "_cython_"


class Opaque(Exception):
    """There is memory that cannot be looked at, or too much of it."""


@ByClass
def _is_of_ours(kind: type) -> bool:
    return module_of(kind).startswith("sdbr.trace")


def plain_kind(kind: type) -> type:
    """The class that the user's code would see where nothing is traced."""
    return kind if not _is_of_ours(kind) else next(k for k in kind.__mro__ if not _is_of_ours(k))


def shallow(thing, depth: int = 0) -> tuple:
    """What is compared of a thing that was read, as tuples that ``==`` compares."""
    kind = plain_kind(type(thing))
    if kind is float and type(thing) is not float:
        thing = float.__float__(thing)
    if kind is float:
        return kind, (thing if thing == thing and thing != 0 else repr(thing))
    if kind in ATOMS:
        return kind, repr(thing) if kind in _BY_TEXT else thing
    if kind is slice:
        return kind, repr(thing) if is_atom(thing) else len(CONTAINERS)
    if (kind is tuple and depth < 6) or (kind is frozenset and is_atom(thing)):
        return (kind, *(shallow(x, depth + 1) for x in thing))
    if kind in C_BOUND and not is_a(thing.__self__, OWNERLESS):
        owner = thing.__self__
        return kind, thing.__name__, Same(owner) if is_a(owner, (type,)) else type(owner)
    if is_a(thing, ITSELF):
        return "is", Same(thing)
    if is_a(thing, ARRAYS):
        return kind, thing.dtype, thing.shape, device_of(thing), Numbers(thing)
    if is_a(thing, (np.generic,)):
        return kind, thing.tobytes()
    if is_a(thing, VARIABLES):
        array = thing._data[0]
        return kind, array is not None and (array.dtype, array.shape), thing.requires_grad
    if kind is METHOD:
        return kind, Same(thing.__func__), shallow(thing.__self__, depth + 1)
    if kind in GETTERS:
        return kind, shallow(_what_it_gets(thing), depth + 1)
    if kind is types.UnionType:
        return kind, shallow(thing.__args__)
    if kind is _FLAGS:
        return kind, thing.num
    for base in (float, int, str, bytes):
        if issubclass(kind, base):
            return kind, base.__repr__(thing)
    if is_a(thing, (weakref.ref,)):
        return kind, Same(weakref.ref.__call__(thing))
    return (kind,)


def _what_it_gets(getter) -> tuple:
    """What a getter of `operator` was made of."""
    maker, args = getter.__reduce__()
    if type(maker) is functools.partial:  # of a method that is called with keywords
        return *maker.args, *maker.keywords.items(), *args
    return args


def values_of(thing, look=shallow) -> tuple:
    """Names and values in a class and those above it that are the user's, or in a module."""
    return tuple(
        (name, look(x) if is_a(x, CONTAINERS) else shallow(x)) for name, x in members_of(thing)
    )


def members_of(thing) -> list[tuple[str, Any]]:
    """Names and values in a class and those above it that are the user's, or in a module."""
    spaces = thing.__mro__ if is_a(thing, (type,)) else (thing,)
    return [
        (name, x)
        for space in spaces
        if space is thing or not is_library_class(space)
        for name, x in list(space.__dict__.items())
        if name not in _MOVING
    ]


#: What Python itself writes to classes and modules.
_MOVING = frozenset({
    "__builtins__", "__warningregistry__", "__slotnames__", "__abstractmethods__", "_abc_impl",
})  # fmt: skip


def keys_of(thing) -> tuple:
    """The keys of a mapping, in their order."""
    return tuple(
        shallow(key) if is_atom(key) or type(key) in (METHOD, *C_BOUND) else Same(key)
        for key in elements_of(thing)
    )


def elements_of(thing) -> list:
    """The elements of a container in their order, keys for a dict; without the user's code."""
    for kind in _ITERATED:
        if type(thing) is kind:
            return [*thing]  # in one step, between those of another thread that writes there
    for kind in _ITERATED:
        while is_a(thing, (kind,)):
            with contextlib.suppress(RuntimeError):  # it did, after the first of two steps
                return [*kind.__iter__(thing)]
    return list(thing)


_ITERATED = (collections.OrderedDict, list, tuple, dict, set, frozenset, collections.deque)


@ByClass
def hides(kind: type) -> bool:
    """Whether objects of a class have memory that only compiled code sees."""
    for cls in kind.__mro__:
        if cls in _OPEN:
            continue
        own = cls.__dict__
        slots = sum(type(x) is types.MemberDescriptorType for x in own.values())
        managed = "__dict__" in own and not cls.__flags__ & 1 << 4
        room = 8 * (slots + ("__weakref__" in own) + managed)
        extra = cls.__basicsize__ - cls.__base__.__basicsize__
        if extra > room or (not cls.__flags__ & 1 << 9 and extra > 0):
            return True
    return False


_OPEN = frozenset({
    object, list, tuple, dict, set, frozenset, float, int, str, bytes, complex, type,
    types.SimpleNamespace, BaseException, Exception, collections.OrderedDict,
    collections.defaultdict, collections.deque,
})  # fmt: skip


def deep(thing, memo: dict[Any, Any] | None = None) -> Any:
    """All that is in an object, as tuples; of arrays and Variables no more than `shallow`.

    Raises
    ------
    Opaque
    """
    memo = {} if memo is None else memo
    if type(thing) in ATOMS:
        return shallow(thing)
    if id(thing) in memo:
        return "again", memo[id(thing)]
    if len(memo) > MOST:
        raise Opaque("too large")
    memo[id(thing)] = len(memo)
    memo.setdefault(None, []).append(thing)  # what is made on the way stays, as its address counts
    found = inside(thing, lambda x: deep(x, memo))
    kind = type(thing)
    if is_library_class(kind) or id(kind) in memo:
        return found
    memo[id(kind)] = len(memo)
    return found, values_of(kind, lambda x: deep(x, memo))


def inside(thing, go) -> Any:
    """What is compared of an object beside its class; `go` is called with all that it holds."""
    kind = type(thing)
    if is_a(thing, (chainer.Parameter,)):
        return "is", Same(thing), *state_of(thing)
    if is_a(thing, (chainer.Link,)):
        fields = ((k, go(x)) for k, x in thing.__dict__.items() if k not in _OF_LINKS)
        return "is", Same(thing), *fields
    if is_a(thing, VARIABLES):
        return *shallow(thing), thing._node and thing.name, type(thing.creator)
    if is_a(thing, (np.generic,)):
        return shallow(thing)
    if is_a(thing, ARRAYS):
        elements = map(go, thing.flat) if thing.dtype == object else ()
        own = field(thing, "__dict__") if kind.__dictoffset__ else None
        return *shallow(thing), *elements, own if own is MISSING else None
    if is_a(thing, (chainer.backends.cuda.Device,)):
        return kind, thing.id  # Chainer makes others for each that is asked for
    if kind is METHOD:
        return kind, Same(thing.__func__), go(thing.__self__)
    if kind in C_BOUND and not is_a(thing.__self__, OWNERLESS):
        return kind, thing.__name__, go(thing.__self__)
    if kind in GETTERS:
        return kind, go(_what_it_gets(thing))
    if kind is functools.partial:
        return kind, go(thing.func), go(thing.args), go(thing.keywords)
    if kind is types.FunctionType:
        own = ((k, shallow(x)) for k, x in thing.__dict__.items())
        defaults = go(thing.__defaults__), go(thing.__kwdefaults__)
        return Same(thing), Same(thing.__code__), *defaults, *own
    if is_closed(thing):
        return "is", Same(thing)
    if is_a(thing, (np.random.RandomState, np.random.Generator)):
        return "is", Same(thing), draws_next(thing)
    # Two that are found or compared by their addresses are not the same to compiled code.
    usual = class_attribute(kind, "__hash__") is object.__hash__
    return kind, usual and Same(thing), *_contents(thing, kind, go), *_fields(thing, kind, go)


def is_closed(thing) -> bool:
    """Whether nothing of an object counts but which it is, and what its class holds."""
    module = module_of(type(thing))
    return is_a(thing, (*ITSELF, *_IDENTICAL)) or module.startswith(_CLOSED_MODULES)


def state_of(parameter) -> tuple:
    """What functions ask of a parameter besides its array."""
    return parameter._data[0] is None, parameter.requires_grad


_OF_LINKS = frozenset({"_device", "_within_init_scope"})
_IDENTICAL = (
    chainer.FunctionNode, types.GenericAlias,
    types.FrameType, types.GeneratorType, type(chainer.config), io.TextIOWrapper,
)  # fmt: skip
#: Whose objects have methods that say themselves what they read: locks, scanners, functions.
_CLOSED_MODULES = ("cupy", "sdbr.", "_thread", "_json", "_cython_")


def _contents(thing, kind: type, go) -> list:
    """What a container or an object of the standard library holds besides attributes."""
    if is_a(thing, (dict,)):
        return [(go(key), go(item(thing, key) if is_plain_key(key) else dict.get(thing, key)))
                for key in elements_of(thing)]  # fmt: skip
    if is_a(thing, (*SEQUENCES, *SETS)) or kind in VIEWS:
        return [go(x) for x in elements_of(thing)]
    if kind is types.MappingProxyType:
        return [go(thing | {})]
    if kind in (bytearray, memoryview, array.array):
        return [bytes(thing)]
    if kind in (io.StringIO, io.BytesIO):
        return [thing.getvalue(), thing.tell()]
    if is_a(thing, _NUMBERS):
        return [shallow(thing)]
    if is_a(thing, (weakref.ref,)):
        return [go(weakref.ref.__call__(thing))]
    if kind is types.CellType:
        return [go(thing.cell_contents)]
    if is_a(thing, (BaseException,)):
        return [go(thing.args)]
    if module_of(kind) == "random":
        return [thing.getstate()]
    if (module_of(kind), kind.__name__) in _TEXTS or module_of(kind) == "datetime":
        return [repr(thing)]
    if hides(kind):
        raise Opaque(f"{kind.__qualname__} cannot be looked into")
    return []


#: Compiled classes whose text says all that is in them.
_TEXTS = frozenset({("re", "Match"), ("_struct", "Struct"), ("decimal", "Context")})


def _fields(thing, kind: type, go) -> list:
    """Attributes, those in slots included."""
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = {}
    found = [(name, go(x)) for name, x in list(own.items())]
    return found + [(name, go(lookup(thing, name)[1])) for name, _ in slots_of(kind)]


def slots_of(kind: type) -> list[tuple[str, Any]]:
    """Names and descriptors of what objects of a class have in slots."""
    return [
        (name, slot)
        for cls in kind.__mro__
        if module_of(cls) != "builtins"
        for name, slot in list(cls.__dict__.items())
        if type(slot) is types.MemberDescriptorType
    ]


def is_open(thing) -> bool:
    """Whether all that is in an object lies in its attributes, or in it as a dict, list or tuple.

    That is: what can change there. Of what stays, such as a text, that is nothing.
    """
    kind = type(thing)
    if is_a(thing, (dict, list, tuple, *_NUMBERS)):
        return True
    if is_a(thing, (frozenset,)):
        return is_atom(tuple(thing))
    if (module_of(kind), kind.__name__) in _TEXTS or module_of(kind) == "datetime":
        return kind is not decimal.Context
    return not is_a(thing, (BaseException, collections.deque, set)) and not hides(kind)
