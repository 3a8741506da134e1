"""What runs programs: entered by the backends, of which programs know nothing else."""

from __future__ import annotations

from collections.abc import Callable

#: ``'executable'``: (program, memory, backend) to an executable.
PROVIDED: dict[str, Callable] = {}


def provides(name: str) -> Callable[[Callable], Callable]:
    """Enter a function of a backend; a decorator."""

    def enter(function: Callable) -> Callable:
        PROVIDED[name] = function
        return function

    return enter
