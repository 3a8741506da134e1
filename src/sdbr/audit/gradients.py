"""The backward of an audited call, beside that of define-by-run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from sdbr.audit._budget import checksum
from sdbr.audit.compare import GRADIENT_TOLERANCES, differences, is_noise
from sdbr.audit.noise import DISTURBANCES, Disturbed, shaken
from sdbr.audit.outcome import Outcome
from sdbr.audit.samples import Watch
from sdbr.audit.sides import Again, PlainSide, ReplaySide
from sdbr.audit.snapshot import Snapshot
from sdbr.audit.state import fails
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
    """

    def __init__(self, audit, roots: Callable[[], Any], validated: bool):
        self.audit = audit
        self.roots = roots
        self.validated = validated
        #: Index of a value -> the array that the replay has handed out for it, its checksum then,
        #: and the list that holds the array of the Variable.
        self._handed: dict[int, tuple[weakref.ref, int, list | None]] = {}

    def watch(self, schedule, instance) -> Watch:
        """What looks at the ops of the replay."""
        plan = schedule.forward
        self.audit.watch = Watch(plan.program, instance.memory, plan.node_rows)
        return self.audit.watch

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
        """
        audit = self.audit
        self._write_again(audit.plain)
        ys = self._outputs(audit.plain, plan, pattern)
        compared = [k for k, i in enumerate(pattern.wanted) if _is_shared(plan.differentiable[i])]
        if ys is None:
            return replay()
        roots = self.roots()
        before = Snapshot(roots)
        indices = [pattern.wanted[k] for k in compared]
        wanted = [inputs[i] for i in indices]
        names = [_name(plan.differentiable[i]) for i in indices]
        others = roots.variables if whole else []
        more: dict[str, np.ndarray] = {}
        plain_side = PlainSide(before)
        plain_side.depth = 1  # its function nodes are of no interest
        plain = Outcome(
            lambda: gradients(ys, wanted, gys, inputs, others, more), before, plain_side
        )
        before.put_back(plain.changes)
        outcome = Outcome(replay, before, ReplaySide(plain_side))
        if outcome.error is not None:
            raise outcome.error
        grads = outcome.result
        outcome.result = [grads[k] for k in compared]
        if plain.error is not None:
            self._inconclusive(plain.error)
            return grads
        audit.manager.audits.gradients += 1
        got, want = _facts(outcome, names, wanted), _facts(plain, names, wanted)
        want.update({f"the gradient of {name}": g for name, g in more.items()})
        problems = differences(got, want, GRADIENT_TOLERANCES)
        if not problems:
            return grads
        if not more and self._is_noise(plan, pattern, indices, gys, inputs, got, want, problems):
            audit.manager.audits.noisy += 1
            return grads
        before.put_back(outcome.changes)
        _give(others, more)
        problem = " differs: ".join(next(iter(problems.items())))
        fails(audit.manager, audit.schedule, problem, audit.schedule.line, self.validated)
        for k, g in zip(compared, plain.result, strict=True):
            grads[k] = None if g is None else np.array(g)
        return grads

    def _inconclusive(self, error: BaseException) -> None:
        """Count a comparison that define-by-run's `error` has ended; say so where it is ours."""
        manager = self.audit.manager
        manager.audits.inconclusive += 1
        if not raised_in_a_backward(error):
            text = f"{type(error).__name__}: {error}"
            manager.warn(
                f"audit error {text}",
                f"{manager.name}: an audit could not compare the gradients of a call, "
                f"which are those of the replay: {text}. This is a mistake in sdbr.",
            )

    def handed_out(self, outcome) -> None:
        """Note what the replay has handed out: the user may write to it before the backward."""
        for index, thing in things_of(self.audit.schedule.trace, outcome).items():
            data = thing._data if isinstance(thing, chainer.Variable) else None
            array = thing if data is None else data[0]
            if type(array) is np.ndarray:
                self._handed[index] = (weakref.ref(array), checksum(array), data)

    def _write_again(self, outcome) -> None:
        """Write into what `outcome` has handed out what the user has written since."""
        things = {}
        replaced = []
        for index, (reference, before, data) in self._handed.items():
            array = reference()
            other_array = data is not None and data[0] is not array
            written = array is not None and checksum(array) != before
            if not (written or other_array):
                continue
            things = things or things_of(self.audit.schedule.trace, outcome)
            other = things.get(index)
            if other_array and isinstance(other, chainer.Variable):
                replaced.append((other, data[0]))
            other = other._data[0] if isinstance(other, chainer.Variable) else other
            if written and type(other) is np.ndarray and other.flags.writeable:
                np.copyto(other, array)
        # What is written to memory that views show comes first.
        for other, array in replaced:
            other.array = None if array is None else np.array(array)

    def _outputs(self, outcome, plan, pattern) -> list | None:
        """The Variables of define-by-run for the outputs that carry a gradient; None if unknown."""
        known = things_of(self.audit.schedule.trace, outcome)
        ys = [known.get(plan.graph_outputs[i].index) for i in pattern.given]
        return ys if all(isinstance(y, chainer.Variable) for y in ys) else None

    def _is_noise(self, plan, pattern, indices, gys, inputs, got, want, problems) -> bool:
        """Whether rounding errors of forward and backward explain the difference."""
        audit = self.audit
        if audit.before.roots.moves_on or any(
            name not in got or name not in want for name in problems
        ):
            return False
        now = Snapshot(audit.before.roots)
        parameters = [p.thing for p in audit.before.roots.parameters]
        disturbed = Disturbed(audit.args, audit.kwargs, parameters)
        seen: list[dict] = []
        # The call once more, from what was there before it.
        changed = audit.before.changes()
        audit.before.put_back(changed)
        try:
            for units in DISTURBANCES:
                seen.append(self._once_more(disturbed, units, plan, pattern, indices, gys, inputs))
                if all(
                    is_noise(got[n], want[n], [facts[n] for facts in seen if n in facts])
                    for n in problems
                ):
                    # Else define-by-run depends on something that nothing here puts back.
                    same = self._once_more(disturbed, 0, plan, pattern, indices, gys, inputs)
                    return not differences(same, want, GRADIENT_TOLERANCES)
            return False
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
            if units:  # also of whole numbers, such as the gradient of a loss
                rng = np.random.RandomState(units)
                gys = [
                    shaken(g, units, rng, whole=False) if g.dtype.kind == "f" else g for g in gys
                ]
            if ys is not None:
                wanted = [disturbed.pairs.get(id(inputs[i]), inputs[i]) for i in indices]
                entry = Snapshot(audit.before.roots)
                side = Again(audit.plain.side, units)
                side.backward_begins()
                last = Outcome(lambda: gradients(ys, wanted, gys, inputs), entry, side)
                facts = {} if last.error else _facts(last, names, wanted)
            audit.before.put_back(audit.before.changes())
        return facts


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
        g = np.zeros(x.shape, x.dtype) if g is None else g
        facts[f"the gradient of {name}" + (f" ({i})" if name in names[:i] else "")] = g
    outcome.result = list(outcome.result)
    written = {k: x for k, x in outcome.facts().items() if not k.startswith("the result")}
    return {**facts, **written}


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
        if isinstance(thing, (chainer.Variable, np.ndarray)):
            found.setdefault(structure.index, thing)
    elif isinstance(structure, dict) and isinstance(thing, dict):
        for key, part in structure.items():
            _pair(part, thing.get(key), found)
    elif isinstance(structure, (list, tuple)) and isinstance(thing, (list, tuple)):
        for part, item in zip(structure, thing, strict=False):
            _pair(part, item, found)
