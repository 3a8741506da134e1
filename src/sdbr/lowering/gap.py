"""The time between a forward and its backward, in which user code may write its own arrays."""

from __future__ import annotations

from collections.abc import Iterable

from sdbr.lowering.python_op import user_array
from sdbr.program._memory import Followed
from sdbr.program.buffers import BOUND, OWNED, Row
from sdbr.program.builder import Builder
from sdbr.trace.values import Value


class Gap:
    """What a backward program finds changed of what its forward has seen.

    Chainer's nodes keep references to their inputs and outputs, and see what is written there; what
    they have computed from them stays. Arguments, parameters, captured state and what is handed out
    are the user's to write, rows of the arena are not. A backward in the program of its forward
    (whole steps, gradients that the call takes itself) has no gap.

    A Variable may get another array, too: the nodes that it is an output or an input of see that
    one, views of the old one do not. So what a backward reads of a Variable that was handed out is
    in a slot of its own.

    Parameters
    ----------
    forward : Builder
        Of the forward program, which is finished once a backward of its own was made.
    together : bool
        Whether every backward is in the program of the forward.

    Attributes
    ----------
    followed : list of Followed
        What backwards read of Variables that were handed out.
    followed_values : list of Value
    """

    def __init__(self, forward: Builder, together: bool):
        self.forward = forward
        self.together = together
        self.finished = False
        self.handed_out: dict[int, Row] = {}  # row index -> the copy of it that the user gets
        self.followed: list[Followed] = []
        self.followed_values: list[Value] = []
        self._copies: dict[int, Row] = {}
        self._results: dict[int, tuple[int, int]] = {}  # value index -> place, slot
        self._present: dict[int, Row] = {}  # value index -> what its Variable has by now
        self._first: dict[int, Row] = {}  # index of such a row -> what the forward has made
        self._in_python: set[int] = set()  # slots

    def may_change(self, b: Builder, rows: Iterable[Row]) -> bool:
        """See `Node.may_change`."""
        return b is not self.forward and any(map(self.may_be_written, rows))

    def may_be_written(self, row: Row) -> bool:
        """See `Node.may_be_written`."""
        slot = row.root.slot
        return not self.together and slot is not None and slot.kind in (BOUND, OWNED) and keeps()

    def kept(self, b: Builder, row: Row) -> Row:
        """See `Node.kept`."""
        row = self._first.get(row.index, row)
        if not self.may_change(b, [row]):
            return row
        copy = self._copies.get(row.index)
        if copy is None and not self.finished:
            forward = self.forward
            forward.at(b.label.removesuffix(" backward"), b.line, b.link)
            copy = self._copies[row.index] = forward.copy(row)
        return row if copy is None else copy

    def held(self, row: Row) -> Row:
        """See `Node.held`."""
        first = self._first.get(row.index)
        return row if first is None else self.handed_out.get(first.index, first)

    def note_copy(self, row: Row, copy: Row) -> None:
        """Note that the user gets `copy` in the place of `row`."""
        self.handed_out[row.index] = copy

    def note_results(self, places: Iterable[tuple]) -> None:
        """Note what the user gets; see `Outputs.places`."""
        for place, (value, slot, _, _) in enumerate(places):
            if value.is_variable and not value.is_scalar:
                self._results[value.index] = (place, slot)

    def seen(self, b: Builder, value: Value, row: Row) -> Row:
        """An input or output as the user has it, for the backward `b`."""
        if b is self.forward:
            return row
        if value.index in self._present:
            return self._present[value.index]
        seen = self.handed_out.get(row.index, row)
        if value.index not in self._results or self.finished or self.together or not follows():
            return seen
        place, slot = self._results[value.index]
        name = f"output {value.index} as it is by now"
        root, table = seen.root, self.forward.table
        if root.slot.index != slot:
            return seen
        is_whole = seen.offset == 0 and seen.nbytes == root.nbytes and seen.is_contiguous
        if is_whole or seen.dtype != root.dtype or any(not s for s in seen.strides):
            now = table.bound(seen.shape, seen.dtype, name)
            shape = None
        else:
            now = table.view(
                table.bound(root.shape, root.dtype, name), seen.shape, seen.strides, seen.offset
            )
            shape = root.shape
        self.followed_values.append(value)
        self.followed.append(
            Followed(
                place, now.slot.index, slot, now.shape, now.strides, now.offset, now.dtype, shape
            )
        )
        self._present[value.index] = now
        self._first[now.index] = row
        return now

    def followed_in(self, slots: set[int]) -> list[tuple[int, Followed]]:
        """What a program with these slots reads of Variables that were handed out, by number."""
        slots = slots | self._in_python
        return [(i, x) for i, x in enumerate(self.followed) if x.slot in slots]

    def written(self, b: Builder, values: Iterable[Value], rows: Iterable[Row]) -> list:
        """Where user code may have written to outputs, for a Python op in the backward `b`.

        Returns
        -------
        list of (UserArray or None)
        """
        found = []
        for value, row in zip(values, rows, strict=True):
            seen = self.seen(b, value, row)
            array = user_array(seen, BOUND, OWNED) if self.may_change(b, [seen]) else None
            found.append(array)
            if array is not None and value.index in self._present:
                self._in_python.add(array.slot)
        return found


def follows() -> bool:
    """Whether backward programs see that Variables have got other arrays."""
    return True


def keeps() -> bool:
    """Whether backward programs keep what Chainer's nodes keep."""
    return True
