"""Arguments and results: nested containers taken apart and put together."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib
import types
from collections.abc import Callable

from sdbr.base.errors import TraceError
from sdbr.trace.arrays._scalars import Scalar
from sdbr.trace.arrays.stripping import LEAVING, is_traced
from sdbr.trace.code.rebuilding import can_be_rebuilt, rebuild
from sdbr.trace.values import Value

import chainer
import numpy as np

#: Two that are equal may differ, as 1.5 and 1.50; their texts do, too.
_BY_TEXT = (
    pathlib.PurePath,
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
)
_THEIR_MODULES = frozenset({"pathlib", "pathlib._local", "decimal", "fractions", "datetime"})
#: Of which equal ones are one and the same.
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
#: Of which a key tells all there is.
SCALARS = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    np.generic,
    np.dtype,
    type,
    slice,
    type(Ellipsis),
    range,
    chainer.backend.Device,
)


class _AnyNumber:
    """Stands for a number of one class in a key."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"a {self.name}"


#: Classes of numbers that may be others in each call: schedules have conditions on them.
NUMBERS = (float, np.float64, np.float32, np.float16)
_ANY = {kind: (_AnyNumber, _AnyNumber(kind.__name__)) for kind in NUMBERS}
#: Stands in a key for a whole number that may be another one, too.
ANY_INT = (_AnyNumber, _AnyNumber("whole number"))


def is_any_number(frozen: tuple) -> bool:
    """Whether a part of a key stands for a number that may be another one."""
    return frozen[0] is _AnyNumber


class Leaf:
    """Place number `index` of an array or Variable in a structure."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    def __eq__(self, other) -> bool:
        return type(other) is Leaf and other.index == self.index

    def __hash__(self) -> int:
        return hash(("leaf", self.index))


def flatten(thing, path: str, leaves: list, depth: int = 0, empty=None):
    """Replace arrays and Variables in `thing` by leaves, appending them to `leaves`.

    Parameters
    ----------
    thing : object
        Variables, arrays, None, numbers, strings; tuples, lists and dicts of these.
    path : str
        How an error names the place.
    leaves : list
        Receives the arrays and Variables.
    empty : callable, optional
        Is told the place of a Variable without an array, which stays as it is; without it that is
        an error.

    Returns
    -------
    object
        The same structure with :class:`Leaf` at each array.

    Raises
    ------
    TraceError
        For anything else; it names the argument.
    """
    kind = type(thing)
    if (
        kind is np.ndarray
        or is_traced(thing)
        or isinstance(thing, (chainer.Variable, np.ndarray))
        or is_device_array(thing)
    ):
        if isinstance(thing, chainer.Variable) and thing._data[0] is None:
            if empty is None:
                raise TraceError(
                    f"{path} is a {kind.__name__} without an array; initialise it before the call"
                )
            empty(path)
            return thing
        leaves.append(thing)
        return Leaf(len(leaves) - 1)
    if (
        isinstance(thing, SCALARS)
        or _is_constant(thing)
        or (callable(thing) and not isinstance(thing, (list, dict, tuple)))
    ):
        return thing
    if depth > 100:
        raise TraceError(f"{path}: containers are nested more than 100 deep (a cycle?)")
    _check_container(thing, path)
    if isinstance(thing, dict):
        pairs = [(plain_key(k), v, f"{path}[{k!r}]") for k, v in thing.items()]
        return rebuild(thing, {k: flatten(v, p, leaves, depth + 1, empty) for k, v, p in pairs})
    parts = [(v, f"{path}[{i}]") for i, v in enumerate(thing)]
    return rebuild(thing, [flatten(v, p, leaves, depth + 1, empty) for v, p in parts])


def _check_container(thing, path: str) -> None:
    """Whether it is a container that can be made again; else a TraceError."""
    name = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if not isinstance(thing, (dict, list, tuple)):
        raise TraceError(
            f"{path} is of type {name}, which cannot be traced; expected a Variable, an array, "
            "None, a number, a string, or lists, tuples and dicts of these"
        )
    if not can_be_rebuilt(thing):
        raise TraceError(
            f"{path} is of type {name}, whose items do not tell all that it holds: it has "
            "attributes, or a constructor that takes something else; expected lists, tuples and "
            "dicts"
        )


def plain_key(key):
    """A key of a dict without numbers that are followed."""
    if type(key) is tuple:
        parts = tuple(map(plain_key, key))
        return key if all(a is b for a, b in zip(parts, key, strict=True)) else parts
    return LEAVING[type(key)](key) if type(key) in LEAVING else key


def _is_constant(thing) -> bool:
    """Whether a key tells all that code can find in it: of classes of users it would not."""
    kind = type(thing)
    if kind is frozenset:
        return all(isinstance(x, SCALARS) or _is_constant(x) for x in thing)
    if isinstance(thing, enum.Enum):
        return all(map(_is_plain, _attributes_of(thing).values()))
    if kind is fractions.Fraction:
        return _is_plain((thing.numerator, thing.denominator))
    if kind.__module__ not in _THEIR_MODULES or not isinstance(thing, _BY_TEXT):
        return False
    zone = getattr(thing, "tzinfo", None)
    return zone is None or type(zone) is datetime.timezone


def _is_plain(thing) -> bool:
    if type(thing) is tuple:
        return all(map(_is_plain, thing))
    return type(thing) in (int, float, bool, str, bytes, complex, type(None))


def _attributes_of(member: enum.Enum) -> dict:
    """Those of a member of an enumeration, which may be set like any other's."""
    return {k: x for k, x in vars(member).items() if k != "__objclass__"}


