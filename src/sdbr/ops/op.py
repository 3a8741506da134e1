"""What a row of the op table is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from types import ModuleType


@dataclasses.dataclass(frozen=True)
class Op:
    """One row of the op table.

    Attributes
    ----------
    name : str
        Name, as printed by the disassembler.
    opcode : int
        Index of the row.
    inputs, outputs : tuple of str
        Operand names with dtype class, ``'x:T'``; a trailing ``*`` marks the
        one variadic input (zero or more).
    ints, floats : tuple of str
        Names of the integer and float attributes, in order. A trailing ``*`` marks a last one
        that takes any number.
    family : str
        The module that the row stands in; kernels, layouts and parity cases go by the same word.
    inplace : tuple of int
        Inputs whose memory the first output may reuse.
    effect : bool
        True when the op must run even if nobody reads its outputs.
    doc : str
        The formula; NumPy notation.
    """

    name: str
    opcode: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    family: str = ""
    inplace: tuple[int, ...] = ()
    effect: bool = False
    doc: str = ""

    def attributes(self, ints, floats) -> dict:
        """Attributes by name; one with a star is a tuple, and loses its star."""
        found: dict = {}
        for names, values in ((self.ints, ints), (self.floats, floats)):
            for i, name in enumerate(names):
                if name.endswith("*"):
                    found[name[:-1]] = tuple(values[i:])
                else:
                    found[name] = values[i]
        return found

    def takes(self, n_ints: int, n_floats: int) -> bool:
        """Whether it has that many integer and float attributes."""
        return all(
            n >= len(names) - 1 if names and names[-1].endswith("*") else n == len(names)
            for names, n in ((self.ints, n_ints), (self.floats, n_floats))
        )


class Rows:
    """Collects the rows of one family: a call adds one; names and attributes as in `Op`.

    `inputs`, `outputs`, `ints` and `floats` are words in one string.
    """

    def __init__(self) -> None:
        self.rows: list[Op] = []

    def __call__(
        self,
        name: str,
        inputs: str,
        outputs: str,
        doc: str,
        ints: str = "",
        floats: str = "",
        inplace: tuple[int, ...] = (),
        effect: bool = False,
    ) -> None:
        words = [tuple(text.split()) for text in (inputs, outputs, ints, floats)]
        self.rows.append(Op(name, -1, *words, "", inplace, effect, doc))


def numbered(families: Iterable[ModuleType], start: int = 0) -> tuple[Op, ...]:
    """The rows of some families, one after another; each gets its opcode and its family."""
    rows = [(family.__name__.split(".")[-1], op) for family in families for op in family.ROWS]
    return tuple(
        dataclasses.replace(op, opcode=i, family=family)
        for i, (family, op) in enumerate(rows, start)
    )
