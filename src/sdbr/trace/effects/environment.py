"""Variables of the environment that the code of a call reads: replays compare them; or changes."""

from __future__ import annotations

import functools
import os
import sys

from sdbr.base.reasons import Remedy
from sdbr.trace.current import current
from sdbr.trace.effects.output import ONLY_TRACED, made_by_call


def _wrap_read(original):
    """``os.environ[name]``: compared before every replay."""

    @functools.wraps(original)
    def read(self, name):
        recorder = current()
        if recorder is not None and not recorder.depth and self._data is os.environ._data:
            key = self.encodekey(name)  # os.environ and os.environb share what they hold
            recorder.trace.environment[key] = self._data.get(key)
        return original(self, name)

    return read


def _wrap_change(original):
    @functools.wraps(original)
    def change(self, *args):
        recorder = current()
        if recorder is not None and not recorder.depth and self._data is os.environ._data:
            recorder.mark_dynamic(f"a change of os.environ {ONLY_TRACED}", Remedy.RUN_EVERY_TIME)
        return original(self, *args)

    return change


def _wrap_going_over(original):
    @functools.wraps(original)
    def go_over(self):
        recorder = current()
        if (
            recorder is not None
            and not recorder.depth
            and self._data is os.environ._data
            and made_by_call(sys._getframe(1))
        ):
            recorder.mark_dynamic(
                "os.environ is asked as a whole only while the call is traced",
                Remedy.RUN_EVERY_TIME,
            )
        return original(self)

    return go_over


def register(patches) -> None:
    """Add the patches of this module to those that are in place while a call is traced."""
    environment = type(os.environ)
    patches.register(environment, "__getitem__", _wrap_read)
    patches.register(environment, "__setitem__", _wrap_change)
    patches.register(environment, "__delitem__", _wrap_change)
    patches.register(environment, "__iter__", _wrap_going_over)
