"""Handing out traced views of arrays."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import VIEWS
from sdbr.trace.arrays.traced_scalar import scalar_of
from sdbr.trace.current import current

import numpy as np


def wrap(array, origin, recorder=None):
    """A traced view of `array` that shows Value `origin`; a plain one in a dynamic trace.

    Parameters
    ----------
    array : ndarray
        Of NumPy or CuPy.
    origin : Value or PURE
    recorder : Recorder, optional
        Without it that of this thread.
    """
    recorder = current() if recorder is None else recorder
    if recorder is None:
        return _made(array, origin)
    if getattr(origin, "is_scalar", False) and array.dtype.kind in "SU":
        # Compiled code reads a text from where it lies, and asks nobody.
        recorder.mark_dynamic("a value left NumPy as a text", Remedy.STAY_ARRAYS)
    if recorder.trace.dynamic is not None:  # nothing more has to be known
        return array[()] if getattr(origin, "is_scalar", False) else array
    # One view for one array, as long as anybody holds it: `y.array is y.array`.
    shown = recorder.views.view_of(array, origin)
    if shown is None:
        shown = _made(array, origin)
        recorder.views.note_view(array, shown)
    return shown


def _made(array, origin):
    view = VIEWS.get(type(array))
    if view is not None:
        return view(array, origin)
    if array.ndim == 0:
        return scalar_of(array, origin)
    made = np.ndarray.view(array, TracedArray)
    np.ndarray.setflags(made, align=False)
    made.origin = origin
    made.plain = array
    return made
