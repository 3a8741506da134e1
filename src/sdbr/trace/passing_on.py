"""Function nodes that write into the arrays they are given, and hand those out.

One array goes through a chain of such nodes (a stack that grows, a table that is filled): each
replay gives all of them one array again, so that what they keep for their backward shows its last
contents, as in define-by-run. Whoever else looks at it in between would have to see contents of
its own time in the forward and the last ones in the backward: such calls are dynamic.
"""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.trace._node_copies import inner_function
from sdbr.trace.arrays.stripping import strip
from sdbr.trace.code.foreign import is_users
from sdbr.trace.values import ALIAS, CONSTANT, TracedNode, Value, values_in

import chainer
import numpy as np


class Passing:
    """What a `Recorder` knows of arrays that function nodes pass on."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self._passing: dict[int, np.ndarray] = {}  # index of a value -> the array passed on
        self._passed_by: list[TracedNode] = []
        self._written_by_nodes: dict[
            int, tuple
        ] = {}  # id of an array -> (array, label of who wrote)

    def contents_before(self, function, inputs) -> list | None:
        """What a node of a user's is given; None of others, which do not write there."""
        if not is_users(type(inner_function(function) or function).__module__):
            return None
        return [x.tobytes() for x in map(_plain, inputs)]

    def note_passed(self, node: TracedNode, inputs, outputs, before) -> None:
        """After the forward: which arrays it has passed on, and which of them it has written."""
        if before is None:
            return
        arrays = [_plain(x) for x in inputs]
        written = [x.tobytes() != b for x, b in zip(arrays, before, strict=True)]
        for i, (array, value) in enumerate(zip(arrays, node.inputs, strict=True)):
            out = next((j for j, y in enumerate(outputs) if y._data[0] is array), None)
            if out is not None and self._is_own(value, array):
                node.passes[i] = out
            elif written[i]:
                self.recorder.mark_dynamic(f"{node.label} writes into its inputs", Remedy.NEW_ARRAY)
            if written[i]:
                self._written_by_nodes[id(array)] = array, node.label

    def note_passing(self, node: TracedNode, inputs) -> None:
        """After its values are known: they show the arrays that it passes on."""
        for i, out in node.passes.items():
            array = _plain(inputs[i])
            self._passing[node.inputs[i].index] = array
            self._passing[node.outputs[out].index] = array
        if node.passes:
            self._passed_by.append(node)

    def _is_own(self, value: Value, array) -> bool:
        """Whether the call made the array of nothing, or got it from a node that passes it on."""
        if value.index in self._passing:
            return self._passing[value.index] is array
        known = self.values.constants.get(id(array))
        return (
            value.kind == CONSTANT
            and known is not None
            and known[1] is value
            and array.base is None
        )

    def finish_passing(self) -> None:
        """After the call: nobody else may have looked at an array before its last contents."""
        if not self._written_by_nodes:
            for node in self._passed_by:
                node.passes.clear()
            return
        last = {id(array): index for index, array in self._passing.items()}
        for (array, label), index in zip(
            self._written_by_nodes.values(), map(last.get, self._written_by_nodes), strict=True
        ):
            if index is None:
                continue
            shown = {i for i, other in self._passing.items() if other is array}
            if self._looked_at(shown, index) or self._read_later(array, shown):
                self.recorder.mark_dynamic(
                    f"{label} writes into an array that is used beside it", Remedy.NEW_ARRAY
                )

    def _looked_at(self, shown: set[int], last: int) -> bool:
        """Whether a value of the array but the last is used other than passed on, or twice."""
        trace = self.trace
        uses: dict[int, int] = {}
        for node in trace.nodes:
            passed = {node.inputs[i].index for i in node.passes}
            rebound = [x for r in node.rebind for x in r.values]
            for value in [*node.inputs, *rebound]:
                weight = 1 if value.index in passed else 2
                uses[value.index] = uses.get(value.index, 0) + weight
        for value in trace.values:
            if value.kind == ALIAS:
                uses[value.source.index] = 2
        left = [trace.result, *(vars(e) for e in trace.effects), *(r.value for r in trace.reads)]
        for value in values_in(left):
            uses[value.index] = 2
        return any(uses.get(i, 0) > 1 for i in shown if i != last)

    def _read_later(self, array, shown: set[int]) -> bool:
        """Whether it, or a part of it, was read as if it were made of nothing still."""
        constants = [(x, value.index) for x, value in self.values.constants.values()]
        constants += [(v.source, v.index) for v in self.trace.values if v.kind == CONSTANT]
        return any(i not in shown and np.may_share_memory(x, array) for x, i in constants)


def _plain(x) -> np.ndarray:
    return x._data[0] if isinstance(x, chainer.Variable) else strip(x)
