"""Small ops that follow each other are one kernel: a team does them one after the other.

A launch costs more than such an op does, and what one team has written it sees itself after a sync.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from sdbr.backends.cuda.launch import DeviceOp, Launch
from sdbr.backends.cuda.together import Unit

#: Teams that a launch may have at most to be done by one. Not measured yet.
SMALL = 4
#: Ops of one kernel: what every driver takes is 4,096 bytes.
MOST = 4096 // ctypes.sizeof(DeviceOp)


@dataclasses.dataclass(frozen=True)
class Call:
    """What is launched as one kernel.

    Attributes
    ----------
    links : tuple of (Unit, Launch)
        What it consists of, one after the other.
    kernel : Launch
        Of more than one: made of the team functions of all of them.
    alone : bool
        Whether a library may do it instead.
    """

    links: tuple[tuple[Unit, Launch], ...]
    kernel: Launch
    alone: bool = False


def ops_of(call: Call) -> list[int]:
    """The ops of a program that a kernel does, in order."""
    return sorted({i for unit, _ in call.links for i in unit.ops})


def calls(
    units: Iterable[Unit], chained: bool, alone: Callable[[Unit], bool] = lambda unit: False
) -> Iterator[Call]:
    """The kernels of a stretch of units.

    Parameters
    ----------
    units : iterable of Unit
    chained : bool
        Whether small ones that follow each other are one.
    alone : callable
        Whether a unit, of one launch, may be done by a library.
    """
    links: list[tuple[Unit, Launch]] = []
    for unit in units:
        if alone(unit):
            if links:
                yield _call(links)
                links = []
            yield Call(((unit, unit.launches[0]),), unit.launches[0], alone=True)
            continue
        for launch in unit.launches:
            is_small = chained and launch.teams <= SMALL
            if links and not (is_small and len(links) < MOST):
                yield _call(links)
                links = []
            links.append((unit, launch))
            if not is_small:
                yield _call(links)
                links = []
    if links:
        yield _call(links)


def _call(links: Sequence[tuple[Unit, Launch]]) -> Call:
    if len(links) == 1:
        return Call(tuple(links), links[0][1])
    bodies = [launch.team for _, launch in links]
    name = "chain_" + hashlib.sha256(" ".join(bodies).encode()).hexdigest()[:16]
    text = "\n".join(
        [
            f"SDBR_INLINE void {name}_team(sdbr_team team, const sdbr_device_op *ops) {{",
            *(f"    SDBR_LINK({body}, ops + {k});" for k, body in enumerate(bodies)),
            "}",
            f"SDBR_CHAIN_KERNEL({name}, {name}_team, {len(bodies)})",
        ]
    )
    return Call(tuple(links), Launch(name, text, (), section="chain"))
