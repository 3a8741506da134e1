"""Errors and warnings that values decide about, where the code has asked for them.

``numpy.errstate(invalid='raise')`` and warnings that are errors, or that are counted, turn values
into a way through the code. Kernels of a replay tell nobody.
"""

from __future__ import annotations

import functools
import sys
import warnings

from sdbr.base.reasons import Remedy
from sdbr.trace.code.foreign import is_users
from sdbr.trace.current import current

import numpy as np

_QUIET = frozenset({"ignore", "warn"})
_WARNINGS = ("warnings", "_py_warnings")


#: What NumPy keeps its settings in, where it has that (2.0): another object after each change.
_SETTINGS = getattr(getattr(np, "_core", None), "umath", None)
_SETTINGS = getattr(_SETTINGS, "_extobj_contextvar", None)
_quiet = None  # of those, one that has no more to tell than warnings


def told_of_values() -> str | None:
    """What NumPy would tell of values of the present operation, other than by a warning."""
    global _quiet
    settings = None if _SETTINGS is None else _SETTINGS.get()
    if settings is not None and settings is _quiet:
        return None
    found = np.geterr()
    if _QUIET.issuperset(found.values()):
        _quiet = settings
        return None
    for kind, how in found.items():
        if how not in _QUIET:
            return f"np.errstate({kind}={how!r})"
    return None


def _asked_by_call() -> bool:
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _WARNINGS:
        frame = frame.f_back
    return frame is not None and is_users(frame.f_globals.get("__name__", ""))


def _wrap_filter(original):
    @functools.wraps(original)
    def filtering(action, *args, **kwargs):
        recorder = current()
        if recorder is not None and not recorder.depth and action == "error" and _asked_by_call():
            recorder.mark_dynamic(
                "warnings are made errors, which values decide about", Remedy.LOOK_AT_VALUES
            )
        return original(action, *args, **kwargs)

    return filtering


def _wrap_catching(original):
    @functools.wraps(original)
    def enter(self):
        recorder = current()
        if recorder is not None and not recorder.depth and self._record and _asked_by_call():
            recorder.mark_dynamic(
                "warnings are collected, which values decide about", Remedy.LOOK_AT_VALUES
            )
        return original(self)

    return enter


def register(patches) -> None:
    """Add the patches of this module to those that are in place while a call is traced."""
    patches.register(warnings, "simplefilter", _wrap_filter)
    patches.register(warnings, "filterwarnings", _wrap_filter)
    patches.register(warnings.catch_warnings, "__enter__", _wrap_catching)
