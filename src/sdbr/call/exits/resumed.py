"""A call that a replay could not end: define-by-run from its beginning, nothing happens twice."""

from __future__ import annotations

from typing import Any, NamedTuple

from sdbr.audit.contents import overwrite
from sdbr.audit.sides import arrays_in, copied
from sdbr.audit.snapshot import Changes
from sdbr.audit.told import Told, is_of_users
from sdbr.base.errors import NotStaticError, SideExit
from sdbr.base.failures import annotate
from sdbr.base.reasons import Reason, Remedy
from sdbr.call.exits.undo import Undone
from sdbr.call.find import note_define_by_run
from sdbr.trace._node_copies import inner_function
from sdbr.trace.effects.sides import Side, entered
from sdbr.trace.patches import APPLIES

import numpy as np

#: So many calls in a row that could not be ended make a schedule dynamic.
_MOST = 4


class Ran(NamedTuple):
    """User code that a replay has run.

    Attributes
    ----------
    kind : object
        The function of ``static_code``, or the class of a node.
    what : tuple
        Of ``static_code`` ``(label, args, kwargs, written, result)``: `written` are the arrays
        among the arguments that it wrote, as far as these are not the user's own. Of a node
        ``(label, node, before, inputs, outputs)``: `before` is what lay on it.
    state : dict or None
        Of NumPy's generator afterwards, where the code drew from it.
    arrays : list of (ndarray, ndarray)
        Those that the program writes as well and the code has written, with their contents.
    error : Exception or None
        That it has raised; of a node nothing is known then but its label.
    args : tuple
        Of the error, as the code has made it.
    """

    kind: Any
    what: tuple
    state: dict | None
    arrays: list
    error: Exception | None
    args: tuple

    def fail(self) -> None:
        """Raise the error again, if there is one."""
        if self.error is not None:
            self.error.args = self.args
            raise self.error


def _look_of(kind):
    """What tells code from other code, where each call makes it anew."""
    code = getattr(kind, "__code__", None)
    return (kind.__module__, kind.__qualname__) if isinstance(kind, type) else code or kind


class Resumed(Side):
    """Define-by-run in which user code that has run already gives what it gave.

    Parameters
    ----------
    notes : list of Ran
        In order.
    undone : Undone
        What the last of it has changed.
    """

    is_plain = True

    def __init__(self, notes: list[Ran], undone: Undone):
        super().__init__()
        self.left = list(notes)
        self.last = notes[-1] if notes else None
        self.undone = undone

    def _next(self, kind) -> Ran | None:
        look = _look_of(kind)
        found = next((i for i, ran in enumerate(self.left) if _look_of(ran.kind) == look), None)
        return None if found is None else self.left.pop(found)

    def _repeated(self, ran: Ran) -> None:
        """What it has changed lies there from now on."""
        for array, contents in ran.arrays:
            overwrite(array, contents)
        if ran is self.last:
            self.undone.redo()
        if ran.state is not None:
            np.random.set_state(ran.state)

    def code(self, func, args, kwargs):
        ran = self._next(func)
        if ran is None:
            with entered(None):  # function nodes of its own are none of the call's
                return func(*args, **kwargs)
        _, *given, written, result = ran.what
        ids = set(map(id, written))
        for array, contents in zip(arrays_in((args, kwargs)), arrays_in(given), strict=True):
            if id(contents) in ids:
                overwrite(array, contents)
        self._repeated(ran)
        ran.fail()
        return copied(result)

    def apply(self, original, function, inputs):
        ran = self._next(type(inner_function(function) or function))
        if ran is None or not is_of_users(function):
            return original(function, inputs)
        if ran.error is not None:
            self._repeated(ran)
            ran.fail()
        label, node, before, *arrays = ran.what
        told = Told(ran.kind, label)
        told.keep(node, before, *arrays)
        told.changes = Changes()
        told.feed(function)
        outputs = original(function, inputs)
        self._repeated(ran)
        return outputs


def finished(manager, schedule, side_exit: SideExit, args: tuple, kwargs: dict):
    """End a call define-by-run.

    Parameters
    ----------
    manager : ScheduleManager
        It has counted the call.
    schedule : Schedule
        Whose replay has met the exit.
    side_exit : SideExit
    args, kwargs :
        Of the call.

    Returns
    -------
    object
        What it returns.
    """
    error = side_exit.error
    if isinstance(error, NotStaticError) and manager.options.on_dynamic == "raise":
        raise error
    if error is None:
        _tell(manager, schedule, side_exit)
    owner = () if manager.owner is None else (manager.owner(),)
    undone = side_exit.undo()
    if not undone.is_whole:
        manager.warn(
            "mixed",
            f"{manager.name}: {side_exit.what} could not be put back as it was before "
            f"{side_exit.label} changed it: what the call made of it before that may be wrong",
        )
    try:
        with entered(Resumed(side_exit.notes, undone)), APPLIES:
            result = manager.function(*owner, *args, **kwargs)
    except Exception as raised:
        if type(raised) is type(error) and side_exit.where not in getattr(raised, "__notes__", ()):
            annotate(raised, side_exit.where)
        raise
    finally:
        undone.redo()
    if side_exit.caught or isinstance(error, NotStaticError):
        _tell(manager, schedule, side_exit)
    elif error is not None:  # another thread has changed something, or nobody saw who catches it
        note_define_by_run(manager, f"a replay has raised {side_exit.what}, define-by-run has not")
    return result


def _tell(manager, schedule, side_exit: SideExit) -> None:
    """Say why, and see to it that it does not become a habit."""
    error = side_exit.error
    if error is None:
        reason = f"{side_exit.label} has changed {side_exit.what} in the middle of a call"
        advice = Remedy.READ_BEFORE
    elif isinstance(error, NotStaticError):
        reason, advice = side_exit.what, Remedy.USE_FUNCTIONS
    else:
        reason, advice = f"the call has caught {side_exit.what}", Remedy.LOOK_AT_VALUES
    note_define_by_run(manager, reason)
    reason += ", which reads or writes it" if error is None else ""
    manager.warn(
        "side exit",
        f"{manager.name}: {reason}; such calls are ended define-by-run. {advice.value}",
    )
    replays = schedule.usage.replays
    schedule.exits = (schedule.exits[0] + 1 if schedule.exits[1] == replays else 1, replays)
    if schedule.exits[0] >= _MOST:
        schedule.dynamic = Reason(f"{reason}, {_MOST} times in a row", advice)
