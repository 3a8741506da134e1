"""Instances of a schedule: one set of activations each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdbr._executor import Memory
from sdbr.backends import make_executable
from sdbr.errors import SdbrError
from sdbr.forks import reentrant_lock
from sdbr.functions.python_op import AGAIN, NO_GRADIENT
from sdbr.plans import ForwardPlan
from sdbr.trace import values as v
from sdbr.trace.side_effects import EFFECTS
from sdbr.trace.values import Value

import chainer
import numpy as np

if TYPE_CHECKING:
    from sdbr.schedule import Schedule


class Retrace(Exception):
    """A replay found that its schedule no longer fits; internal."""


class Instance:
    """One set of activations of a schedule.

    Attributes
    ----------
    node : weakref or None
        The autograd node of the call whose activations these are.
    generation : int
        Goes up when another call takes the activations.
    backward_done : bool
    """

    def __init__(self, schedule: Schedule):
        plan = schedule.forward
        self.schedule = schedule
        self.plan = plan
        self.memory = Memory(len(plan.table.slots), len(schedule.trace.scalars))
        if schedule.double:
            self.memory.state[EFFECTS] = {}
        self.memory.reserve(plan.program)
        self.executable = make_executable(plan.program, self.memory, schedule.backend)
        self.backward_executables: dict[tuple, object] = {}
        self.node = None
        self.generation = 0
        self.backward_done = False
        self.running = False
        self.lock = reentrant_lock()  # while a backward runs
        self.call_line = 0  # number of the call that has the activations
        self.binder = None

    def bind(self, sources: list) -> None:
        """Bind arguments, parameters and captured state.

        Parameters
        ----------
        sources : list
            Per leaf of the plan the Variable or array that the call saw (see `sources_of`).
            A backward binds the same objects anew: an array replaced in a Variable is seen.

        Raises
        ------
        Retrace
            If one of them no longer has the shape and dtype of the trace.
        """
        for (value, slot), source in zip(self.plan.leaves, sources, strict=True):
            array = source._data[0] if isinstance(source, chainer.Variable) else source
            if array is None or array.shape != value.shape or array.dtype != value.dtype:
                raise Retrace(value, array)
            if value.held and not array.flags.c_contiguous:
                raise Retrace(value, array)  # a function may update it: a copy will not do
            self.memory.bind(slot, contiguous(array))

    def run_forward(self, sources: list, numbers=(), watch=None) -> dict[int, np.ndarray]:
        """Run the forward program; returns output arrays by value index.

        `numbers` are the scalars of the trace now; `watch` is called with the index of every op
        that has just run.
        """
        memory = self.memory
        for i, number in enumerate(numbers):
            memory.set_control(i, number)
        self.bind(sources)
        arrays = {}
        plan = self.plan
        for slot, shape, dtype in plan.hidden:
            memory.bind(slot, np.empty(shape, dtype))
        for value, slot, shape, dtype in plan.outputs:
            if value.index not in plan.views:
                array = np.empty(shape, dtype)
                memory.bind(slot, array)
                arrays[value.index] = array
        if plan.views:
            # Of a copy that was bound in its place a view would show nothing of what is written.
            given = {slot: x for (_, slot), x in zip(plan.leaves, sources, strict=True)}
            for value, slot, _, _ in plan.outputs:
                if value.index in plan.views:
                    x = given.get(slot, memory.array(slot))
                    x = x._data[0] if isinstance(x, chainer.Variable) else np.asarray(x)
                    arrays[value.index] = plan.views[value.index].on(x)
        if watch is None:
            self.executable.run()
        else:
            self.executable.watch = watch
            try:
                self.executable.run()
            finally:
                self.executable.watch = None
        return arrays

    def run_backward(self, pattern: tuple, grads: list, sources: list) -> list:
        """Run the backward program of `pattern`; returns gradients, None where none reaches."""
        plan = self.plan.backward(pattern)
        executable = self.backward_executables.get(pattern)
        if executable is None:
            self.memory.reserve(plan.program)
            # A gradient that goes nowhere has a slot, but no place in the program.
            self.memory.grow(max(plan.seeds, default=-1) + 1, 0)
            executable = make_executable(plan.program, self.memory, self.schedule.backend)
            self.backward_executables[pattern] = executable
        memory = self.memory
        self.bind(sources)
        for i, slot, g in zip(pattern[0], plan.seeds, grads, strict=True):
            value = plan.part.outputs[i]
            if g.shape != value.shape or g.dtype != value.dtype:
                raise SdbrError(
                    f"the gradient of output {i} of a static call has to be {value.dtype.name}"
                    f"{list(value.shape)} as the output is, got {g.dtype.name}{list(g.shape)}"
                )
            memory.bind(slot, contiguous(g))
        arrays: list = []
        for grad in plan.grads:
            if grad is None:
                arrays.append(None)
                continue
            slot, shape, dtype = grad
            array = np.empty(shape, dtype)
            memory.bind(slot, array)
            arrays.append(array)
        executable.run()
        none = memory.state.pop(NO_GRADIENT, None)
        if none is not None:
            # The traced call has had no backward yet: only now it shows that a function gives
            # None. That is not zeros; another program leaves these gradients out.
            self.plan.forget(plan)
            del self.backward_executables[pattern]
            if none == AGAIN:
                return self.run_backward(pattern, grads, sources)
        return arrays


def contiguous(array: np.ndarray) -> np.ndarray:
    """`array` as an exact, C-contiguous, aligned ndarray; itself where it is one."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return array if array.flags.aligned else array.copy()


def source_of(value: Value, leaves):
    """The Variable or array that a leaf of the trace stands for now."""
    if value.kind == v.ARGUMENT:
        return leaves[value.source]
    if value.kind == v.PARAMETER:
        return value.source
    link, name = value.source
    return link.__dict__.get(name)


def sources_of(plan: ForwardPlan, leaves) -> list:
    """What every leaf of `plan` stands for now."""
    return [source_of(value, leaves) for value, _ in plan.leaves]
