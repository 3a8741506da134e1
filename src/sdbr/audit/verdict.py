"""What an audit comes to: a difference, none, or no comparison at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sdbr.audit.draws import DRAWING
from sdbr.audit.outcome import Outcome
from sdbr.trace.effects.sides import Side, entered


class Found(NamedTuple):
    """A difference.

    Attributes
    ----------
    text : str
        The first, in words.
    line : str
        The user's line that it belongs to.
    names : list of str
        The facts that differ; empty where the runs cannot be compared fact by fact.
    """

    text: str
    line: str
    names: Sequence[str] = ()


class Verdict:
    """What an audit found.

    Attributes
    ----------
    outcome : Outcome
        The one that counts.
    problem : str
        The first difference; empty if there is none.
    line : str
        The user's line that it belongs to.
    error : Exception or None
        What the replay alone has raised.
    compared : bool
        Whether anything was compared.
    """

    def __init__(
        self,
        outcome: Outcome,
        problem: str = "",
        line: str = "",
        error: Exception | None = None,
        compared: bool = True,
    ):
        self.outcome = outcome
        self.problem = problem
        self.line = line
        self.error = error
        self.compared = compared


class Retraced(Exception):
    """The schedule does not fit the call: define-by-run counts, nothing was compared.

    `for_good` tells that it will fit no other call either.
    """

    def __init__(self, verdict: Verdict, for_good: bool):
        super().__init__()
        self.verdict = verdict
        self.for_good = for_good


class Unaudited(Exception):
    """There was no memory to compare in: the replay is made as without an audit, if it was not yet.

    Parameters
    ----------
    side : Side or None
        The run that the replay has to be made in; None: no run was made before.
    error : MemoryError
    """

    def __init__(self, side: Side | None, error: BaseException):
        super().__init__()
        self.side = side
        self.error = error


@contextlib.contextmanager
def alone(how: Unaudited) -> Iterator[None]:
    """Where the replay is made after all."""
    if how.side is None:
        yield
        return
    with entered(how.side), DRAWING:
        yield
