"""What a worker process does: it takes parts of batches, and writes their examples to memory."""

from __future__ import annotations

import hashlib
import io
import mmap
import multiprocessing
import os
import pickle
import random
import signal
import struct
import threading
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.pool import ExceptionWithTraceback
from typing import Any, NamedTuple

from sdbr.training.feed.layout import ALIGNMENT, Layout, NotWhole
from sdbr.training.feed.segments import attach

import numpy as np
import threadpoolctl

#: Seconds after which a worker looks whether its parent is alive.
_PULSE = 2.0
LENGTH = struct.Struct("<Q")


class Seeds(NamedTuple):
    """What random numbers of examples follow from."""

    numpy: bytes
    python: bytes

    @classmethod
    def of_now(cls, *also: Any) -> Seeds:
        """From the states of the global generators, which stay as they are."""
        numpy = pickle.dumps((np.random.get_state(legacy=False), also))
        python = pickle.dumps((random.getstate(), also))
        return cls(_digest(numpy), _digest(python))

    def as_array(self) -> np.ndarray:
        """uint8[32], for snapshots."""
        return np.frombuffer(self.numpy + self.python, np.uint8)

    @classmethod
    def of_array(cls, array: np.ndarray) -> Seeds:
        """What `as_array` gave."""
        data = np.asarray(array, np.uint8).tobytes()
        return cls(data[: len(data) // 2], data[len(data) // 2 :])

    def plant(self, batch: int, row: int) -> None:
        """Begin the random numbers of an example."""
        place = struct.pack("<QQ", batch, row)
        np.random.seed(int.from_bytes(_digest(self.numpy + place)[:4], "little"))
        random.seed(int.from_bytes(_digest(self.python + place), "little"))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class Task(NamedTuple):
    """A part of a batch.

    Attributes
    ----------
    batch : int
        The number of the batch.
    first : int
        The row of the first of the examples.
    indices : ndarray of int
        Of the examples in the dataset.
    slot : tuple of (str, int, int) or None
        Name and size of memory for `capacity` examples, and how many slots there are; None where
        there is none.
    layout : Layout or None
        None where examples go to the memory one by one, as they are.
    """

    batch: int
    first: int
    indices: np.ndarray
    slot: tuple[str, int, int] | None
    capacity: int
    layout: Layout | None


class Done(NamedTuple):
    """What became of a task.

    Attributes
    ----------
    batch, first : int
        Which it was.
    examples : bytes or None
        The pickled examples; None where they are rows of the columns.
    places : list of (int, int)
        Begin and end in the memory, of buffers that `examples` leaves out.
    needed : int
        Bytes of memory that one example would have taken.
    why : str or None
        Why examples are no rows, where they were to be.
    error : bytes or None
        The pickled exception that the dataset raised.
    is_last : bool
        Whether the worker ends here.
    """

    batch: int
    first: int
    examples: bytes | None = None
    places: list | None = None
    needed: int = 0
    why: str | None = None
    error: bytes | None = None
    is_last: bool = False


def main(
    dataset: Any,
    seeds: Seeds,
    tasks: Connection,
    lock: Any,
    results: Connection,
    most: int | None,
    is_child: bool,
) -> None:
    """Do tasks until there are no more, or `most` are done.

    `is_child` tells whether this process was started by its parent itself, and by no server.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # for libraries that the dataset is still to load
    threadpoolctl.threadpool_limits(1)
    threading.Thread(target=_watch, args=(is_child,), daemon=True).start()
    work = Work(dataset, seeds)
    count = 0
    while count != most:
        with lock:
            data = _next_task(tasks.fileno())
        if data is None:
            return
        count += 1
        done = work.do(Task(*pickle.loads(data)))
        try:
            results.send_bytes(pickle.dumps(tuple(done._replace(is_last=count == most))))
        except BrokenPipeError:
            return


def _watch(is_child: bool) -> None:
    """End with the parent, also while the dataset waits for something, or before it began."""
    parent = multiprocessing.parent_process()
    # Forked children of one parent keep each other's sentinels open.
    while not connection.wait([parent.sentinel], _PULSE):
        if is_child and os.getppid() != parent.pid:
            break
    os._exit(1)


def _next_task(tasks: int) -> bytes | None:
    length = _read(tasks, LENGTH.size)
    return length and _read(tasks, *LENGTH.unpack(length))


def _read(handle: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(handle, length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Work:
    """Examples of a dataset, put into memory."""

    def __init__(self, dataset: Any, seeds: Seeds) -> None:
        self._dataset = dataset
        self._seeds = seeds
        #: By name; what was used last comes last.
        self._memory: dict[str, mmap.mmap] = {}
        self._columns: dict[str, tuple[tuple, list[np.ndarray]]] = {}

    def do(self, task: Task) -> Done:
        """One task, whatever the dataset raises."""
        try:
            return self._done(task)
        except Exception as error:
            return Done(task.batch, task.first, error=_pickled(error))

    def _done(self, task: Task) -> Done:
        if task.layout is None:
            return self._packed(task, self._examples(task, 0))
        columns = self._columns_of(task)
        for i, index in enumerate(task.indices):
            self._seeds.plant(task.batch, task.first + i)
            example = self._dataset[index]
            try:
                task.layout.write(columns, task.first + i, example)
            except NotWhole as error:
                before = [c[task.first : task.first + i].copy() for c in columns]
                examples = [*task.layout.examples(before), example, *self._examples(task, i + 1)]
                # The rows of others lie around: there is no room for what is none.
                done = self._packed(task._replace(slot=None), examples)
                return done._replace(why=str(error))
        return Done(task.batch, task.first)

    def _examples(self, task: Task, begin: int) -> list:
        examples = []
        for i, index in enumerate(task.indices[begin:], begin):
            self._seeds.plant(task.batch, task.first + i)
            examples.append(self._dataset[index])
        return examples

    def _packed(self, task: Task, examples: list) -> Done:
        place = end = 0
        memory = None
        if task.slot is not None:
            of_one = task.slot[1] // task.capacity // ALIGNMENT * ALIGNMENT
            place = task.first * of_one
            end = place + len(task.indices) * of_one
            memory = memoryview(self._attached(*task.slot))
        data, places, needed = pack(examples, memory, place, end)
        return Done(task.batch, task.first, data, places, -(-needed // max(len(examples), 1)))

    def _columns_of(self, task: Task) -> list[np.ndarray]:
        name = task.slot[0]
        memory = self._attached(*task.slot)
        kind = (task.layout, task.capacity)
        known, columns = self._columns.get(name, (None, []))
        if known == kind:
            return columns

        def array_at(begin: int, dtype: np.dtype, size: int) -> np.ndarray:
            return np.frombuffer(memory, dtype, size, begin) if size else np.empty(0, dtype)

        columns = task.layout.arrays(task.capacity, array_at)
        self._columns[name] = (kind, columns)
        return columns

    def _attached(self, name: str, _: int, count: int) -> mmap.mmap:
        memory = self._memory.pop(name, None)
        if memory is None:
            memory = attach(name)
        while len(self._memory) >= count:
            # It may be one that nobody else knows any more.
            oldest = next(iter(self._memory))
            del self._memory[oldest]
            self._columns.pop(oldest, None)
        self._memory[name] = memory
        return memory


class _Pickler(pickle.Pickler):
    """Arrays that may not be written come back as others do."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and not obj.flags.writeable:
            return obj.copy().__reduce_ex__(5)
        return NotImplemented


def pack(
    examples: list, memory: memoryview | None, place: int, end: int
) -> tuple[bytes, list[tuple[int, int]], int]:
    """Pickle examples; their arrays go to the memory between `place` and `end` where they fit.

    Returns
    -------
    bytes
    list of (int, int)
        Where in the memory the arrays lie that are there.
    int
        Bytes that all of them need.
    """
    places: list[tuple[int, int]] = []
    needed = 0

    def stays(buffer: pickle.PickleBuffer) -> bool:
        nonlocal place, needed
        raw = buffer.raw()
        size = -(-raw.nbytes // ALIGNMENT) * ALIGNMENT
        needed += size
        if not size or memory is None or place + size > end:
            return True
        memory[place : place + raw.nbytes] = raw
        places.append((place, place + raw.nbytes))
        place += size
        return False

    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=stays).dump(examples)
    return stream.getvalue(), places, needed


def _pickled(error: Exception) -> bytes:
    """An exception with the worker's traceback as its cause."""
    traceback = error.__traceback__
    try:
        data = pickle.dumps(ExceptionWithTraceback(error, traceback))
        pickle.loads(data)
        return data
    except Exception:
        text = f"{type(error).__name__}: {error}"
        plain = RuntimeError(f"the dataset raised what cannot be pickled: {text}")
        return pickle.dumps(ExceptionWithTraceback(plain, traceback))
