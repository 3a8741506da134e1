"""Functions of Chainer that a schedule cannot hold.

The outputs of some have a shape that depends on values; `as_strided` looks past the shape of its
input at the memory behind it, which is laid out otherwise in a program.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.base.reasons import Reason, Remedy
from sdbr.trace._node_copies import inner_function
from sdbr.trace.values import CONSTANT, Value

from chainer.functions.array.as_strided import AsStrided
from chainer.functions.array.get_item import GetItem
from chainer.functions.evaluation.classification_summary import ClassificationSummary


def why_not_static(function, inputs: Sequence[Value], held: Sequence[Value]) -> Reason | None:
    """Why no schedule can hold this function, or None.

    Parameters
    ----------
    function : chainer.FunctionNode
    inputs : sequence of Value
    held : sequence of Value
        The arrays that the node holds as attributes.
    """
    if isinstance(function, GetItem) and any(map(_is_mask, held)):
        return Reason("the shape of a boolean selection depends on values", Remedy.STAY_ARRAYS)
    if isinstance(function, AsStrided):
        return Reason("as_strided depends on how its input lies in memory", Remedy.USE_FUNCTIONS)
    inner = inner_function(function)
    if (
        isinstance(inner, ClassificationSummary)
        and inner.label_num is None
        and inputs[1].kind != CONSTANT
    ):
        return Reason(
            "without label_num the number of classes is the largest label plus one",
            Remedy.USE_FUNCTIONS,
        )
    return None


def _is_mask(value: Value) -> bool:
    """Whether the value is a boolean array with other contents in each call."""
    return value.dtype == bool and value.kind != CONSTANT


def may_update(owner, name: str) -> bool:
    """Whether a function node may write to the array that it keeps as attribute `name`.

    Chainer's own functions write to running averages alone.
    """
    return "running_" in name or type(owner).__module__.partition(".")[0] != "chainer"
