"""What lists, dicts and deques hold, in all that can be seen of it."""

from __future__ import annotations

import collections
from typing import Any

import chainer
import numpy as np

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

_PLAIN = (int, float, str, bool, type(None))


def facts_of(thing, known: dict[str, Any]) -> list:
    """Classes, numbers, order, and which of the Variables are one.

    Parameters
    ----------
    thing : object
        Containers, arrays, Variables, numbers.
    known : dict
        Objects that are told by name where they are met.
    """
    met: dict[int, Any] = {id(x): name for name, x in known.items() if x is not None}

    def look(thing):
        if isinstance(thing, chainer.Variable):
            same = met.setdefault(id(thing), len(met))
            return ["Variable", same, thing.requires_grad, look(thing.array)]
        if isinstance(thing, dict):
            return [type(thing), [(k, look(v)) for k, v in thing.items()]]
        if isinstance(thing, (list, tuple, collections.deque)):
            return [type(thing), met.get(id(thing)), *map(look, thing)]
        if isinstance(thing, (np.ndarray, np.generic)):
            return [type(thing), met.get(id(thing)), thing.shape, thing.dtype, np.array(thing)]
        return [type(thing), thing if isinstance(thing, _PLAIN) else None]

    return look(thing)


def assert_alike(a, b, note: str) -> None:
    """Compare two of `facts_of`."""
    if isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b), note
        for x, y in zip(a, b, strict=True):
            assert_alike(x, y, note)
    elif isinstance(a, (np.ndarray, float)):
        assert type(a) is type(b), note
        assert_near(np.asarray(b), np.asarray(a), RESULTS, note)
    else:
        assert a == b, (note, a, b)
