"""What looks between the results of one replayed call gets to see what is there.

A replayed call is one node of Chainer's graph, which its parts can replace (see
`sdbr.call.autograd`): here is told when. Functions of other kinds have no attribute ``sdbr_split``,
and nothing happens.
"""

from __future__ import annotations

from sdbr.compat.fix import wrap

_backwards = [0]


def count_backwards() -> int:
    """How many backwards have begun in this process."""
    return _backwards[0]


def install() -> None:
    """Have replayed calls taken apart in time; must be called once."""
    import chainer
    from chainer import _backprop, function_node

    wrap(_backprop, "_backprop_to_all", _splitting_backward)
    wrap(function_node, "grad", _splitting_grad)
    chainer.grad = function_node.grad
    wrap(chainer.variable.VariableNode, "unchain", _splitting_node_unchain)
    wrap(chainer.Variable, "unchain", _splitting_unchain)
    wrap(chainer.Variable, "unchain_backward", _splitting_unchain_backward)


def split_creator(node) -> None:
    """Take apart the replayed call that has made a variable node, if one has."""
    split = getattr(node._creator_node, "sdbr_split", None)
    if split is not None:
        split()


def split_behind(nodes) -> None:
    """Take apart every replayed call that a backward from these variable nodes goes through."""
    stack, seen = list(nodes), set()
    while stack:
        node = stack.pop()
        split_creator(node)
        function = node._creator_node
        if function is not None and id(function) not in seen and function.inputs is not None:
            seen.add(id(function))
            stack += function.inputs


def split_partly_reached(start) -> None:
    """Take apart the calls behind a variable node of which only some parts are behind it."""
    found = True
    while found:
        # What lies behind a call that has just been taken apart is known better the next time.
        found = [call for call, reached in _calls_behind(start) if not call.sdbr_covers(reached)]
        for call in found:
            call.sdbr_split()


def _calls_behind(start) -> list[tuple]:
    """Replayed calls of several parts behind a variable node, with the ids of their results."""
    calls: dict[int, tuple] = {}
    stack, seen = [start], set()
    while stack:
        node = stack.pop()
        function = node._creator_node
        if function is None or function.inputs is None:
            continue
        if hasattr(function, "sdbr_covers"):
            calls.setdefault(id(function), (function, set()))[1].add(id(node))
        if id(function) not in seen:
            seen.add(id(function))
            stack += function.inputs
    return list(calls.values())


def _splitting_backward(original):
    def backprop_to_all(outputs, retain_grad, loss_scale):
        _backwards[0] += 1
        if retain_grad:
            outputs = list(outputs)
            split_behind([node for node, _ in outputs])
        return original(outputs, retain_grad, loss_scale)

    return backprop_to_all


def _splitting_grad(original):
    from chainer import Variable

    def grad(outputs, inputs, *args, **kwargs):
        if isinstance(inputs, (list, tuple)):
            for x in inputs:
                if isinstance(x, Variable):
                    split_creator(x._node)
        retain = kwargs.get("retain_grad", args[3] if len(args) > 3 else False)
        if retain and isinstance(outputs, (list, tuple)):
            split_behind([y._node for y in outputs if isinstance(y, Variable)])
        return original(outputs, inputs, *args, **kwargs)

    return grad


def _splitting_node_unchain(original):
    def unchain(self):
        split_creator(self)
        return original(self)

    return unchain


def _splitting_unchain(original):
    def unchain(self):
        if not self._has_chainerx_array:
            split_creator(self._node)
        return original(self)

    return unchain


def _splitting_unchain_backward(original):
    def unchain_backward(self):
        if not self._has_chainerx_array:
            split_partly_reached(self._node)
        return original(self)

    return unchain_backward
