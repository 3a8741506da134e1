"""One audit: define-by-run, put back, the replay, compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sdbr.audit.compare import GRADIENT_TOLERANCES, differences, is_noise
from sdbr.audit.noise import DISTURBANCES, Disturbed
from sdbr.audit.outcome import Outcome
from sdbr.audit.reach import reached
from sdbr.audit.reports import deliver
from sdbr.audit.samples import Watch, kind_of, traced_nodes
from sdbr.audit.sides import Again, PlainSide, ReplaySide
from sdbr.audit.snapshot import Named, Roots, Snapshot
from sdbr.base.errors import BackendError, OtherAnswer
from sdbr.trace.effects.growing import GrowthSink
from sdbr.trace.effects.sinks import Entries
from sdbr.trace.patches import APPLIES
from sdbr.trace.questions import happens_once
from sdbr.trace.values import ATTRIBUTE, PARAMETER

import chainer
import numpy as np

#: Facts that tell of code that drew numbers in another thread as well.
_RANDOM = ("the state of ",)


class Found(NamedTuple):
    """A difference.

    Attributes
    ----------
    text : str
        The first, in words.
    line : str
        The user's line that it belongs to.
    names : list of str
        The facts that differ; empty where the runs cannot be compared fact by fact.
    """

    text: str
    line: str
    names: Sequence[str] = ()


class Verdict:
    """What an audit found.

    Attributes
    ----------
    outcome : Outcome
        The one that counts.
    problem : str
        The first difference; empty if there is none.
    line : str
        The user's line that it belongs to.
    error : Exception or None
        What the replay alone has raised.
    """

    def __init__(self, outcome: Outcome, problem: str = "", line: str = "", error=None):
        self.outcome = outcome
        self.problem = problem
        self.line = line
        self.error = error


class Retraced(Exception):
    """The schedule does not fit the call: define-by-run counts, nothing was compared.

    `for_good` tells that it will fit no other call either.
    """

    def __init__(self, verdict: Verdict, for_good: bool):
        super().__init__()
        self.verdict = verdict
        self.for_good = for_good


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
        self.before = Snapshot(roots)
        self.call: Callable[[tuple, dict], Any] = plain
        self.args = args
        self.kwargs = kwargs
        self.tolerances = GRADIENT_TOLERANCES if gradients else None
        self.watch: Watch | None = None
        with APPLIES:
            self.plain = Outcome(lambda: plain(args, kwargs), self.before, PlainSide(self.before))
        self.lost = self.before.put_back(self.plain.changes)

    def compare(self, replay: Callable[[], Any]) -> Verdict:
        """Run the replay; what counts is in place afterwards, reports included."""
        plain = self.plain
        if self.lost:
            problem = f"define-by-run wrote into {self.lost[0]} in place"
            plain.changes.put()
            deliver(plain.reports)
            return Verdict(plain, problem, self.schedule.line)
        calls = self.manager.statistics.calls
        side = ReplaySide(plain.side)
        start = time.perf_counter()
        outcome = Outcome(replay, self.before, side)
        self.manager.audits.budget.add(time.perf_counter() - start, 0.0)
        if outcome.error is not None and type(outcome.error) is type(plain.error):
            # As it should: with what the replay says about it, and what it did until then.
            deliver(plain.reports)
            return Verdict(outcome)
        if isinstance(outcome.error, BackendError):  # of a setting: define-by-run does not look
            self.before.put_back(outcome.changes)
            return Verdict(outcome)
        went_on = isinstance(outcome.error, OtherAnswer)
        if went_on and not any(map(happens_once, self.schedule.trace.nodes)):
            self.before.put_back(outcome.changes)
            raise outcome.error  # as if there had been no audit
        if went_on or type(outcome.error).__name__ in ("Retrace", "Declined"):
            self.before.put_back(outcome.changes)
            plain.changes.put()
            deliver(plain.reports)
            raise Retraced(Verdict(plain), not went_on)
        found = self._found(outcome, side)
        if found is not None and self._disturbed_by_others(found, calls):
            found = None
            self.manager.audits.inconclusive += 1
        if found is None:
            deliver(outcome.reports)
            return Verdict(outcome)
        self.before.put_back(outcome.changes)
        if self._is_noise(outcome, found.names):
            self.manager.audits.noisy += 1
            outcome.changes.put()
            deliver(outcome.reports)
            return Verdict(outcome)
        plain.changes.put()
        deliver(plain.reports)
        return Verdict(plain, found.text, found.line, outcome.error)

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
        problems = differences(self._facts(outcome), self._facts(self.plain), self.tolerances)
        if not problems:
            return None
        name, how = next(iter(problems.items()))
        place = self._places().get(name)
        if place is not None:
            name, line = self._describe(*place)
        return Found(f"{name} differs: {how}", line, list(problems))

    def _describe(self, node, i: int, _) -> tuple[str, str]:
        """What a message calls an output of a function node, and the line of the node."""
        program = self.watch.program
        op = self.watch.samples[node, i][1]
        return (
            f"op {op} of the {program.name} program ({node.label} at {node.line}) "
            f"[{' '.join(program.describe_op(op).split())}]",
            node.line,
        )

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
        facts = self._facts(outcome)
        for (place, _), contents in zip(self.before.roots.arrays, self.before.arrays, strict=True):
            if isinstance(contents, np.ndarray):
                facts.setdefault(f"{place.name} in place", contents)
        return facts

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
        got, want = self._all_facts(outcome), self._all_facts(self.plain)
        if any(name not in got or name not in want for name in names):
            return False
        parameters = [p.thing for p in self.before.roots.parameters]
        disturbed = Disturbed(self.args, self.kwargs, parameters)
        seen: list[dict[str, Any]] = []
        for units in DISTURBANCES:
            seen.append(self._once_more(disturbed, units))
            if all(
                is_noise(got[name], want[name], [facts[name] for facts in seen if name in facts])
                for name in names
            ):
                # Else define-by-run depends on something that nothing here puts back.
                same = self._once_more(disturbed, 0)
                return not differences(same, want, self.tolerances)
        return False

    def _once_more(self, disturbed: Disturbed, units: int) -> dict[str, Any]:
        """The facts of define-by-run on disturbed inputs; nothing of it stays."""
        side = Again(self.plain.side, units)
        with disturbed.by(units) as (args, kwargs), APPLIES:
            again = Outcome(lambda: self.call(args, kwargs), self.before, side)
            facts = {} if again.error else self._all_facts(again)
            self.before.put_back(again.changes)
        return facts


def roots_of(manager, schedule, owner, arguments, optimizer=None, gradients: bool = False) -> Roots:
    """What a call of `owner` that `schedule` was made of may write."""
    trace = schedule.trace
    links = {} if owner is None else {id(owner): owner}
    things = [*trace.reads, *trace.writes]
    for link in [x.link for x in things]:
        if isinstance(link, chainer.Link):
            links.setdefault(id(link), link)
    parameters, captured = [], []
    for value in trace.values:
        if value.kind == PARAMETER:
            parameters.append(value.source)
        elif value.kind == ATTRIBUTE:
            holder, name = value.source
            if isinstance(holder, chainer.Link):
                links.setdefault(id(holder), holder)
            else:
                captured.append(holder.get(name))
    arguments = (arguments, captured)
    # Who may write to parameters: static_code, and functions that update an input in place.
    whole = any(node.effect for node in trace.nodes) or any(
        value.kind == PARAMETER and value.held for value in trace.values
    )
    near: Sequence = ()
    if threading.active_count() == 1:
        if schedule.reached is None:
            schedule.reached = reached(manager.function, owner, trace)
        near = schedule.reached
    held = [value.source for value in trace.lasting if value.kind == ATTRIBUTE]
    written = [link.__dict__.get(name) for link, name in held]
    written += [x.source._data[0] for x in trace.lasting if x.kind == PARAMETER]
    grown = [store.sink for store in trace.stores if isinstance(store.sink, GrowthSink)]
    written += [sink.container for sink in grown]
    written += [(x.sink.holder, x.sink.name) for x in trace.stores if x.sink not in grown]
    written += [(x.link.__dict__, x.name) for x in trace.writes]
    roots = Roots(
        list(links.values()), arguments, parameters, optimizer, gradients, whole, near, written
    )
    for store in trace.stores:
        # Else on a Variable that each call makes anew.
        if store.sink.holder is not None and store.sink not in grown:
            entries = Entries(store.sink)
            roots.dicts.append(Named(f"{store.sink.name!r} outside of links", entries))
            roots.written.add((id(entries), store.sink.name))
    return roots


class Timer:
    """Counts what an audit costs.

    Parameters
    ----------
    audits : Audits
    share : float
    """

    def __init__(self, audits, share: float):
        self.audits = audits
        self.share = share

    def __enter__(self):
        self.start = time.perf_counter()
        return self

    def __exit__(self, *error):
        self.audits.budget.spend(time.perf_counter() - self.start, self.share)
