"""A process that ends well while others go on to train with it: they would wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

#: The attribute of a communicator that holds its `Presence`.
PRESENCE = "_sdbr_presence"

#: Seconds between two looks at who has ended.
_PAUSE = 1.0
#: Bytes of a farewell: how many updates were begun, and the line that the process was left at.
_LENGTH = 512


class Presence:
    """What the processes of a communicator know of each other: who has ended, and after what.

    Each has a thread that looks now and then, since one that waits for another cannot.

    Parameters
    ----------
    mpi_comm : mpi4py.MPI.Comm
        All of its processes have to make theirs.
    abort : callable
        ``abort(why, status)`` ends the job.

    Attributes
    ----------
    comm : mpi4py.MPI.Comm
        The same processes, and messages that are nobody else's.
    begun : int
        Updates of this process, each of which all others have to make, too.
    left : dict
        Of the ranks that have ended, as far as is known: how many updates, and where.
    """

    def __init__(self, mpi_comm: Any, abort: Callable[[str, int], None]) -> None:
        from mpi4py import MPI

        self.begun = 0
        self._abort = abort
        self.comm = mpi_comm.Dup()
        self._others = [rank for rank in range(mpi_comm.size) if rank != mpi_comm.rank]
        self._texts = [bytearray(_LENGTH) for _ in self._others]
        self._awaited = [
            self.comm.Irecv(text, rank)
            for rank, text in zip(self._others, self._texts, strict=True)
        ]
        self.left: dict[int, tuple[int, str]] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sdbr-presence", daemon=True)
        if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
            self._thread.start()

    def _watch(self) -> None:
        from mpi4py import MPI

        while not self._ends.wait(_PAUSE) and not MPI.Is_finalized():
            self.look()

    def look(self) -> None:
        """End the job if this process has begun an update that another one will never make."""
        from mpi4py import MPI

        for i in MPI.Request.Testsome(self._awaited) or ():
            begun, _, line = self._texts[i].rstrip(b"\0").decode(errors="replace").partition(" ")
            self.left[self._others[i]] = int(begun), line
        for rank, (begun, line) in self.left.items():
            if self.begun > begun:
                self._abort(
                    f"waits in update {self.begun} for rank {rank}, which has ended after "
                    f"{begun} updates{' at ' * bool(line)}{line}",
                    1,
                )

    def leave(self, line: str | None) -> None:
        """Tell the others that this process ends, and wait until they end, too.

        Parameters
        ----------
        line : str or None
            Where it was left, if not at the end of its script.
        """
        from mpi4py import MPI

        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join()
        text = f"{self.begun} {line or ''}".encode()[:_LENGTH].ljust(_LENGTH, b"\0")
        told = [self.comm.Isend(text, rank) for rank in self._others]
        pause = threading.Event()
        while not MPI.Request.Testall(self._awaited + told):
            pause.wait(_PAUSE / 50)
        self.comm.Free()


def presence(communicator: Any, abort: Callable[[str, int], None]) -> Presence:
    """That of a communicator of ChainerMN's; all ranks have to ask for it the first time."""
    found = communicator.__dict__.get(PRESENCE)
    if found is None:
        found = communicator.__dict__[PRESENCE] = Presence(communicator.mpi_comm, abort)
    return found
