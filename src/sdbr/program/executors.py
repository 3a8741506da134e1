"""What runs and shows programs: entered from above, of which programs know nothing else."""

from __future__ import annotations

from collections.abc import Callable

#: ``'executable'``: (program, memory, backend) to an executable; ``'html'``, ``'schedule html'``:
#: a program or a schedule to what a notebook shows of it.
PROVIDED: dict[str, Callable] = {}


def provides(name: str) -> Callable[[Callable], Callable]:
    """Enter a function; a decorator."""

    def enter(function: Callable) -> Callable:
        PROVIDED[name] = function
        return function

    return enter
