"""Instances of a schedule: one set of activations each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdbr.backends import make_executable
from sdbr.base.errors import SdbrError
from sdbr.base.forks import reentrant_lock
from sdbr.lowering.python_op import AGAIN, NO_GRADIENT
from sdbr.program._memory import Arena, Memory, claim
from sdbr.schedule.parts import Pattern
from sdbr.trace.effects.side_effects import EFFECTS

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
    given_back : bool
        Whether ``end_forward`` was called since: another call may take them now.
    lodger : Lodger or None
        Where the forward works in an arena with others: calls that leave no graph behind need
        nothing of it afterwards.
    """

    def __init__(self, schedule: Schedule, arena: Arena | None = None):
        plan = schedule.forward
        self.schedule = schedule
        self.plan = plan
        self.memory = Memory(len(plan.table.slots), len(schedule.trace.scalars))
        if schedule.double:
            self.memory.state[EFFECTS] = {}
        shared = None if plan.graph_outputs else arena
        self.lodger = None if shared is None else shared.join(self.memory, plan.program)
        self.memory.reserve(plan.program)
        self.executable = make_executable(plan.program, self.memory, schedule.backend)
        self.backward_executables: dict[Pattern, object] = {}
        self.node = None
        self.generation = 0
        self.given_back = False
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
        memory = self.memory
        if pattern not in self.backward_executables:
            # A gradient that goes nowhere has a slot, but no place in the program.
            slots = [*plan.temporary, *[followed.slot for _, followed in plan.followed]]
            memory.grow(max(slots, default=-1) + 1, 0)
        lender = arena = None
        if plan.arena is not None:
            lender = self._lender(plan.program.arena_bytes)
            if lender is None:
                arena = self.plan.take_arena(plan.program.arena_bytes)
            memory.bind(plan.arena, arena if lender is None else lender.own_arena())
        try:
            return self._run_backward(plan, grads, sources, results)
        finally:
            memory.let_go(plan.temporary)
            if lender is not None:
                lender.running = False
                self.plan.was_lent()
            elif arena is not None:
                self.plan.arenas.append(arena)

    def own_arena(self) -> np.ndarray:
        """What the forward works in."""
        return self.memory.array(self.plan.arena)

    def _lender(self, nbytes: int) -> Instance | None:
        """Another instance, marked as running, whose activations nobody needs and which has room.

        In a loop whose last loss is still bound while the next call runs there are two instances.
        By the backward the older one is idle, and its memory does for it: define-by-run has not
        more at once either.
        """
        if self.plan.program.arena_bytes >= nbytes:
            for other in self.schedule.instances[:4]:
                if not (other is self or other.given_back) and claim(other):
                    return other
        return None

    def _run_backward(self, plan, grads: list, sources: list, results: tuple) -> list:
        """The same, with the arena of the program bound; it and the gradients stay bound."""
        memory, pattern = self.memory, plan.pattern
        executable = self.backward_executables.get(pattern)
        if executable is None:
            memory.reserve(plan.program)
            executable = make_executable(plan.program, memory, self.schedule.backend)
            self.backward_executables[pattern] = executable
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
            if grad.made is not None:
                memory.bind(grad.slot, np.empty(*grad.made))
            arrays.append(grad.on(memory.array(grad.slot)))
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
