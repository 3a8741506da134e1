"""How steps are written that were not whole: some of them are looked at, for `explain` to tell.

A few steps after each trace, and a few every thousand updates; nobody looks at the others.
"""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

from sdbr.compat import splitting
from sdbr.schedule.sighted import Backward, LossFunction, Sighting
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import line_of
from sdbr.trace.values import ATTRIBUTE, PARAMETER

import chainer
import numpy as np

#: Backwards that are looked at from a trace on.
MOST = 32
#: Numbers of a gradient that are compared.
SAMPLED = 64


#: Of each manager the step that was seen last.
_seen: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
#: Managers whose steps the user wants whole.
_asked: weakref.WeakSet = weakref.WeakSet()
_traced: weakref.WeakSet = weakref.WeakSet()
_left = [0]
_stretch = [0]


class _Here(threading.local):
    """The step of this thread that is looked at."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, stretch: int) -> None:
        """Nothing of the step has been seen; the first of a stretch may have begun before."""
        self.stretch = stretch
        self.partial = True
        self.step = Sighting()
        self.parameters: list = []
        self.prints: list = []
        self.cleared: list[tuple] = []  # links and names
        self.before: Sighting | None = None
        self.earlier: list[Sighting] = []
        self.rules: dict[int, int] = {}


_here = _Here()


def look(manager=None) -> None:
    """Look at the steps that come next; `manager` has traced a call."""
    if manager is not None:
        _traced.add(manager)
    if not _left[0]:
        _stretch[0] += 1
    _left[0] = MOST
    if _onlooker not in splitting.onlookers:
        splitting.onlookers.append(_onlooker)


def is_looking() -> bool:
    """Whether steps are looked at now."""
    return bool(splitting.onlookers)


def runs_through(link: chainer.Link) -> list:
    """The managers whose static calls use parameters of a link."""
    own = {id(p) for p in link.params()}
    return [
        manager
        for manager in list(_traced)
        if any(
            id(value.source) in own
            for group in list(manager.schedules.values())
            for schedule in group
            for value in schedule.trace.values
            if value.kind == PARAMETER
        )
    ]


def sighting_of(manager) -> Sighting | None:
    """The step that was seen last through a manager's calls, if it is not whole by now."""
    here = _step()
    if here.step.optimizers:
        _finish(here)
    found = _seen.get(manager)
    return None if found is None or _is_over(found, manager) else found


def _is_over(seen: Sighting, manager) -> bool:
    """Whether steps are written in another way by now: they are whole."""
    if manager.statistics.steps > seen.steps:
        return True
    for reference, (t, made) in zip(seen.optimizers, seen.counts, strict=True):
        optimizer = reference()
        if optimizer is None:
            continue  # nothing says that it has gone on in another way
        if not 0 <= optimizer.t - t <= _updates_of(optimizer) - made:
            return True  # or set up anew
    if seen.optimizers or seen.rule is None:
        return False
    # A plain optimizer: the parameters are updated, and nobody makes these calls any more.
    parameter = seen.rule[0]()
    rule = None if parameter is None else parameter.update_rule
    return rule is not None and rule.t > seen.rule[1] + 1 and manager.statistics.calls == seen.calls


def _updates_of(optimizer) -> int:
    """How many updates of a static optimizer were no whole steps."""
    engine = optimizer.__dict__.get("_sdbr_engine")
    return 0 if engine is None else engine.made


def wants_whole(manager) -> None:
    """A static optimizer was given the static callable of this manager."""
    _asked.add(manager)


def is_wanted_whole(manager) -> bool:
    """Whether a static optimizer was given the static callable of this manager."""
    return manager in _asked


def gave_loss(optimizer, lossfun, is_static: bool, args: tuple, kwargs: dict) -> None:
    """A loss function has given the loss of a step that is made in parts."""
    here = _step()
    if here.step.optimizers or here.step.backwards:
        _finish(here)
    frame = _users_frame()
    kind = "static" if is_static else _kind_of(lossfun)
    name = _written(frame, _LOSS) or getattr(lossfun, "__name__", "model")
    here.cleared += _names_inside(lossfun)
    here.step.lossfun = LossFunction(kind, name, _brings_graph(lossfun, args, kwargs))


