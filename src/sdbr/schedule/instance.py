"""Instances of a schedule: one set of activations each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdbr.backends import make_executable
from sdbr.base.errors import SdbrError
from sdbr.base.forks import reentrant_lock
from sdbr.lowering.python_op import AGAIN, NO_GRADIENT
from sdbr.program._memory import Memory
from sdbr.schedule.parts import Pattern
from sdbr.trace import values as v
from sdbr.trace.effects.side_effects import EFFECTS
from sdbr.trace.values import Value

import chainer
import numpy as np

if TYPE_CHECKING:
    from sdbr.schedule.schedule import Schedule


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
        self.backward_executables: dict[Pattern, object] = {}
        self.node = None
        self.generation = 0
        self.backward_done = False
        self.running = False
        self.lock = reentrant_lock()  # while a backward runs
        self.call_number = 0  # number of the call that has the activations
        self.binder = None

    def bind(self, sources: list) -> None:
        """Bind arguments, parameters and captured state.

        Parameters
        ----------
        sources : list
            Per leaf of the plan the Variable or array that the call saw.
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

    def run_backward(self, pattern: Pattern, grads: list, sources: list, results: tuple) -> list:
        """Run the backward program of `pattern`; returns gradients, None where none reaches.

        `results` has per ``ForwardPlan.followed`` the list that holds the array of the Variable, or
        None.
        """
        plan = self.plan.backward(pattern)
        executable = self.backward_executables.get(pattern)
        if executable is None:
            self.memory.reserve(plan.program)
            # A gradient that goes nowhere has a slot, but no place in the program.
            slots = [*plan.seeds, *[followed.slot for _, followed in plan.followed]]
            self.memory.grow(max(slots, default=-1) + 1, 0)
            executable = make_executable(plan.program, self.memory, self.schedule.backend)
            self.backward_executables[pattern] = executable
        memory = self.memory
        self.bind(sources)
        if plan.followed:
            misfit = memory.follow(plan.followed, results)
            if misfit >= 0:
                value = self.plan.lowered.gap.followed_values[misfit]
                raise Retrace(value, results[misfit][0])
        for i, slot, g in zip(pattern.given, plan.seeds, grads, strict=True):
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
                return self.run_backward(pattern, grads, sources, results)
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
