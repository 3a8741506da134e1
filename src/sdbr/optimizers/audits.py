"""Updates on a GPU that run beside Chainer's own: `optimizer.update()` without a loss function.

Audits of whole steps compare what an update makes of gradients; this is for those that are made
alone. On the host tests hold each rule against Chainer's; a device and its driver are the user's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from sdbr.audit._budget import Budget, Clock
from sdbr.audit.compare import GRADIENT_TOLERANCES, differences, rounding_explains
from sdbr.audit.noise import Disturbed
from sdbr.audit.outcome import Outcome, raise_without_memory
from sdbr.audit.roots import Roots
from sdbr.audit.samples import written_by
from sdbr.audit.sides import Again, PlainSide, ReplaySide
from sdbr.audit.snapshot import Snapshot
from sdbr.base.audit_share import share_now
from sdbr.base.errors import SdbrWarning
from sdbr.devices import runs
from sdbr.devices.arrays import NO_MEMORY
from sdbr.optimizers.table import row_of_class
from sdbr.trace.code.frames import stack_level


class UpdateAudits:
    """The audits of one optimizer's updates.

    Parameters
    ----------
    optimizer : chainer.GradientMethod

    Attributes
    ----------
    passed, failed, inconclusive, noisy : int
        As of `Audits`.
    problem : str
        What differed; empty while nothing has.
    """

    def __init__(self, optimizer: Any) -> None:
        self.passed = self.failed = self.inconclusive = self.noisy = 0
        self.problem = ""
        self._optimizer = optimizer
        self._budget = Budget()
        self._clock: Clock | None = None

    def to_dict(self) -> dict[str, int]:
        """Counts."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "inconclusive": self.inconclusive,
            "noisy": self.noisy,
        }

    def run(
        self,
        plan: Any,
        native: Any,
        run: Callable[[], Any],
        plainly: Callable[[], Any],
    ) -> Any:
        """Run a native update, or a part of one, beside Chainer's where that is due.

        Parameters
        ----------
        plan : UpdatePlan
        native : NativeProgram
        run : callable
            Gives None where it is not native after all, and nothing has happened.
        plainly : callable
            Does the same by Chainer's own code.

        Returns
        -------
        object
            What `run` gave; `DIFFERS` where Chainer's own update was made.
        """
        share = _share_of(plan)
        if not share:
            return run()
        if self.is_due(plan, native):
            return self._beside(plan, native, run, plainly, share)
        if self._clock is None:
            self._clock = Clock(self._budget, plan.device)
        begin = self._clock.begin()
        result = run()
        self._clock.end(begin, share)
        return result

    def is_due(self, plan: Any, native: Any) -> bool:
        """Whether a program is to be compared now; it counts as compared then."""
        is_due = bool(_share_of(plan)) and (not native.is_compared or self._budget.due)
        native.is_compared = native.is_compared or is_due
        return is_due

    def _beside(self, plan: Any, native: Any, run: Callable, plainly: Callable, share: float):
        runs.wait(plan.device)
        start = time.perf_counter()
        try:
            return self._compared(plan, native, run, plainly)
        finally:
            runs.wait_quietly(plan.device)
            self._budget.spend(time.perf_counter() - start, share)

    def _compared(self, plan: Any, native: Any, run: Callable, plainly: Callable) -> Any:
        try:
            before = Snapshot(Roots([], (), (), self._optimizer, gradients=True))
        except NO_MEMORY:
            self.inconclusive += 1
            return run()
        plain = Outcome(plainly, before, PlainSide(before))
        if plain.unseen is not None:
            before.put_all_back()
        before.put_back(plain.changes)
        outcome = Outcome(run, before, ReplaySide(plain.side))
        if outcome.error is not None:
            raise outcome.error
        runs.wait_quietly(plan.device)
        unknown = plain.error or plain.unseen or outcome.unseen
        if outcome.result is None or unknown is not None or runs.is_noted(plan.device):
            self.inconclusive += 1
            return outcome.result
        result, outcome.result = outcome.result, None  # which Chainer's does not give
        facts = differences(outcome.facts(), plain.facts(), GRADIENT_TOLERANCES)
        left_out = _left_out(plan, before)
        problems = {name: how for name, how in facts.items() if name not in left_out}
        if not problems:
            self.passed += 1
            return result
        name, how = next(iter(problems.items()))
        text = f"{name} differs: {how}{_writer(plan, native, outcome.live(name))}"
        before.put_back(outcome.changes)
        try:
            rounds = _Rounds(plainly, before, plain)
            noisy = rounds.explain(outcome, list(problems))
        except NO_MEMORY:
            self.inconclusive += 1
            outcome.changes.put()
            return result
        if noisy:
            self.passed += 1
            self.noisy += 1
            outcome.changes.put()
            return result
        plain.changes.put()
        self.differs(text)
        return DIFFERS

    def differs(self, text: str) -> None:
        """Say what differs; nothing is native from now on."""
        self.failed += 1
        self.problem = f"a native update differs from Chainer's: {text}"
        warnings.warn(
            f"{type(self._optimizer).__name__}: {self.problem}. Updates are Chainer's own from "
            "now on.",
            SdbrWarning,
            stacklevel=stack_level(),
        )


