"""Ops that ride on others: one launch does both, in one pass over what they read.

Gradients of biases are summed up by the product for the gradient of the weights. Accuracy, the seed
of a backward and the gradient of a softmax cross entropy are made with that, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sdbr.backends.cuda.families.loss import ACCURACY, GRADIENT, SEED, SEEDED, cross_entropy
from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.backends.cuda.team import by_dtype
from sdbr.backends.cuda.together import Place, meet
from sdbr.ops.table import OPS
from sdbr.program.buffers import BOUND
from sdbr.program.program import Program

#: Rows whose labels each team counts for itself, where the gradient is divided by their number. Not
#: measured: sixteen loads of each thread.
MOST_ROWS = 4096

#: What an op reads and what it writes.
Places = Callable[[int], tuple[list[Place], list[Place]]]


def joint_launch(
    program: Program,
    launches: Sequence[Launches | None],
    places: Places,
    lasting: Collection[int],
    ops: Sequence[int],
) -> Launch | None:
    """The launch that does neighbouring ops at once; None: there is none.

    Parameters
    ----------
    program : Program
    launches : sequence of Launches
        Of all ops of the program.
    places : callable
    lasting : collection of int
        Ops that write nothing after a label that is out of range.
    ops : sequence of int
        From two on.
    """
    first = _name(program, ops[0])
    if first == "gemm" and len(ops) == 2 and _name(program, ops[1]) == "sum":
        return _product_with_sums(program, launches, places, *ops)
    if first == "softmax_cross_entropy":
        return _Loss(program, launches, places, lasting, ops).launch()
    return None


def _name(program: Program, i: int) -> str:
    return OPS[int(program.opcodes[i])].name


def _product_with_sums(program, launches, places: Places, i: int, j: int) -> Launch | None:
    """That of op `i`, ``c = a.T @ b``, and op `j`, ``a.sum(0)``, if they are that.

    Its operands are those of `i` and the output of `j`.
    """
    (trans_a, _, accumulate), _ = program.attributes_of(i)
    (a, _), (c,) = program.operands_of(i)
    (x,), _ = program.operands_of(j)
    if not trans_a or accumulate or 0 in (*program.row_shape(a), *program.row_shape(c)):
        return None
    if program.row_shape(x) != (1, *program.row_shape(a)) or _start(program, x) != _start(
        program, a
    ):
        return None
    (reads, writes), (also_reads, also_writes) = places(i), places(j)
    if meet(also_writes, reads + writes) or meet(also_reads, writes):
        return None
    launch = launches[i][0]
    return by_dtype("gemm_sums", launch.section, launch.ints, launch.teams, operands=(0, 1, 2, 4))


def _start(program: Program, row: int) -> tuple[int, int]:
    return int(program.rows["slot"][row]), int(program.rows["offset"][row])


class _Loss:
    """A softmax cross entropy, and the ops behind it: each of them once at most."""

    def __init__(self, program, launches, places, lasting, ops: Sequence[int]) -> None:
        self.program, self.launches, self.places = program, launches, places
        self.lasting, self.ops = lasting, ops
        (self.alone,) = launches[ops[0]]
        ins, outs = program.operands_of(ops[0])
        self.x, self.t, self.w = ins[0], ins[1], ins[2:]
        self.lse, self.coeff = outs[1:]
        self.reads = list(ins)  # but for what they hand on
        self.writes = list(outs)
        self.numbers, self.operands = list(self.alone.ints), list(self.alone.operands)
        self.seed: int | None = None  # the row that it is written to
        self.gx: int | None = None

    def launch(self) -> Launch | None:
        at = len(self.reads) + len(self.writes)  # the first operand of an op among those of all
        takes = {
            "accuracy": self._accuracy,
            "fill": self._fill,
            "softmax_cross_entropy_grad": self._gradient,
        }
        for i in self.ops[1:]:
            take = takes.pop(_name(self.program, i), None)
            if take is None or not take(i, at):
                return None
            ins, outs = self.program.operands_of(i)
            self.writes += outs
            at += len(ins) + len(outs)
        if not self._is_apart():
            return None
        return cross_entropy(self.alone.section, self.numbers, self.operands)

    def _are(self, rows: Sequence[int], others: Sequence[int]) -> bool:
        """Whether they are the same elements; the same array may have several rows."""
        return len(rows) == len(others) and all(
            self._elements(r) == self._elements(k) for r, k in zip(rows, others, strict=True)
        )

    def _elements(self, r: int) -> tuple:
        program = self.program
        kind = int(program.rows["type"][r])
        return *_start(program, r), kind, program.row_shape(r), program.row_strides(r)

    def _accuracy(self, i: int, at: int) -> bool:
        ins, _ = self.program.operands_of(i)
        ints, _ = self.program.attributes_of(i)
        self.numbers[8] |= ACCURACY
        self.numbers[9:11] = ints
        self.operands[6] = at + 2
        return self._are(ins, [self.x, self.t])

    def _fill(self, i: int, at: int) -> bool:
        """Of one number, as the seed of a backward is."""
        _, (self.seed,) = self.program.operands_of(i)
        starts = self.program.attribute_offsets[:, 1]
        self.numbers[8] |= SEED
        self.numbers[11] = int(starts[i] - starts[self.ops[0]])
        self.operands[7] = at
        types = self.program.rows["type"]
        return self.program.row_shape(self.seed) == () and types[self.seed] == types[self.x]

    def _gradient(self, i: int, at: int) -> bool:
        """It is divided by the number of labels that count, which each team has to know at once.

        One that outlives the run must not be written once a label is found to be out of range.
        """
        ins, (self.gx,) = self.program.operands_of(i)
        ints, _ = self.program.attributes_of(i)
        outer, _, inner = self.numbers[:3]
        gloss = ins[4]
        is_seeded = self.seed is not None and self._are([gloss], [self.seed])
        if not is_seeded:
            self.reads.append(gloss)
        self.numbers[8] |= GRADIENT | (SEEDED if is_seeded else 0)
        self.operands[8], self.operands[9] = at + 4, at + len(ins)
        return (
            self._are(ins, [self.x, self.t, self.lse, self.coeff, gloss, *self.w])
            and list(ints) == [self.numbers[5]]
            and (not self.numbers[6] or outer * inner <= MOST_ROWS)
            and i not in self.lasting
        )

    def _is_apart(self) -> bool:
        """Whether what one of them writes no other touches, but for what they hand on.

        The gradient may lie where the scores do. An array of the user's may be another one as well.
        """
        places, kinds = self._places(), self.program.slots
        writes = [places[r] for r in self.writes]
        if any(kinds[slot].kind == BOUND for slot, _, _ in writes):
            return False
        if any(meet([p], writes[:k]) for k, p in enumerate(writes)):
            return False
        return not any(
            meet([places[w]], [places[r]])
            for w in self.writes
            for r in self.reads
            if not (w == self.gx and places[w] == places[r] == places[self.x])
        )

    def _places(self) -> dict[int, Place]:
        found: dict[int, Place] = {}
        for i in self.ops:
            for rows, where in zip(self.program.operands_of(i), self.places(i), strict=True):
                found.update(zip(rows, where, strict=True))
        return found
