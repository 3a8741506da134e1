"""The parts of an update in Chainer's order: what is native together, and what runs in between."""

from __future__ import annotations

import dataclasses

from sdbr.optimizers.rows import HookRow

#: When something of a step is called: before the rules, as one of them, after them.
PRE, RULES, POST = range(3)


@dataclasses.dataclass(frozen=True)
class Move:
    """One thing that a step does.

    Attributes
    ----------
    stage : int
        `PRE`, `RULES` or `POST`.
    hook : callable or None
        Of the optimizer.
    row : HookRow or None
        Of the hook, where that is native.
    param : chainer.Parameter or None
        That its rule updates.
    operand : int
        Of the parameter, where its rule is native; -1.
    """

    stage: int
    hook: object = None
    row: HookRow | None = None
    param: object = None
    operand: int = -1

    @property
    def is_native(self) -> bool:
        """Whether ops do it."""
        return self.row is not None or self.operand >= 0


@dataclasses.dataclass(frozen=True)
class Part:
    """Native moves that follow each other, or one of Python.

    Attributes
    ----------
    moves : tuple of Move
    is_native : bool
    counts : bool
        Whether the step is counted before it, at the latest.
    updated : tuple of chainer.Parameter
        Those whose rules are among it, natively.
    """

    moves: tuple[Move, ...]
    is_native: bool = dataclasses.field(init=False)
    counts: bool = dataclasses.field(init=False)
    updated: tuple = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        facts = {
            "is_native": self.moves[0].is_native,
            "counts": any(move.stage != PRE for move in self.moves),
            "updated": tuple(move.param for move in self.moves if move.operand >= 0),
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)


def parts_of(moves: list[Move]) -> list[Part]:
    """The parts that moves make."""
    found: list[Part] = []
    native: list[Move] = []
    for move in moves:
        if move.is_native:
            native.append(move)
            continue
        if native:
            found.append(Part(tuple(native)))
            native = []
        found.append(Part((move,)))
    if native:
        found.append(Part(tuple(native)))
    return found
