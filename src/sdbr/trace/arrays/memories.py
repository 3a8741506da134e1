"""Memory that the traced call has made, and the versions of it that writes make."""

from __future__ import annotations

import weakref

from sdbr.trace.arrays.rewriting import Place, Rewriting, Window
from sdbr.trace.arrays.stripping import is_traced, strip
from sdbr.trace.code.frames import user_line
from sdbr.trace.nodes import GRAPH, inner_function
from sdbr.trace.values import RESULT, Hole, TracedNode, Value

import chainer
import numpy as np


class Memory:
    """An array of the call's own with all views of it.

    Parameters
    ----------
    root : ndarray
        That owns the memory.
    array : ndarray
        The same memory, whole, as `value` shows it.
    value : Value or None
        None while it holds what was made from nothing.

    Attributes
    ----------
    taken : str or None
        Who may look at it later, and would see what is written by then.
    """

    def __init__(self, root: np.ndarray, array: np.ndarray, value: Value | None):
        self.root = weakref.ref(root)
        self.value = value
        self.taken: str | None = None
        self.order = _c_order(array)
        self.shape = tuple(array.shape[i] for i in self.order)
        self.dtype = array.dtype
        self.start = _address(array)
        self.written = False
        self.views: list[weakref.ref] = []  # traced ones
        self.arrays: list[weakref.ref] = []  # plain ones, behind Variables of the call's own
        self.variables: list[int] = []  # ids of their nodes

    def place(self, array: np.ndarray) -> Place:
        """Where a view of it lies in its C order."""
        offset = _address(array) - self.start if array.size else 0
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


