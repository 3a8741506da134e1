"""The backward of an audited call, beside that of define-by-run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sdbr.audit.compare import GRADIENT_TOLERANCES, differences, rounding_explains
from sdbr.audit.contents import checksums, copy_of, overwrite
from sdbr.audit.draws import Given, Noted
from sdbr.audit.noise import Disturbed
from sdbr.audit.outcome import Outcome, raise_without_memory
from sdbr.audit.samples import Watch, written_by
from sdbr.audit.sides import Again, PlainSide, ReplaySide
from sdbr.audit.snapshot import Snapshot
from sdbr.audit.state import fails
from sdbr.devices import runs
from sdbr.devices.arrays import ARRAYS, NO_MEMORY, PLAIN, device_of, is_writeable, new
from sdbr.trace.patches import APPLIES
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, PARAMETER, Value

import chainer
import numpy as np


class GradientAudit:
    """What a replay of an audited call is given along: the graph that define-by-run has made.

    Parameters
    ----------
    audit : Audit
    roots : callable
        ``roots()``: what a backward may write.
    validated : bool
        Whether a difference is an error.

    Attributes
    ----------
    closely : bool
        Whether the ops of a GPU are looked at one by one.
    """

    def __init__(self, audit, roots: Callable[[], Any], validated: bool):
        self.audit = audit
        self.roots = roots
        self.validated = validated
        self.closely = False
        self._draws = Noted()  # of the backward
        #: Index of a value -> the array that the replay has handed out for it, its checksum then,
        #: and the list that holds the array of the Variable.
        self._handed: dict[int, tuple[weakref.ref, int, list | None]] = {}

    def watch(self, schedule, instance) -> Watch:
        """What looks at the ops of the replay."""
        plan = schedule.forward
        self.audit.watch = Watch(plan.program, instance.memory, plan.node_rows, self.closely)
        return self.audit.watch

    def drop(self) -> None:
        """Compare no backward: nothing is known of the forward."""
        self.audit = None

    def backward(
        self, replay: Callable[[], list], plan, pattern, gys: list, inputs: list, whole: bool
    ) -> list:
        """The gradients of a replayed backward, compared with those of define-by-run.

        Parameters
        ----------
        replay : callable
            Runs the backward program; returns arrays, None where no gradient reaches.
        plan : ForwardPlan
        pattern : tuple
            Which outputs carry a gradient, which inputs want one.
        gys : list of ndarray
        inputs : list of chainer.Variable
        whole : bool
            Whether the backward is one to everything that wants a gradient.

        Raises
        ------
        IndexError
            For what went wrong in runs on a GPU before, as where nothing is compared.
        """
        audit = self.audit
        if audit is None:
            return replay()
        runs.wait(audit.schedule.device)
        try:
            self._write_again(audit.plain)
            before = Snapshot(roots := self.roots())
        except NO_MEMORY as e:
            self._inconclusive(e)
            return replay()
        ys = self._outputs(audit.plain, plan, pattern)
        parts = _parts(plan, pattern, inputs)
        compared = [places[0] for places in parts.values()]
        if ys is None:
            return replay()
        indices = [pattern.wanted[k] for k in compared]
        wanted = [inputs[i] for i in indices]
        names = [_name(plan.differentiable[i]) for i in indices]
        others = roots.variables if whole else []
        more: dict[str, np.ndarray] = {}
        plain, outcome = self._both(
            lambda: gradients(ys, wanted, gys, inputs, others, more), replay, before
        )
        grads = outcome.result
        outcome.result = [_sum([grads[k] for k in places]) for places in parts.values()]
        facts = self._facts(plain, outcome, names, wanted, more)
        if facts is None or not facts[-1]:
            return grads
        if not more and self._is_noise_or_unknown(plan, pattern, indices, gys, inputs, *facts):
            return grads
        before.put_back(outcome.changes)
        _give(others, more)
        name, how = next(iter(facts[-1].items()))
        problem = f"{name} differs: {how}{self._writer(plan, pattern, compared, names, name)}"
        fails(audit.manager, audit.schedule, problem, audit.schedule.line, self.validated)
        return _define_by_runs(plain.result, parts.values(), grads)

    def _facts(self, plain, outcome, names, wanted, more) -> tuple[dict, dict, dict] | None:
        """What the replay gave, what define-by-run did, and what differs; None: it is not known."""
        missing = plain.error or plain.unseen or outcome.unseen
        if missing is not None:
            self._inconclusive(missing)
            return None
        if runs.is_noted(self.audit.schedule.device):
            self.audit.manager.audits.inconclusive += 1
            return None
        try:
            got, want = _facts(outcome, names, wanted), _facts(plain, names, wanted)
            want.update({f"the gradient of {name}": g for name, g in more.items()})
            problems = differences(got, want, GRADIENT_TOLERANCES)
        except NO_MEMORY as e:
            self._inconclusive(e)
            return None
        self.audit.manager.audits.gradients += 1
        return got, want, problems

    def _writer(self, plan, pattern, compared: list, names: list, name: str) -> str:
        """Which op has written a gradient, in words."""
        made = plan.backward(pattern)
        for k, other in zip(compared, names, strict=True):
            if name == f"the gradient of {other}" and made.grads[k] is not None:
                text = written_by(made.program, made.grads[k].slot)
                return text and f"; {text}"
        return ""

    def _both(self, plainly: Callable, replay: Callable, before: Snapshot):
        """The backward of define-by-run, put back, and the replay's, whose errors are raised."""
        side = PlainSide(before, self.audit.philox_seed)
        side.depth = 1  # its function nodes are of no interest
        self._draws = side.draws
        plain = Outcome(plainly, before, side)
        if plain.unseen is not None:
            before.put_all_back()
        before.put_back(plain.changes)
        again = ReplaySide(side, goes_on=isinstance(plain.error, NO_MEMORY))
        outcome = Outcome(replay, before, again)
        if outcome.error is not None:
            raise outcome.error
        runs.wait_quietly(self.audit.schedule.device)
        return plain, outcome

    def _inconclusive(self, error: BaseException) -> None:
        """Count a comparison that define-by-run's `error` has ended; say so where it is ours."""
        manager = self.audit.manager
        manager.audits.inconclusive += 1
        if not (raised_in_a_backward(error) or isinstance(error, NO_MEMORY)):
            text = f"{type(error).__name__}: {error}"
            manager.warn(
                f"audit error {text}",
                f"{manager.name}: an audit could not compare the gradients of a call, "
                f"which are those of the replay: {text}. This is a mistake in sdbr.",
            )

    def handed_out(self, outcome) -> None:
        """Note what the replay has handed out: the user may write to it before the backward."""
        try:
            self._note_handed(outcome)
        except NO_MEMORY:
            self.drop()

    def _note_handed(self, outcome) -> None:
        found = []
        for index, thing in things_of(self.audit.schedule.trace, outcome).items():
            data = thing._data if isinstance(thing, chainer.Variable) else None
            array = thing if data is None else data[0]
            if type(array) in PLAIN:
                found.append((index, array, data))
        sums = checksums([array for _, array, _ in found])
        for (index, array, data), before in zip(found, sums, strict=True):
            self._handed[index] = (weakref.ref(array), before, data)

    def _write_again(self, outcome) -> None:
        """Write into what `outcome` has handed out what the user has written since."""
        things = {}
        replaced = []
        arrays = {index: reference() for index, (reference, _, _) in self._handed.items()}
        held = {index: array for index, array in arrays.items() if array is not None}
        sums = dict(zip(held, checksums(list(held.values())), strict=True))
        for index, (_, before, data) in self._handed.items():
            array = arrays[index]
            other_array = data is not None and data[0] is not array
            written = array is not None and sums[index] != before
            if not (written or other_array):
                continue
            things = things or things_of(self.audit.schedule.trace, outcome)
            other = things.get(index)
            if other_array and isinstance(other, chainer.Variable):
                replaced.append((other, data[0]))
            other = other._data[0] if isinstance(other, chainer.Variable) else other
            if written and type(other) in PLAIN and is_writeable(other):
                overwrite(other, array)
        # What is written to memory that views show comes first.
        for other, array in replaced:
            other.array = None if array is None else copy_of(array)

    def _outputs(self, outcome, plan, pattern) -> list | None:
        """The Variables of define-by-run for the outputs that carry a gradient; None if unknown."""
        known = things_of(self.audit.schedule.trace, outcome)
        ys = [known.get(plan.graph_outputs[i].index) for i in pattern.given]
        return ys if all(isinstance(y, chainer.Variable) for y in ys) else None

    def _is_noise_or_unknown(self, *call) -> bool:
        """Whether rounding errors explain the difference, or there was no memory to see."""
        try:
            is_noise = self._is_noise(*call)
        except NO_MEMORY as e:
            self._inconclusive(e)
            return True
        self.audit.manager.audits.noisy += is_noise
        return is_noise

    def _is_noise(self, plan, pattern, indices, gys, inputs, got, want, problems) -> bool:
        """Whether rounding errors of forward and backward explain the difference."""
        audit = self.audit
        if audit.before.roots.moves_on:
            return False
        now = Snapshot(audit.before.roots)
        parameters = [p.thing._data[0] for p in audit.before.roots.parameters]
        disturbed = Disturbed(audit.args, audit.kwargs, parameters, audit.tf32)

        def once_more(units: int) -> dict:
            facts = self._once_more(disturbed, units, plan, pattern, indices, gys, inputs)
            return _only(problems, facts)

        # The call once more, from what was there before it.
        changed = audit.before.changes()
        audit.before.put_back(changed)
        on_gpu = audit.schedule.device is not None
        try:
            # What the call has assigned is the replay's in `want`, and no part of the question.
            return rounding_explains(
                got, _only(problems, want), problems, once_more, disturbed.sizes,
                GRADIENT_TOLERANCES, on_gpu,
            )  # fmt: skip
        finally:
            changed.put()
            now.put_back(now.changes())

    def _once_more(self, disturbed, units, plan, pattern, indices, gys, inputs) -> dict:
        """The facts of a backward after define-by-run on disturbed inputs; nothing of it stays."""
        audit = self.audit
        names = [_name(plan.differentiable[i]) for i in indices]
        facts: dict = {}
        with disturbed.by(units) as (args, kwargs), APPLIES:
            side = Again(audit.plain.side, units)
            again = Outcome(lambda: audit.call(args, kwargs), audit.before, side)
            self._write_again(again)
            ys = None if again.error else self._outputs(again, plan, pattern)
            last = again
            if units:  # also of whole numbers, such as the gradient of a loss
                rng = np.random.RandomState(units)
                gys = [
                    disturbed.shaken(g, units, rng, whole=False) if g.dtype.kind == "f" else g
                    for g in gys
                ]
            if ys is not None:
                wanted = [disturbed.pairs.get(id(inputs[i]), inputs[i]) for i in indices]
                entry = Snapshot(audit.before.roots)
                side = Again(audit.plain.side, units)
                side.draws = Given(self._draws)
                side.backward_begins()
                last = Outcome(lambda: gradients(ys, wanted, gys, inputs), entry, side)
                facts = {} if last.error else _facts(last, names, wanted)
            audit.before.put_back(audit.before.changes())
        raise_without_memory(again)
        raise_without_memory(last)
        return facts


