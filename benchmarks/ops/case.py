"""A function to time, and the sizes that it is timed at."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the largest input of a case is, and whether its lengths are awkward.

    Attributes
    ----------
    elements : int
        About how many elements the largest input has.
    odd : bool
        Lengths are primes, and arrays begin one element behind where memory was given.
    """

    name: str
    elements: int
    odd: bool = False

    def __call__(self, n: int) -> int:
        """`n`, or the largest prime below it."""
        return prime_below(n) if self.odd else n

    def rows(self, *others: int, most: int | None = None) -> int:
        """The length of the axis that makes up the size beside `others`."""
        n = max(2, self.elements // math.prod(others))
        return self(n if most is None else min(n, most))

    def side(self, *others: int) -> int:
        """The length of two axes of the same length beside `others`."""
        return self(max(2, math.isqrt(self.elements // math.prod(others))))

    def smaller(self, by: int) -> Size:
        """For functions that are slow in define-by-run: large sizes divided by `by`."""
        if self.elements <= SIZES["cache"].elements:
            return self
        return dataclasses.replace(self, elements=self.elements // by)


SIZES = {
    size.name: size
    for size in (
        Size("cache", 4 * 1024),
        Size("memory", 2 * 1024 * 1024),
        Size("odd", 256 * 1024, odd=True),
    )
}


def prime_below(n: int) -> int:
    """The largest prime that is at most `n`; 2 where there is none."""
    while n > 2 and any(n % i == 0 for i in range(2, math.isqrt(n) + 1)):
        n -= 1
    return max(n, 2)


@dataclasses.dataclass(frozen=True)
class Case:
    """One function of Chainer on inputs of any size.

    Attributes
    ----------
    name : str
        The public name, then what is special.
    call : callable
        ``call(*inputs)``.
    inputs : callable
        ``inputs(size)`` returns makers, see `tests.equivalence.arguments`.
    by : int
        Large sizes are divided by this.
    """

    name: str
    call: Callable
    inputs: Callable[[Size], list]
    by: int = 1

    def arrays(self, size: Size, dtype: str) -> list[np.ndarray]:
        """The inputs, off their alignment where the size is odd."""
        rng = np.random.default_rng(5)
        made = [make(rng, dtype) for make in self.inputs(size.smaller(self.by))]
        return [_moved(a) if size.odd else a for a in made]


def _moved(array: np.ndarray) -> np.ndarray:
    """The same contents, beginning one element behind an aligned address."""
    memory = np.empty(array.size + 1, array.dtype)[1:].reshape(array.shape)
    memory[...] = array
    return memory


def cases_of(rows: Iterable[tuple]) -> list[Case]:
    """Rows given as tuples."""
    return [Case(*row) for row in rows]
