"""Functions of Chainer whose outputs have a shape that depends on values."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.trace.nodes import inner_function
from sdbr.trace.values import CONSTANT, Value

from chainer.functions.array.get_item import GetItem
from chainer.functions.evaluation.classification_summary import ClassificationSummary


def data_shaped(function, inputs: Sequence[Value], held: Sequence[Value]) -> str | None:
    """Why the shapes of the outputs may be others in the next call, or None.

    Parameters
    ----------
    function : chainer.FunctionNode
    inputs : sequence of Value
    held : sequence of Value
        The arrays that the node holds as attributes.
    """
    if isinstance(function, GetItem) and any(map(_is_mask, held)):
        return "the shape of a boolean selection depends on values"
    inner = inner_function(function)
    if (
        isinstance(inner, ClassificationSummary)
        and inner.label_num is None
        and inputs[1].kind != CONSTANT
    ):
        return "without label_num the number of classes is the largest label plus one"
    return None


def _is_mask(value: Value) -> bool:
    """Whether the value is a boolean array with other contents in each call."""
    return value.dtype == bool and value.kind != CONSTANT
