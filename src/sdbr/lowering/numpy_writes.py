"""NumPy calls of user code that write in place: ops on a copy of what they write to.

What outlives the call is written itself.
"""

from __future__ import annotations

from sdbr.functions.common import is_moved
from sdbr.functions.indexing import Selection, key_reason
from sdbr.functions.integers import where
from sdbr.functions.registry import FLOATS
from sdbr.lowering.numpy_views import is_basic
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace.arrays.rewriting import Rewriting, assign, fill, take_over
from sdbr.trace.values import Hole

import numpy as np

_BOOL = np.dtype(bool)


def lower_write(
    b: Builder, call: Rewriting, args, kwargs, xs: list[Row], lasting: bool
) -> Row | None:
    """The next version of memory, or None where that has to be a Python op.

    Parameters
    ----------
    b : Builder
    call : Rewriting
    args, kwargs
        As recorded, the memory in front.
    xs : list of Row
        The known arrays, in the order of their holes.
    lasting : bool
        Whether the memory itself is to be written.
    """
    rest = args[1:]
    if not is_moved(xs[0].dtype) or call.place.dtype != xs[0].dtype:
        return None
    start = len(b.instructions)
    found = _Write(b, call, xs, lasting)
    write = getattr(call.write, "as_numpy", None) or call.write
    if write is assign:
        done = found.assign(*rest)
    elif write in (take_over, fill):
        done = not kwargs and len(rest) == 1 and found.whole(rest[0])
    elif write is np.copyto:
        done = found.copyto(*rest, **kwargs)
    elif write == np.add.at:
        done = not kwargs and len(rest) == 2 and found.add_at(*rest)
    else:
        done = False
    if not done:
        del b.instructions[start:]
        return None
    return found.version


