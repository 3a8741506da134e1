"""What a program is made for; the backend that will run it says so before it is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Machine:
    """What passes may know of the backend that will run the program.

    Attributes
    ----------
    requests : tuple of (str, callable)
        Passes of the backend, which run after all others, before memory is planned; with their
        names. One that has nothing to do returns the very list that it was given.
    """

    requests: tuple[tuple[str, Callable], ...] = ()