def fill(structure, leaves):
    """The inverse of :func:`flatten`: put ``leaves[i]`` at leaf i."""
    kind = type(structure)
    if kind is Leaf:
        return leaves[structure.index]
    if isinstance(structure, dict):
        return rebuild(structure, {k: fill(v, leaves) for k, v in structure.items()})
    if isinstance(structure, (list, tuple)):
        return rebuild(structure, [fill(v, leaves) for v in structure])
    return structure


def mapped(structure, change: Callable):
    """`structure` with `change` applied to everything that is no container."""
    if isinstance(structure, dict):
        return rebuild(structure, {k: mapped(v, change) for k, v in structure.items()})
    if isinstance(structure, (list, tuple)):
        return rebuild(structure, [mapped(v, change) for v in structure])
    return change(structure)


def holds_itself(structure) -> bool:
    """Whether lists, tuples and dicts lie in themselves, however far down."""
    around: set[int] = set()
    done: set[int] = set()

    def walk(thing) -> bool:
        if not isinstance(thing, (list, tuple, dict)) or id(thing) in done:
            return False
        if id(thing) in around:
            return True
        around.add(id(thing))
        found = any(map(walk, list(thing.values() if isinstance(thing, dict) else thing)))
        around.discard(id(thing))
        done.add(id(thing))
        return found

    return walk(structure)


def containers_in(structure, found: dict[int, object] | None = None) -> dict[int, object]:
    """The lists, tuples and dicts in a structure, by identity; `found` are those known by now."""
    found = {} if found is None else found
    if isinstance(structure, (list, tuple, dict)) and id(structure) not in found:
        found[id(structure)] = structure
        for x in structure.values() if isinstance(structure, dict) else structure:
            containers_in(x, found)
    return found


def is_number(thing) -> bool:
    """Whether it counts among the numbers of the arguments."""
    return type(thing) is int or type(thing) in NUMBERS


def found_in(structure, wanted: Callable) -> list:
    """What is no container in a structure, and `wanted`, in order."""
    found: list = []

    def note(thing):
        if wanted(thing):
            found.append(thing)
        return thing

    mapped(structure, note)
    return found


def numbers_in(structure) -> list:
    """The floats in a structure, Python's and NumPy's, and whole numbers of Python, in order."""
    return found_in(structure, is_number)


def callables_in(structure) -> list[tuple[str, object]]:
    """Functions, classes and objects to be called in ``(args, kwargs)``, and their arguments.

    Of these a key tells which they are, and not what they hold.
    """
    args, kwargs = structure
    pairs = [*enumerate(args), *kwargs.items()]
    return [(f"argument {k!r}", thing) for k, x in pairs for thing in found_in(x, callable)]


def number_names(structure) -> list[str]:
    """How errors call the numbers in ``(args, kwargs)``, in the order of `numbers_in`."""
    args, kwargs = structure
    pairs = [*enumerate(args), *kwargs.items()]
    return [f"argument {key!r}" for key, thing in pairs for _ in numbers_in(thing)]


def fill_values(structure, things):
    """Put ``things[value.index]`` at every Value of a traced result, ``things[s]`` at a Scalar."""
    if type(structure) is Value:
        return things[structure.index]
    if isinstance(structure, Scalar):
        return things[structure]
    if isinstance(structure, dict):
        return rebuild(structure, {k: fill_values(x, things) for k, x in structure.items()})
    if isinstance(structure, (list, tuple)):
        return rebuild(structure, [fill_values(x, things) for x in structure])
    return structure


def fill_shared(structure, things, made: dict[int, object]):
    """The same as `fill_values`; one list or dict of structures gives one, which `made` keeps."""
    if not isinstance(structure, (dict, list, tuple)):
        return fill_values(structure, things)
    key = id(structure)
    if key not in made:
        items = (
            {k: fill_shared(x, things, made) for k, x in structure.items()}
            if isinstance(structure, dict)
            else [fill_shared(x, things, made) for x in structure]
        )
        made[key] = rebuild(structure, items)
    return made[key]


