"""Data sets for iterators with workers, which are pickled by name; what workers leave behind."""

from __future__ import annotations

import os
import random
import signal
from multiprocessing import shared_memory
from typing import ClassVar

import chainer
import numpy as np

SIZE = 23
_RNG = np.random.RandomState(0)
X = _RNG.rand(SIZE, 3, 4, 5).astype("f")


class Examples(chainer.dataset.DatasetMixin):
    """``make(self, i)``, by name."""

    def __init__(self, kind: str, **about) -> None:
        self.kind = kind
        self.__dict__.update(about)

    def __len__(self):
        return SIZE

    def get_example(self, i):
        return KINDS[self.kind](self, int(i))


def _varying(_, i):
    return np.full((2, 3 + i % 4), i, "f"), np.int32(i)


def _sometimes(self, i):
    return np.full((3, 4 if i in self.odd else 5), i, "f"), i


def _raising(self, i):
    if i == self.bad:
        raise self.error
    return X[i], i


def _augmented(_, i):
    return np.random.rand(3).astype("f"), np.float64(random.random()), np.int32(i)


def _deadly(self, i):
    if i == self.bad and not os.path.exists(self.once):
        with open(self.once, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return X[i], i


def _pids(_, i):
    return np.full(4, os.getpid(), "q"), i


def _waiting(self, i):
    if i == self.bad:
        with open(self.pipe):  # until somebody opens it to write
            pass
    return X[i], i


#: What is handed over whole.
WHOLE = {
    "image and label": lambda _, i: (X[i], np.int32(i)),
    "numbers": lambda _, i: (i, i / 7, i % 2 == 0, np.float32(i), np.uint8(i), np.bool_(i % 3)),
    "one in a tuple": lambda _, i: (X[i],),
    "array": lambda _, i: X[i],
    "number": lambda _, i: i,
    "dict": lambda _, i: {"x": X[i], "t": i, 3: X[i, 0, 0]},
    "halves": lambda _, i: (X[i].astype("e"), X[i].astype("F"), X[i] > 0.5),
    "no axes": lambda _, i: (np.array(i, "b"), X[i]),
    "nothing in it": lambda _, i: (np.empty((0, 3), "f"), X[i]),
    "only nothing": lambda _, i: np.empty(0, "f"),
    "read-only": lambda _, i: (np.broadcast_to(X[i, 0, 0], (4, 5)), i),
    "the same twice": lambda _, i: (X[i],) * 2,
}
#: What is not.
OTHERS = {
    "shapes": _varying,
    "strings": lambda _, i: (X[i], f"name {i}"),
    "lists": lambda _, i: [i, i + 1],
    "large ints": lambda _, i: (X[i], 2**70 + i),
    "dates": lambda _, i: (X[i], np.datetime64(i, "s")),
    "None": lambda _, i: (X[i], None),
    "objects": lambda _, i: (np.array([i, "a"], object), X[i]),
    "other bytes": lambda _, i: X[i].astype(">f4"),
    "nested": lambda _, i: (X[i], (X[i], i)),
    "classes": lambda _, i: (X[i], i if i % 2 else float(i)),
    "read-only shapes": lambda _, i: (np.frombuffer(bytes(8 * (1 + i % 3)), "d"), i),
    "keys": lambda _, i: {"x": X[i], "t": i} if i % 2 else {"t": i, "x": X[i]},
    "orders of keys": lambda _, i: {"a": i, "b": -i} if i % 2 else {"b": -i, "a": i},
    "lengths": lambda _, i: (X[i], i, i)[: 2 + i % 2],
    "subclasses": lambda _, i: X[i].view(np.recarray),
}
KINDS = {
    **WHOLE, **OTHERS, "sometimes": _sometimes, "raising": _raising, "augmented": _augmented,
    "deadly": _deadly, "pids": _pids, "waiting": _waiting,
}  # fmt: skip


class Unpicklable(Exception):
    """Raised in a worker, and not to be sent."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Recorded(shared_memory.SharedMemory):
    """Shared memory; `made` has the names."""

    made: ClassVar[list[str]] = []

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.made.append(self.name)

    @classmethod
    def left(cls) -> list[str]:
        """The names that are still there."""
        return [name for name in cls.made if os.path.exists(f"/dev/shm/{name}")]


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