def updates(optimizer) -> None:
    """A static optimizer is about to update from the gradients that are there."""
    here = _step()
    seen = len(here.step.optimizers)
    if seen >= (MOST if here.step.backwards else 1):
        # One after the other, and nobody goes backward: no step that could be written otherwise.
        return _count()
    frame = _users_frame()
    if not here.step.optimizers:
        here.step.changed = any(
            parameter() is not None and _print_of(parameter()) != kept
            for parameter, kept in here.prints
        )
    here.step.by_others |= _caller().startswith("chainermn")
    if seen:
        here.step.alike &= _are_alike(here.step, optimizer)
    elif not getattr(optimizer, "_use_cleargrads", True):
        here.step.clearing = "zerograds"
    here.step.optimizers.append(weakref.ref(optimizer))
    here.step.targets.append(weakref.ref(optimizer.target))
    here.step.counts.append((optimizer.t, _updates_of(optimizer)))
    here.step.names.append(_written(frame, _UPDATED) or "optimizer")
    here.step.line = "" if frame is None else line_of(frame)
    _name_callee(here.step, frame, here.cleared, optimizer)


def _are_alike(step: Sighting, other) -> bool:
    """Whether one optimizer could do what the first of the step and another one do."""
    first = step.optimizers[0]()
    return (
        type(other) is type(first)
        and other.hyperparam.get_dict() == first.hyperparam.get_dict()
        and not (other._pre_update_hooks or other._post_update_hooks)
        and not (first._pre_update_hooks or first._post_update_hooks)
        and other.t == step.counts[0][0]
    )


class _Onlooker:
    """Is told by `sdbr.compat.splitting`."""

    def clears(self, link, how: str) -> None:
        """The gradients of a link are about to be cleared."""
        here = _step()
        if here.step.optimizers or here.step.backwards:
            _finish(here)
        here.step.clears.append(how)
        here.cleared.append((weakref.ref(link), _written(_users_frame(), _CLEARED)))

    def cuts(self) -> None:
        """A history is about to be cut by ``unchain_backward``."""
        _step().step.cut = True

    def begins(self, variable, retains: bool):
        """A backward is about to begin; gives what is called once it is done."""
        here = _step()
        if here.step.optimizers:
            _finish(here)
        functions = splitting.functions_behind([variable.node])
        calls = {id(call): call for f in functions if (call := _call_of(f)) is not None}
        creator = _call_of(variable.creator)
        frame = _users_frame()
        backward = Backward(
            [weakref.ref(call.manager) for call in calls.values()],
            [weakref.ref(call) for call in calls.values()],
            len(calls) == 1 and creator is not None,
            retains,
            variable._grad is not None or variable._grad_var is not None,
            "" if frame is None else line_of(frame),
            _caller() == "chainer.optimizer",
            _is_stateful(calls.values()),
            [call.manager.statistics.steps for call in calls.values()],
        )
        if here.before is not None and _nodes(here.before) & set(calls):
            here.step.shared = True
            for manager in _managers(here.before):
                last = _seen.get(manager)
                if last is not None and last.backwards is here.before.backwards:
                    last.shared = True
        here.step.held = here.step.held or any(map(_nodes, here.earlier))
        here.step.backwards.append(backward)
        here.step.line = here.step.line or backward.line
        _name_callee(here.step, frame, here.cleared)
        parameters = list(_parameters_behind(functions))
        _count()
        return functools.partial(_done, parameters)


_onlooker = _Onlooker()


def _count() -> None:
    """One of those that are looked at is seen."""
    _left[0] -= 1
    if _left[0] <= 0:
        splitting.onlookers[:] = []


def _done(parameters: list) -> None:
    _here.prints = [(weakref.ref(p), _print_of(p)) for p in parameters]
    _here.parameters = [weakref.ref(p) for p in parameters]


def _step() -> _Here:
    if _here.stretch != _stretch[0]:
        _here.begin(_stretch[0])
    return _here


def _finish(here: _Here) -> None:
    """A step is over: keep it if it was seen as a whole."""
    step, partial, parameters = here.step, here.partial, here.parameters
    here.cleared = []
    here.step, here.partial, here.prints = Sighting(), False, []
    rules = {id(p): rule.t for p in _alive(parameters) if (rule := p.update_rule) is not None}
    step.updated = any(t > here.rules.get(key, t) for key, t in rules.items())
    here.rules.update(rules)
    step.rule = next(
        (
            (weakref.ref(p), p.update_rule.t)
            for p in _alive(parameters)
            if p.update_rule is not None
        ),
        None,
    )
    here.earlier = [step for step in (*here.earlier, here.before) if step is not None][-1:]
    here.before = step
    if partial:
        return
    for manager in _managers(step):
        last = _seen.get(manager)
        again = last is not None and last.is_written_as(step)
        kept = dataclasses.replace(step)
        kept.times = last.times + 1 if again else 1
        kept.shared = step.shared or (again and last.shared)
        kept.updated = step.updated or (again and last.updated)
        kept.calls = manager.statistics.calls
        kept.steps = max(
            n
            for backward in step.backwards
            for reference, n in zip(backward.managers, backward.steps, strict=True)
            if reference() is manager
        )
        _seen[manager] = kept


