"""From what a user holds to the managers behind it."""

from __future__ import annotations

import types
from typing import Any

from sdbr.call.manager import ScheduleManager
from sdbr.call.managers import MANAGERS, is_owner, of_function
from sdbr.call.step.whole import last_runner
from sdbr.optimizers.multi_node import is_multi_node

import chainer


class Target:
    """A static thing that can be looked at.

    Parameters
    ----------
    obj : chainer.Link, callable, ScheduleManager or chainer.GradientMethod

    Raises
    ------
    TypeError
        If `obj` is none of these, or a function that is not static.
    """

    def __init__(self, obj: Any):
        if is_multi_node(obj):
            obj = obj.actual_optimizer
        self.obj = obj
        self.kind = _kind(obj)
        self.name = _name(obj)

    def managers(self) -> list[ScheduleManager]:
        """The managers that exist now; there is none before the first call."""
        obj = self.obj
        if self.kind == "manager":
            return [obj]
        if self.kind == "function":
            manager = getattr(obj, "schedule_manager", None)
            return ([] if manager is None else [manager]) + of_function(obj)
        if self.kind == "method":
            found = _given(obj.__self__).get(obj.__func__._sdbr_function)
            return [] if found is None else [found]
        if self.kind == "optimizer":
            found = [] if getattr(obj, "target", None) is None else _below(obj.target)
            runner = last_runner(obj)
            if runner is not None and runner.manager not in found:
                found.append(runner.manager)
            return found
        return _below(obj)

    def optimizers(self) -> list:
        """The optimizers whose steps go through these managers."""
        if self.kind == "optimizer":
            return [self.obj]
        found: list = []
        for manager in self.managers():
            for schedule in schedules_of(manager):
                for plan in list(schedule.step_plans.values()):
                    if not any(o is plan.update.optimizer for o in found):
                        found.append(plan.update.optimizer)
        return found

    def programs(self) -> list:
        """Every program that was built so far; nothing is built for the answer."""
        found = []
        for manager in self.managers():
            for schedule in schedules_of(manager):
                found += programs_of(schedule)
        for optimizer in self.optimizers():
            native = getattr(optimizer.__dict__.get("_sdbr_engine"), "native", None)
            if native is not None:
                found.append(native.program)
        return found


def schedules_of(manager: ScheduleManager) -> list:
    """All schedules of a manager, least recently used first."""
    return [schedule for group in list(manager.schedules.values()) for schedule in list(group)]


def programs_of(schedule) -> list:
    """The programs of a schedule that were built so far."""
    forward = schedule._forward
    plans = list(schedule.step_plans.values())
    if forward is not None:
        plans = [forward, *list(forward.backwards.values()), *plans]
    return [plan.program for plan in plans]


def serving(obj: Any, args: tuple) -> tuple[ScheduleManager | None, tuple]:
    """The manager that would serve a call of `obj`, and the arguments that it would be given.

    Raises
    ------
    TypeError
        If `obj` is nothing static.
    """
    target = Target(obj)
    managers = target.managers()
    if target.kind == "function" and args and is_owner(args[0], obj):
        found = _given(args[0]).get(obj._sdbr_function)
        managers, args = [] if found is None else [found], args[1:]
    return (managers[0] if managers else None), args


def _kind(obj) -> str:
    if isinstance(obj, ScheduleManager):
        return "manager"
    if isinstance(obj, chainer.Link):
        return "link"
    if isinstance(obj, chainer.Optimizer):
        return "optimizer"
    if isinstance(obj, types.MethodType) and hasattr(obj.__func__, "_sdbr_function"):
        return "method"
    if hasattr(obj, "_sdbr_function"):
        return "function"
    raise TypeError(
        "obj: expected a link, a function or method decorated with sdbr.static_graph, its "
        f"schedule_manager, or an optimizer; got {_what(obj)}"
    )


def _what(obj) -> str:
    if isinstance(obj, type):
        return f"the class {obj.__name__}"
    name = getattr(obj, "__name__", "")
    if isinstance(obj, types.FunctionType | types.MethodType):
        return f"the function {name}, which is not static"
    return type(obj).__name__ + (" that is not static" if callable(obj) else "")


def _name(obj) -> str:
    if isinstance(obj, ScheduleManager):
        return obj.name
    if isinstance(obj, types.MethodType):
        return f"{type(obj.__self__).__name__}.{obj.__func__.__name__}"
    if isinstance(obj, (chainer.Link, chainer.Optimizer)):
        return getattr(type(obj), "_sdbr_base", type(obj)).__name__
    return getattr(obj, "__qualname__", type(obj).__name__)


def _given(owner: object) -> dict:
    managers = getattr(owner, "__dict__", {}).get(MANAGERS)
    # A copy of a link starts with none, though it may still share the attribute.
    return {} if managers is None or not managers.are_of(owner) else managers


def _below(link: chainer.Link) -> list[ScheduleManager]:
    return [manager for each in link.links() for manager in _given(each).values()]


def is_static(link: chainer.Link) -> bool:
    """Whether `link` or a link below has a static method."""
    return any(
        hasattr(getattr(type(each), name, None), "_sdbr_function")
        for each in link.links()
        for name in dir(type(each))
        if not name.startswith("__") or name == "__call__"
    )
