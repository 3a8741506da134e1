"""Memory that the traced call may write, and the versions of it that writes make."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import NamedTuple

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, PLAIN, Array, may_share_memory
from sdbr.trace._node_copies import GRAPH, inner_function
from sdbr.trace.arrays._exports import (
    address,
    arrays_in,
    arrays_of_fields,
    c_order,
    may_be_written,
    owner,
)
from sdbr.trace.arrays.rewriting import Place, Rewriting, Window
from sdbr.trace.arrays.stripping import strip
from sdbr.trace.code.frames import user_line
from sdbr.trace.values import RESULT, Hole, TracedNode, Value

import chainer
import numpy as np


class Memory:
    """An array of the call's own, or of a link's, with all views of it.

    Parameters
    ----------
    root : ndarray
        That owns the memory.
    array : ndarray
        The same memory, whole, as `value` shows it.
    value : Value or None
        None while it holds what was made from nothing.
    first : Value or None
        What it held before the call, where it outlives the call.

    Attributes
    ----------
    held : callable
        Gives the array that `first` is.
    taken : str or None
        Who may look at it later, and would see what is written by then.
    kept : str
        The function whose backward looks at it later, where it outlives the call: that of a replay
        sees what is written by then, too.
    """

    def __init__(
        self,
        root: np.ndarray,
        array: np.ndarray,
        value: Value | None,
        first: Value | None = None,
    ):
        self.root = weakref.ref(root)
        self.held = weakref.ref(array)
        self.value = value
        self.first = first
        self.taken: str | None = None
        self.kept = ""
        self.order = c_order(array)
        self.shape = tuple(array.shape[i] for i in self.order)
        self.dtype = array.dtype
        self.start = address(array)
        self.written = False
        self.views: list[weakref.ref] = []  # traced ones
        # Plain ones, behind Variables of the call's own and in attributes.
        self.arrays: list[weakref.ref] = [] if first is None else [weakref.ref(array)]
        self.variables: list[int] = []  # ids of their nodes
        self.moving: dict[int, Moving] = {}  # id of a plain view -> how it is found

    def place(self, array: np.ndarray) -> Place:
        """Where a view of it lies in its C order."""
        offset = address(array) - self.start if array.size else 0
        return Place(array.shape, array.strides, offset, array.dtype)

    def is_whole(self, place: Place) -> bool:
        """Whether a view is the memory as `value` shows it."""
        if (place.shape, place.dtype, place.offset) != (self.shape, self.dtype, 0):
            return False
        strides, step = [], self.dtype.itemsize
        for n in reversed(self.shape):
            strides.append(step)
            step *= n
        pairs = zip(self.shape, place.strides, reversed(strides), strict=True)
        return all(a == b for n, a, b in pairs if n > 1)


class Moving(NamedTuple):
    """A view whose place depends on a value: ``x[i]``, where the call has computed `i`.

    Attributes
    ----------
    array : weakref.ref
    node : TracedNode
        The call that gives it.
    place : Place or None
        Of what it is a part of; None where that moves, too.
    """

    array: weakref.ref
    node: TracedNode
    place: Place | None


class Memories:
    """The part of the recorder that knows the memory which the call may write in place."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.known: dict[int, Memory] = {}  # id of the array that owns it ->
        self._on: dict[int, list[weakref.ref]] = {}  # the same -> traced views of it
        self.flagged: list[tuple] = []  # arrays whose flags the code has got hold of, and these
        self.either_way = False  # whether what the code has may be a view or a copy

    def memory_of(self, array: np.ndarray) -> Memory | None:
        """The memory that a plain array is a view of, if the call may write there."""
        if not isinstance(array, ARRAYS):
            return None
        root = owner(array)
        memory = self.known.get(id(root))
        if memory is not None and memory.root() is root:
            return memory
        made = self.values.from_nothing.get(id(root))
        if made is None or made[0] is not root or not may_be_written(root, root):
            return None
        memory = self.known[id(root)] = Memory(root, root, None)
        return memory

    def note_memory(self, array: np.ndarray, value: Value, given: list) -> None:
        """A call on the arrays `given` has returned `array`: most often, of memory of its own."""
        if not isinstance(array, ARRAYS):
            return
        root = owner(array)
        known = self.known.get(id(root))
        if known is not None and known.root() is root:
            if not self._note_moving(known, array, value, given) and known.first is not None:
                self.trace.windows.add(value.index)
            return
        self.note_hidden_view(array, given)
        if may_be_written(root, array) and not any(_is_of(x, root) for x in given):
            self.known[id(root)] = Memory(root, array, value)

    def _note_moving(self, memory: Memory, array: np.ndarray, value: Value, given: list) -> bool:
        """Note a view whose place is another one where the call computes something else."""
        if value.kind != RESULT or value.source[0].call is None:
            return False
        node = value.source[0]
        if type(node.call[0]) in (Rewriting, Window):  # a version as a whole, or a fixed part
            return False
        whole = moving_of(memory, given[0]) if given else None
        if whole is None and not any(
            x.shape == () and x.dtype.kind in "iu" for x in node.inputs[1:]
        ):
            return False
        place = memory.place(given[0]) if whole is None else None
        memory.moving[id(array)] = Moving(weakref.ref(array), node, place)
        return True

    def note_hidden_view(self, array: np.ndarray, given) -> None:
        """A call has gone past arrays to memory of those in `given`: they are not its bases."""
        root = owner(array)
        if isinstance(root, np.ndarray) and root.flags.owndata:
            return
        for x in arrays_in(given):
            memory = self.memory_of(x)
            if memory is None or memory.root() is root:
                continue
            if may_share_memory(x, array):
                memory.taken = memory.taken or "a view that does not say so"

    def note_on_memory(self, array: np.ndarray, view) -> None:
        """User code gets a traced view of a plain array."""
        if not isinstance(array, ARRAYS):
            return
        self._on.setdefault(id(owner(array)), []).append(weakref.ref(view))

    def note_own_variable(self, variable, array: np.ndarray) -> None:
        """The call has made a Variable of an array, which is seen later through it as well."""
        memory = self.memory_of(array)
        if memory is None:
            return
        if variable.requires_grad:
            memory.taken = memory.taken or "a Variable"
        memory.variables.append(id(variable._node))
        memory.arrays.append(weakref.ref(array))

    def note_taken(self, thing, by: str) -> None:
        """Arrays in `thing` go where somebody may look at them later."""
        for array in arrays_in(thing):
            memory = self.memory_of(array)
            if memory is not None:
                memory.taken = memory.taken or by

    def note_applied(self, function, inputs, values, outputs, backprop: bool) -> None:
        """A function node was applied: its backward looks at arrays, its outputs may be views."""
        if not self.known and not self.values.from_nothing:
            return
        taken = arrays_in([y._data[0] for y in outputs])
        if backprop and any(value.requires_grad for value in values):
            for i in function._input_indexes_to_retain or ():
                taken += [
                    x
                    for x in arrays_in(inputs[i])
                    if not self.recorder.lasting.keep_lasting(x, function)
                ]
            for owned in (function, inner_function(function)):
                if owned is not None:
                    taken += arrays_of_fields(owned.__dict__, GRAPH)
        for array in taken:
            memory = self.memory_of(array)
            if memory is not None:
                memory.taken = memory.taken or function.label

    def note_results(self, function, inputs, outputs) -> None:
        """What a function of Chainer's gives without a graph is the call's own to write."""
        if not type(inner_function(function) or function).__module__.startswith("chainer."):
            return
        given: list | None = None
        for y in outputs:
            array, value = y._data[0], self.values.variables[id(y._node)][1]
            if value.requires_grad or type(array) not in PLAIN:
                continue
            if given is None:
                given = [
                    strip(x._data[0] if isinstance(x, chainer.Variable) else x) for x in inputs
                ]
            self.note_memory(array, value, given)
            memory = self.memory_of(array)
            if memory is not None:
                memory.variables.append(id(y._node))
                memory.arrays.append(weakref.ref(array))

    # --- writing ----------------------------------------------------------------------------
    def version(self, memory: Memory) -> Value:
        """The present version of the memory, in C order."""
        if memory.value is None:
            memory.value = self.values.of_pure(memory.root())
        if not memory.written and memory.order != sorted(memory.order):
            call = (np.transpose, (Hole(0), tuple(memory.order)), {})
            memory.value = self._made_by(call, [memory.value], memory.shape, memory.dtype)
        if not memory.written and memory.first is not None:
            self.recorder.lasting.note_lasting_write(memory)
        memory.written = True
        return memory.value

    def rewritten(self, memory: Memory, write: Rewriting, inputs: list, args, kwargs) -> None:
        """A call has written into the memory: it has a new version, and so has every view."""
        call = (write, args, kwargs)
        memory.value = self._made_by(call, inputs, memory.shape, memory.dtype)
        if memory.first is not None:
            memory.value.source[0].lasting = True
        found: dict[Place, Value] = {}
        root = memory.root()
        for reference in self._on.get(id(root), ()):
            view = reference()
            if view is None or owner(strip(view)) is not root:
                continue
            self.recorder.views.forget_view(view)
            view.origin = self._present(memory, strip(view), found)
            self.values.know_array(strip(view), view.origin)
            self.recorder.views.keep_view(strip(view), view)
        for reference in memory.arrays:
            array = reference()
            if array is not None:
                self.values.know_array(array, self._present(memory, array, found))
        for key in memory.variables:
            self.values.variables.pop(key, None)
        memory.variables.clear()

    def _present(self, memory: Memory, array: np.ndarray, found: dict[Place, Value]) -> Value:
        """What a view shows of the present version."""
        moving = moving_of(memory, array)
        if moving is None:
            return self._shown(memory, memory.place(array), found)
        if moving.place is None:
            self.recorder.mark_dynamic(MOVES, Remedy.NEW_ARRAY)
            return memory.value
        inputs = [self._shown(memory, moving.place, found), *moving.node.inputs[1:]]
        return self._made_by(moving.node.call, inputs, array.shape, array.dtype)

    def _shown(self, memory: Memory, place: Place, found: dict[Place, Value]) -> Value:
        """What lies at a place in the present version."""
        if memory.is_whole(place):
            return memory.value
        if place not in found:
            call = (Window(place), (Hole(0),), {})
            found[place] = self._made_by(call, [memory.value], place.shape, place.dtype)
            if memory.first is not None:
                self.trace.windows.add(found[place].index)
        return found[place]

    def _made_by(self, call, inputs: list, shape: tuple, dtype) -> Value:
        label = f"numpy {call[0].__name__}"
        node = TracedNode(None, None, call, inputs, [], False, [], label, user_line())
        node.caught = self.recorder.nodes.caught()
        value = Value(len(self.trace.values), RESULT, shape, dtype, False, (node, 0), False)
        value.host = inputs[0].host
        self.trace.values.append(value)
        node.outputs.append(value)
        node.link = self.recorder.link
        self.trace.nodes.append(node)
        return value

    @contextlib.contextmanager
    def unfilled(self, given) -> Iterator[None]:
        """Code in the block runs in each replay as well: what the call has made of nothing it may
        write to where it lies in `given`, as that is what a replay gives it."""
        theirs = {id(owner(x)) for x in arrays_in(given)}
        before = [
            (a, a.tobytes())
            for a, _ in self.values.from_nothing.values()
            if id(owner(a)) not in theirs
        ]
        yield
        if any(array.tobytes() != contents for array, contents in before):
            text = "an array that the call has made is filled by static_code or a function node"
            self.recorder.mark_dynamic(text, Remedy.READ_BEFORE)

    def rewritten_from_nothing(self, array: np.ndarray) -> None:
        """An array made from nothing got other such contents before our eyes."""
        self.values.made(array)
        root = owner(array)
        for reference in self._on.get(id(root), ()):
            view = reference()
            plain = None if view is None else strip(view)
            known = None if plain is None else self.values.from_nothing.get(id(plain))
            if known is not None and known[0] is plain and known[1] is not None:  # on a GPU
                self.values.from_nothing[id(plain)] = (plain, plain.tobytes())


#: What to say of a write into a part of a part that moves.
MOVES = "an array was written in place where a part of it lies that depends on values"


def moving_of(memory: Memory, array: np.ndarray) -> Moving | None:
    """How a plain view of memory is found, if its place depends on a value."""
    found = memory.moving.get(id(array))
    return found if found is not None and found.array() is array else None


def _is_of(array, root) -> bool:
    """Whether a plain array lies on the memory of `root`, whatever it says of its base."""
    if owner(array) is root:
        return True
    return isinstance(array, Array) and isinstance(root, Array) and array.data.mem is root.data.mem
