"""Calls on a GPU that cannot be compared: Chainer's own kernels leave the array there.

A label below zero or out of range makes them read, and with embeddings write, memory of others. A
replay counts from the end, or notes the label as out of range.
"""

from __future__ import annotations

from typing import Any

from sdbr.devices.arrays import Array, device_of
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, TracedNode, Value

import chainer
from chainer.backends import cuda
from chainer.functions.array import select_item
from chainer.functions.connection import embed_id
from chainer.functions.loss import softmax_cross_entropy

#: Functions that index by labels -> which input these are, and which one, and axis, they index.
_BY_LABEL = {
    softmax_cross_entropy.SoftmaxCrossEntropy: (1, 0, 1),
    embed_id.EmbedIDFunction: (0, 1, 0),
    select_item.SelectItem: (1, 0, 1),
}


def leaves_an_array(trace: Any, leaves: list) -> bool:
    """Whether a label among the arguments or the captured state leads out of an array.

    Parameters
    ----------
    trace : Trace
    leaves : list
        The arrays and Variables among the arguments.
    """
    found = [_wrong(node, leaves) for node in trace.nodes if type(node.function) in _BY_LABEL]
    return any(bool(wrong) for wrong in found if wrong is not None)


def _wrong(node: TracedNode, leaves: list) -> Array | None:
    """Whether one of the labels of a function does so, on the GPU; None if nobody knows them."""
    which, of, axis = _BY_LABEL[type(node.function)]
    labels = _array_of(node.inputs[which], leaves)
    if not isinstance(labels, Array) or not labels.size:
        return None
    ignored = getattr(node.function, "ignore_label", None)
    with cuda.Device(device_of(labels)):
        wrong = (labels < 0) | (labels >= node.inputs[of].shape[axis])
        return (wrong if ignored is None else wrong & (labels != ignored)).any()


def _array_of(value: Value, leaves: list) -> Any:
    thing = None
    if value.kind == ARGUMENT:
        thing = leaves[value.source]
    elif value.kind == ATTRIBUTE:
        holder, name = value.source
        thing = holder.__dict__.get(name) if isinstance(holder, chainer.Link) else None
    return thing._data[0] if isinstance(thing, chainer.Variable) else thing
