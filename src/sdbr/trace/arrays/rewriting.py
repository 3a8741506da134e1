"""Calls that write into an array, of NumPy or CuPy, as calls that give its memory anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sdbr.devices import arrays

import numpy as np


class Place(NamedTuple):
    """Where a view lies on memory that is in C order.

    Attributes
    ----------
    shape, strides, offset :
        As in NumPy, in bytes.
    dtype : numpy.dtype
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: np.dtype

    def on(self, memory: np.ndarray) -> np.ndarray:
        """The view of `memory`."""
        if arrays.is_on_device(memory):
            return arrays.view(memory, self.shape, self.dtype, self.strides, self.offset)
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


class Window:
    """Reads a view of a version of memory: a recorded call.

    Parameters
    ----------
    place : Place
    """

    __name__ = "window"

    def __init__(self, place: Place):
        self.place = place

    def __call__(self, memory: np.ndarray) -> np.ndarray:
        return self.place.on(arrays.contiguous(memory))


class Rewriting:
    """Gives a version of memory in which a call has written: a recorded call.

    Parameters
    ----------
    write : callable
        ``write(view, *args, **kwargs)`` writes into the view.
    place : Place
        Of the view.
    name : str
        What NumPy calls it.
    """

    def __init__(self, write: Callable, place: Place, name: str):
        self.write = write
        self.place = place
        self.__name__ = f"{name} in place"

    def __call__(self, memory: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        version = memory.copy("C")
        self.write(self.place.on(version), *args, **kwargs)
        return version


# --- what writes ------------------------------------------------------------------------------
def assign(view: np.ndarray, key: Any, value: Any) -> None:
    """``view[key] = value``."""
    view[key] = value


def take_over(view: np.ndarray, value: Any) -> None:
    """``view[...] = value``, whatever NumPy casts."""
    if arrays.is_on_device(view):
        view[...] = value  # of any dtype
    else:
        np.copyto(view, value, casting="unsafe")


def fill(view: np.ndarray, value: Any) -> None:
    """``view.fill(value)``."""
    view.fill(value)


class Through:
    """Writes into a part of the view, which a call finds that takes what the call has computed.

    Parameters
    ----------
    call : callable
        ``call(view, *found)`` gives the part.
    n : int
        How many arguments that takes.
    write : callable
    """

    def __init__(self, call: Callable, n: int, write: Callable):
        self.call = call
        self.n = n
        self.write = write

    def __call__(self, view: np.ndarray, *args: Any, **kwargs: Any) -> None:
        found = [_as_number(x) for x in args[: self.n]]
        self.write(self.call(view, *found), *args[self.n :], **kwargs)


def _as_number(thing: Any) -> Any:
    """What NumPy takes for a number where it would copy what an array without dimensions picks."""
    if type(thing) in (tuple, list):
        return type(thing)(map(_as_number, thing))
    return thing[()] if isinstance(thing, np.ndarray) and not thing.ndim else thing


class Method:
    """A method of arrays that writes.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str):
        self.name = name

    def __call__(self, view: np.ndarray, *args: Any, **kwargs: Any) -> None:
        getattr(view, self.name)(*args, **kwargs)


class Into:
    """A function of NumPy with the view as its ``out``.

    Parameters
    ----------
    function : callable
    """

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, view: np.ndarray, *args: Any, **kwargs: Any) -> None:
        self.function(*args, out=view, **kwargs)


class At:
    """The method ``at`` of a ufunc.

    Parameters
    ----------
    ufunc : numpy.ufunc
    """

    def __init__(self, ufunc: np.ufunc):
        self.ufunc = ufunc
        self.as_numpy = ufunc.at

    def __call__(self, view: np.ndarray, *args: Any) -> None:
        self.ufunc.at(view, *args)