def _only(names: Iterable[str], facts: dict) -> dict:
    return {name: facts[name] for name in names if name in facts}


def gradients(
    ys: list, xs: list, gys: list, inputs: list, others: Sequence = (), more: dict | None = None
) -> list:
    """The gradients of `xs`, and of what else a backward reaches; only through `ys`.

    Parameters
    ----------
    ys, xs, inputs : list of chainer.Variable
        Results, what gradients are wanted of, and the leaves of the call, whose histories are not
        gone back through.
    gys : list of ndarray
    others : sequence of Place
        Variables that may get a gradient as well; without any, ``chainer.grad`` is used.
    more : dict, optional
        Takes the gradients of `others` by name.
    """
    histories = [(x.node, x.node._creator_node) for x in inputs]
    given = [chainer.Variable(g) for g in gys]
    kept = [(v, v.grad_var) for v in [*xs, *[place.thing for place in others]]] if others else []
    try:
        for node, _ in histories:
            node._creator_node = None
        if not others:
            return [None if g is None else g.array for g in chainer.grad(ys, xs, given)]
        for variable, _ in kept:
            variable.grad_var = None
        chainer.backward(ys, given)
        found = [x.grad for x in xs]
        wanted = {id(x) for x in inputs}
        for place in others:
            if id(place.thing) not in wanted and place.thing.grad is not None and more is not None:
                more[place.name] = place.thing.grad
        return found
    finally:
        for node, creator in histories:
            node._creator_node = creator
        for variable, gradient in kept:
            variable.grad_var = gradient


