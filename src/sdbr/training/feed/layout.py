"""How the examples of a batch lie in one piece of memory: a column for each array or number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Columns begin at multiples of it.
ALIGNMENT = 64


class NotWhole(Exception):
    """The text says why examples are no rows of arrays."""


class Column(NamedTuple):
    """What all examples have in one place.

    Attributes
    ----------
    kind : type
        ``numpy.ndarray``, ``int``, ``float``, ``bool`` or a scalar type of NumPy's.
    code : str
        The character of the dtype, which tells ``long`` from ``longlong`` too.
    shape : tuple of int
        Of one example.
    """

    kind: type
    code: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        if self.kind is np.ndarray:
            return f"{np.dtype(self.code)}{list(self.shape)}"
        return self.kind.__name__


class Layout(NamedTuple):
    """What all examples of a batch are.

    Attributes
    ----------
    container : type or None
        ``tuple`` or ``dict``; None where an example is an array or a number itself.
    keys : tuple
        Of the dict, in order.
    columns : tuple of Column
    """

    container: type | None
    keys: tuple
    columns: tuple[Column, ...]

    def places(self, n: int) -> tuple[list[int], int]:
        """Where columns of `n` rows begin, and how many bytes they take together."""
        begins, end = [], 0
        for column in self.columns:
            begins.append(end)
            size = n * math.prod(column.shape) * np.dtype(column.code).itemsize
            end += -(-size // ALIGNMENT) * ALIGNMENT
        return begins, end

    def bytes_of_one(self) -> int:
        """Of the arrays of one example."""
        arrays = [column for column in self.columns if column.kind is np.ndarray]
        return sum(math.prod(c.shape) * np.dtype(c.code).itemsize for c in arrays)

    def arrays(self, n: int, array_at: Callable[[int, np.dtype, int], np.ndarray]) -> list:
        """Columns of `n` rows, each a view of one made by ``array_at(begin, dtype, size)``."""
        begins, _ = self.places(n)
        return [
            array_at(begin, np.dtype(c.code), n * math.prod(c.shape)).reshape(n, *c.shape)
            for begin, c in zip(begins, self.columns, strict=True)
        ]

    def write(self, arrays: Sequence[np.ndarray], row: int, example: Any) -> None:
        """Put an example into a row.

        Raises
        ------
        NotWhole
            If it is of another kind than this layout.
        """
        values = self._values(example)
        for column, array, value in zip(self.columns, arrays, values, strict=True):
            if type(value) is not column.kind:
                raise _differs(column, value)
            if column.kind is np.ndarray and (
                value.dtype.char != column.code
                or value.shape != column.shape
                or not value.dtype.isnative
            ):
                raise _differs(column, value)
            try:
                array[row] = value
            except OverflowError:
                raise NotWhole("an int of an example has more than 64 bits") from None

    def _values(self, example: Any) -> Iterable:
        if self.container is None:
            return (example,)
        if type(example) is not self.container or len(example) != len(self.columns):
            raise NotWhole(f"examples differ: one is a {_name(example)}, one {self._like()}")
        if self.container is tuple:
            return example
        if tuple(example) != self.keys:
            raise NotWhole(f"examples differ: one has the keys {list(example)}, one {self._like()}")
        return example.values()

    def _like(self) -> str:
        if self.container is dict:
            return f"a dict with the keys {list(self.keys)}"
        return f"a tuple of {len(self.columns)}"

    def whole(self, arrays: Sequence[np.ndarray]) -> Any:
        """What ``concat_examples`` gives, of the columns."""
        if self.container is None:
            return arrays[0]
        if self.container is tuple:
            return tuple(arrays)
        return dict(zip(self.keys, arrays, strict=True))

    def examples(self, arrays: Sequence[np.ndarray]) -> list:
        """The examples that the rows are: arrays are views."""
        items = [_items(column, array) for column, array in zip(self.columns, arrays, strict=True)]
        if self.container is None:
            return list(items[0])
        if self.container is tuple:
            return list(zip(*items, strict=True))
        return [dict(zip(self.keys, values, strict=True)) for values in zip(*items, strict=True)]


def _items(column: Column, array: np.ndarray) -> Iterator | list:
    if column.kind is np.ndarray:
        return [array[i, ...] for i in range(len(array))]
    if column.kind in (bool, int, float):
        return array.tolist()
    return list(array)


def learn(examples: Sequence) -> Layout:
    """The layout of a batch.

    Raises
    ------
    NotWhole
        If ``concat_examples`` does more than copying with them, or fails.
    """
    first = examples[0]
    container = type(first) if type(first) in (tuple, dict) else None
    keys = tuple(first) if container is dict else ()
    values = (first,) if container is None else first.values() if keys else first
    columns = tuple([_column(value) for value in values])
    if not columns:
        raise NotWhole(f"an example is an empty {_name(first)}")
    layout = Layout(container, keys, columns)
    row = layout.arrays(1, lambda _, dtype, size: np.empty(size, dtype))
    for example in examples:
        layout.write(row, 0, example)
    return layout


def _column(value: Any) -> Column:
    kind = type(value)
    if kind in (bool, int, float):
        return Column(kind, np.dtype(kind).char, ())
    if kind is np.ndarray or isinstance(value, np.generic):
        dtype = value.dtype
        if dtype.kind not in "biufc" or not dtype.isnative:
            raise NotWhole(f"examples have an array of {dtype}, which is not plain")
        if kind is np.ndarray or kind is dtype.type:
            return Column(kind, dtype.char, value.shape)
    raise NotWhole(f"examples have a {_name(value)} where there could be an array")


def _differs(column: Column, value: Any) -> NotWhole:
    found = f"{value.dtype}{list(value.shape)}" if type(value) is np.ndarray else _name(value)
    return NotWhole(f"examples differ: one has {found}, one {column}")


def _name(value: Any) -> str:
    return type(value).__name__
