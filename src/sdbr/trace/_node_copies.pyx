# cython: language_level=3
"""Copies of function nodes, from before their forward and after it; compiled: two for each node."""

import copy
import weakref

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code._library import is_library

import chainer
from chainer.functions.util.forget import Forget

cdef object _Adapter = chainer.function.FunctionAdapter

GRAPH = frozenset({
    "inputs", "outputs", "_retained_output_data", "stack", "_chainerx_retained_inputs",
})  # fmt: skip
cdef tuple _GRAPH = tuple(GRAPH)


def inner_function(node):
    """The old-style Function behind a node, or None."""
    # Not `isinstance`: it asks a node for its class, and so its `__getattribute__`.
    return node._function if issubclass(type(node), _Adapter) else None


def runs_users_code(node) -> bool:
    """Whether the forward of a node is the user's, or calls what is: `F.forget` does."""
    kind = type(inner_function(node) or node)
    return not is_library(kind) or issubclass(kind, Forget)


cdef _copied(function):
    """A shallow copy; `copy.copy` asks first in which of many ways, which takes as long again."""
    kind = type(function)
    if kind.__module__[:8] != "chainer.":
        return copy.copy(function)
    made = kind.__new__(kind)
    (<dict> made.__dict__).update(function.__dict__)
    return made


def copy_node(function):
    """The node before its first forward; containers are copied one level deep."""
    template = _copied(function)
    cdef dict fields = template.__dict__
    for name, thing in fields.items():
        kind = type(thing)
        if kind is list or kind is dict or kind is set:
            fields[name] = copy.copy(thing)
    if hasattr(fields.get("backward"), "watches"):
        del fields["backward"]  # a node that is applied again
    old = inner_function(template)
    if old is not None:
        # An old-style Function keeps its state on itself and a weak reference to its node.
        inner = copy.copy(old)
        template._function = inner
        inner._node = weakref.ref(template)
        inner._owned_node = None
    return template


def spent_node(function, template):
    """The node after its forward, without graph and without arrays that the call made."""
    spent = _copied(function)
    cdef dict fields = spent.__dict__, before = template.__dict__
    for name in _GRAPH:
        fields.pop(name, None)
    for name, thing in list(fields.items()):
        if isinstance(thing, ARRAYS) and before.get(name) is not thing:
            if name in before:
                fields[name] = before[name]
            else:
                del fields[name]
    return spent


def attributes_of(template, function):
    """What a node and the old-style Function behind it hold, both copies.

    Returns
    -------
    list of (owner, spent, inner, name, thing)
        The copy from before the forward and the node itself, or the Functions behind them, and
        whether they are the Functions.
    """
    cdef list found = []
    for name, thing in (<dict> template.__dict__).items():
        found.append((template, function, False, name, thing))
    owner = inner_function(template)
    if owner is not None:
        spent = inner_function(function)
        for name, thing in (<dict> owner.__dict__).items():
            found.append((owner, spent, True, name, thing))
    return found
