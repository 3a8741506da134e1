"""A schedule: everything that was made from one traced call."""

from __future__ import annotations

import weakref

from sdbr.backends import MACHINES
from sdbr.base.collector import collector_off
from sdbr.base.errors import OtherAnswer
from sdbr.base.forks import reentrant_lock
from sdbr.base.reasons import Reason
from sdbr.program.executors import PROVIDED
from sdbr.schedule._statistics import Usage
from sdbr.schedule.forward import ForwardPlan
from sdbr.trace.arrays._scalars import written_by
from sdbr.trace.guards.free_numbers import followed_numbers, free_numbers
from sdbr.trace.questions import answers
from sdbr.trace.values import PARAMETER, Trace


def counts(trace: Trace) -> bool:
    """Whether a call compares numbers that it also writes: other numbers go other ways."""
    written = {(id(write.link), write.name) for write in trace.writes}
    return any(written_by(condition, written) for condition in trace.conditions)


class Schedule:
    """Everything that was made from one traced call.

    Attributes
    ----------
    key : CallKey
    trace : Trace
    programs : dict
        ``'forward'`` -> Program, ``'backward'`` -> list of Program (one per gradient pattern),
        ``'update'`` and ``'step'`` where they exist.
    backend : str
    device : int or None
        The GPU that it runs on; None for the host.
    reuse : bool
        False in the debug mode without memory reuse.
    low_memory : bool
        Whether cheap ops are repeated in the backward rather than their results kept.
    """

    def __init__(self, key, trace: Trace, keep_graph: bool, backend: str, memory: str = "default"):
        self.key = key
        # Whole numbers among the arguments that each call reads anew, by their places.
        self.free = free_numbers(key) | followed_numbers(trace)
        self.trace = trace
        self.keep_graph = keep_graph
        self.backend = backend
        self.device = key.device
        self.reuse = memory != "no_reuse"
        self.low_memory = memory == "low"
        self.usage = Usage()
        self.due = None  # when it is audited
        self.reached: list | None = None  # where its code may write outside of links
        self.exits = (0, -1)  # calls in a row that could not be ended, and replays before these
        self.good = 0  # how many calls it had served at the last audit that passed
        self.instances: list = []
        self.replay = None  # of its manager
        # By optimizer; the optimizer keeps them alive.
        self.step_plans = weakref.WeakValueDictionary()
        self.double = False  # second derivatives may be asked for
        self.gone = False  # the manager has forgotten it
        self.dynamic: Reason | None = None
        self.asks_no_size = False  # nothing in the user's code can tell sizes apart
        self.family = None  # what it was built of, if it was not traced
        self.answers = answers(trace)  # the way through the code that it stands for
        self.counts = counts(trace)  # whether numbers decide about the way that it writes itself
        self.guards = None
        self.line = ""
        self.created = 0.0
        self.traced_at = 0  # number of the call
        self.may_be_replayed = False  # the first replay, which builds a program, need not wait
        self.waited = False  # a call that it fitted ran define-by-run
        self.trace_seconds = 0.0
        self._forward: ForwardPlan | None = None
        self.lock = reentrant_lock()  # while a program is built

    def __reduce__(self):
        # Copies and pickles of a chain start without.
        return type(None), ()

    def __deepcopy__(self, memo) -> None:
        return None

    def on_backend(self, key) -> Schedule:
        """The same trace for the backend of `key`; nothing is traced.

        Programs that another backend did not want otherwise are the same, too, for one that wants
        nothing of programs, and both build their backward programs into one plan; else those for
        this backend are built when they are asked for.
        """
        machine = MACHINES[key.backend]
        shared = self.dynamic is not None or (
            not machine.requests
            and machine.is_like(MACHINES[self.backend])
            and self.forward.portable
        )
        other = object.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        if not shared:
            other._forward = None
        other.key, other.backend = key, key.backend
        other.usage = Usage()
        other.due = None if self.due is None else self.due.again()
        other.good = 0
        other.instances = []
        other.replay = None
        other.step_plans = weakref.WeakValueDictionary()
        return other

    @property
    def forward(self) -> ForwardPlan:
        """The forward plan; built when first asked for."""
        if self._forward is None:
            with self.lock, collector_off():
                if self._forward is None:
                    self._forward = ForwardPlan(self)
        return self._forward

    @property
    def programs(self) -> dict:
        forward = self.forward
        programs = {
            "forward": forward.program,
            "backward": [p.program for p in forward.backwards.values()],
        }
        for plan in list(self.step_plans.values()):
            programs["step"] = plan.program
        return programs

    def after(self, other: OtherAnswer) -> tuple[int, ...]:
        """The answers of a call that has met `other` in a replay of this schedule."""
        return (*self.answers[: other.number], other.answer)

    def follows(self, answers: tuple[int, ...]) -> bool:
        """Whether a call that has given these answers so far may go the way of this schedule."""
        return self.answers[: len(answers)] == answers

    def fits_parameters(self) -> bool:
        """Whether every parameter has the shape and dtype of the trace."""
        for value in self.trace.values:
            if value.kind == PARAMETER:
                array = value.source.array
                if array is None or array.shape != value.shape or array.dtype != value.dtype:
                    return False
        return True

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return PROVIDED["schedule html"](self)

    def __repr__(self) -> str:
        return f"<Schedule of {len(self.trace.nodes)} nodes, {self.usage.served} calls>"
