"""Arrays that outlive the call and that it writes in place: those of links and parameters."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, PLAIN, Array, is_writeable, may_share_memory
from sdbr.trace.arrays._exports import arrays_in, may_be_written, owner
from sdbr.trace.arrays.memories import Memory
from sdbr.trace.gradients import GradientNode
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, CONSTANT, PARAMETER, Value

import chainer
import numpy as np


class LastingMemory:
    """What a `Recorder` knows of the memory behind attributes of links and parameters.

    A replay binds such an array itself and writes into it where the call does. Whatever else the
    call is given must lie elsewhere.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self._parts: set[int] = set()  # ids of arrays of which only a part is known
        self._seen_by_backward = False
        self.differentiated_twice = False  # whether second derivatives may be asked for

    def held_array(self, link, name: str, array: np.ndarray) -> Value:
        """What an array in an attribute shows at this moment of the call."""
        memory = self.recorder.memory.memory_of(array)
        lasting = memory is not None and memory.first is not None
        known = self.recorder.attributes.known.get((id(link), name))
        if known is not None:
            return memory.value if lasting and memory.first is known else known
        if lasting and memory.held() is array and memory.first.kind == ATTRIBUTE:
            # Under another name.
            self.trace.aliases.append((memory.first.source, (link, name)))
            self.recorder.attributes.known[id(link), name] = memory.first
            return memory.value
        value = self.recorder.attributes.value_of(link, name, array, False, False)
        self.note_held(array, value, memory)
        return value

    def held_parameter(self, parameter: chainer.Parameter, value: Value) -> None:
        """The call uses a parameter, and may write into its array."""
        array = parameter._data[0]
        if type(array) in PLAIN:
            self.note_held(array, value, self.recorder.memory.memory_of(array))

    def note_held(self, array: np.ndarray, value: Value, memory: Memory | None) -> None:
        """An array that outlives the call, most often of memory of its own."""
        if not isinstance(array, ARRAYS):
            return
        root = owner(array)
        if memory is not None and memory.first is not None:
            memory.taken = memory.taken or f"{_described(value)}, which lies on it,"
            if memory.written:
                self.recorder.mark_dynamic(_shares(memory.first), Remedy.ASSIGN_IT)
        elif memory is None and may_be_written(root, array) and _may_be_bound(array):
            memory = self.recorder.memory.known[id(root)] = Memory(root, array, value, value)
            self.trace.windows.add(value.index)
            if id(root) in self._parts:
                memory.taken = "something else, which shows a part of it,"
        else:
            self._parts.add(id(root))

    def is_held(self, array) -> bool:
        """Whether a plain array is what a link or a parameter holds, and may be written."""
        memory = self.recorder.memory.memory_of(array)
        return memory is not None and memory.first is not None and memory.held() is array

    def keep_lasting(self, array, function) -> bool:
        """The backward of a function looks at an array; whether it lies in an attribute."""
        memory = self.recorder.memory.memory_of(array)
        if memory is None or memory.first is None:
            return False
        memory.kept = memory.kept or function.label
        return True

    def may_follow(self, memory: Memory) -> bool:
        """Whether backwards that look at memory may see what is about to be written there."""
        self._seen_by_backward |= bool(memory.kept)
        if memory.first is None or not self.differentiated_twice:
            return True
        return not memory.kept and memory.first.kind != PARAMETER

    def note_lasting_write(self, memory: Memory) -> None:
        """Such memory is written: compiled code must not be given arrays from outside on it."""
        for array in (
            self.recorder.borrowed.arrays() if self.recorder.code_watch is not None else ()
        ):
            if self.recorder.memory.memory_of(array) is memory:
                self.recorder.code_watch.has_changed(array)

    def check_given(self, thing, label: str) -> None:
        """Code that runs every time gets arrays, and may keep them: then they are the very ones."""
        for array in arrays_in(thing):
            memory = self.recorder.memory.memory_of(array)
            if memory is not None and memory.first is not None and memory.written:
                text = f"{label} is given an array that was written in place before"
                self.recorder.mark_dynamic(text, Remedy.ASSIGN_IT)

    def finish_lasting(self, leaves: list) -> None:
        """After the call: what it has written in place, and whether that lies apart from the rest.

        Parameters
        ----------
        leaves : list
            The arrays and Variables among the arguments.
        """
        if self._seen_by_backward and any(type(n) is GradientNode for n in self.trace.nodes):
            text = "an array was written in place that a gradient of the call itself looks at"
            self.recorder.mark_dynamic(text, Remedy.ASSIGN_IT)
        for memory in self.recorder.memory.known.values():
            root = memory.root()
            if memory.first is None or not memory.written or root is None:
                continue
            memory.first.held = True
            self.trace.lasting.append(memory.first)
            for value, array in self._others(leaves):
                if value is not memory.first and may_share_memory(array, root):
                    self.recorder.mark_dynamic(_shares(memory.first), Remedy.ASSIGN_IT)

    def _others(self, leaves: list) -> Iterator[tuple[Value, np.ndarray]]:
        """What the call was given and found, with the arrays."""
        for value in self.trace.values:
            thing = None
            if value.kind == ARGUMENT:
                thing = leaves[value.source]
            elif value.kind in (PARAMETER, CONSTANT):
                thing = value.source
            elif value.kind == ATTRIBUTE:
                holder, name = value.source
                is_link = isinstance(holder, chainer.Link)
                thing = (
                    self.recorder.attributes.watch(holder).get(name)
                    if is_link
                    else holder.get(name)
                )
            if isinstance(thing, chainer.Variable):
                thing = thing._data[0]
            if isinstance(thing, ARRAYS):
                yield value, thing


def _may_be_bound(array: np.ndarray) -> bool:
    """Whether a replay can write into the array itself."""
    flags = array.flags
    if type(array) is Array:
        return flags.c_contiguous
    plain = type(array) is np.ndarray and is_writeable(array)
    return plain and flags.c_contiguous and flags.aligned


def _described(value: Value) -> str:
    if value.kind == PARAMETER:
        return f"parameter {value.source.name!r}"
    return f"attribute {value.source[1]!r}"


def _shares(value: Value) -> str:
    return f"{_described(value)}, which was written in place, shares memory with something else"