def _left_out(plan: Any, before: Snapshot) -> set[str]:
    """The facts of parameters whose steps may be nothing but rounding."""
    arrays = {
        id(param.array)
        for param in plan.params
        if (row := row_of_class(type(param.update_rule))) is not None and row.rounding
    }
    return {
        f"{place.name} in place" for place, _ in before.roots.arrays if id(place.thing) in arrays
    }


class _Rounds:
    """How far roundings carry Chainer's own update away from itself.

    Some rules and hooks take numbers from others that are nearly the same, and compilers for GPUs
    contract a product and a sum into one operation.

    Parameters
    ----------
    plainly : callable
        That update, or a part of one.
    before : Snapshot
    plain : Outcome
        What it did.
    """

    def __init__(self, plainly: Callable[[], Any], before: Snapshot, plain: Outcome) -> None:
        self.plainly = plainly
        self.before = before
        self.plain = plain

    def explain(self, outcome: Outcome, names: list[str]) -> bool:
        """Whether they explain all that differs in another outcome."""
        arrays = [place.thing for place, copied in self.before.roots.arrays if copied]
        disturbed = Disturbed((), {}, arrays)
        return rounding_explains(
            self._facts(outcome),
            self._facts(self.plain),
            names,
            lambda units: self._once_more(disturbed, units),
            disturbed.sizes,
            GRADIENT_TOLERANCES,
            True,
        )

    def _facts(self, outcome: Outcome) -> dict[str, Any]:
        return {**self.before.held(), **outcome.facts()}

    def _once_more(self, disturbed: Disturbed, units: int) -> dict[str, Any]:
        with disturbed.by(units):
            again = Outcome(self.plainly, self.before, Again(self.plain.side, units))
            if again.unseen is not None:
                self.before.put_all_back()
            facts = {} if again.error else self._facts(again)
            self.before.put_back(again.changes)
        raise_without_memory(again)
        return facts


def _writer(plan: Any, native: Any, array: Any) -> str:
    """Which op has written an array last, in words."""
    slots = {
        # Gradients are bound only while the program runs.
        **{id(p.grad): slot for p, slot in zip(plan.params, native.grad_slots, strict=True)},
        **{id(native.memory.array(slot.index)): slot.index for slot in native.program.slots},
    }
    slot = None if array is None else slots.get(id(array))
    text = "" if slot is None else written_by(native.program, slot)
    return text and f"; {text}"


def _share_of(plan: Any) -> float:
    """What audits may take of the time of updates; nothing on the host."""
    return 0.0 if plan.device is None else share_now()


#: In the place of what a native update gives: Chainer's own has been made.
DIFFERS = object()
