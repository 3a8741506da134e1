"""Which attributes of a plain object code can read: those that it names.

An attribute whose name stands nowhere in the code of a call is read only by what goes over all
attributes. Where the code has something of that kind, or the class of an object has, any
attribute may be read.
"""

from __future__ import annotations

import abc
import dis
import functools
import re
import types
import typing

from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import get

import chainer

#: Methods that no call of a static function runs, and what is no method.
NOT_ASKED = frozenset({
    "__init__", "__new__", "__del__", "__repr__", "__reduce__", "__getstate__", "__setstate__",
    "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__",
    "__slotnames__",
    "__slots__", "__static_attributes__", "__firstlineno__", "__match_args__", "__orig_bases__",
    "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "__parameters__",
})  # fmt: skip
#: What makes code that is not there to be read.
MAKES_CODE = frozenset({"__import__", "importlib", "import_module", "eval", "exec", "compile"})
#: What reads or writes attributes under names that no code shows.
_UNNAMED = frozenset({
    "__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__", "asdict",
    "astuple", "attrgetter", "delattr", "dir", "dump", "dumps", "fields", "getattr", "getmembers",
    "hasattr", "locals", "setattr", "vars",
})  # fmt: skip
_BUILTIN = (getattr, setattr, delattr, hasattr, vars, dir)
_STORE_ATTR = dis.opmap["STORE_ATTR"]
_WORD = re.compile(r"[^\W\d]\w*")
_OF_PYTHON = (object, abc.ABC, typing.Generic, typing.Protocol)
_METHODS = (types.FunctionType, types.MemberDescriptorType, types.GetSetDescriptorType, type)


@functools.lru_cache(maxsize=4096)
def names_shown(code: types.CodeType) -> frozenset:
    """Every name in `code` but attributes that it only assigns, and every word in its texts."""
    found = set(code.co_names)
    if _STORE_ATTR in code.co_code[::2]:
        found = {
            instruction.argval
            for instruction in dis.get_instructions(code)
            if instruction.opcode in dis.hasname and instruction.opcode != _STORE_ATTR
        }
    for constant in code.co_consts:
        found |= names_shown(constant) if isinstance(constant, types.CodeType) else _words(constant)
    return frozenset(found)


def names_read(functions: list, attributes: set) -> frozenset | None:
    """The attributes that plain objects may be asked for by `functions`.

    Parameters
    ----------
    functions : list of function
    attributes : set of str
        More of them, known otherwise.

    Returns
    -------
    frozenset or None
        None: any.
    """
    found = set(attributes).union(*[names_shown(f.__code__) for f in functions])
    return frozenset(found) if found.isdisjoint(_UNNAMED) else None


def asks_unnamed(thing) -> bool:
    """Whether `thing` is compiled code that may look at the attributes of what it is given."""
    kind = type(thing)
    if kind is not types.BuiltinFunctionType and kind.__name__ != "cython_function_or_method":
        return False
    if any(thing is x for x in _BUILTIN):
        return True
    # What is decorated is followed into the function that it calls.
    return not is_library(thing) and get(thing, "_sdbr_function") is None


@functools.lru_cache(maxsize=1024)
def reads_by_name(cls: type) -> bool:
    """Whether code that can be read is all that looks at the attributes of an instance."""
    if type(cls) not in (type, abc.ABCMeta, type(typing.Protocol)):
        return False
    for base in cls.__mro__:
        if base in _OF_PYTHON:
            continue
        if is_library(base) or "__match_args__" in base.__dict__:
            return False
        if not all(map(_is_readable, base.__dict__.values())):
            return False
    return True


def _is_readable(member) -> bool:
    """Whether the code of a member of a class, if it is any, can be read."""
    if isinstance(member, property):
        return all(
            part is None or isinstance(part, types.FunctionType)
            for part in (member.fget, member.fset, member.fdel)
        )
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    member = get(member, "_sdbr_function", member)
    if isinstance(member, _METHODS):
        return True
    return not callable(member) and not hasattr(type(member), "__get__")


def _words(constant) -> set:
    if isinstance(constant, str):
        return set(_WORD.findall(constant))
    if isinstance(constant, (tuple, frozenset)):
        return set().union(*map(_words, constant))
    return set()


def is_link(cls: type) -> bool:
    # Link is an abstract class: isinstance would remember its answer in each of its subclasses.
    return chainer.Link in cls.__mro__