class MemoryRecording:
    """The part of the recorder that knows the memory which the call may write in place."""

    def __init__(self):
        super().__init__()
        self._memories: dict[int, Memory] = {}  # id of the array that owns it ->
        self._on: dict[int, list[weakref.ref]] = {}  # the same -> traced views of it

    def memory_of(self, array: np.ndarray) -> Memory | None:
        """The memory that a plain array is a view of, if the call has made it."""
        if not isinstance(array, np.ndarray):
            return None
        root = owner(array)
        memory = self._memories.get(id(root))
        if memory is not None and memory.root() is root:
            return memory
        made = self._made.get(id(root))
        if made is None or made[0] is not root or not _may_be_written(root, root):
            return None
        memory = self._memories[id(root)] = Memory(root, root, None)
        return memory

    def note_memory(self, array: np.ndarray, value: Value, given: list) -> None:
        """A call on the arrays `given` has returned `array`: most often, of memory of its own."""
        root = owner(array)
        known = self._memories.get(id(root))
        if known is not None and known.root() is root:
            return
        self.note_hidden_view(array, given)
        if _may_be_written(root, array) and not any(owner(x) is root for x in given):
            self._memories[id(root)] = Memory(root, array, value)

    def note_hidden_view(self, array: np.ndarray, given) -> None:
        """NumPy has gone past arrays to memory of those in `given`: they are not its bases."""
        if owner(array).flags.owndata:
            return
        for x in _arrays_in(given):
            memory = self.memory_of(x)
            if memory is not None and np.may_share_memory(x, array):
                memory.taken = memory.taken or "a view that does not say so"

    def note_on_memory(self, array: np.ndarray, view) -> None:
        """User code gets a traced view of a plain array."""
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
        for array in _arrays_in(thing):
            memory = self.memory_of(array)
            if memory is not None:
                memory.taken = memory.taken or by

    def note_applied(self, function, inputs, values, outputs, backprop: bool) -> None:
        """A function node was applied: its backward looks at arrays, its outputs may be views."""
        results = [y._data[0] for y in outputs]
        if self._memories or self._made:
            self.note_taken(results, function.label)
            if backprop and any(value.requires_grad for value in values):
                kept = [inputs[i] for i in function._input_indexes_to_retain or ()]
                for owned in (function, inner_function(function)):
                    if owned is not None:
                        kept += [x for name, x in owned.__dict__.items() if name not in GRAPH]
                self.note_taken(kept, function.label)

    def note_results(self, function, inputs, outputs) -> None:
        """What a function of Chainer's gives without a graph is the call's own to write."""
        if not type(inner_function(function) or function).__module__.startswith("chainer."):
            return
        given = [strip(x._data[0] if isinstance(x, chainer.Variable) else x) for x in inputs]
        for y in outputs:
            array, value = y._data[0], self._nodes[id(y._node)][1]
            if value.requires_grad or type(array) is not np.ndarray:
                continue
            self.note_memory(array, value, given)
            memory = self.memory_of(array)
            if memory is not None:
                memory.variables.append(id(y._node))
                memory.arrays.append(weakref.ref(array))

    # --- writing ----------------------------------------------------------------------------
    def version(self, memory: Memory) -> Value:
        """The present version of the memory, in C order."""
        if memory.value is None:
            memory.value = self._pure(memory.root())
        if not memory.written and memory.order != sorted(memory.order):
            call = (np.transpose, (Hole(0), tuple(memory.order)), {})
            memory.value = self._made_by(call, [memory.value], memory.shape, memory.dtype)
        memory.written = True
        return memory.value

    def rewritten(self, memory: Memory, write: Rewriting, inputs: list, args, kwargs) -> None:
        """A call has written into the memory: it has a new version, and so has every view."""
        call = (write, args, kwargs)
        memory.value = self._made_by(call, inputs, memory.shape, memory.dtype)
        found: dict[Place, Value] = {}
        root = memory.root()
        for reference in self._on.get(id(root), ()):
            view = reference()
            if view is None or owner(strip(view)) is not root:
                continue
            self.forget_view(view)
            view.origin = self._shown(memory, strip(view), found)
            self.know_array(strip(view), view.origin)
            self.keep_view(strip(view), view)
        for reference in memory.arrays:
            array = reference()
            if array is not None:
                self.know_array(array, self._shown(memory, array, found))
        for key in memory.variables:
            self._nodes.pop(key, None)
        memory.variables.clear()

    def _shown(self, memory: Memory, array: np.ndarray, found: dict[Place, Value]) -> Value:
        """What a view shows of the present version."""
        place = memory.place(array)
        if memory.is_whole(place):
            return memory.value
        if place not in found:
            call = (Window(place), (Hole(0),), {})
            found[place] = self._made_by(call, [memory.value], place.shape, place.dtype)
        return found[place]

    def _made_by(self, call, inputs: list, shape: tuple, dtype) -> Value:
        label = f"numpy {call[0].__name__}"
        node = TracedNode(None, None, call, inputs, [], False, [], label, user_line())
        node.caught = self.caught()
        value = Value(len(self.trace.values), RESULT, shape, dtype, False, (node, 0), False)
        self.trace.values.append(value)
        node.outputs.append(value)
        self.trace.nodes.append(node)
        return value

    def rewritten_from_nothing(self, array: np.ndarray) -> None:
        """An array made from nothing got other such contents before our eyes."""
        self.made(array)
        root = owner(array)
        for reference in self._on.get(id(root), ()):
            view = reference()
            plain = None if view is None else strip(view)
            known = None if plain is None else self._made.get(id(plain))
            if known is not None and known[0] is plain and known[1] is not None:
                self._made[id(plain)] = (plain, plain.tobytes())


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of a plain one."""
    array = strip(array)
    while isinstance(behind := _base(array), np.ndarray):
        # Of a traced array that nobody has handed out, `strip` would make one more view of it.
        array = behind if getattr(behind, "plain", None) is None else behind.plain
    return array


_base = np.ndarray.base.__get__


def _may_be_written(root: np.ndarray, array: np.ndarray) -> bool:
    """Whether versions of `root` can be told from `array`, a view of the whole of it."""
    if not root.flags.owndata or root.nbytes != array.nbytes or root.dtype != array.dtype:
        return False
    native = array.dtype.isnative and array.dtype.kind in "biuf"
    return native and array.transpose(_c_order(array)).flags.c_contiguous


def _c_order(array: np.ndarray) -> list[int]:
    """Its axes from the one of the largest stride on."""
    if array.flags.c_contiguous:
        return list(range(array.ndim))
    return sorted(range(array.ndim), key=lambda i: (-abs(array.strides[i]), i))


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _arrays_in(thing) -> list[np.ndarray]:
    """The arrays in a structure, plain."""
    if is_traced(thing):
        return [] if thing.origin is None else [strip(thing)]
    if type(thing) is np.ndarray:
        return [thing]
    if isinstance(thing, chainer.Variable):
        return _arrays_in(thing._data[0])
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, (list, tuple)):
        return []
    return [array for part in thing for array in _arrays_in(part)]