def freeze_arguments(structure):
    """The same as `freeze` with floats by type alone: schedules have conditions on them."""
    kind = type(structure)
    if kind is Leaf:
        return kind, structure.index
    if kind in _ANY:
        return _ANY[kind]
    if isinstance(structure, dict):
        return kind, tuple((k, freeze_arguments(v)) for k, v in structure.items())
    if isinstance(structure, (list, tuple)):
        return kind, tuple([freeze_arguments(v) for v in structure])
    return freeze(structure)


def freeze(structure):
    """A hashable key of a structure: types, order, and non-array leaves by value and type."""
    kind = type(structure)
    if kind is Leaf:
        # Compared without any Python code of ours, which a signal could interrupt inside a dict.
        return kind, structure.index
    if isinstance(structure, dict):
        return kind, tuple((k, freeze(v)) for k, v in structure.items())
    if isinstance(structure, (list, tuple)):
        return kind, tuple(freeze(v) for v in structure)
    if isinstance(structure, (set, frozenset)):
        return kind, frozenset(freeze(v) for v in structure)
    if kind is float:
        # repr tells 0.0 from -0.0 and makes nan equal to itself
        return kind, repr(structure)
    if kind is slice:
        return kind, structure.start, structure.stop, structure.step
    if kind is range:
        return kind, structure.start, structure.stop, structure.step
    if isinstance(structure, chainer.backend.Device):  # no hash
        return kind, structure.name
    if isinstance(structure, _BY_TEXT):
        return kind, repr(structure)
    if isinstance(structure, enum.Enum):
        return kind, str(structure), id(structure), freeze(_attributes_of(structure))
    try:
        hash(structure)
    except TypeError:
        return kind, id(structure)
    if callable(structure) and kind.__eq__ is not object.__eq__ and kind not in _METHODS:
        return kind, id(structure)  # equal ones may hold something else: it is guarded what
    return kind, structure


def describe(frozen) -> str:
    """A frozen structure as the user would write it, with ``array`` at each array."""
    kind, *rest = frozen
    if kind is Leaf:
        return "array"
    if issubclass(kind, dict):
        return "{" + ", ".join(f"{k!r}: {describe(x)}" for k, x in rest[0]) + "}"
    if issubclass(kind, (list, tuple)):
        return "[" + ", ".join(map(describe, rest[0])) + "]"
    if issubclass(kind, (set, frozenset)):
        return "{" + ", ".join(sorted(map(describe, rest[0]))) + "}"
    if kind is float or issubclass(kind, (*_BY_TEXT, enum.Enum)):
        return rest[0]
    if kind in (slice, range):
        return f"{kind.__name__}{tuple(rest)}"
    return f"{rest[0]!r:.60}"


def leaf_names(frozen) -> list[str]:
    """How errors call the arrays in a frozen ``(args, kwargs)``, in their order."""
    found: dict[int, str] = {}

    def walk(thing, name: str) -> None:
        kind, *rest = thing
        if kind is Leaf:
            found[rest[0]] = name
            return
        if issubclass(kind, dict):
            for k, x in rest[0]:
                walk(x, f"{name}[{k!r}]")
        elif issubclass(kind, (list, tuple)):
            for i, x in enumerate(rest[0]):
                walk(x, f"{name}[{i}]")

    (_, args), (_, kwargs) = frozen[1]
    for name, thing in [*enumerate(args), *kwargs]:
        walk(thing, f"argument {name!r}")
    return [found[i] for i in sorted(found)]


def _are_alike(one, other) -> bool:
    """Whether parts of keys are the same, but for whole numbers that one of them does without."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return type(one) is type(other) and bool(one == other)
    if one is ANY_INT or other is ANY_INT:
        return one is other or (one if other is ANY_INT else other)[0] is int
    return len(one) == len(other) and all(map(_are_alike, one, other))


def differing_arguments(new, old) -> str:
    """Which arguments differ between two frozen ``(args, kwargs)``, and how."""
    (new_args, new_kwargs), (old_args, old_kwargs) = new[1], old[1]
    pairs = [dict(enumerate(args[1])) | dict(kwargs[1]) for args, kwargs in (
        (old_args, old_kwargs), (new_args, new_kwargs),
    )]  # fmt: skip
    texts = []
    for name in dict.fromkeys([*pairs[0], *pairs[1]]):
        before, now = (describe(p[name]) if name in p else "missing" for p in pairs)
        if not _are_alike(pairs[0].get(name), pairs[1].get(name)):
            texts.append(f"argument {name!r}: {before} -> {now}")
    return "; ".join(texts) or "structure of the arguments"


def is_device_array(thing) -> bool:
    """Whether `thing` is an array of another device (CuPy, ChainerX, iDeep)."""
    kind = type(thing)
    return kind is not np.ndarray and isinstance(thing, chainer.get_array_types())
