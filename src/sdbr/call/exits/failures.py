"""A replay that raises: the call is run define-by-run, which raises as well, or catches it."""

from __future__ import annotations

from sdbr.base.errors import NotStaticError, SdbrError, SideExit
from sdbr.program.buffers import FAILED
from sdbr.schedule.questions import runs_python


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
        None where the error is that of a setting or of memory, an index that the call does not
        catch, or the run cannot be undone: it is raised as it is.
    """
    index, kept = memory.state.pop(FAILED, None), plan.taken_back
    if isinstance(error, SdbrError) and not isinstance(error, NotStaticError):
        return None
    if index is None or isinstance(error, MemoryError) or memory.device is not None:
        return None
    # An index is out of range where another thread changes it as well: NumPy would read wild.
    if kept is None or not (kept.caught or runs_python(plan.program, index)):
        return None
    if not before.put_back():
        return None
    notes, undo = ([], Untouched) if exits is None else exits.so_far()
    text = str(error).partition("\n")[0]  # before Python 3.11 what is noted comes behind it
    what = text if isinstance(error, NotStaticError) else f"{type(error).__name__}: {text}"
    return SideExit(what, notes, undo, error, plan.program.place_of(index), kept.caught)
