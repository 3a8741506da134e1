"""The worker processes of an iterator: started, given tasks, asked for results, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from sdbr.base.errors import WorkerError
from sdbr.training.feed import worker
from sdbr.training.feed.worker import Done, Seeds, Task

#: Seconds that a worker may take to end when it is told to.
_PATIENCE = 5.0
#: Seconds until it is tried again to send what did not go.
_SOON = 0.05
#: Seconds after which it is looked whether workers are there, where nothing comes.
_LOOK = 5.0


class Processes:
    """Workers that take tasks from one pipe, and have one each for results.

    Parameters
    ----------
    n : int
        How many.
    """

    # It knows neither data set nor seeds: what ends workers must not keep alive who has them.
    def __init__(self, n: int) -> None:
        self._n = n
        self._context = multiprocessing.get_context()
        self._workers: dict[Connection, multiprocessing.Process] = {}
        self._unsent = bytearray()
        self._reader: Connection | None = None
        self._writer: Connection | None = None
        self._lock: Any = None
        self._owner = os.getpid()

    def fill(self, dataset: Any, seeds: Seeds, most: int | None) -> None:
        """Start as many as are not there; each does at most `most` tasks."""
        if self._writer is None:
            # Before a child is forked, which would otherwise start a tracker of its own.
            resource_tracker.ensure_running()
            self._lock = self._context.Lock()
            self._reader, self._writer = self._context.Pipe(duplex=False)
            # A worker that waits for its results to be read reads no tasks meanwhile.
            os.set_blocking(self._writer.fileno(), False)
        while len(self._workers) < self._n:
            self._start_one(dataset, seeds, most)

    def _start_one(self, dataset: Any, seeds: Seeds, most: int | None) -> None:
        results, theirs = self._context.Pipe(duplex=False)
        is_child = self._context.get_start_method() != "forkserver"
        process = self._context.Process(
            target=worker.main,
            args=(dataset, seeds, self._reader, self._lock, theirs, most, is_child),
            name="sdbr-feed",
            daemon=True,
        )
        self._workers[results] = process
        try:
            with self._no_interruption():
                process.start()
        except BaseException:
            if process.pid is None:  # else it is there, and is ended with the others
                del self._workers[results]
                results.close()
            raise
        finally:
            theirs.close()

    @contextlib.contextmanager
    def _no_interruption(self) -> Iterator[None]:
        """Ctrl-C is for the parent, which ends its workers; a child keeps what is blocked here."""
        if self._context.get_start_method() == "forkserver":  # it would be kept by all its children
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def is_owned(self) -> bool:
        """Whether this is the process that has started them, and no child of it."""
        return os.getpid() == self._owner

    def pids(self) -> list[int]:
        """Of the workers that are there."""
        return [process.pid for process in self._workers.values()]

    def put(self, task: Task) -> None:
        """Queue a task."""
        data = pickle.dumps(tuple(task))
        self._unsent += worker.LENGTH.pack(len(data)) + data
        self.send()

    def send(self) -> None:
        """As much of what is queued as goes without waiting."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: os.write(self._writer.fileno(), self._unsent)]

    def results(self, timeout: float | None) -> Iterator[Done]:
        """What has been done; some time is waited where nothing has.

        Workers that have done their number of tasks are not there any more.

        Raises
        ------
        WorkerError
            If a worker has ended.
        """
        most = _SOON if self._unsent else _LOOK
        ready = connection.wait(
            list(self._workers), most if timeout is None else min(timeout, most)
        )
        if self._unsent:
            self.send()
        for results in ready:
            yield from self._of_one(results)
        if not ready:
            # The end of a worker is the end of its pipe, unless somebody forked meanwhile.
            for process in self._workers.values():
                if process.exitcode is not None:
                    raise WorkerError(_obituary(process))

    def _of_one(self, results: Connection) -> Iterator[Done]:
        try:
            done = Done(*pickle.loads(results.recv_bytes()))
        except (EOFError, OSError):
            raise WorkerError(_obituary(self._workers[results])) from None
        if done.is_last:
            self._workers.pop(results).join(_PATIENCE)
            results.close()
        yield done

    def stop(self) -> None:
        """End all workers; what was queued is lost."""
        if not self.is_owned() or self._writer is None:
            return
        self._writer.close()
        self._reader.close()
        self._writer = self._reader = self._lock = None
        self._unsent.clear()
        for process in self._workers.values():
            process.terminate()
        for results, process in self._workers.items():
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            results.close()
        self._workers.clear()


def _obituary(process: multiprocessing.Process) -> str:
    process.join(_PATIENCE)
    code = process.exitcode
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            hint = "; the system does so when memory is short" if name == "SIGKILL" else ""
            return f"worker process {process.pid} was ended by {name}{hint}"
    return (
        f"worker process {process.pid} ended with exit code {code}; if it did not even begin, the "
        "dataset may not unpickle, or the script has no `if __name__ == '__main__':`"
    )
