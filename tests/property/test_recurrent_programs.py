"""Random programs through the pass over unrolled loops: the same results as without it.

Products with shared matrices, sums of products, slices, joined rows, and rows that are kept or
handed out, in any order: far more than what networks are made of.
"""

from __future__ import annotations

import importlib

import sdbr.backends
from sdbr.program import memory, passes
from sdbr.program._memory import Memory
from sdbr.program.buffers import ARENA, CONSTANT, Row
from sdbr.program.builder import Builder
from sdbr.program.passes.recurrent import recurrence, repetition
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.tolerances import DOUBLE_STEPS

WIDTH, SAMPLES = 4, 8
MODULE = importlib.import_module("sdbr.program.passes.recurrent")


class RandomProgram:
    """A program with rows that are handed out and roots that are kept; the same for each seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.b = Builder()
        table = self.b.table
        self.weights = [table.bound((WIDTH, WIDTH), "f8", f"w{i}") for i in range(2)]
        self.biases = [table.bound((WIDTH,), "f8", f"b{i}") for i in range(2)]
        self.x = table.bound((SAMPLES, WIDTH), "f8", "x")
        self.rows = [self.part(self.x, 3) for _ in range(self.number(2, 5))]
        self.matrices: list[Row] = []
        self.vectors: list[Row] = []
        kinds = [self.linear, self.linear, self.gemm, self.binary, self.tanh, self.joined]
        kinds += [self.sliced, self.outer, self.outer, self.summed, self.summed, self.lstm]
        kinds += [self.scattered]
        for _ in range(self.number(10, 60)):
            self.one_of(kinds)()
        self.owned = self.hand_out()
        inner = [row for row in self.rows if row.root.slot is None]
        self.kept = [self.one_of(inner).root for _ in range(self.number(0, 3)) if inner]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def chance(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def one_of(self, things):
        return things[self.number(0, len(things))]

    def row(self) -> Row:
        """Any row, more often a late one."""
        return self.one_of(self.rows if self.chance() else self.rows[-6:])

    def like(self, row: Row) -> Row:
        return self.one_of([r for r in self.rows if r.shape == row.shape])

    def part(self, row: Row, most: int) -> Row:
        start = self.number(0, row.shape[0])
        return self.b.slice(row, slice(start, start + self.number(1, most + 1)))

    def linear(self):
        row, k = self.row(), self.number(0, 2)
        y = self.b.new(row.shape, "f8")
        bias = [self.biases[k]] if self.chance() else []
        ins = [self.b.contiguous(row), self.weights[k], *bias]
        self.b.emit("linear", ins, [y], (self.one_of([0, 0, 0, 3]),))
        self.rows.append(y)

    def gemm(self):
        row = self.row()
        y = self.b.new(row.shape, "f8")
        ins = [self.b.contiguous(row), self.one_of(self.weights)]
        self.b.emit("gemm", ins, [y], (0, self.number(0, 2), 0))
        self.rows.append(y)

    def binary(self):
        row = self.row()
        name = self.one_of(["add", "add", "multiply", "tanh_grad"])
        self.rows.append(self.b.elementwise(name, row, self.like(row)))

    def tanh(self):
        self.rows.append(self.b.elementwise("tanh", self.row()))

    def joined(self):
        first, second = self.row(), self.row()
        n, m = first.shape[0], second.shape[0]
        if n + m <= 6:
            y = self.b.new((n + m, WIDTH), "f8")
            self.b.copy_to(first, self.b.slice(y, slice(n)))
            self.b.copy_to(second, self.b.slice(y, slice(n, None)))
            self.rows.append(y)

    def sliced(self):
        row = self.row()
        self.rows.append(self.part(row, row.shape[0]))

    def outer(self):
        row = self.row()
        g = self.b.new((WIDTH, WIDTH), "f8")
        ins = [self.b.contiguous(row), self.b.contiguous(self.like(row))]
        self.b.emit("gemm", ins, [g], (1, 0, 0))
        self.matrices.append(g)

    def summed(self):
        self.vectors.append(self.b.reduce("sum", self.b.contiguous(self.row()), (0,)))

    def lstm(self):
        x = self.b.contiguous(self.row())
        n = x.shape[0]
        c_prev = self.b.contiguous(self.b.slice(self.x, (slice(n), 0)))
        gates, c, h = (self.b.new(shape, "f8") for shape in ((n, 4), (n,), (n,)))
        self.b.emit("lstm", [c_prev, x], [gates, c, h])
        self.rows.append(gates)

    def scattered(self):
        row = self.b.contiguous(self.row())
        index = self.b.constant(self.rng.integers(0, WIDTH, row.shape[0]).astype("i4"))
        g = self.b.new((WIDTH, WIDTH), "f8")
        ins = [self.b.reshape(row, (1, *row.shape)), index]
        self.b.emit("scatter_add", ins, [self.b.reshape(g, (1, *g.shape))], (0, 0, 0))
        self.matrices.append(g)

    def hand_out(self) -> list[Row]:
        """Sums of all gradients and some rows, in memory of their own or copied there."""
        outs = [self.row() for _ in range(self.number(0, 4))]
        for terms in (self.matrices, self.vectors):
            self.rng.shuffle(terms)
            total = terms[0] if terms else self.rows[-1]
            for term in terms[1:]:
                total = self.b.elementwise("add", total, term)
            outs.append(total)
        owned = []
        for row in outs:
            y = self.b.table.owned(row.shape, "f8", "output")
            root = row.root
            full = row.offset == 0 and row.nbytes == root.nbytes and row.is_contiguous
            if full and root.slot is None and self.chance():
                root.slot = y.slot
            else:
                self.b.emit("copy", [row], [y])
            owned.append(y)
        return owned

    def run(self, names: frozenset) -> tuple[list[np.ndarray], int]:
        """What is handed out and kept, after the passes `names`; the number of products."""
        table = self.b.table
        kept = {root.index for root in self.kept}
        instructions = passes.transform(self.b.instructions, kept, table, names)
        aliases = passes.inplace(instructions, kept) if "inplace" in names else {}
        arena = memory.plan(instructions, table, self.kept, "arena", True, aliases)
        assert memory.check_overlaps(instructions, self.kept) == []
        program = assemble(instructions, table, "random", arena)
        space = Memory(len(table.slots), 0)
        rng, arrays = np.random.default_rng(99), {}
        for slot in table.slots:
            if slot.kind == ARENA:
                arrays[slot.index] = np.full(max(slot.nbytes, 64), 7, np.uint8)
            else:
                made = slot.array if slot.kind == CONSTANT else rng.standard_normal(slot.shape)
                arrays[slot.index] = made
            space.bind(slot.index, arrays[slot.index])
        sdbr.backends.make_executable(program, space, "cython").run()
        found = [arrays[row.slot.index].ravel() for row in self.owned]
        for row in self.kept:
            start = row.root.place + row.offset
            found.append(arrays[row.root.slot.index][start : start + row.nbytes].view("f8"))
        return found, sum(i.op.family == "product" for i in instructions)


@pytest.mark.parametrize("only", [False, True], ids=["all passes", "this pass"])
@pytest.mark.parametrize("block", range(5))
def test_random_programs(block, only, monkeypatch):
    monkeypatch.setattr(MODULE, "MORE", 100)
    for module in (recurrence, repetition):
        monkeypatch.setattr(module, "FEWEST_STEPS", 2)
    others = frozenset() if only else frozenset(passes.PASSES) - {"recurrent"}
    fewer = 0
    for seed in range(block * 20, block * 20 + 20):
        got, products = RandomProgram(seed).run(others | {"recurrent"})
        want, plain = RandomProgram(seed).run(others)
        fewer += products < plain
        for a, b in zip(got, want, strict=True):
            limit = DOUBLE_STEPS * max(1, np.abs(b).max())
            np.testing.assert_allclose(a, b, rtol=0, atol=limit, err_msg=f"seed {seed}")
    assert fewer >= 3
