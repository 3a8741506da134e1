"""Function nodes before and after their forward."""

from __future__ import annotations

import contextlib
import copy
import weakref

import chainer
import numpy as np


def config_entries() -> dict:
    """All entries of ``chainer.config`` but the backend, as this thread sees them."""
    config = dict(chainer.global_config.__dict__)
    config.update(chainer.config._local.__dict__)
    config.pop("sdbr_backend", None)
    return config


def config_changes(before: dict) -> dict:
    """Entries that a ``using_config`` inside the call has changed, except enable_backprop."""
    now = config_entries()
    return {
        k: thing
        for k, thing in now.items()
        if k != "enable_backprop" and (k not in before or thing is not before[k])
    }


def configured(entries: dict):
    """A context with these entries of ``chainer.config``."""
    if len(entries) == 1:  # nearly always, and in every run of a Python op
        ((name, thing),) = entries.items()
        return chainer.using_config(name, thing)
    return _configured(entries)


@contextlib.contextmanager
def _configured(entries: dict):
    with contextlib.ExitStack() as stack:
        for name, thing in entries.items():
            stack.enter_context(chainer.using_config(name, thing))
        yield


def copy_node(function):
    """The node before its first forward; containers are copied one level deep."""
    template = copy.copy(function)
    for name, thing in template.__dict__.items():
        if type(thing) in (list, dict, set):
            template.__dict__[name] = copy.copy(thing)
    if hasattr(template.__dict__.get("backward"), "watches"):
        del template.__dict__["backward"]  # a node that is applied again
    old = inner_function(template)
    if old is not None:
        # An old-style Function keeps its state on itself and a weak reference to its node.
        inner = copy.copy(old)
        template._function = inner
        inner._node = weakref.ref(template)
        inner._owned_node = None
    return template


def watch_backward(function, node) -> None:
    """Note for which inputs the backward of this very node, when it runs, gives no gradient.

    None is not zero: an optimizer leaves a parameter without gradient alone.
    """
    this = weakref.ref(function)
    silent = node.silent
    original = type(function).backward

    def backward(target_input_indexes, grad_outputs):
        gxs = original(this(), target_input_indexes, grad_outputs)
        given = tuple(g is not None for g in grad_outputs)
        n = len(gxs)
        if n in (len(node.inputs), len(target_input_indexes)):
            for k, i in enumerate(target_input_indexes):
                gx = gxs[i if n == len(node.inputs) else k]
                if gx is None or gx.raw_array is None:
                    silent.setdefault(given, set()).add(i)
        return gxs

    backward.watches = node
    function.backward = backward


def inner_function(node):
    """The old-style Function behind a node, or None."""
    return node._function if isinstance(node, chainer.function.FunctionAdapter) else None


def attributes_of(template, function):
    """What a node and the old-style Function behind it hold, while both copies are changed.

    Yields
    ------
    owner, spent : object
        The copy from before the forward and the node itself, or the Functions behind them.
    inner : bool
        Whether they are the Functions.
    name : str
    thing : object
    """
    pairs = [(template, function, False)]
    if inner_function(template) is not None:
        pairs.append((inner_function(template), inner_function(function), True))
    for owner, spent, inner in pairs:
        for name, thing in list(owner.__dict__.items()):
            yield owner, spent, inner, name, thing


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
