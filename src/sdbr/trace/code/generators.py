"""Random generators: those that the code may draw from, and whether it did so unseen.

Draws through ``numpy.random`` are recorded. All others (a method that was imported by name or is
kept somewhere, a generator in an object) are noticed by what they do: the generator moves.
"""

from __future__ import annotations

import _random
import contextlib
import ctypes
import datetime
import random
import sys
import threading
import types
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.code._library import is_library_name
from sdbr.trace.code.moving import CLOCKS, GLOBAL_GENERATOR
from sdbr.trace.code.profile_calls import chooses

import numpy as np

#: The global generator moves also when another thread draws.
UNWATCHED = "draws past numpy.random from NumPy's global random generator (other threads are alive)"
_WORDS = 624  # of the state of MT19937, before the position
_STATE = ctypes.c_uint32 * (_WORDS + 1)
_ENTROPY = ("urandom", "getrandom")


class _Place:
    """Where one generator stands."""

    __slots__ = ("bits", "generator", "name", "seen", "words")

    def __init__(self, generator, name: str):
        self.generator = generator
        self.name = name
        self.words = None
        if isinstance(generator, random.Random):
            self.bits = None
            self.seen = self.now()
            return
        self.bits = getattr(generator, "bit_generator", None) or generator._bit_generator
        if type(self.bits) is np.random.MT19937:
            # Its ``state`` takes 50 microseconds; the position moves with every draw.
            address = self.bits.ctypes.state_address
            self.words = _STATE.from_address(address)
        self.seen = self.now()

    def now(self) -> Any:
        words = self.words
        if self.bits is None:
            with contextlib.suppress(NotImplementedError):  # of the system: it has no state
                return self.generator.getstate()
            return None
        if words is None:
            return repr(self.bits.state)
        return words[_WORDS], words[0], words[_WORDS - 1]


class Generators:
    """The generators that code outside of function nodes must not draw from unseen.

    Python's global one is not among them: the profile function sees its methods.

    Attributes
    ----------
    unwatched : str or None
        One that cannot be looked at, and why.
    """

    def __init__(self):
        self._places: dict[int, _Place] = {}
        self.unwatched: str | None = None
        if threading.active_count() == 1:
            self.watch(GLOBAL_GENERATOR, "NumPy's global random generator")
        else:
            self.unwatched = UNWATCHED

    def watch(self, generator, name: str) -> None:
        """Look at `generator` from now on, too."""
        if id(generator) not in self._places:
            self._places[id(generator)] = _Place(generator, name)

    def look(self) -> None:
        """Let the generators count as unmoved."""
        for place in self._places.values():
            place.seen = place.now()

    def moved(self) -> str | None:
        """The name of one that somebody drew from since."""
        for place in self._places.values():
            if place.now() != place.seen:
                return place.name
        return None


@chooses
def _draws_or_tells_time(function):
    owner = function.__self__
    name = function.__name__
    if isinstance(owner, _random.Random):
        return None if name == "getstate" else _drew
    if isinstance(owner, types.ModuleType):
        if owner.__name__ in ("posix", "nt") and name in _ENTROPY:
            return _drew_entropy
        return _told_time if owner.__name__ == "time" and name in CLOCKS else None
    is_date = isinstance(owner, type) and issubclass(owner, datetime.date)
    return _told_time if is_date and name in ("now", "today", "utcnow") else None


def _names_a_file(frame) -> bool:
    """Whether a number is drawn for the name of a temporary file; the file itself is noticed."""
    while frame is not None and frame.f_globals.get("__name__") == "random":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "tempfile"


def _drew(recorder, function) -> None:
    # CuPy compiles a kernel when it is called for the first time, which may be in this call.
    if _names_a_file(sys._getframe(1)):
        return
    own = "" if function.__self__ is random._inst else " of a random generator of its own"
    recorder.mark_dynamic(f"random.{function.__name__} drew a number{own}", Remedy.DRAW_ARRAYS)


def _drew_entropy(recorder, function) -> None:
    recorder.mark_dynamic(
        f"random bytes of the system were drawn (os.{function.__name__}, secrets, uuid4, a "
        "generator without a seed)",
        Remedy.DRAW_ARRAYS,
    )


def _told_time(recorder, function) -> None:
    # Libraries look at the clock for affairs of their own.
    if not is_library_name(sys._getframe(1).f_globals.get("__name__", "")):
        recorder.mark_dynamic(f"time.{function.__name__} was called", Remedy.PASS_WHAT_IT_GIVES)
