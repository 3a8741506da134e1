"""The two runs of an audited call: plain define-by-run, and the replay.

While a thread is in the first, every static call of that thread is plain; ``static_code``, which
must run once, runs there and is repeated from notes in the second.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from sdbr.trace.current import TRACES_UNDER_WAY

_local = threading.local()

#: In the state of a memory: what looks after user code that a replay runs.
EXITS = "exits"


class Side:
    """One of the two runs of an audited call, for what asks for it on the way.

    Attributes
    ----------
    is_plain : bool
        Whether static calls are plain ones.
    depth : int
        Above zero inside a function's forward or backward, and after the call itself.
    is_quiet : bool
        Whether nobody is told of what happens in it.
    is_feeding : bool
        Whether draws are for kernels of a GPU that make their numbers themselves otherwise.
    inner : list
        What the user's function nodes have changed.
    """

    is_plain = False
    is_quiet = False
    is_feeding = False
    depth = 0

    def __init__(self):
        self.inner: list = []

    def apply(self, original, function, inputs):
        """Apply a function node, outside of any other."""
        return original(function, inputs)

    def facts(self) -> dict[str, Any]:
        """What to compare besides what a user can see."""
        return {}

    def backward_begins(self) -> None:
        """The call is over, and its backward comes: its function nodes are of no interest."""
        self.depth += 1

    def applied(self, function, outputs) -> None:
        """A function node has been applied, outside of any other."""

    def code(self, func, args: tuple, kwargs: dict) -> Any:
        """Serve one call of ``static_code``."""
        return func(*args, **kwargs)

    def draw(self, original, generator, args: tuple, kwargs: dict) -> Any:
        """Serve one draw of a generator of CuPy's."""
        return original(generator, *args, **kwargs)


def side() -> Side | None:
    """The audit's run that this thread is in, or None."""
    return getattr(_local, "side", None)


def plain_now() -> bool:
    """Whether this thread runs everything as plain define-by-run."""
    present = side()
    return present is not None and present.is_plain


@contextlib.contextmanager
def entered(new: Side | None) -> Iterator[Side | None]:
    """Let `new` be the run that this thread is in; None: none of an audit's."""
    me = threading.get_ident()
    under_way = TRACES_UNDER_WAY[0]
    before, counted = side(), me in under_way
    try:
        if new is not None and new.is_plain:
            under_way.add(me)  # the compiled path looks here first
        _local.side = new
        yield new
    finally:
        _local.side = before
        if counted:
            under_way.add(me)  # a trace in between may have taken it away
        else:
            under_way.discard(me)


@contextlib.contextmanager
def feeding() -> Iterator[None]:
    """Draws are for kernels that make their numbers themselves in other runs."""
    present = side()
    if present is None:
        yield
        return
    present.is_feeding = True
    try:
        yield
    finally:
        present.is_feeding = False


def run_code(func, args: tuple, kwargs: dict) -> Any:
    """Call a ``static_code`` function, once whatever runs beside the call."""
    present = side()
    return func(*args, **kwargs) if present is None else present.code(func, args, kwargs)
