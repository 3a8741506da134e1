"""What a whole step leaves behind: results whose activations are gone."""

from __future__ import annotations

import weakref

from sdbr.base.errors import StaleGraphError
from sdbr.trace.values import Value

import chainer
import numpy as np
from chainer.variable import VariableNode


def spent_class(manager, schedule) -> type:
    """The class of variable nodes of what whole steps by one schedule leave behind."""
    places = {"manager": weakref.ref(manager), "schedule": weakref.ref(schedule)}
    return type("SpentNode", (SpentNode,), places)


class Left:
    """Where the steps of a schedule leave results, and which of these lie behind which.

    Parameters
    ----------
    trace : Trace
    """

    def __init__(self, trace):
        places = [(w.link.__dict__, w.name, w.value) for w in trace.writes]
        places += [(s.sink.holder, s.sink.name, s.value) for s in trace.stores]
        #: Places whose holder can be asked for what lies there.
        self.places = [place for place in places if hasattr(place[0], "get")]
        behind: dict[int, set[int]] = {}
        for node in trace.nodes:  # in the order of the call
            if node.function is None or not node.backprop:
                continue
            found = {x.index for x in node.inputs}
            found.update(*(behind.get(i, ()) for i in found))
            behind.update((y.index, found) for y in node.outputs)
        self.behind = behind

    def nodes_behind(self, node) -> list:
        """The variable nodes of what the same step has left, and made `node` of."""
        there: dict[int, VariableNode] = {}
        for holder, name, structure in self.places:
            _pair(structure, holder.get(name), there)
        index = next((i for i, other in there.items() if other is node), None)
        return [
            other
            for i, other in there.items()
            if i in self.behind.get(index, ()) and type(other) is type(node)
        ]


def _pair(structure, thing, found: dict) -> None:
    """Note the nodes of Variables in `thing` by the values in whose place they are."""
    if isinstance(structure, Value):
        if isinstance(thing, chainer.Variable):
            found[structure.index] = thing.node
    elif type(structure) is not type(thing) or not isinstance(structure, (list, tuple, dict)):
        return
    elif isinstance(structure, dict):
        for key, part in structure.items():
            _pair(part, thing.get(key), found)
    else:
        for part, item in zip(structure, thing, strict=False):
            _pair(part, item, found)


class SpentCall(chainer.FunctionNode):
    """Creator of what a whole step leaves behind: its activations are gone."""

    def forward(self, inputs):
        raise StaleGraphError("a whole step cannot be applied again")

    def backward(self, indexes, grad_outputs):
        self.outputs[0]().sdbr_asked()


class SpentNode(VariableNode):
    """Variable node of what a whole step leaves behind; makes its creator when asked."""

    _rank = 1
    #: ``manager()`` gives that of the schedule, if it is still there.
    manager = staticmethod(lambda: None)
    #: ``schedule()`` gives that, if it is still there.
    schedule = staticmethod(lambda: None)

    def sdbr_asked(self):
        """Somebody wants to go back through the step: no later one is made whole.

        Raises
        ------
        StaleGraphError
        """
        manager = self.manager()
        if manager is not None:
            manager.keeps_graphs = True
        raise StaleGraphError(
            "the activations of this call were used up by the whole step that made it "
            "(optimizer.update with a loss function); call the loss function itself for a graph "
            "that can be differentiated again. From now on its steps keep their graphs, and are "
            "made in parts"
        )

    def __reduce_ex__(self, protocol):
        make, (_, *args), *rest = super().__reduce_ex__(max(protocol, 2))
        return (make, (SpentNode, *args), *rest)

    @property
    def _creator_node(self):
        made = self.__dict__.get("_made", self)
        if made is self:
            made = SpentCall()
            # An input that wants a gradient, so that a backward gets as far as the error.
            made.start = chainer.Variable(np.zeros(()))
            schedule = self.schedule()
            behind = () if schedule is None else Left(schedule.trace).nodes_behind(self)
            made.inputs, made.outputs, made.rank = (made.start.node, *behind), (lambda: self,), 0
            made._input_layouts, made._output_layouts = (None,) * len(made.inputs), (None,)
            made._output_count = 1
            self.__dict__["_made"] = made
        return made

    @_creator_node.setter
    def _creator_node(self, creator):
        self.__dict__["_made"] = creator
