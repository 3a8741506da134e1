"""Which cases a table of equivalence goes through.

What a call computes is compared for every case, in its dtypes; so is which arrays its backward
reads again. What is true of a function row however it is called (what it shares memory with,
whether it can stand inside of a step) is proven for some variants of its arguments, or for one.
``make mutants`` tells whether that is enough.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from .cases import CASES
from .harness import Case


def some_of(cases: Iterable[Case], most: int = 3) -> list[Case]:
    """At most so many cases of each name, from the first to the last of them."""
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        by_name.setdefault(case.name, []).append(case)
    return [
        of_name[i]
        for of_name in by_name.values()
        for i in sorted({k * (len(of_name) - 1) // max(most - 1, 1) for k in range(most)})
    ]


def each(cases: Iterable[Case]):
    """A test for each case, named by it."""
    cases = list(cases)
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def dtype_of(case: Case) -> str:
    """The dtype in which cancellation hides least."""
    return "d" if "d" in case.dtypes else case.dtypes[0]


#: Those that can be static; three of each name; one of each.
STATIC = [case for case in CASES if case.dynamic is None]
SOME = some_of(STATIC)
ONE = some_of(STATIC, 1)
