"""What runs programs: entered by the backends, of which programs know nothing else."""

from __future__ import annotations

from collections.abc import Callable

#: ``'executable'``: (program, memory, backend) to an executable; ``'op'``: runs one op on arrays by
#: its formula, (name, ins, outs, attributes).
PROVIDED: dict[str, Callable] = {}


def provides(name: str) -> Callable[[Callable], Callable]:
    """Enter a function of a backend; a decorator."""

    def enter(function: Callable) -> Callable:
        PROVIDED[name] = function
        return function

    return enter
