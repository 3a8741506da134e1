"""What a whole step leaves behind: results whose activations are gone."""

from __future__ import annotations

import weakref

from sdbr.base.errors import StaleGraphError

import chainer
import numpy as np
from chainer.variable import VariableNode


def spent_class(manager) -> type:
    """The class of variable nodes of what whole steps of a manager leave behind."""
    return type("SpentNode", (SpentNode,), {"manager": weakref.ref(manager)})


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
            made.inputs, made.outputs, made.rank = (made.start.node,), (lambda: self,), 0
            made._input_layouts, made._output_layouts, made._output_count = (None,), (None,), 1
            self.__dict__["_made"] = made
        return made

    @_creator_node.setter
    def _creator_node(self, creator):
        self.__dict__["_made"] = creator