def _managers(step: Sighting) -> list:
    found = {id(m): m for backward in step.backwards for m in _alive(backward.managers)}
    return list(found.values())


def _alive(references: list) -> Iterator[Any]:
    return (thing for reference in references if (thing := reference()) is not None)


def _nodes(step: Sighting) -> set[int]:
    return {id(f) for backward in step.backwards for f in _alive(backward.calls)}


def _call_of(function):
    """The replayed call of the user's whose node, or part, a function node is; else None."""
    call = getattr(function, "call", function)
    manager = getattr(call, "manager", None) if hasattr(call, "sdbr_compiled") else None
    return None if manager is None or manager.is_outside else call


def _parameters_behind(functions: list) -> Iterator[chainer.Parameter]:
    seen = set()
    for function in functions:
        for node in function.inputs:
            variable = node.get_variable_or_none()
            if isinstance(variable, chainer.Parameter) and id(variable) not in seen:
                seen.add(id(variable))
                yield variable


def _is_stateful(calls) -> bool:
    """Whether calls go on from Variables of links, with gradients, that no call behind has made."""
    return any(
        value.kind == ATTRIBUTE and node.creator is None
        for call in calls
        for value, node in zip(call.instance.plan.differentiable, call.inputs or (), strict=False)
    )


def _print_of(parameter) -> tuple | None:
    """What tells whether a gradient was changed: some of its numbers; None of other arrays."""
    grad = parameter._grad
    if type(grad) is not np.ndarray:
        return None
    flat = grad.reshape(-1)
    return id(grad), flat[:: max(1, flat.size // SAMPLED)].tobytes()


def _users_frame():
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _caller() -> str:
    """The module, of another package, that has called what runs now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("sdbr."):
        frame = frame.f_back
    return "" if frame is None else frame.f_globals.get("__name__", "")


def _written(frame, pattern: str) -> str:
    """What the line of a frame names, by a pattern with one group; empty where it does not.

    Not asked of the frame's variables: the answer would keep these alive.
    """
    if frame is None:
        return ""
    found = re.search(pattern, linecache.getline(frame.f_code.co_filename, frame.f_lineno))
    return "" if found is None else found[1]


_CLEARED = r"([A-Za-z_][\w.]*)\.(?:cleargrads|zerograds)\("
_UPDATED = r"([A-Za-z_][\w.]*)\.update\("
_LOSS = r"\.update\(\s*([A-Za-z_][\w.]*)"


def _owner_of(step: Sighting):
    """The link whose call gave the loss."""
    managers = step.backwards[0].managers if step.backwards else []
    manager = managers[0]() if managers else None
    return None if manager is None or manager.owner is None else manager.owner()


def _name_callee(step: Sighting, frame, cleared: list, optimizer=None) -> None:
    """Note the name of the link whose call gave the loss."""
    owner = _owner_of(step)
    if step.callee or owner is None or frame is None:
        return
    names = [name for reference, name in cleared if name and reference() is owner]
    names += [name for name, value in list(frame.f_globals.items()) if value is owner]
    if optimizer is not None and optimizer.target is owner:
        names.append(f"{step.names[-1]}.target")
    step.callee = next(iter(names), "")


def _names_inside(function) -> list[tuple]:
    """What a function finds around it, and its names."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found = []
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            found.append((weakref.ref(cell.cell_contents), name))
        except (ValueError, TypeError):  # not assigned yet, or of no kind that is looked for
            continue
    return found


def _kind_of(lossfun) -> str:
    if isinstance(lossfun, chainer.Link):
        return "link"
    if isinstance(lossfun, types.MethodType):
        return "method" if isinstance(lossfun.__self__, chainer.Link) else "bound"
    return "lambda" if getattr(lossfun, "__name__", "") == "<lambda>" else "function"


def _brings_graph(lossfun, args: tuple, kwargs: dict) -> bool:
    """Whether a loss function gets Variables that something has made before."""
    given = [*args, *kwargs.values()]
    if isinstance(lossfun, functools.partial):
        given += [*lossfun.args, *lossfun.keywords.values()]
    for cell in getattr(lossfun, "__closure__", None) or ():
        try:
            given.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for thing in list(given):
        if isinstance(thing, (list, tuple)):
            given += thing
    return any(isinstance(x, chainer.Variable) and x.creator is not None for x in given)
