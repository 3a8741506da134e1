"""Instances of a schedule: one set of activations each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdbr.backends import make_executable
from sdbr.base.errors import OutOfMemoryError
from sdbr.base.forks import reentrant_lock
from sdbr.program._arenas import Arena
from sdbr.program._memory import Memory
from sdbr.schedule._backwards import Backwards
from sdbr.trace.effects.side_effects import EFFECTS

if TYPE_CHECKING:
    from sdbr.schedule.schedule import Schedule


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
    backwards : Backwards
    lodger : Lodger or None
        Where the forward works in an arena with others: calls that leave no graph behind need
        nothing of it afterwards.
    """

    def __init__(self, schedule: Schedule, arena: Arena | None = None):
        plan = schedule.forward
        self.schedule = schedule
        self.plan = plan
        self.memory = Memory(len(plan.table.slots), len(schedule.trace.scalars), schedule.device)
        if schedule.double:
            self.memory.state[EFFECTS] = {}
        shared = None if plan.graph_outputs else arena
        self.lodger = None if shared is None else shared.join(self.memory, plan.program)
        self.memory.on_host.update(slot.index for slot in plan.table.slots if slot.host)
        self.memory.reserve(plan.program)
        self.executable = make_executable(plan.program, self.memory, schedule.backend)
        self.node = None
        self.generation = 0
        self.given_back = False
        self.running = False
        self.lock = reentrant_lock()  # while a backward runs
        self.backwards = Backwards(self)
        self.call_number = 0  # number of the call that has the activations
        self.binder = None

    def own_arena(self):
        """What the forward works in."""
        return self.memory.array(self.plan.arena)


def spare_instance(schedule: Schedule, arena: Arena | None) -> Instance | None:
    """One more instance, for calls that leave no graph behind; None where no memory is left.

    Then they take one that is there already.
    """
    try:
        return Instance(schedule, arena)
    except OutOfMemoryError:
        return None
