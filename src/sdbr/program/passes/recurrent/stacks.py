"""Roots that shall lie side by side, so that one op can take them as one array."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.base.errors import SdbrError
from sdbr.program._rows import layout, whole
from sdbr.program.buffers import BufferTable, Row, c_strides

#: How rows can be made adjacent: they are, they can be given places, they must be copied.
ADJACENT, PLACED, COPIED = range(3)


class Stacks:
    """Places of roots in blocks.

    Parameters
    ----------
    moves : Moves
        Where new rows are made.
    made : set of int
        The roots that the program makes: those without a slot may be given a place.
    """

    def __init__(self, moves: Moves, made: set[int]):
        self.moves = moves
        self.made = made
        self.stand_ins: dict[tuple, Row] = {}
        self.blocks: list[list[Row]] = []
        self.block_of: dict[int, int] = {}
        # Counted from the first root that a block was given; others were put in front since.
        self._place_in: dict[int, int] = {}
        self._first_place: list[int] = []

    def free(self, root: Row) -> bool:
        """Whether a root may be given a place."""
        return root.slot is None and root.index in self.made

    def filled(self, rows: Sequence[Row]) -> list[Row]:
        """`rows`; where most can be given places, others stand in for the rest.

        They have to be copied: what is handed out at the end lies elsewhere.
        """
        fixed = [not (whole(row) and self.free(row.root)) for row in rows]
        if not 0 < 2 * sum(fixed) <= len(rows):
            return list(rows)
        return [
            self._stand_in(row) if is_fixed else row
            for row, is_fixed in zip(rows, fixed, strict=True)
        ]

    def _stand_in(self, row: Row) -> Row:
        key = layout(row)
        found = self.stand_ins.get(key)
        if found is None:
            root = self.moves.table.root(row.shape, row.dtype, None, row.name)
            found = self.stand_ins[key] = self.moves.known(root)
            self.made.add(found.index)
        return found

    def order(self, rows: Sequence[Row]) -> list[int] | None:
        """The order in which rows already lie in memory, or None where that is not known."""
        places = [self._place(row) for row in rows]
        if None in places or len({block for block, _ in places}) != 1:
            return None
        return sorted(range(len(rows)), key=lambda i: places[i][1])

    def _place(self, row: Row) -> tuple | None:
        """What a row lies in, and where in it."""
        block = self.block_of.get(row.root.index)
        if block is None:
            return (
                None
                if self.free(row.root) and whole(row)
                else (("root", row.root.index), row.offset)
            )
        if not whole(row):
            return ("root", row.root.index), row.offset
        return ("block", block), self._position(block, row.root)

    def _position(self, block: int, root: Row) -> int:
        return self._place_in[root.index] - self._first_place[block]

    def how(self, rows: Sequence[Row]) -> int:
        """How `rows` can be made adjacent in this order."""
        if self._adjacent(rows):
            return ADJACENT
        return PLACED if self._plan(rows) is not None else COPIED

    def _adjacent(self, rows: Sequence[Row]) -> bool:
        first = rows[0]
        if not all(row.is_contiguous for row in rows):
            return False
        if all(row.root is first.root for row in rows):
            at = first.offset
            for row in rows:
                if row.offset != at:
                    return False
                at += row.nbytes
            return True
        place = self._place(first)
        if place is None or place[0][0] != "block":
            return False
        block, start = place
        return all(self._place(row) == (block, start + k) for k, row in enumerate(rows))

    def _plan(self, rows: Sequence[Row]) -> tuple[list[Row], int | None, list[Row]] | None:
        """Roots to put in front of a block, the block (None: a new one), roots to put behind it."""
        roots = [row.root for row in rows]
        if not all(whole(row) for row in rows) or len({r.index for r in roots}) != len(roots):
            return None
        known = [k for k, root in enumerate(roots) if root.index in self.block_of]
        if not all(root.index in self.block_of or self.free(root) for root in roots):
            return None
        if not known:
            return [], None, roots
        first, last = known[0], known[-1]
        block = self.block_of[roots[first].index]
        inside = roots[first : last + 1]
        start = self._position(block, roots[first])
        members = self.blocks[block]
        run = members[start : start + len(inside)]
        if len(run) != len(inside) or any(a is not b for a, b in zip(run, inside, strict=True)):
            return None
        if (first > 0 and start > 0) or (
            last + 1 < len(roots) and start + len(inside) < len(members)
        ):
            return None
        return roots[:first], block, roots[last + 1 :]

    def place(self, rows: Sequence[Row]) -> None:
        """Give `rows` adjacent places in this order, which `how` has found possible."""
        if self._adjacent(rows):
            return
        front, block, back = self._plan(rows)
        if block is None:
            block = len(self.blocks)
            self.blocks.append([])
            self._first_place.append(0)
        end = self._first_place[block] + len(self.blocks[block])
        self._first_place[block] -= len(front)
        self.blocks[block] = [*front, *self.blocks[block], *back]
        for start, roots in ((self._first_place[block], front), (end, back)):
            for place, root in enumerate(roots, start):
                self.block_of[root.index] = block
                self._place_in[root.index] = place


class Moves:
    """Rows that were moved to another root, and how to move them back.

    Every row object of a moved root is changed, so that whoever holds one follows.

    Attributes
    ----------
    kept : set of int
        The roots that hold what is read after the program now.
    """

    def __init__(self, table: BufferTable, kept: set[int]):
        self.table = table
        self.kept = set(kept)
        self.log: list[tuple] = []
        self.rows: dict[int, list[Row]] = {}
        for row in table.rows:
            self.rows.setdefault(row.root.index, []).append(row)

    def known(self, row: Row) -> Row:
        """Take note of a row that was made meanwhile."""
        self.rows.setdefault(row.root.index, []).append(row)
        return row

    def move(self, root: Row, to: Row, offset: int) -> None:
        """Put all that lies in `root` at `offset` of the root `to`, which is another one."""
        if root is to or offset < 0 or offset + root.nbytes > to.nbytes:
            raise SdbrError(f"{root!r} cannot lie at {offset} of {to!r}")
        moved = self.rows.pop(root.index)
        for row in moved:
            self.log.append((row, row.root, row.offset, row.slot))
            row.root = to
            row.offset += offset
            row.slot = to.slot
        self.rows.setdefault(to.index, []).extend(moved)
        if root.index in self.kept:
            self.kept.remove(root.index)
            self.kept.add(to.index)

    def settle(self, stacks: Stacks) -> dict[int, list[tuple[int, int]]]:
        """Make the blocks: root index of each -> its parts, by offset and length in bytes."""
        made = {}
        for members in stacks.blocks:
            size = sum(root.size for root in members)
            block = self.known(self.table.root((size,), members[0].dtype, None, members[0].name))
            parts, at = [], 0
            for root in members:
                parts.append((at, root.nbytes))
                self.move(root, block, at)
                at += parts[-1][1]
            made[block.index] = parts
        return made

    def undo(self) -> None:
        """Everything as it was."""
        self.taken_back()
        self.log.clear()

    def taken_back(self) -> list[tuple]:
        """Everything as it was, for a while: gives what `again` takes."""
        there = {id(row): (row, row.root, row.offset, row.slot) for row, *_ in self.log}
        for row, *old in reversed(self.log):
            row.root, row.offset, row.slot = old
        return list(there.values())

    def again(self, there: list[tuple]) -> None:
        """Everything as it was before `taken_back`."""
        for row, *new in there:
            row.root, row.offset, row.slot = new


def stacked(moves: Moves, rows: Sequence[Row], axis: int = 0) -> Row:
    """Adjacent rows as one, along an axis before which all lengths are 1."""
    first = rows[0]
    n = sum(row.shape[axis] for row in rows)
    shape = (*first.shape[:axis], n, *first.shape[axis + 1 :])
    strides = c_strides(shape, first.dtype.itemsize)
    return moves.known(moves.table.view(first, shape, strides))