def _give(others: Sequence, more: dict) -> None:
    """Add the gradients in `more` to the Variables whose names they have."""
    for place in others:
        if place.name in more:
            old, new = place.thing.grad, more[place.name]
            place.thing.grad = new if old is None else old + new


def _parts(plan, pattern, inputs: list) -> dict[int, list[int]]:
    """The gradients to compare, by the ids of their Variables: which of those that are wanted.

    A Variable that lies in two places has one gradient, of which a replay gives the parts.
    """
    found: dict[int, list[int]] = {}
    for k, i in enumerate(pattern.wanted):
        if _is_shared(plan.differentiable[i]):
            found.setdefault(id(inputs[i]), []).append(k)
    return found


def _sum(grads: list) -> Any:
    """The sum of gradients, of which some may be None."""
    there = [g for g in grads if g is not None]
    if len(there) < 2:
        return there[0] if there else None
    with chainer.using_device(chainer.backend.get_device_from_array(there[0])):
        return sum(there[1:], there[0])


def _define_by_runs(result: list, parts: Iterable[list[int]], grads: list) -> list:
    """`grads` with those of define-by-run; of several for one Variable the first is all of it."""
    for places, g in zip(parts, result, strict=True):
        for k in places:
            grads[k] = None if g is None or k != places[0] else copy_of(g)
    return grads


