"""Function nodes of users that tell the world something while they compute.

Their code runs in both runs of an audited call. What it prints, logs, writes to files or hands to
threads cannot be put back, so a node that did such a thing in define-by-run does not run again:
the replay gets what it gave there, and what it was given is compared instead.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections.abc import Callable, Iterator

from sdbr.audit.contents import copy_of
from sdbr.audit.draws import Noted
from sdbr.audit.reach import reached_by_node
from sdbr.audit.roots import Roots
from sdbr.audit.snapshot import Changes, Snapshot
from sdbr.trace._node_copies import GRAPH, inner_function
from sdbr.trace.code._profile import CallWatch
from sdbr.trace.code.foreign import is_users
from sdbr.trace.effects.output import tells
from sdbr.trace.effects.sides import side

import chainer
import numpy as np

#: What a forward asks Chainer to keep.
_RETAINED = ("_input_indexes_to_retain", "_output_indexes_to_retain")
#: What lies on a node and is not the user's.
_OWN = frozenset((*GRAPH, "forward", "backward", "_node", "_owned_node"))


class Told:
    """One application of a user's function node in define-by-run.

    Attributes
    ----------
    kind : type
        Of the node, or of the old-style ``Function`` behind it.
    name : str
    inputs, outputs : list of ndarray or None
        Copies; None for a forward that told nobody anything.
    left : dict
        What the forward has set on the node.
    gradients : list of (tuple, list, Changes)
        Of each backward that told something: the inputs that it was asked for, what it gave, and
        what it changed.
    changes : Changes
        What the forward has changed outside of the node.
    """

    def __init__(self, kind: type, name: str):
        self.kind = kind
        self.name = name
        self.inputs: list[np.ndarray] | None = None
        self.outputs: list[np.ndarray] = []
        self.left: dict = {}
        self.retained: dict = {}
        self.gradients: list = []
        self.changes: Changes | None = None

    def keep(self, function, before: dict, inputs, outputs) -> None:
        """Note what a forward was given and gave."""
        inner = inner_function(function) or function
        self.inputs = [copy_of(getattr(x, "array", x)) for x in inputs]
        self.outputs = [copy_of(y.array) for y in outputs]
        self.left = {
            name: thing
            for name, thing in inner.__dict__.items()
            if name not in _RETAINED and name not in _OWN and before.get(name, self) is not thing
        }
        self.retained = {name: getattr(function, name) for name in _RETAINED}

    def given(self, inputs: list) -> dict[str, np.ndarray]:
        """`inputs` by name."""
        return {f"input {i} of {self.name}": x for i, x in enumerate(inputs)}

    def feed(self, node) -> None:
        """Let the forward of `node` give what it gave."""
        inner = inner_function(node) or node

        def forward(_):
            del inner.forward
            self.changes.put()
            inner.__dict__.update({name: copy.copy(x) for name, x in self.left.items()})
            node.__dict__.update(self.retained)
            return tuple([copy_of(y) for y in self.outputs])

        inner.forward = forward

    def watch_backward(self, function) -> None:
        """Note what the backward of a node of define-by-run gives, where it tells something."""
        this, original = weakref.ref(function), type(function).backward

        def backward(indexes, gys):
            draws = getattr(side(), "draws", Noted())
            n_drawn = len(draws.found)
            with changing(this()) as changed:
                gxs, told = watched(lambda: original(this(), indexes, gys))
            if told and changed:  # not after the audit
                del draws.found[n_drawn:]
                arrays = [None if g is None else g.array for g in gxs]
                self.gradients.append((indexes, arrays, changed[-1][1]))
            return gxs

        function.backward = backward

    def feed_backward(self, node) -> None:
        """Let the backward of `node` give what it gave."""
        this, original = weakref.ref(node), type(node).backward

        def backward(indexes, gys):
            with changing(this()):
                for i, (asked, gxs, changes) in enumerate(self.gradients):
                    if asked == indexes:
                        del self.gradients[i]
                        changes.put()
                        return tuple(
                            [g if g is None else chainer.Variable(copy_of(g)) for g in gxs]
                        )
                return original(this(), indexes, gys)

        node.backward = backward


class Telling:
    """The user's function nodes of a run of define-by-run, in order.

    Parameters
    ----------
    draws : Noted
        Of the run.
    """

    def __init__(self, draws: Noted):
        self.found: list[Told] = []
        self.draws = draws

    def apply(self, original: Callable, function, inputs):
        """Apply a node, and note whether it tells the world something."""
        if not is_of_users(function):
            return original(function, inputs)
        inner = inner_function(function) or function
        told = Told(type(inner), f"{function.label} (the user's function {len(self.found)})")
        self.found.append(told)
        before = dict(inner.__dict__)
        told.watch_backward(function)
        n_drawn = len(self.draws.found)
        with changing(function) as changed:
            outputs, tells_something = watched(lambda: original(function, inputs))
        if tells_something:
            del self.draws.found[n_drawn:]  # the other run does not draw them
            told.changes = changed[-1][1]
            told.keep(function, before, inputs, outputs)
        return outputs

    def facts(self) -> dict[str, np.ndarray]:
        """What those that do not run again were given."""
        facts: dict[str, np.ndarray] = {}
        for told in self.found:
            facts.update(told.given(told.inputs or []))
        return facts


class Repeating:
    """The same nodes in the run beside it.

    Attributes
    ----------
    given : dict
        What nodes that do not run again were given, by name.
    """

    def __init__(self, telling: Telling):
        self.left = list(telling.found)
        self.given: dict[str, np.ndarray] = {}

    def apply(self, original: Callable, function, inputs):
        """Apply a node, or give what it gave."""
        kind = type(inner_function(function) or function)
        if not is_users(kind.__module__):
            return original(function, inputs)
        told = next((x for x in self.left if x.kind is kind), None)
        if told is None:
            with changing(function):
                return original(function, inputs)
        self.left.remove(told)
        told.feed_backward(function)
        if told.inputs is not None:
            self.given.update(told.given([copy_of(getattr(x, "array", x)) for x in inputs]))
            told.feed(function)
        with changing(function):
            return original(function, inputs)


def is_of_users(function) -> bool:
    """Whether the forward of a node is code of a user."""
    return is_users(type(inner_function(function) or function).__module__)


@contextlib.contextmanager
def changing(function) -> Iterator[list]:
    """Note what the code of a node changes of what it leads to; gives where it is noted.

    What other threads may change at any time is looked at only while there is one.
    """
    present = side()
    if present is None:  # a backward of the user's, after the audit
        yield []
        return
    inner = inner_function(function) or function
    things = [thing for name, thing in inner.__dict__.items() if name not in _OWN]
    near = reached_by_node(type(inner)) if threading.active_count() == 1 else ()
    before = Snapshot(Roots([], things, reached=near))
    try:
        yield present.inner
    finally:
        present.inner.append((before, before.changes()))


class _Listener:
    told = False


def watched(run: Callable):
    """The result of ``run()``, and whether it has told the world something.

    Compiled functions are seen as they are while a call is traced.
    """
    listener = _Listener()
    watch = CallWatch(listener, tells)
    if not watch.start():
        return run(), False  # somebody else profiles this thread
    try:
        result = run()
    finally:
        watch.stop()
    return result, listener.told
