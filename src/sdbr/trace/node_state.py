"""What the forward of a user's function node leaves in variables of the call around it."""

from __future__ import annotations

import types

from sdbr.trace._node_copies import inner_function
from sdbr.trace.code.foreign import is_users
from sdbr.trace.watch.reads import contents

_METHODS = ("forward", "forward_cpu", "forward_gpu")


def variables_around(function, frames) -> list[tuple]:
    """Variables of the code in `frames` that the forward of `function` can reach, as they are now.

    What lies further outside is compared as what any code reads there.

    Parameters
    ----------
    function : chainer.FunctionNode
    frames : iterable of frame
        Of the call.

    Returns
    -------
    list of (str, cell, object)
        The object is what `changed_by` compares with.
    """
    cells = _cells(function)
    if not cells:
        return []
    inside = {(name, id(frame.f_locals.get(name))) for frame in frames for name in cells
              if name in frame.f_code.co_cellvars}  # fmt: skip
    return [
        (name, cell, contents(cell.cell_contents))
        for name, cell in cells.items()
        if (name, id(cell.cell_contents)) in inside
    ]


def changed_by(found: list[tuple]) -> str | None:
    """The first of `variables_around` that holds something else by now."""
    for name, cell, before in found:
        if contents(cell.cell_contents) != before:
            return name
    return None


def _cells(function) -> dict:
    cells: dict = {}
    inner = inner_function(function)
    if inner is None and type(function).__module__[:8] == "chainer.":
        return cells
    for owner in (function, inner):
        # What a class of Chainer's derives from is Chainer's.
        known = owner is None or type(owner).__module__.partition(".")[0] == "chainer"
        for cls in () if known else type(owner).__mro__:
            if not is_users(cls.__module__):
                continue
            for name in _METHODS:
                method = cls.__dict__.get(name)
                if isinstance(method, types.FunctionType):
                    names, values = method.__code__.co_freevars, method.__closure__ or ()
                    cells.update(zip(names, values, strict=True))
    return {name: cell for name, cell in cells.items() if name != "__class__" and _is_set(cell)}


def _is_set(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
