"""CuPy's generators, set back: what they have drawn comes once more.

Nothing tells where a generator of cuRAND stands, nor can it be copied. So what it draws meanwhile
is kept, and given to who asks next, in the same order. All draws of CuPy's go through the functions
of one module, which are called by their names there (13.6 and 14).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from sdbr.base.forks import reentrant_lock
from sdbr.devices.arrays import Array

import numpy as np
from chainer.backends import cuda

#: Functions of cuRAND, and the bytes of each number that they write.
_DRAWING = {
    "generate": 4, "generateLongLong": 8, "generateUniform": 4, "generateUniformDouble": 8,
    "generateNormal": 4, "generateNormalDouble": 8, "generateLogNormal": 4,
    "generateLogNormalDouble": 8, "generatePoisson": 4,
}  # fmt: skip
#: After these a generator stands somewhere else.
_SETTING = (
    "setPseudoRandomGeneratorSeed", "setGeneratorOffset", "setGeneratorOrdering",
    "destroyGenerator",
)  # fmt: skip


class _Draw(NamedTuple):
    """What a generator was asked for, and what it gave."""

    generator: Any
    name: str
    arguments: tuple
    numbers: Any


class _Kept:
    """What was drawn and put back, by generator, until somebody asks for it again."""

    def __init__(self) -> None:
        self.lock = reentrant_lock()
        self.draws: dict[Any, collections.deque] = {}
        self.of_thread = threading.local()

    def next(self, generator: Any, name: str, arguments: tuple) -> Any:
        """The numbers that such a call has given before, if these are next; else None."""
        if generator not in self.draws:
            return None
        with self.lock:
            waiting = self.draws.get(generator)
            if not waiting:
                return None
            draw = waiting.popleft()
            if (draw.name, draw.arguments) != (name, arguments):
                waiting.clear()  # somebody else draws now
            if not waiting:
                del self.draws[generator]
            return draw.numbers if (draw.name, draw.arguments) == (name, arguments) else None

    def forget(self, generator: Any) -> None:
        with self.lock:
            self.draws.pop(generator, None)

    def put_back(self, draws: list[_Draw]) -> None:
        with self.lock:
            for draw in reversed(draws):
                self.draws.setdefault(draw.generator, collections.deque()).appendleft(draw)


_KEPT = _Kept()


def can_be_set_back() -> bool:
    """Whether the draws of CuPy's generators can be kept here."""
    return _library() is not None


@functools.cache
def _library():
    """CuPy's module of cuRAND, whose functions are watched from now on; None without one."""
    try:
        module = importlib.import_module("cupy_backends.cuda.libs.curand")
        drawing = {name: getattr(module, name) for name in _DRAWING if hasattr(module, name)}
        setting = {name: getattr(module, name) for name in _SETTING if hasattr(module, name)}
    except (ImportError, RuntimeError):
        return None
    if not {"generate", "generateUniform", "setPseudoRandomGeneratorSeed"} <= {*drawing, *setting}:
        return None
    for functions, watch in ((drawing, _drawing), (setting, _setting)):
        for name, function in functions.items():
            setattr(module, name, watch(getattr(function, "__wrapped__", function), name))
    return module


def _drawing(function: Callable, name: str) -> Callable:
    @functools.wraps(function)
    def draw(generator, pointer, n, *more):
        numbers = _KEPT.next(generator, name, (n, *more))
        if numbers is None:
            function(generator, pointer, n, *more)
        else:
            _there(pointer, numbers.nbytes)[...] = numbers
        noted = getattr(_KEPT.of_thread, "noted", None)
        if noted is not None and n:
            if numbers is None:
                numbers = _there(pointer, n * _DRAWING[name]).copy()
            noted.append(_Draw(generator, name, (n, *more), numbers))

    return draw


def _setting(function: Callable, name: str) -> Callable:
    @functools.wraps(function)
    def set_generator(generator, *more):
        _KEPT.forget(generator)
        return function(generator, *more)

    return set_generator


def _there(pointer: int, nbytes: int):
    """The bytes at an address of the current GPU, as an array."""
    memory = cuda.cupy.cuda.UnownedMemory(pointer, nbytes, None)
    return Array((nbytes,), np.uint8, cuda.cupy.cuda.MemoryPointer(memory, 0))


class Before:
    """Where CuPy's generators stand before a run on a GPU, whose draws are noted until `end`.

    Parameters
    ----------
    device : int
    """

    def __init__(self, device: int) -> None:
        _library()
        self._device = device
        with cuda.Device(device):
            self._state = cuda.cupy.random.get_random_state()
        self._seed = getattr(self._state, "_rk_seed", None)
        self._outer = getattr(_KEPT.of_thread, "noted", None)
        self._noted: list[_Draw] | None = []
        _KEPT.of_thread.noted = self._noted

    def end(self) -> None:
        """Note nothing more; once it has ended, nothing happens."""
        noted = self._stop()
        if self._outer is not None:
            self._outer += noted

    def put_back(self) -> None:
        """Let the numbers that were drawn come once more, and end."""
        _KEPT.put_back(self._stop())
        if self._seed is not None:
            with getattr(self._state, "_lock", contextlib.nullcontext()):
                self._state._rk_seed = self._seed

    def _stop(self) -> list[_Draw]:
        if self._noted is None:
            return []
        noted, self._noted = self._noted, None
        _KEPT.of_thread.noted = self._outer
        return noted