class _Write:
    """One write, on a copy of the memory, or in it where it is `lasting`."""

    def __init__(self, b: Builder, call: Rewriting, xs: list[Row], lasting: bool):
        self.b = b
        self.xs = xs
        if lasting:
            self.version = xs[0]
            # What is written may be a part of where it is written.
            self.xs = [xs[0], *[b.copy(x) if x.root is xs[0].root else x for x in xs[1:]]]
        else:
            self.version = b.copy(xs[0])
        place = call.place
        self.view = b.table.view(self.version, place.shape, place.strides, place.offset)

    def value(self, thing) -> Row | None:
        """What is written, as a row of the dtype of the memory."""
        dtype = self.view.dtype
        if type(thing) is Hole:
            row = self.xs[thing.index]
            return self.b.cast(row, dtype) if _converts(row.dtype, dtype) else None
        if type(thing) not in (bool, int, float) and not isinstance(thing, np.generic):
            return None
        array = np.asarray(thing)
        if array.dtype != dtype and not _converts(array.dtype, dtype):
            return None
        try:
            return self.b.constant(array.astype(dtype))
        except OverflowError:
            return None

    def put(self, value: Row, view: Row) -> bool:
        """``view[...] = value``."""
        extra = value.ndim - view.ndim
        if extra > 0:
            if any(n != 1 for n in value.shape[:extra]):
                return False
            value = self.b.reshape(value, value.shape[extra:])
        self.b.copy_to(value, view)
        return True

    def whole(self, thing) -> bool:
        value = self.value(thing)
        return value is not None and self.put(value, self.view)

    def copyto(self, thing, casting="same_kind", where=True) -> bool:
        if where is True:
            return self.whole(thing)
        value = self.value(thing)
        if value is None or type(where) is not Hole or self.xs[where.index].dtype != _BOOL:
            return False
        condition = self.xs[where.index]
        if max(value.ndim, condition.ndim) > self.view.ndim:
            return False
        return self.choose(condition, value)

    def choose(self, condition: Row, value: Row) -> bool:
        """``view[condition] = value``, both broadcast."""
        self.b.copy_to(where(self.b, condition, value, self.view), self.view)
        return True

    def assign(self, key, thing) -> bool:
        value = self.value(thing)
        if value is None:
            return False
        if not _holds(key) and is_basic(key):
            return self.put(value, self.b.slice(self.view, key))
        mask = self.mask(key)
        if mask is not None:
            condition, n_after = mask
            # Else an axis of it counts what is chosen.
            return value.ndim <= n_after and self.choose(condition, value)
        chosen = self.selection(key)
        return chosen is not None and self.scatter(chosen, key, value, "put", (0, 0))

    def mask(self, key) -> tuple[Row, int] | None:
        """A key that is one mask behind full slices: the mask, and how many axes are behind it."""
        parts = list(key if isinstance(key, tuple) else (key,))
        while parts and isinstance(parts[-1], slice) and parts[-1] == slice(None):
            parts.pop()
        if not parts or type(parts[-1]) is not Hole:
            return None
        mask = self.xs[parts[-1].index]
        if mask.dtype != _BOOL or not mask.ndim:
            return None
        if any(not isinstance(part, slice) or part != slice(None) for part in parts[:-1]):
            return None
        n_after = self.view.ndim - (len(parts) - 1) - mask.ndim
        if n_after < 0:
            return None
        shape = (1,) * (len(parts) - 1) + mask.shape + (1,) * n_after
        return self.b.reshape(mask, shape), n_after

    def selection(self, key) -> Selection | None:
        """What an index of integers selects."""
        parts = _parts(key)
        if any(type(part) is tuple or (type(part) is list and _holds(part)) for part in parts):
            return None
        parts = [self.xs[part.index] if type(part) is Hole else part for part in parts]
        if any(row.dtype.kind not in "iu" for row in parts if isinstance(row, Row)):
            return None
        if key_reason([part for part in parts if not isinstance(part, Row)]):
            return None
        return Selection(self.b, self.view.shape, parts)

    def scatter(self, chosen: Selection, key, value: Row, op: str, ints: tuple) -> bool:
        """Write `value`, or add it, at the places of an index."""
        b = self.b
        view = chosen.view(b, self.view)
        if not chosen.places:
            return False
        side = chosen.arranged(b, view)
        if side is None:
            return False
        shape = self.selected(key)
        extra = value.ndim - len(shape)
        if extra > 0:
            if any(n != 1 for n in value.shape[:extra]):
                return False
            value = b.reshape(value, value.shape[extra:])
        rows = chosen.rows(b, b.broadcast(value, shape))
        b.emit(op, [b.contiguous(rows), *chosen.places], [side], ints)
        return True

    def selected(self, key) -> tuple[int, ...]:
        """The shape of what the key selects."""
        like = np.lib.stride_tricks.as_strided(
            np.empty(1, np.int8), self.view.shape, (0,) * self.view.ndim
        )
        parts = _parts(key)
        return like[
            tuple(
                np.zeros(self.xs[part.index].shape, np.intp) if type(part) is Hole else part
                for part in parts
            )
        ].shape

    def add_at(self, key, thing) -> bool:
        value = self.value(thing)
        if value is None or value.dtype not in FLOATS:
            return False
        if not _holds(key) and is_basic(key):
            return False
        if type(thing) is Hole and self.xs[thing.index].dtype != self.view.dtype:
            return False
        chosen = self.selection(key)
        return chosen is not None and self.scatter(chosen, key, value, "scatter_add", (1, 0, 0))


def _converts(have: np.dtype, want: np.dtype) -> bool:
    """Whether an op casts as NumPy does, where a value may be too large as well."""
    if have == want:
        return True
    if have.kind not in "biuf" or want.kind not in "biuf":
        return False
    return want.kind in "fb" or have.kind in "biu"


def _parts(key) -> list:
    """What a key consists of; numbers one after the other are a list of them."""
    parts = key if isinstance(key, tuple) else (key,)
    return [list(part) if isinstance(part, range) else part for part in parts]


def _holds(thing) -> bool:
    if type(thing) in (tuple, list):
        return any(map(_holds, thing))
    return type(thing) is Hole
