"""The time between a forward and its backward, in which user code may write its own arrays."""

from __future__ import annotations

from collections.abc import Iterable

from sdbr.functions.python_op import user_array
from sdbr.program.buffers import BOUND, OWNED, Row
from sdbr.program.builder import Builder


class Gap:
    """What a backward program finds changed of what its forward has seen.

    Chainer's nodes keep references to their inputs and outputs, and see what is written there; what
    they have computed from them stays. Arguments, parameters, captured state and what is handed out
    are the user's to write, rows of the arena are not. A backward in the program of its forward
    (whole steps, gradients that the call takes itself) has no gap.

    Parameters
    ----------
    forward : Builder
        Of the forward program, which is finished once a backward of its own was made.
    together : bool
        Whether every backward is in the program of the forward.
    """

    def __init__(self, forward: Builder, together: bool):
        self.forward = forward
        self.together = together
        self.finished = False
        self.handed_out: dict[int, Row] = {}  # row index -> the copy of it that the user gets
        self._copies: dict[int, Row] = {}

    def may_change(self, b: Builder, rows: Iterable[Row]) -> bool:
        """See `Node.may_change`."""
        return b is not self.forward and any(map(self.may_be_written, rows))

    def may_be_written(self, row: Row) -> bool:
        """See `Node.may_be_written`."""
        slot = row.root.slot
        return not self.together and slot is not None and slot.kind in (BOUND, OWNED) and keeps()

    def kept(self, b: Builder, row: Row) -> Row:
        """See `Node.kept`."""
        if not self.may_change(b, [row]):
            return row
        copy = self._copies.get(row.index)
        if copy is None and not self.finished:
            forward = self.forward
            forward.label, forward.line = b.label.removesuffix(" backward"), b.line
            copy = self._copies[row.index] = forward.copy(row)
        return row if copy is None else copy

    def hand_out(self, row: Row, copy: Row) -> None:
        """Note that the user gets `copy` in the place of `row`."""
        self.handed_out[row.index] = copy

    def seen(self, b: Builder, row: Row) -> Row:
        """An input or output as the user has it, for the backward `b`."""
        return row if b is self.forward else self.handed_out.get(row.index, row)

    def written(self, b: Builder, ys: Iterable[Row]) -> list:
        """Where user code may have written to outputs, for a Python op in the backward `b`.

        Returns
        -------
        list of (UserArray or None)
        """
        return [
            user_array(self.seen(b, y), OWNED) if self.may_change(b, [self.seen(b, y)]) else None
            for y in ys
        ]


def keeps() -> bool:
    """Whether backward programs keep what Chainer's nodes keep."""
    return True
