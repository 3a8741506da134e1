"""What a whole step leaves behind: results whose activations are gone."""

from __future__ import annotations

from sdbr.base.errors import StaleGraphError

import chainer
import numpy as np
from chainer.variable import VariableNode


class SpentCall(chainer.FunctionNode):
    """Creator of what a whole step leaves behind: its activations are gone."""

    def forward(self, inputs):
        raise StaleGraphError("a whole step cannot be applied again")

    def backward(self, indexes, grad_outputs):
        raise StaleGraphError(
            "the activations of this call were used up by the whole step that made it "
            "(optimizer.update with a loss function); call the loss function itself for a graph "
            "that can be differentiated again"
        )


class SpentNode(VariableNode):
    """Variable node of what a whole step leaves behind; makes its creator when asked."""

    _rank = 1

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
