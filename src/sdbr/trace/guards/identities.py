"""Arrays that an argument may be: code that compares objects sees which of them it is."""

from __future__ import annotations

import collections

from sdbr.base.reasons import Reason, Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code.reading import compares_objects, plain_fields

import chainer

#: How far containers are looked into.
DEPTH, MOST = 4, 1000

#: Packages whose objects nobody compares with what they hold: Chainer's functions, our managers.
_OWN = frozenset({"builtins", "chainer", "numpy", "sdbr"})
_ARRAYS = (*ARRAYS, chainer.Variable)


def comparable(around, owner, leaves) -> Reason | None:
    """Why the outcome of ``a is b`` cannot be known while a call is traced.

    Traced code gets views of arrays, and replays do not look which arrays are one, but for those
    that are given. So no other that the code reaches may be one of them: it would have to be alike.

    Parameters
    ----------
    around : Outside
        What the code reaches.
    owner : chainer.Link or None
    leaves : list
        The Variables and arrays among the arguments.
    """
    arrays = [x.array if isinstance(x, chainer.Variable) else x for x in leaves]
    looks = {(x.shape, x.dtype) for x in arrays if isinstance(x, ARRAYS)}
    if not looks or not any(compares_objects(f.__code__) for f in around.functions):
        return None
    things = [(name, thing) for _, name, thing in around.entries]
    for link in () if owner is None else owner.links():
        held = [(name, x) for name, x in list(vars(link).items()) if name[:5] != "_sdbr"]
        # Which attribute is which argument is noticed where it is read, and before each replay.
        things += [(name, x) for name, x in held if not isinstance(x, _ARRAYS)]
    budget = [MOST]
    for name, thing in things:
        if _holds(thing, looks, DEPTH, budget):
            return Reason(
                f"the code compares objects (is, id()), and {name!r} holds an array that looks "
                "like an argument",
                Remedy.LOOK_AT_VALUES,
            )
    return None


def _holds(thing, looks: set, depth: int, budget: list) -> bool:
    budget[0] -= 1
    if isinstance(thing, chainer.Variable) and not isinstance(thing, chainer.Parameter):
        thing = thing.array
    if isinstance(thing, ARRAYS):
        return (thing.shape, thing.dtype) in looks
    if not depth or budget[0] < 0 or isinstance(thing, (type, chainer.Link, chainer.Variable)):
        return False
    if isinstance(thing, dict):
        parts = list(thing.values())
    elif isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
        parts = list(thing)
    elif type(thing).__module__.partition(".")[0] in _OWN or callable(thing):
        return False
    else:
        parts = list((plain_fields(thing) or {}).values())
    return any(_holds(part, looks, depth - 1, budget) for part in parts)
