"""How the pass ``recurrent`` rewrites a program."""

from __future__ import annotations

import dataclasses

from sdbr.ops.table import BY_NAME
from sdbr.program._rows import whole
from sdbr.program.buffers import BufferTable, Row, c_strides
from sdbr.program.builder import Instruction
from sdbr.program.passes.recurrent._dependences import Dependences, Uses
from sdbr.program.passes.recurrent.repetition import FEWEST_STEPS, Total, kind_of
from sdbr.program.passes.recurrent.stacks import COPIED, Moves, Stacks, stacked

#: Copying rows to put them side by side pays when each is multiplied by so many columns.
FEWEST_COLUMNS = 32


@dataclasses.dataclass(eq=False)
class Batch:
    """Instructions that become one op on stacked rows.

    Attributes
    ----------
    members : list of int
    sequences : list of list of Row
        The rows to be stacked, for each operand that has them: one row per member.
    must : list of bool
        Of each sequence: whether it cannot be copied.
    rank : int
        What is settled first: products of the forward, then sums, then the others.
    order : list of int
        In which order the members are stacked.
    copied : list of bool
        Which sequences are copied.
    filled : list of list of Row
        The sequences with what stands in for rows that cannot be moved.
    """

    members: list[int]
    sequences: list[list[Row]]
    must: list[bool]
    rank: int
    order: list[int] = dataclasses.field(default_factory=list)
    copied: list[bool] = dataclasses.field(default_factory=list)
    filled: list[list[Row]] = dataclasses.field(default_factory=list)

    def settle(self, stacks: Stacks, may_copy: bool) -> bool:
        """Give the rows places; whether the batch can be made (`order` is empty where not)."""
        n = range(len(self.members))
        self.filled = [stacks.filled(rows) for rows in self.sequences]
        found = [order for rows in self.filled if (order := stacks.order(rows)) is not None]
        candidates: list[list[int]] = []
        for order in (*found, list(n), list(n)[::-1]):
            if order not in candidates:
                candidates.append(order)
        never = 1 << 60
        best = never, []
        for order in candidates:
            cost = 0
            for rows, must in zip(self.filled, self.must, strict=True):
                if stacks.how([rows[k] for k in order]) == COPIED:
                    cost += never if must or not may_copy else sum(row.nbytes for row in rows)
            best = min(best, (cost, order))
        if best[0] >= never:
            return False
        self.order = best[1]
        # What must have places gets them first: the same roots may be in two sequences.
        for needed in (True, False):
            for rows, must in zip(self.filled, self.must, strict=True):
                rows = [rows[k] for k in self.order]
                if must is needed and stacks.how(rows) != COPIED:
                    stacks.place(rows)
        self.copied = [stacks.how([rows[k] for k in self.order]) == COPIED for rows in self.filled]
        if any(c and (m or not may_copy) for c, m in zip(self.copied, self.must, strict=True)):
            self.order = []
        return bool(self.order)


