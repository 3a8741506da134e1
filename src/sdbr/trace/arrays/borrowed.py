"""Arrays outside the chain are seen as traced ones while a call is traced.

NumPy does not tell when a plain array is indexed by a traced one, or has a method called with one:
``TABLE[labels]`` would be an array from nowhere. Nor does it tell when a draw of its global
generator is called that was imported by name: that is replaced by one which is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays.creation import seen_draw
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.moving import stand_in
from sdbr.trace.code.reading import Cell
from sdbr.trace.values import CONSTANT


@contextlib.contextmanager
def arrays_traced(entries: list, recorder) -> Iterator[None]:
    """Globals and variables of enclosing functions that are arrays show where they come from.

    Those that are draws of NumPy's global generator are recorded.

    Parameters
    ----------
    entries : list of (holder, str, object)
        What :class:`~sdbr.trace.code.outside.Outside` has found.
    recorder : sdbr.trace.recorder.Recorder
    """
    put: list[tuple[Any, str, Any, Any]] = []
    try:
        for holder, name, thing in entries:
            if _fits(thing) and holder.get(name) is thing:
                value = recorder.find_array(thing)
                if value is None:
                    value = recorder.value(CONSTANT, thing, False, thing, False)
                    recorder.know_array(thing, value)
                shown = wrap(thing, value, recorder)
            else:
                shown = seen_draw(thing) or (stand_in(thing) if recorder.on_device else None)
                if shown is None or holder.get(name) is not thing:
                    continue
            put.append((holder, name, thing, shown))
            _set(holder, name, shown)
        yield
    finally:
        for holder, name, thing, shown in put:
            if holder.get(name) is shown:  # else the call has assigned another
                _set(holder, name, thing)


def _fits(thing) -> bool:
    return type(thing) in PLAIN and thing.dtype.isnative and thing.dtype.kind in "biufc"


def _set(holder, name: str, thing) -> None:
    if isinstance(holder, Cell):
        holder.cell.cell_contents = thing
    elif type(holder) is dict:
        holder[name] = thing
