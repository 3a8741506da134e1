"""One process of several that fails takes the others with it.

Without it they wait in a collective for one that waits for them while MPI shuts down.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any

from sdbr.optimizers.ranks import _exits
from sdbr.optimizers.ranks.leaving import Presence, presence

_PACKAGES = ("sdbr.", "chainer.", "chainermn.", "mpi4py.", "numpy.", "_sitebuiltins.")


class _Ending:
    """What is in place of this process's hooks."""

    def __init__(self) -> None:
        self.process: int | None = None  # that which has them; not one that is forked from it
        self.threads: set[int] = set()  # those that train
        self._presences: list[Presence] = []

    def install(self) -> None:
        """Put the hooks in place, once."""
        self.threads.add(threading.get_ident())
        if self.process is not None:
            return
        self.process = os.getpid()
        before, before_thread = sys.excepthook, threading.excepthook

        def excepthook(kind, error, trace) -> None:
            try:
                before(kind, error, trace)
            finally:
                self._fail(f"{_named(kind, error)} at {line_of(trace)}")

        def thread_excepthook(args) -> None:
            try:
                before_thread(args)
            finally:
                # A thread that does not train ends alone, as it does without MPI.
                if args.thread is None or args.thread.ident in self.threads:
                    error = _named(args.exc_type, args.exc_value)
                    self._fail(f"{error} at {line_of(args.exc_traceback)}, in a thread that trains")

        sys.excepthook = excepthook
        threading.excepthook = thread_excepthook
        _exits.watch(line_here)
        # After MPI was begun, so before it ends.
        atexit.register(self.at_exit)

    def _fail(self, why: str) -> None:
        """End all, but not where somebody types: the next line may mend it."""
        if os.getpid() == self.process and not (sys.flags.interactive or hasattr(sys, "ps1")):
            abort(why, 1)

    def presence(self, communicator: Any) -> Presence:
        """Who is there of a communicator; all of its ranks have to ask together."""
        found = presence(communicator, abort)
        if found not in self._presences:
            self._presences.append(found)
        return found

    def at_exit(self) -> None:
        """End all where this process was left without success; else tell them that it ends."""
        if os.getpid() != self.process or not _is_on():
            return
        code, line = _exits.left() or (None, None)
        if code is None or (isinstance(code, int) and code == 0):
            for found in self._presences:
                found.leave(line)
        else:
            status = code if isinstance(code, int) else 1
            abort(f"exit status {code!r} at {line or 'an unknown line'}", status)


def abort(why: str, status: int) -> None:
    """Say why on standard error, and end all processes of the job."""
    from mpi4py import MPI

    if not _is_on():
        return
    world = MPI.COMM_WORLD
    text = f"sdbr: rank {world.rank} of {world.size}: {why}; all processes are ended\n"
    sys.stderr.write(text)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    world.Abort(status or 1)


def _is_on() -> bool:
    from mpi4py import MPI

    return MPI.Is_initialized() and not MPI.Is_finalized()


def line_of(trace: TracebackType | None) -> str:
    """The last line of the user's on the way to an error."""
    found = "an unknown line"
    own = False
    for frame, number in traceback.walk_tb(trace):
        theirs = _is_users(frame)
        if theirs or not own:
            found, own = f"{frame.f_code.co_filename}:{number}", own or theirs
    return found


def line_here() -> str:
    """The line of the user's that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_users(frame: FrameType) -> bool:
    return not f"{frame.f_globals.get('__name__', '')}.".startswith(_PACKAGES)


def _named(kind: type[BaseException], error: BaseException | None) -> str:
    text = str(error or "").partition("\n")[0]
    return f"{kind.__name__}: {text}" if text else kind.__name__


ENDING = _Ending()