class Plan:
    """A program rewritten.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
    table : BufferTable
    totals : list of Total
    products : dict of list of int
    stacking : bool
        Whether sums of products become products of stacked rows; else each is added in its turn.

    Attributes
    ----------
    moves : Moves
        What happened to rows.
    """

    def __init__(self, instructions, kept, table: BufferTable, totals, products, stacking=True):
        self.instructions = instructions
        self.table = table
        self.totals = totals
        self.products = products
        self.stacking = stacking
        self.moves = Moves(table, kept)
        # What another program makes has its place there.
        self.made = {y.root.index for instruction in instructions for y in instruction.outs}
        self.stacks = Stacks(self.moves, self.made)
        self.emitters: dict[int, tuple] = {}  # node -> what gives its instructions
        self.parts: dict[int, list[tuple[int, int]]] = {}  # block -> its parts, in bytes

    @property
    def kept(self) -> set[int]:
        """The roots that hold the kept rows now."""
        return self.moves.kept

    def run(self) -> list[Instruction]:
        """The rewritten instructions; rows have moved."""
        graph = Dependences(self.instructions)
        batches = self._batches(graph)
        in_batch = {i for batch in batches for i in batch.members}
        totals = []
        for total in self.totals:
            terms = [self._term(*term, in_batch) for term in total.terms]
            if any(kind for _, _, kind, _ in terms):
                totals.append((total, terms, self._outers(terms)))
        everything = [*batches, *(batch for _, _, outers in totals for batch in outers)]
        for batch in sorted(everything, key=lambda b: (b.rank, -len(b.members), b.members[0])):
            first = self.instructions[batch.members[0]]
            columns = min(first.outs[0].shape[-1], first.ins[0].shape[-1])
            batch.settle(self.stacks, columns >= FEWEST_COLUMNS)
        for batch in batches:
            nodes = [graph.node[i] for i in batch.members]
            # Independent in the program as it was; another batch may have tied them together.
            if batch.order and (node := graph.contract(nodes)) is not None:
                self.emitters[node] = (Plan._emit_batch, batch)
        for total, terms, outers in totals:
            parts = [made for _, made, kind, _ in terms if kind]
            nodes = [graph.node[i] for i in (*total.adds, *parts)]
            if (node := graph.contract(nodes)) is not None:
                self.emitters[node] = (Plan._emit_total, total, terms, outers)
        return self._rewritten(graph)

    def _term(self, row, made, dies, in_batch):
        kind = "" if made is None or made in in_batch else kind_of(self.instructions[made])
        return row, made, kind, dies

    def _batches(self, graph: Dependences) -> list[Batch]:
        """Products that share their matrix and are independent of each other."""
        batches = []
        for members in self.products.values():
            by_level: dict[int, list[int]] = {}
            levels = graph.levels(members)
            for i in members:
                by_level.setdefault(levels[i], []).append(i)
            for independent in by_level.values():
                if len(independent) < FEWEST_STEPS:
                    continue
                ops = [self.instructions[i] for i in independent]
                name = ops[0].op.name
                sequences = [[op.outs[0] for op in ops]]
                sequences += [[op.ins[k] for op in ops] for k in ops[0].op.by_row]
                must = [True] + [False] * (len(sequences) - 1)
                batches.append(Batch(independent, sequences, must, 0 if name == "linear" else 2))
        return batches

    def _outers(self, terms) -> list[Batch]:
        """Terms that may become one product, and those that may become one sum."""
        if not self.stacking:
            return []
        found: dict[tuple, list[int]] = {}
        for _, made, kind, _ in terms:
            if kind in ("outer", "sum"):
                found.setdefault((kind, self.instructions[made].outs[0].shape), []).append(made)
        batches = []
        for (kind, _), members in found.items():
            if len(members) < FEWEST_STEPS:
                continue
            members = sorted(members, reverse=True)  # the last step comes first
            ops = [self.instructions[i] for i in members]
            n_rows = 2 if kind == "outer" else 1
            sequences = [[op.ins[k] for op in ops] for k in range(n_rows)]
            batches.append(Batch(members, sequences, [False] * n_rows, 1))
        return batches

    # --- instructions ----------------------------------------------------------------------------
    def _rewritten(self, graph: Dependences) -> list[Instruction]:
        self.parts = self.moves.settle(self.stacks)
        result: list[Instruction] = []
        for node in graph.sorted():
            emitter = self.emitters.get(node)
            if emitter is None:
                result.extend(self.instructions[i] for i in graph.members[node])
            else:
                result.extend(emitter[0](self, *emitter[1:]))
        uses = Uses(result) if self.parts else None
        while uses is not None and self._share(uses):
            pass
        return result

    def _stacked(self, batch: Batch, which: int, result: list[Instruction], axis: int = 0) -> Row:
        """The rows of one sequence as one, copied where they cannot be neighbours."""
        rows = [batch.sequences[which][k] for k in batch.order]
        if not batch.copied[which]:
            filled = [batch.filled[which][k] for k in batch.order]
            if not batch.must[which]:
                self._copy(batch, zip(rows, filled, strict=True), result)
            return stacked(self.moves, filled, axis)
        first = rows[0]
        n = sum(row.shape[axis] for row in rows)
        shape = (*first.shape[:axis], n, *first.shape[axis + 1 :])
        copy = self.moves.known(self.table.root(shape, first.dtype, None, first.name))
        places, at = [], 0
        for row in rows:
            strides = c_strides(row.shape, row.dtype.itemsize)
            places.append(self.moves.known(self.table.view(copy, row.shape, strides, at)))
            at += row.nbytes
        self._copy(batch, zip(rows, places, strict=True), result)
        return copy

    def _copy(self, batch: Batch, pairs, result: list[Instruction]) -> None:
        """Copy each row to the other, if there are two."""
        source = self.instructions[batch.members[0]]
        for row, place in pairs:
            if row is not place:
                result.append(_like(source, "copy", [row], [place], (), source.label))

    def _emit_batch(self, batch: Batch) -> list[Instruction]:
        result: list[Instruction] = []
        first = self.instructions[batch.members[0]]
        ins = list(first.ins)
        for which, k in enumerate(first.op.by_row, 1):
            ins[k] = self._stacked(batch, which, result)
        y = self._stacked(batch, 0, result)
        label = f"{first.label} ({len(batch.members)} steps)"
        result.append(_like(first, first.op.name, ins, [y], first.ints, label))
        self._copy(batch, zip(batch.filled[0], batch.sequences[0], strict=True), result)
        return result

    def _emit_total(self, total: Total, terms, outers) -> list[Instruction]:
        result: list[Instruction] = []
        y = total.row
        add = self.instructions[total.adds[0]]
        stacks = [batch for batch in outers if batch.order]
        done = {i for batch in stacks for i in batch.members}
        others = [(self._at(row, y), dies) for row, _, kind, dies in terms if not kind]
        steps = []  # ops that can add to what is there
        for batch in stacks:
            source = self.instructions[batch.members[0]]
            label = f"{source.label} ({len(batch.members)} steps)"
            if source.op.name == "gemm":
                ins = [self._stacked(batch, k, result) for k in range(2)]
                steps.append((source, ins, label))
                continue
            x = self._stacked(batch, 0, result, axis=1)
            out = self.moves.known(self.table.root(y.shape, y.dtype, None, y.name))
            place = self._at(out, source.outs[0])
            result.append(_like(source, "sum", [x], [place], (), label))
            others.append((out, True))
        for row, made, kind, _ in terms:
            if not kind or made in done:
                continue
            source = self.instructions[made]
            if kind == "sum":
                result.append(source)
                others.append((self._at(row, y), True))
            else:
                steps.append((source, source.ins, source.label))
        self._add_others(y, others, add, result)
        there = bool(others)
        for source, ins, label in steps:
            result.append(self._adding(source, ins, y, there, label))
            there = True
        return result

    def _add_others(self, y: Row, others, add: Instruction, result: list[Instruction]) -> None:
        """``y = sum(others)``, each with whether nobody else reads it."""
        if len(others) == 1:
            x, dies = others[0]
            if not (dies and self._join(x, y)):
                result.append(_like(add, "copy", [x], [y], (), add.label))
            return
        part = others[0][0] if others else None
        for k, (x, _) in enumerate(others[1:], 2):
            out = y
            if k < len(others):
                out = self.moves.known(self.table.root(y.shape, y.dtype, None, y.name))
            result.append(_like(add, "add", [part, x], [out], (), add.label))
            part = out

    def _join(self, x: Row, y: Row) -> bool:
        """Let a sum and its only term before anything is added lie in one place."""
        if y.root.slot is None and whole(y) and y.root.index not in self.kept:
            self.moves.move(y.root, x.root, x.offset)
            return True
        if whole(x):
            self.moves.move(x.root, y.root, y.offset)
            return True
        return False

    def _adding(self, source: Instruction, ins, y: Row, there: bool, label: str) -> Instruction:
        """An op that adds to `y`, or makes it when nothing is there."""
        name, ints, outs = source.op.name, source.ints, source.outs
        if name == "linear":
            name, ints = "gemm", (0, 1, 0)
        at = BY_NAME[name].ints.index("accumulate")
        ints = (*ints[:at], int(there), *ints[at + 1 :])
        return _like(source, name, ins, [self._at(y, outs[0]), *outs[1:]], ints, label)

    def _at(self, row: Row, like: Row) -> Row:
        """The memory of `row`, which has no gaps, in the shape of `like`."""
        if row.shape == like.shape:
            return row
        strides = c_strides(like.shape, like.dtype.itemsize)
        return self.moves.known(self.table.view(row, like.shape, strides))

    # --- memory ----------------------------------------------------------------------------------
    def _share(self, uses: Uses) -> bool:
        """Let outputs lie where the parts of one block lay that die there; whether any could."""
        kept = self.kept
        for block, parts in self.parts.items():
            if block in kept:
                continue
            heirs = [uses.heir(block, *part) for part in parts]
            pairs = _each_once(
                [(heir, at) for heir, (at, _) in zip(heirs, parts, strict=True) if heir]
            )
            roots = {heir.root.index: heir.root for heir, _ in pairs}
            blocks = [root for root in roots.values() if root.index in self.parts]
            if blocks:
                if len(blocks) == 1 and self._merge(block, blocks[0], pairs, uses):
                    return True
                continue
            later = any(uses.last[index] > uses.last[block] for index in roots)
            if not pairs or not all(whole(heir) for heir, _ in pairs):
                continue
            if (later or roots.keys() & kept) and len(pairs) < len(parts):
                continue  # the whole block would live on for a part of it
            for heir, at in pairs:
                self._put(heir.root, self.table.rows[block], at, uses)
            return True
        return False

    def _put(self, root: Row, to: Row, offset: int, uses: Uses) -> None:
        """Move a root of the new program, and who uses it."""
        self.moves.move(root, to, offset)
        uses.moved(root.index, to.index)

    def _merge(self, block: int, other: Row, pairs: list[tuple[Row, int]], uses: Uses) -> bool:
        """Put one block into another, where parts of that one take the place of its parts."""
        inside = [(heir, at) for heir, at in pairs if heir.root is other]
        shift = inside[0][0].offset - inside[0][1]
        if any(heir.offset - at != shift for heir, at in inside):
            return False
        places = [(heir.offset, heir.nbytes) for heir, _ in inside]
        parts, others = self.parts[block], self.parts[other.index]
        root = self.table.rows[block]
        if places == others:
            self._put(other, root, -shift, uses)
            del self.parts[other.index]
        elif len(places) == len(parts) and set(places) <= set(others):
            self._put(root, other, shift, uses)
            del self.parts[block]
        else:
            return False
        return True


def _each_once(pairs: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """An output that could lie in two places (the sum of two parts) gets the first."""
    places = {}
    for heir, at in pairs:
        places.setdefault((heir.root.index, heir.offset), (heir, at))
    return list(places.values())


def _like(source: Instruction, name: str, ins, outs, ints, label: str) -> Instruction:
    """An instruction in the place of `source`."""
    floats = source.floats if name == source.op.name else ()
    return Instruction(
        BY_NAME[name],
        list(ins),
        list(outs),
        tuple(ints),
        floats,
        label,
        source.line,
        source.link,
        flushes=source.flushes,
    )
