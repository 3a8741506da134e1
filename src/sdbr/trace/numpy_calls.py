"""NumPy calls of user code on traced arrays, and arrays that it takes out of Variables."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays._exports import owner
from sdbr.trace.arrays.asking import settled
from sdbr.trace.arrays.stripping import holds_traced, is_sequence, is_traced, strip, strip_nested
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.frames import is_by_chainer, user_line
from sdbr.trace.structure import rebuild
from sdbr.trace.values import RESULT, Hole, TracedNode, Value

import chainer
import numpy as np

_COPIES = (
    "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "astype", "copy",
    "require",
)  # fmt: skip
#: These give a view or a copy, as the array lies in memory.
_EITHER_WAY = frozenset((*_COPIES, "ravel", "reshape"))
#: These may write into their first argument, when they are given it once more.
_OVER_THEIR_OWN = frozenset(
    ("around", "byteswap", "clip", "cumprod", "cumsum", "fix", "nancumprod", "nancumsum", "round")
)
#: These give back all that they are given, where it is as it should be.
_GIVES_BACK = frozenset(("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays"))


class CallRecording:
    """The part of the recorder that writes NumPy calls down and hands arrays out."""

    def draw(self, call, args, kwargs):
        """Make a draw of NumPy's global generator and record it: every replay draws anew."""
        args, kwargs = settled(args), {name: settled(thing) for name, thing in kwargs.items()}
        self.depth += 1  # the generator calls NumPy's creating functions itself
        try:
            result = call(*strip_nested(args), **strip_nested(kwargs))
        finally:
            self.depth -= 1
        if not isinstance(result, np.ndarray):
            self.mark_dynamic(
                f"numpy.random.{call.__name__} drew a Python number", Remedy.DRAW_ARRAYS
            )
            return result
        return self.numpy_call(call, args, kwargs, result, draws=True)

    def numpy_call(self, call, args, kwargs, result, draws=False):
        """Record a NumPy call on known arrays; returns `result` as traced arrays."""
        self.check_exports()
        self.either_way |= call.__name__ in _EITHER_WAY and not is_by_chainer()
        inputs: list[Value] = []
        given: list = []
        recorded = (
            call,
            self.holes(tuple(args), inputs, given),
            self.holes(dict(kwargs), inputs, given),
        )
        copied = call.__name__ in _COPIES and len(inputs) == 1 and _is_copy(args[0], result)
        if copied and not inputs[0].is_scalar and not self._copies_of_others(result, given):
            self.note_memory(strip(result), inputs[0], given)
            return wrap(result, inputs[0])  # what is written makes a version: no copy is needed
        # NumPy's own code may have made them by functions that are watched.
        parts = [strip(p) for p in (result if isinstance(result, (tuple, list)) else (result,))]
        if not all(isinstance(p, (np.ndarray, np.generic)) for p in parts):
            self.mark_dynamic(
                f"{getattr(call, '__name__', call)} turned an array into a Python value",
                Remedy.STAY_ARRAYS,
            )
            return result
        if _has_written(call, parts, given):
            self.mark_dynamic(
                f"an array was written in place by numpy.{call.__name__}, whose out has no name",
                Remedy.NEW_ARRAY,
            )
            return result
        label = getattr(call, "label", None) or f"numpy {getattr(call, '__name__', call)}"
        node = TracedNode(
            None, None, recorded, inputs, [], False, [], label, user_line(), draws=draws
        )
        node.caught = self.caught()
        wrapped = []
        for i, part in enumerate(parts):
            array = np.asarray(part)
            value = self.value(RESULT, array, False, (node, i), False)
            value.is_scalar = isinstance(part, np.generic)
            self.know_array(array, value)
            if not hasattr(call, "label"):  # what Chainer makes may be what somebody holds
                self.note_memory(array, value, given)
            node.outputs.append(value)
            wrapped.append(wrap(array, value))
        self.trace.nodes.append(node)
        return rebuild(result, wrapped) if isinstance(result, (tuple, list)) else wrapped[0]

    def _copies_of_others(self, result, given: list) -> bool:
        """Whether `result` is a copy of memory that others may write to while they live."""
        array = given[0]
        memory = self.memory_of(array)
        return owner(result) is not owner(array) and (memory is None or memory.first is not None)

    def holes(self, thing, inputs: list[Value], given: list):
        """Arguments with a `Hole` in the place of each known array, whose value goes to `inputs`.

        The arrays themselves go to `given`.
        """
        kind = type(thing)
        if is_traced(thing):
            inputs.append(self._of_traced(thing))
            given.append(strip(thing))
            return Hole(len(inputs) - 1)
        if kind in (tuple, list):
            return kind([self.holes(t, inputs, given) for t in thing])
        if is_sequence(kind) and holds_traced(thing):
            return [self.holes(t, inputs, given) for t in thing]
        if kind is dict:
            return {k: self.holes(v, inputs, given) for k, v in thing.items()}
        if isinstance(thing, np.ndarray):
            given.append(thing)
            known = self.find_array(thing)
            if known is None and kind is np.ndarray and thing.dtype != object:
                known = self._unknown(thing)
            if known is not None:
                inputs.append(known)
                return Hole(len(inputs) - 1)
        return strip_nested(thing)

    def read_array(self, variable, array, compared: bool = False):
        """What ``variable.array`` gives to user code; itself where that is only `compared`."""
        if array is None or type(array) is not np.ndarray:
            return array
        known = self._nodes.get(id(variable._node))
        value = known[1] if known is not None else None
        if value is None and isinstance(variable, chainer.Parameter):
            value = self._parameter(variable)
        if value is None:
            value = self.find_array(array) or self.captured(variable)
        if value is None:
            self.looked_at.add(id(variable._node))
            return array
        return array if compared else wrap(array, value)

    def read_node(self, node, array):
        """What ``variable.node.data`` gives to user code."""
        if array is None or type(array) is not np.ndarray:
            return array
        known = self._nodes.get(id(node))
        value = self.find_array(array) if known is None else known[1]
        return array if value is None else wrap(array, value)


def _has_written(call, parts: list, given: list) -> bool:
    """Whether a call has given back an array that it was given to write to."""
    name = getattr(call, "__name__", "")
    if name in _GIVES_BACK:
        return False
    if name not in _OVER_THEIR_OWN:
        given = [x for x in given[1:] if x is not given[0]]
    return any(part is x for part in parts for x in given)


def _is_copy(array, result) -> bool:
    return is_traced(array) and (array.dtype, array.shape) == (result.dtype, result.shape)
