"""NumPy calls of user code on traced arrays, and arrays that it takes out of Variables."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, PLAIN, Array
from sdbr.trace.arrays._exports import arrays_in, owner
from sdbr.trace.arrays.asking import COUNTED, COUNTING, SHAPED, ask_layout, settled
from sdbr.trace.arrays.stripping import holds_traced, is_sequence, is_traced, strip, strip_nested
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.frames import is_by_chainer, user_line
from sdbr.trace.code.rebuilding import rebuild
from sdbr.trace.values import ALIAS, RESULT, Hole, TracedNode, Value

import chainer
import numpy as np

#: Names of functions whose results have shapes that depend on the numbers in an argument.
_DECIDED = {x.__name__ for x in COUNTED | COUNTING | SHAPED} - {"where"}
_DECIDED |= {"_getitem", "compress", "delete", "extract", "insert"}

_COPIES = (
    "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "astype", "copy",
    "require",
)  # fmt: skip
#: Those of them whose results lie in an order of their own.
_ORDERING = frozenset(("ascontiguousarray", "asfortranarray", "require"))
#: These give a view or a copy, as the array lies in memory.
_EITHER_WAY = frozenset((*_COPIES, "ravel", "reshape"))
#: These may write into their first argument, when they are given it once more.
_OVER_THEIR_OWN = frozenset(
    ("around", "byteswap", "clip", "cumprod", "cumsum", "fix", "nancumprod", "nancumsum", "round")
)
#: These give back all that they are given, where it is as it should be.
_GIVES_BACK = frozenset(("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays"))


class NumpyCalls:
    """The part of the recorder that writes NumPy calls down and hands arrays out."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values

    def draw(self, call, args, kwargs):
        """Make a draw of NumPy's global generator and record it: every replay draws anew."""
        args, kwargs = settled(args), {name: settled(thing) for name, thing in kwargs.items()}
        self.recorder.depth += 1  # the generator calls NumPy's creating functions itself
        try:
            result = call(*strip_nested(args), **strip_nested(kwargs))
        except Exception:
            text = f"an error of numpy.random.{call.__name__} was raised during the call"
            self.recorder.mark_dynamic(text, Remedy.CATCH_OUTSIDE)
            raise
        finally:
            self.recorder.depth -= 1
        if not isinstance(result, ARRAYS):
            self.recorder.mark_dynamic(
                f"numpy.random.{call.__name__} drew a Python number", Remedy.DRAW_ARRAYS
            )
            return result
        return self.numpy_call(call, args, kwargs, result, draws=True)

    def numpy_call(self, call, args, kwargs, result, draws=False):
        """Record a NumPy call on known arrays; returns `result` as traced arrays."""
        self.recorder.views.check_exports()
        self.recorder.memory.either_way |= call.__name__ in _EITHER_WAY and not is_by_chainer()
        if self.recorder.code_watch is not None:
            self._note_choosing(call, (args, kwargs))
        if _asks_for_order(call.__name__, args, kwargs):
            ask_layout()
        inputs: list[Value] = []
        given: list = []
        recorded = (
            call,
            self.holes(tuple(args), inputs, given),
            self.holes(dict(kwargs), inputs, given),
        )
        copied = call.__name__ in _COPIES and len(inputs) == 1 and _is_copy(args[0], result)
        if copied and not inputs[0].is_scalar and not self._copies_of_others(result, given):
            self.recorder.memory.note_memory(strip(result), inputs[0], given)
            return wrap(result, inputs[0])  # what is written makes a version: no copy is needed
        # NumPy's own code may have made them by functions that are watched.
        parts = [strip(p) for p in (result if isinstance(result, (tuple, list)) else (result,))]
        reason = self._why_none(call, parts, given)
        if reason is not None:
            self.recorder.mark_dynamic(*reason)
            return result
        if len(parts) == 1 and self._is_given(parts[0], given):
            return wrap(result, self.values.find_array(result))
        node = self._node_of(recorded, inputs, given, result, draws)
        wrapped = []
        for i, part in enumerate(parts):
            array = part if type(part) is Array else np.asarray(part)
            known = self.values.find_array(part) if self._is_given(part, given) else None
            value = self.values.value(RESULT, array, False, (node, i), False)
            value.is_scalar = isinstance(part, np.generic)
            # A number that CuPy's arrays have given stays where they are.
            value.host &= not (value.is_scalar and any(not x.host for x in inputs))
            if known is None:
                self.values.know_array(array, value)
                if not hasattr(call, "label") or hasattr(call, "as_numpy"):
                    # What Chainer makes may be what somebody holds.
                    self.recorder.memory.note_memory(array, value, given)
            node.outputs.append(value)
            wrapped.append(wrap(array, value if known is None else known))
        self.trace.nodes.append(node)
        return rebuild(result, wrapped) if isinstance(result, (tuple, list)) else wrapped[0]

    def _is_given(self, part, given: list) -> bool:
        """Whether CuPy has given back the very array that it was given; NumPy makes a view."""
        return type(part) is Array and any(x is part for x in given)

    def _why_none(self, call, parts: list, given: list) -> tuple[str, Remedy] | None:
        """Why the results of a call cannot be recorded, and the remedy; or None."""
        label = getattr(call, "label", None) or f"numpy.{getattr(call, '__name__', call)}"
        if not all(isinstance(p, (*ARRAYS, np.generic)) for p in parts):
            return f"{label} turned an array into a Python value", Remedy.STAY_ARRAYS
        if _has_written(call, parts, given):
            text = f"an array was written in place by {label}"
            return (
                text if self.recorder.on_device else f"{text}, whose out has no name",
                Remedy.NEW_ARRAY,
            )
        return None

    def _node_of(self, recorded: tuple, inputs, given, result, draws: bool) -> TracedNode:
        """What a call is written down as, without its outputs."""
        call = recorded[0]
        name = getattr(call, "__name__", call)
        module = "cupy" if any(isinstance(x, Array) for x in given) else "numpy"
        label = getattr(call, "label", None) or f"{module} {name}"
        node = TracedNode(
            None,
            None,
            recorded,
            inputs,
            [],
            False,
            [],
            label,
            user_line(),
            draws=draws,
            link=self.recorder.link,
        )
        node.caught = self.recorder.nodes.caught()
        node.copies = name in _COPIES and not any(_on_one_memory(x, result) for x in given)
        return node

    def _copies_of_others(self, result, given: list) -> bool:
        """Whether `result` is a copy of memory that others may write to while they live."""
        array = given[0]
        memory = self.recorder.memory.memory_of(array)
        return owner(result) is not owner(array) and (memory is None or memory.first is not None)

    def handed_out(self, thing) -> Value:
        """The value of an array or Variable that the call hands out, which may show a copy.

        Copies are not made in replays; but two arrays that are handed out are two.
        """
        is_variable = isinstance(thing, chainer.Variable)
        value = self.values.of_variable(thing) if is_variable else self.values.of_array(thing)
        plain = strip(thing._data[0] if is_variable else thing)
        base = value.source if value.kind == ALIAS else value
        if value.is_scalar or (value is base and is_variable) or self.values.is_own(base, plain):
            return value
        copy = self.values.copies.get((base.index, id(plain)))
        if copy is None:
            call = (np.copy, (Hole(0),), {})
            node = TracedNode(None, None, call, [base], [], False, [], "numpy copy", user_line())
            copy = self.values.value(RESULT, plain, False, (node, 0), False)
            node.outputs.append(copy)
            self.trace.nodes.append(node)
            self.values.copies[base.index, id(plain)] = copy
        return self.values.alias(copy, value.requires_grad, True) if is_variable else copy

    def _note_choosing(self, call, things) -> None:
        """Plain arrays from outside that decide about the shape of what a call gives."""
        for array in arrays_in(things) if call.__name__ in _DECIDED else ():
            if array.dtype == bool or (array.dtype.kind in "iu" and call.__name__ != "_getitem"):
                self.recorder.code_watch.must_stay(array)

    def holes(self, thing, inputs: list[Value], given: list):
        """Arguments with a `Hole` in the place of each known array, whose value goes to `inputs`.

        The arrays themselves go to `given`.
        """
        kind = type(thing)
        if is_traced(thing):
            inputs.append(self.values.of_traced(thing))
            given.append(strip(thing))
            return Hole(len(inputs) - 1)
        if kind in (tuple, list):
            return kind([self.holes(t, inputs, given) for t in thing])
        if is_sequence(kind) and holds_traced(thing):
            return [self.holes(t, inputs, given) for t in thing]
        if kind is dict:
            return {k: self.holes(v, inputs, given) for k, v in thing.items()}
        if isinstance(thing, ARRAYS):
            given.append(thing)
            known = self.values.find_array(thing)
            if known is None and kind in PLAIN and thing.dtype != object:
                known = self.values.of_unknown(thing)
                if known.host:  # where it comes from no audit would see
                    text = "an array of NumPy of unknown origin is read, and the call runs on a GPU"
                    self.recorder.mark_dynamic(text, Remedy.MOVE_THERE)
            if known is not None:
                inputs.append(known)
                return Hole(len(inputs) - 1)
        return strip_nested(thing)

    def read_array(self, variable, array, compared: bool = False):
        """What ``variable.array`` gives to user code; itself where that is only `compared`."""
        if array is None or type(array) not in PLAIN:
            return array
        known = self.values.variables.get(id(variable._node))
        value = known[1] if known is not None else None
        if value is None and isinstance(variable, chainer.Parameter):
            value = self.values.of_parameter(variable)
        if value is None:
            value = self.values.find_array(array) or self.recorder.captured.value_of(variable)
        if value is None:
            self.recorder.contents.looked_at.add(id(variable._node))
            return array
        return array if compared else wrap(array, value)

    def read_node(self, node, array):
        """What ``variable.node.data`` gives to user code."""
        if array is None or type(array) not in PLAIN:
            return array
        known = self.values.variables.get(id(node))
        value = self.values.find_array(array) if known is None else known[1]
        return array if value is None else wrap(array, value)


def _has_written(call, parts: list, given: list) -> bool:
    """Whether a call has given back an array that it was given to write to."""
    name = getattr(call, "__name__", "")
    if name in _GIVES_BACK:
        return False
    if name not in _OVER_THEIR_OWN:
        given = [x for x in given[1:] if x is not given[0]]
    return any(part is x for part in parts for x in given)


def _on_one_memory(a, b) -> bool:
    """Whether two arrays are views of one."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.data.mem is b.data.mem
    return type(a) is type(b) and owner(a) is owner(b)


def _asks_for_order(name: str, args, kwargs) -> bool:
    """Whether a call gives a view or a copy because an array lies in an order or does not."""
    if name not in _COPIES or is_by_chainer():
        return False
    order = kwargs.get("order", args[2] if len(args) > 2 else None)
    return name in _ORDERING or (isinstance(order, str) and order in "CcFf")


def _is_copy(array, result) -> bool:
    if not is_traced(array) or isinstance(array, Array) != (type(result) is Array):
        return False
    return (array.dtype, array.shape) == (result.dtype, result.shape)
