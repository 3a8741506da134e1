"""One audit: define-by-run, put back, the replay, compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from sdbr.audit.compare import GRADIENT_TOLERANCES, differences, is_flushed, rounding_explains
from sdbr.audit.noise import Disturbed
from sdbr.audit.outcome import Outcome, raise_without_memory
from sdbr.audit.reports import deliver
from sdbr.audit.roots import Roots
from sdbr.audit.samples import Watch, described, kind_of, traced_nodes
from sdbr.audit.sides import Again, PlainSide, ReplaySide
from sdbr.audit.snapshot import Changes, Snapshot
from sdbr.audit.verdict import Found, Retraced, Unaudited, Verdict
from sdbr.base.errors import BackendError, OtherAnswer, SideExit
from sdbr.devices import runs
from sdbr.devices.arrays import NO_MEMORY
from sdbr.devices.choices import is_philox, tf32
from sdbr.trace.patches import APPLIES
from sdbr.trace.questions import happens_once

_OF_GRADIENTS = ("_grad", "_grad_var", "_grad_valid")
#: Facts that tell of code that drew numbers in another thread as well.
_RANDOM = ("the state of ",)


class Audit:
    """One call, run twice.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    roots : Roots
        What the call may write.
    plain : callable
        ``plain(args, kwargs)``: define-by-run.
    args, kwargs :
        Of the call.
    gradients : bool
        Whether the run includes gradients, whose limits are wider.
    """

    def __init__(self, manager, schedule, roots: Roots, plain, args, kwargs, gradients=False):
        self.manager = manager
        self.schedule = schedule
        self.tf32 = schedule.device is not None and tf32()
        self.call: Callable[[tuple, dict], Any] = plain
        self.args = args
        self.kwargs = kwargs
        self.tolerances = GRADIENT_TOLERANCES if gradients else None
        self.watch: Watch | None = None
        try:
            self.before = Snapshot(roots)
        except NO_MEMORY as error:
            raise Unaudited(None, error) from error
        philox = schedule.device is not None and is_philox()
        self.philox_seed = manager.statistics.calls if philox else None
        side = PlainSide(self.before, self.philox_seed)
        with APPLIES:
            self.plain = Outcome(lambda: plain(args, kwargs), self.before, side)
        if self.plain.unseen is not None:
            self.before.put_all_back()
        self.lost = self.before.put_back(self.plain.changes)
        missing = self.plain.unseen
        if schedule.device is not None and isinstance(self.plain.error, MemoryError):
            missing = self.plain.error
        if missing is not None:
            raise Unaudited(ReplaySide(side, goes_on=True), missing)

    def compare(self, replay: Callable[[bool], Any]) -> Verdict:
        """Run the replay; what counts is in place afterwards, reports included.

        Parameters
        ----------
        replay : callable
            ``replay(closely)``: whether the ops of a GPU are looked at one by one.
        """
        plain = self.plain
        if self.lost:
            problem = f"define-by-run wrote into {self.lost[0]} in place"
            return self._plain_counts(Found(problem, self.schedule.line))
        calls = self.manager.statistics.calls
        side = ReplaySide(plain.side)
        outcome, is_faulty = self._replayed(replay, side)
        if is_faulty or outcome.unseen is not None:
            # As without an audit: a fault is told by the next call, if not by this one.
            if is_faulty:
                self._take_gradients_back(outcome)
            return self._not_compared(outcome)
        if outcome.error is not None and type(outcome.error) is type(plain.error):
            # As it should: with what the replay says about it, and what it did until then.
            deliver(plain.reports)
            return Verdict(outcome)
        if isinstance(outcome.error, BackendError) and not isinstance(outcome.error, MemoryError):
            # Of a setting: define-by-run does not look.
            self.before.put_back(outcome.changes)
            return Verdict(outcome)
        self._stop_where_it_goes_on(outcome)
        if self.schedule.device is not None and isinstance(outcome.error, MemoryError):
            self.before.put_back(outcome.changes)
            raise Unaudited(ReplaySide(plain.side, goes_on=True), outcome.error)
        try:
            found = self._found(outcome, side)
        except NO_MEMORY:
            return self._not_compared(outcome)
        if found is not None and self._disturbed_by_others(found, calls):
            found = None
            self.manager.audits.inconclusive += 1
        if found is None:
            deliver(outcome.reports)
            return Verdict(outcome)
        self.before.put_back(outcome.changes)
        try:
            is_noise = self._is_noise(outcome, found.names)
        except NO_MEMORY:
            outcome.changes.put()
            return self._not_compared(outcome)
        if is_noise:
            self.manager.audits.noisy += 1
            outcome.changes.put()
            deliver(outcome.reports)
            return Verdict(outcome)
        if self.schedule.device is not None and outcome.error is None:
            found = self._closer(found, replay)
        return self._plain_counts(found, outcome.error)

    def _replayed(self, replay, side: ReplaySide) -> tuple[Outcome, bool]:
        """What the replay did, and whether a fault was noted in it."""
        start = time.perf_counter()
        outcome = Outcome(lambda: replay(False), self.before, side)
        runs.wait_quietly(self.schedule.device)
        self.manager.audits.budget.add(time.perf_counter() - start, 0.0)
        return outcome, runs.is_fault(outcome.error) or runs.is_noted(self.schedule.device)

    def _take_gradients_back(self, outcome: Outcome) -> None:
        """After a fault a step has written no gradients; those from before are still there."""
        changes = Changes()
        changes.entries = [entry for entry in outcome.changes.entries if entry[1] in _OF_GRADIENTS]
        self.before.put_back(changes)

    def _not_compared(self, outcome: Outcome) -> Verdict:
        self.manager.audits.inconclusive += 1
        deliver(outcome.reports)
        return Verdict(outcome, compared=False)

    def _plain_counts(self, found: Found, error: Exception | None = None) -> Verdict:
        self.plain.changes.put()
        deliver(self.plain.reports)
        return Verdict(self.plain, found.text, found.line, error)

    def _stop_where_it_goes_on(self, outcome: Outcome) -> None:
        """Where the call goes another way, or does not fit: nothing is compared.

        Raises
        ------
        OtherAnswer
            As if there had been no audit, where nothing has happened for good.
        Retraced
        """
        plain = self.plain
        went_on = isinstance(outcome.error, OtherAnswer)
        left = isinstance(outcome.error, SideExit)
        if not (went_on or left) and type(outcome.error).__name__ not in ("Retrace", "Declined"):
            return
        self.before.put_back(outcome.changes)
        has_happened = plain.side.draws.found or any(map(happens_once, self.schedule.trace.nodes))
        if went_on and not has_happened:
            raise outcome.error
        raise Retraced(self._plain_counts(Found("", "")), not (went_on or left))

    def _closer(self, found: Found, replay: Callable[[bool], Any]) -> Found:
        """Where a difference begins: of a GPU's ops only some were seen, as they run together."""
        statistics, usage = self.manager.statistics, self.schedule.usage
        mark = statistics.mark(usage)
        side = ReplaySide(self.plain.side)
        outcome = Outcome(lambda: replay(True), self.before, side)
        statistics.go_back(mark, usage)
        self.before.put_back(outcome.changes)
        try:
            again = None if outcome.error is not None else self._found(outcome, side)
        except NO_MEMORY:
            return found
        if again is not None or outcome.error is not None:
            return again or found
        text = f"{found.text}; kernels that are launched one by one give what define-by-run gives"
        return found._replace(text=text)

    def forget(self) -> None:
        """Let go of what only the comparison of the forward needs."""
        self.watch = None
        self.plain.side.nodes = []

    def _found(self, outcome: Outcome, side: ReplaySide) -> Found | None:
        """What differs, or None."""
        line = self.schedule.line
        if outcome.error is not None:
            return Found(f"the replay raises {type(outcome.error).__name__}: {outcome.error}", line)
        if self.plain.error is not None:
            name = type(self.plain.error).__name__
            return Found(f"define-by-run raises {name}, the replay does not", line)
        if side.problem:
            return Found(side.problem, line)
        if side.codes:
            name = getattr(side.codes[0].func, "__qualname__", side.codes[0].func)
            return Found(f"static_code {name} runs in define-by-run only", line)
        other = self._other_functions()
        if other is not None:
            return other
        got, want = self._facts(outcome), self._facts(self.plain)
        if alone := got.keys() ^ want.keys():
            written = {**got, **want}
            for name, array in self.before.held().items():
                if name in alone and is_flushed(written[name], array):
                    got.pop(name, None)
                    want.pop(name, None)
        problems = differences(got, want, self.tolerances)
        if not problems:
            return None
        name, how = next(iter(problems.items()))
        place = self._places().get(name)
        writer = ""
        if place is not None:
            name, line = self._describe(*place)
        elif self.watch is not None:
            writer = self.watch.writer(outcome.live(name))
        text = f"{name} differs: {how}{writer and '; '}{writer}"
        return Found(text, line, list(problems))

    def _describe(self, node, i: int, _) -> tuple[str, str]:
        """What a message calls an output of a function node, and the line of the node."""
        program = self.watch.program
        op = self.watch.samples[node, i][1]
        label = " ".join(filter(None, (node.label, program.links[op] if program.links else "")))
        text = (
            f"op {op} of the {program.name} program ({label} at {node.line}) "
            f"[{described(program, op)}]"
        )
        others = self.watch.together.get(op)
        if others is not None:
            text += f", in one kernel with those from {others[0]} to {others[-1]},"
        return text, node.line

    def _other_functions(self) -> Found | None:
        """How the sequence of function nodes differs; None if it does not."""
        nodes = traced_nodes(self.schedule.trace)
        if nodes is None:
            return None
        found = self.plain.side.nodes
        for i, (a, b) in enumerate(zip(nodes, found, strict=False)):
            shapes = [y.shape for y in a.outputs[: len(b.shapes)]]
            if kind_of(a.template) != b.kind or shapes != b.shapes:
                return Found(
                    f"function {i} of the schedule is {a.label} at {a.line}; in define-by-run it "
                    f"is {b.label} now",
                    a.line,
                )
        if len(nodes) != len(found):
            return Found(
                f"the schedule has {len(nodes)} functions, define-by-run now makes {len(found)}",
                nodes[len(found)].line if len(found) < len(nodes) else "",
            )
        return None

    def _places(self) -> dict[str, tuple]:
        """Names of facts about function nodes -> (node, output, index among the nodes)."""
        nodes = traced_nodes(self.schedule.trace)
        if self.watch is None or nodes is None:
            return {}
        index = {id(node): k for k, node in enumerate(nodes)}
        # What a function has kept and the call hands out is an output of its node in a trace only.
        own = {id(node): len(node.outputs) - len(node.states) for node in nodes}
        places = sorted(
            (
                (index[id(node)], i, node)
                for node, i in self.watch.samples
                if i < own.get(id(node), 0)
            ),
            key=lambda place: place[:2],
        )
        return {f"output {i} of function {k}": (node, i, k) for k, i, node in places}

    def _facts(self, outcome: Outcome) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if outcome.error is None:
            for name, (node, i, k) in self._places().items():
                if isinstance(outcome.side, ReplaySide) and not outcome.side.is_plain:
                    facts[name] = self.watch.samples[node, i][0]  # type: ignore[union-attr]
                elif k < len(outcome.side.nodes) and i < len(outcome.side.nodes[k].samples):
                    facts[name] = outcome.side.nodes[k].samples[i]
        facts.update(outcome.side.facts())
        facts.update(outcome.facts())
        return facts

    def _all_facts(self, outcome: Outcome) -> dict[str, Any]:
        """Also of arrays that this run has not written, and another one by rounding alone."""
        return {**self.before.held(), **self._facts(outcome)}

    def _disturbed_by_others(self, found: Found, calls: int) -> bool:
        """Whether another thread may be behind the difference: then nothing is known."""
        if threading.active_count() == 1:
            return False
        if self.manager.statistics.calls > calls + 1:
            return True
        return bool(found.names) and all(name.startswith(_RANDOM) for name in found.names)

    def _is_noise(self, outcome: Outcome, names: list[str]) -> bool:
        """Whether rounding errors explain every difference."""
        if not names or self.before.roots.moves_on:
            return False
        parameters = [p.thing._data[0] for p in self.before.roots.parameters]
        disturbed = Disturbed(self.args, self.kwargs, parameters, self.tf32)
        return rounding_explains(
            self._all_facts(outcome),
            self._all_facts(self.plain),
            names,
            lambda units: self._once_more(disturbed, units),
            disturbed.sizes,
            self.tolerances,
            self.schedule.device is not None,
        )

    def _once_more(self, disturbed: Disturbed, units: int) -> dict[str, Any]:
        """The facts of define-by-run on disturbed inputs; nothing of it stays."""
        side = Again(self.plain.side, units)
        with disturbed.by(units) as (args, kwargs), APPLIES:
            again = Outcome(lambda: self.call(args, kwargs), self.before, side)
            if again.unseen is not None:
                self.before.put_all_back()
            facts = {} if again.error else self._all_facts(again)
            self.before.put_back(again.changes)
        raise_without_memory(again)
        return facts


class Timer:
    """Counts what an audit costs: on a GPU what ran there before is waited for, and what it runs.

    Parameters
    ----------
    audits : Audits
    share : float
    schedule : Schedule

    Raises
    ------
    IndexError
        For what went wrong in runs before, as a call without an audit.
    """

    def __init__(self, audits, share: float, schedule):
        self.audits = audits
        self.share = share
        self.device: int | None = schedule.device
        self.due = schedule.due

    def __enter__(self):
        if self.due is not None:
            self.due.begins()
        runs.wait(self.device)
        self.start = time.perf_counter()
        return self

    def __exit__(self, *error):
        runs.wait_quietly(self.device)
        self.audits.budget.spend(time.perf_counter() - self.start, self.share)
