"""Function nodes before and after their forward."""

from __future__ import annotations

import copy
import weakref

import chainer
import numpy as np


def copy_node(function):
    """The node before its first forward; containers are copied one level deep."""
    template = copy.copy(function)
    for name, thing in template.__dict__.items():
        if type(thing) in (list, dict, set):
            template.__dict__[name] = copy.copy(thing)
    old = inner_function(template)
    if old is not None:
        # An old-style Function keeps its state on itself and a weak reference to its node.
        inner = copy.copy(old)
        template._function = inner
        inner._node = weakref.ref(template)
        inner._owned_node = None
    return template


def inner_function(node):
    """The old-style Function behind a node, or None."""
    return node._function if isinstance(node, chainer.function.FunctionAdapter) else None


GRAPH = ("inputs", "outputs", "_retained_output_data", "stack", "_chainerx_retained_inputs")


def spent_node(function, template):
    """The node after its forward, without graph and without arrays that the call made."""
    spent = copy.copy(function)
    for name in GRAPH:
        spent.__dict__.pop(name, None)
    before = template.__dict__
    for name, thing in list(spent.__dict__.items()):
        if isinstance(thing, np.ndarray) and before.get(name) is not thing:
            if name in before:
                spent.__dict__[name] = before[name]
            else:
                del spent.__dict__[name]
    return spent
