"""Whether the program still holds the graphs of the last steps: it may go back through them."""

from __future__ import annotations

import collections
import sys
import weakref

import chainer


class KeptGraphs:
    """The graphs that the last steps have left behind, while these steps were not whole.

    A whole step keeps no activations. So before the first one it is asked who holds the graph of
    the step before: what the step itself writes again (``self.loss``) does not count. Where it is
    not clear yet (a local variable that the next step's loss replaces), one step more tells.
    """

    def __init__(self) -> None:
        #: Of the last two steps the functions that have made their results, as weak references.
        self._last: collections.deque = collections.deque(maxlen=2)

    def note(self, loss: chainer.Variable, places) -> None:
        """Take up the graph of a step that was just made."""
        nodes = [loss._node, *[x._node for x in _held(places)]]
        functions = {id(f): f for node in nodes if (f := node._creator_node) is not None}
        self._last.append([weakref.ref(f) for f in functions.values()])

    @property
    def matter(self) -> bool:
        """Whether the next step asks for the graph of this one."""
        return bool(self._last)

    def forget(self) -> None:
        """The last step has left no graph."""
        self._last.clear()

    def are_held(self, places) -> bool:
        """Whether the program holds a graph beyond the step after it, or seems to.

        Parameters
        ----------
        places : list of (dict, str)
            Where the next step writes its results: what lies there now is not held for long.
        """
        if not self._last:
            return False
        if len(self._last) == 2:
            return any(function() is not None for function in self._last[0])
        functions = [f for reference in self._last[0] if (f := reference()) is not None]
        return bool(functions) and _are_referred_to(functions, _held(places))


def _held(places) -> list:
    """The Variables in attributes, and in containers there; one comes as often as it is there."""
    stack = [found[name] for found, name in places if name in found]
    variables = []
    while stack:
        thing = stack.pop()
        if isinstance(thing, chainer.Variable) and not isinstance(thing, chainer.Parameter):
            variables.append(thing)
        elif type(thing) in (list, tuple):
            stack += thing
        elif type(thing) is dict:
            stack += thing.values()
    return variables


def _are_referred_to(functions: list, held: list) -> bool:
    """Whether anybody but `held` and the graph itself holds results of these functions."""
    used: collections.Counter = collections.Counter()
    for function in _behind(functions):
        used.update(map(id, function.inputs))
    places = collections.Counter(map(id, held))
    for function in functions:
        for reference in function.outputs:
            node = reference()
            if node is None:
                continue
            variable = node._variable()
            # References: that of `node`, the argument's, the Variable's.
            expected = 2 + used[id(node)] + (variable is not None)
            if sys.getrefcount(node) > expected:
                return True
            # Those of `variable` and the argument; `held` has as many as the places have.
            expected = 2 + 2 * places[id(variable)]
            if variable is not None and sys.getrefcount(variable) > expected:
                return True
    return False


def _behind(functions: list) -> list:
    """These function nodes and those behind them."""
    stack, seen = list(functions), set()
    found = []
    while stack:
        function = stack.pop()
        if id(function) in seen or function.inputs is None:
            continue
        seen.add(id(function))
        found.append(function)
        stack += [f for node in function.inputs if (f := node._creator_node) is not None]
    return found
