"""Floats that Chainer's functions and links are given, as NumPy's scalars of double precision.

On older NumPy and CuPy they leave the dtype of arrays alone. Since NEP 50 they decide it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from unittest import mock

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Given:
    """How many floats have been replaced."""

    def __init__(self) -> None:
        self.count = self._depth = 0

    def number(self, x):
        if type(x) is not float:
            return x
        self.count += 1
        return np.float64(x)

    def wrapped(self, function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            if self._depth:  # what Chainer hands on to itself
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = [self.number(x) for x in bound.args]
            kwargs = {name: self.number(x) for name, x in bound.kwargs.items()}
            self._depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1

        return call


@contextlib.contextmanager
def double_numbers() -> Iterator[Given]:
    """Each float that user code gives, and each default, is a scalar of NumPy's meanwhile."""
    given = Given()
    with contextlib.ExitStack() as stack:
        for name, thing in vars(F).items():
            if isinstance(thing, types.FunctionType):
                stack.enter_context(mock.patch.object(F, name, given.wrapped(thing)))
        for thing in vars(L).values():
            if inspect.isclass(thing) and issubclass(thing, chainer.Link):
                init = vars(thing).get("__init__")
                if init is not None:
                    patch = mock.patch.object(thing, "__init__", given.wrapped(init))
                    stack.enter_context(patch)
        yield given