def raised_in_a_backward(error: BaseException) -> bool:
    """Whether define-by-run itself raises `error`: in the backward of a function, not in an audit.

    Then nothing is known about the replay. Anything else is a mistake of whoever compares.
    """
    inside, name = False, ""
    frame = error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_globals.get("__name__", "")
        step = name == "chainer._backprop_utils" and frame.tb_frame.f_code.co_name
        inside = inside or step == "backprop_step"
        frame = frame.tb_next
    return inside and not name.startswith("sdbr.audit")


def _facts(outcome, names: list[str], wanted: list) -> dict:
    facts = {}
    for i, (name, g, x) in enumerate(zip(names, outcome.result, wanted, strict=True)):
        # None and zeros: an optimizer may tell, rounding cannot.
        if g is None:
            g = new(x.shape, x.dtype, device_of(x.array))
            overwrite(g, 0)
        facts[f"the gradient of {name}" + (f" ({i})" if name in names[:i] else "")] = g
    outcome.result = list(outcome.result)
    written = {k: x for k, x in outcome.facts().items() if not k.startswith("the result")}
    return {**facts, **written, **outcome.side.draws.facts()}


def _is_shared(value: Value) -> bool:
    """Whether both runs have the same Variable for a leaf, and not each one of its own."""
    return value.kind in (ARGUMENT, ATTRIBUTE, PARAMETER)


def _name(value: Value) -> str:
    return f"{value.kind} {getattr(value.source, 'name', value.source)}"


def things_of(trace, outcome) -> dict[int, Any]:
    """Index of a value -> the Variable or array that a run has handed out in its place."""
    found: dict[int, Any] = {}
    _pair(trace.result, outcome.result, found)
    written = {(id(place.thing), name): x for place, name, x in outcome.changes.entries}
    for write in trace.writes:
        attributes = getattr(write.link, "__dict__", None)
        _pair(write.value, written.get((id(attributes), write.name)), found)
    reports = [r for r in outcome.reports if not r.by_code]
    for mine, theirs in zip(trace.reports, reports, strict=False):
        for name, value in mine.items.items():
            _pair(value, theirs.values.get(name), found)
    return found


def _pair(structure, thing, found: dict) -> None:
    if isinstance(structure, Value):
        if isinstance(thing, (chainer.Variable, *ARRAYS)):
            found.setdefault(structure.index, thing)
    elif isinstance(structure, dict) and isinstance(thing, dict):
        for key, part in structure.items():
            _pair(part, thing.get(key), found)
    elif isinstance(structure, (list, tuple)) and isinstance(thing, (list, tuple)):
        for part, item in zip(structure, thing, strict=False):
            _pair(part, item, found)
