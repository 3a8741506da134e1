"""A replay that raises: the call is run define-by-run, which raises as well, or catches it."""

from __future__ import annotations

from sdbr.base.errors import NotStaticError, SdbrError, SideExit
from sdbr.program.buffers import FAILED
from sdbr.schedule.questions import done_before


class Untouched:
    """What code of the user's has changed, of which none has run: see `Undone`."""

    is_whole = True

    def redo(self) -> None:
        """Nothing has been put back."""


def exit_after(error: Exception, plan, memory, before, exits) -> SideExit | None:
    """By which the call of a replay that has raised is ended define-by-run.

    Parameters
    ----------
    error : Exception
    plan : ForwardPlan or StepPlan
    memory : Memory
    before : Before or None
        What was kept of what the run may have changed.
    exits : Exits or None

    Returns
    -------
    SideExit or None
        None where the error is that of a setting or of memory, or the run cannot be undone: it is
        raised as it is.
    """
    index = memory.state.pop(FAILED, None)
    if isinstance(error, SdbrError) and not isinstance(error, NotStaticError):
        return None
    if index is None or isinstance(error, MemoryError) or memory.device is not None:
        return None
    done = done_before(plan.program, plan.leaves, index)
    if not (done.is_within(plan.taken_back) and (before is None or before.put_back())):
        return None
    notes, undo = ([], Untouched) if exits is None else exits.so_far()
    return SideExit(f"{type(error).__name__}: {error}", notes, undo, error)
