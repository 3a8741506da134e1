"""What looks between the results of one replayed call gets to see what is there.

A replayed call is one node of Chainer's graph, which its parts can replace (see
`sdbr.call.autograd`): here is told when. Functions of other kinds have no attribute ``sdbr_split``,
and nothing happens.
"""

from __future__ import annotations

import weakref

from sdbr.compat.fix import wrap

#: Whose code was translated (`sdbr.compat.graph`); in others it stays in its place.
VERSIONS = ("7.8.1",)

_backwards = [0]
#: Function nodes, each with what is called before somebody goes back through it.
_watched: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
#: Whether there may be variable nodes with an attribute ``sdbr_asked``.
_some_asked: list[bool] = []
#: Told of backwards, cleared gradients and cut histories: nobody, most of the time.
onlookers: list = []


def watch_behind(node, told) -> None:
    """Call ``told()`` when somebody goes back through the graph behind a variable node."""
    for function in functions_behind([node]):
        _watched[function] = told


def watch_asked() -> None:
    """From now on there may be variable nodes that have to know of it."""
    if not _some_asked:
        _some_asked.append(True)


def _tell_behind(nodes, asked: bool) -> None:
    """Tell those behind variable nodes that somebody goes back through them."""
    if not (_watched or (asked and _some_asked)):
        return
    nodes = list(nodes)
    told = [tell for f in functions_behind(nodes) if (tell := _watched.pop(f, None)) is not None]
    for tell in told:
        tell()
    for node in [*nodes, *[x for f in functions_behind(nodes) for x in f.inputs]] if asked else ():
        tell = getattr(node, "sdbr_asked", None)
        if tell is not None:
            tell()


def functions_behind(nodes) -> list:
    """The function nodes behind variable nodes."""
    stack, seen, found = list(nodes), set(), []
    while stack:
        function = stack.pop()._creator_node
        if function is not None and id(function) not in seen and function.inputs is not None:
            seen.add(id(function))
            found.append(function)
            stack += function.inputs
    return found


def count_backwards() -> int:
    """How many backwards have begun in this process."""
    return _backwards[0]


def install() -> None:
    """Have replayed calls taken apart in time; must be called once."""
    from sdbr.compat.graph._graph import put_in_place

    import chainer
    from chainer import _backprop, function_node

    wrap(_backprop, "_backprop_to_all", _splitting_backward)
    if chainer.__version__ in VERSIONS:
        wrap(chainer.Variable, "backward", _compiled_backward)
        wrap(chainer.Link, "cleargrads", _compiled_cleargrads)
        wrap(chainer.Link, "zerograds", _compiled_zerograds)
        wrap(chainer.FunctionNode, "apply", _compiled_apply)
        put_in_place(_backprop._backprop_to_all)
    wrap(function_node, "grad", _splitting_grad)
    chainer.grad = function_node.grad
    wrap(chainer.variable.VariableNode, "unchain", _splitting_node_unchain)
    wrap(chainer.Variable, "unchain", _splitting_unchain)
    wrap(chainer.Variable, "unchain_backward", _splitting_unchain_backward)


def _compiled_apply(original):
    from sdbr.compat.graph._apply import applied

    def apply(self, inputs):
        outputs = applied(self, inputs)
        return original(self, inputs) if outputs is None else outputs

    return apply


def _compiled_cleargrads(original):
    from sdbr.compat.graph._links import clear_gradients

    def cleargrads(self):
        for onlooker in onlookers:
            onlooker.clears(self, "cleargrads")
        if not clear_gradients(self):
            original(self)

    return cleargrads


def _compiled_zerograds(original):
    from sdbr.compat.graph._links import zero_gradients

    def zerograds(self):
        for onlooker in onlookers:
            onlooker.clears(self, "zerograds")
        if not zero_gradients(self):
            original(self)

    return zerograds


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
    from sdbr.compat.graph._walk import goes_back

    def backprop_to_all(outputs, retain_grad, loss_scale):
        _backwards[0] += 1
        outputs = list(outputs)
        if _watched:
            _tell_behind([node for node, _ in outputs], False)
        if goes_back(outputs, bool(retain_grad), loss_scale):
            return None
        if retain_grad:
            split_behind([node for node, _ in outputs])
        before = [] if loss_scale is None else _scaled_before([node for node, _ in outputs])
        original(outputs, retain_grad, loss_scale)
        for variable, gradient, scale in before:
            if variable._grad is gradient:
                variable._loss_scale = scale

    return backprop_to_all


def _scaled_before(nodes) -> list[tuple]:
    """Arguments and parameters of replayed calls behind variable nodes that have gradients, with
    these, and what they are scaled by.

    Chainer notes the scale of a backward on all that a function node is applied to and that have a
    gradient. Such a call is one node, some of whose parts the backward may not go through.
    """
    calls = [f for f in functions_behind(nodes) if hasattr(f, "sdbr_compiled")]
    leaves = [x.get_variable_or_none() for f in calls for x in f.inputs if x._creator_node is None]
    return [(x, x._grad, x._loss_scale) for x in leaves if x is not None and x._grad is not None]


def _compiled_backward(original):
    from sdbr.compat.graph._walk import backward_of

    def backward(self, retain_grad=False, enable_double_backprop=False, loss_scale=None):
        looked_at: list = []
        if onlookers and not self._has_chainerx_array:
            looked_at = [onlooker.begins(self, bool(retain_grad)) for onlooker in onlookers]
        plain = enable_double_backprop or _watched
        if plain or not backward_of(self, bool(retain_grad), loss_scale, _backwards):
            original(self, retain_grad, enable_double_backprop, loss_scale)
        for done in looked_at:
            done()

    return backward


def _splitting_grad(original):
    from chainer import Variable

    def grad(outputs, inputs, *args, **kwargs):
        if isinstance(inputs, (list, tuple)):
            for x in inputs:
                if isinstance(x, Variable):
                    split_creator(x._node)
        if isinstance(outputs, (list, tuple)):
            _tell_behind([y._node for y in outputs if isinstance(y, Variable)], True)
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
    from sdbr.compat.graph._cutting import cut_behind

    import chainer

    cut = cut_behind if chainer.__version__ in VERSIONS else lambda node: False

    def unchain_backward(self):
        if not self._has_chainerx_array:
            for onlooker in onlookers:
                onlooker.cuts()
            if cut(self._node):
                return None
            split_partly_reached(self._node)
        return original(self)

    return unchain_backward
