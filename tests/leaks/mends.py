"""Switches that take one mend away, to see what catches its cause then.

`OFF` has, by the number of the cause, a context manager inside which its mend does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

from sdbr.compat.patches import PatchSet
from sdbr.trace.arrays.traced_float import Floats
from sdbr.trace.captured import CapturedState
from sdbr.trace.code import generators, profile_calls
from sdbr.trace.effects import attributes
from sdbr.trace.guards import guards
from sdbr.trace.guards._versions import Dicts
from sdbr.trace.recorder import Recorder


@contextlib.contextmanager
def _draws_unseen() -> Iterator[None]:
    """10: neither the profile function nor the states of generators are asked."""
    with (
        mock.patch.object(profile_calls, "CHOOSERS", []),
        mock.patch.object(generators.Generators, "moved", lambda self: None),
        mock.patch.object(PatchSet, "instead_of", lambda self, thing: None),
    ):
        yield


@contextlib.contextmanager
def _iterators_unseen() -> Iterator[None]:
    """11: nothing counts as giving something else each time."""
    with mock.patch.object(attributes, "moves_on", lambda thing: None):
        yield


def unnoticed(*reasons: str):
    """What starts with one of `reasons` makes no call dynamic."""
    original = Recorder.mark_dynamic

    def mark_dynamic(self, reason, quiet=False, line=None):
        if not reason.startswith(reasons):
            original(self, reason, quiet, line)

    return mock.patch.object(Recorder, "mark_dynamic", mark_dynamic)


@contextlib.contextmanager
def _nothing_shared():
    """What Chainer keeps is not kept, and results have memory of their own."""
    with (
        mock.patch("sdbr.lowering.gap.keeps", lambda: False),
        mock.patch("sdbr.lowering.forward.keeps", lambda: False),
    ):
        yield


#: Not here:
#: 12, the limits of what is compared: beyond them nothing is mended, it is named.
#: 16, indices that another thread changes: the mend is in the kernels, and without it the process
#: ends.
#: 17, what another thread takes away during an update: in compiled code, and the same.
OFF: dict[int, Callable] = {}
OFF[5] = _nothing_shared
OFF[4] = lambda: mock.patch.object(CapturedState, "value_of", lambda self, variable: None)
OFF[1] = lambda: mock.patch("sdbr.trace._applies.has_own_backward", lambda function: False)
OFF[2] = lambda: mock.patch("sdbr.schedule.forward.ForwardPlan.comes_apart", False)
OFF[3] = lambda: mock.patch("sdbr.schedule.forward.ForwardPlan.comes_apart", False)
OFF[10] = _draws_unseen
OFF[11] = _iterators_unseen
OFF[6] = lambda: unnoticed(
    "a value left NumPy", "the memory of", "a Parameter was made of", "an array went"
)
OFF[7] = lambda: unnoticed("an array went into", "an array was read by compiled")
OFF[8] = lambda: mock.patch.object(Floats, "note_leaving", lambda self, scalar: None)
OFF[9] = lambda: mock.patch("sdbr.trace.watch._calling.is_users", lambda name: False)
OFF[18] = lambda: mock.patch("sdbr.call.exits.failures.FAILED", "")  # nobody knows who has raised
OFF[13] = lambda: mock.patch.object(guards, "Dicts", lambda items, busy: Dicts([], busy))
OFF[15] = contextlib.nullcontext  # what is seen is the mend
OFF[19] = lambda: mock.patch("sdbr.lowering.gap.follows", lambda: False)  # results' arrays
OFF[14] = lambda: mock.patch(
    "sdbr.trace.effects.stores.Outside.collect_stores", lambda self, *_: []
)


def _beside_what_is_seen(off: Callable) -> Callable:
    """What the call is seen to read is no condition either: it catches most of them by itself."""

    @contextlib.contextmanager
    def both() -> Iterator[None]:
        with mock.patch("sdbr.call.trace_call.what_was_seen", lambda *args: None), off():
            yield

    return both


OFF.update({number: _beside_what_is_seen(off) for number, off in OFF.items()})
