"""Containers made once more with other items."""

from __future__ import annotations

import types
import weakref
from typing import Any

from sdbr.trace.code._library import is_library

_CONTAINERS = (dict, list, tuple)
_SLOT = types.MemberDescriptorType
_ANY = (None,)  # of a library's class, which is taken to be like those of Python
_SLOTS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def rebuild(like: Any, items: Any) -> Any:
    """`items` (a list or dict) in a container of the type of `like`."""
    kind = type(like)
    if kind in (dict, list):
        return items
    if kind is tuple:
        return tuple(items)
    if hasattr(kind, "_fields"):  # namedtuple
        return kind(*items)
    if isinstance(like, dict) and hasattr(kind, "default_factory"):
        return kind(like.default_factory, items)
    return kind(items)


def can_be_rebuilt(thing: Any) -> bool:
    """Whether a list, dict or tuple is what its class makes of its items, and nothing else.

    A class of the user's may have a constructor that takes something else, or attributes, which
    are only where they were set. Asked without its code where it has no constructor of its own.
    """
    kind = type(thing)
    if kind in _CONTAINERS:
        return True
    slots = _SLOTS.get(kind)
    if slots is None:
        slots = _SLOTS[kind] = _slots_of(kind)
    if slots is _ANY:
        return True
    if not _is_bare(thing, slots):
        return False
    (base,) = (b for b in _CONTAINERS if isinstance(thing, b))
    if kind.__init__ is base.__init__ and kind.__new__ is base.__new__:
        return True
    items = dict(dict.items(thing)) if base is dict else list(base.__iter__(thing))
    try:
        again = rebuild(thing, items)
    except Exception:  # of the user's constructor
        return False
    if type(again) is not kind or not _is_bare(again, slots):
        return False
    pairs = (items, dict(dict.items(again)) if base is dict else list(base.__iter__(again)))
    parts = [[*x, *x.values()] if base is dict else x for x in pairs]
    return len(parts[0]) == len(parts[1]) and all(map(_is, *parts))


def _slots_of(kind: type) -> tuple:
    """The slots of a class of the user's."""
    if is_library(kind):
        return _ANY
    return tuple(x for c in kind.__mro__ for x in vars(c).values() if type(x) is _SLOT)


def _is_bare(thing: Any, slots: tuple) -> bool:
    """Whether it has no attributes; a dict may be its own attributes."""
    fields = getattr(thing, "__dict__", None)
    return (not fields or fields is thing) and not any(_has(thing, slot) for slot in slots)


def _has(thing: Any, slot: types.MemberDescriptorType) -> bool:
    try:
        slot.__get__(thing)
    except AttributeError:
        return False
    return True


def _is(a: Any, b: Any) -> bool:
    return a is b
