"""Programs with a few numbers changed: refused, or run within the memory that they are given.

What an executor reads of a program comes from files as well, and may be anything. Under the address
sanitizer a kernel that leaves its operands ends the process; the number of the mutant that runs
stands in a file by then.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import sdbr.backends
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError, OtherAnswer, ValidationError
from sdbr.ops.table import OPS
from sdbr.program._memory import Memory
from sdbr.program.buffers import ROW_DTYPE
from sdbr.program.builder import Builder
from sdbr.program.memory import plan
from sdbr.program.program import Program, assemble

import numpy as np
from chainer import functions as F
from chainer import links as L

from tests.harness.models import MODELS, Net, data, floats, labels
from tests.harness.steps import OPTIMIZERS, train
from tests.parity.generators import cases_of
from tests.parity.harness import Case

#: What is changed: arrays of a program, and how often.
ARRAYS = {
    "dims": 8,
    "rows": 6,
    "operands": 4,
    "int_attributes": 6,
    "opcodes": 2,
    "n_outputs": 1,
    "operand_offsets": 1,
    "attribute_offsets": 1,
    "control_references": 1,
    "slots": 1,
}
#: Numbers at the edges of what arrays and kernels hold.
EDGES = (0, 1, -1, 2, 3, 16, 64, 255, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, (1 << 63) - 1)
#: Windows of more places are not run: that takes minutes, inside of the memory or not.
MOST_PLACES = 1 << 16
#: Their integers are addresses of functions, which a program of a file does not have.
ADDRESSES = {op.opcode for op in OPS if op.python or op.name.startswith("allreduce")}


def _images(self, x):
    h = F.max_pooling_2d(F.relu(self.n(self.c(x))), 2)
    return self.o(F.dropout(F.average_pooling_2d(h, 2)))


def _words(self, x):
    return self.o(self.h(None, None, self.e(x))[1])


def trained() -> Iterator[Program]:
    """Programs of forwards, backwards and whole steps that a few models have."""
    models = [
        (
            lambda: L.Classifier(
                Net(
                    _images,
                    c=L.Convolution2D(3, 4, 3, pad=1),
                    n=L.BatchNormalization(4),
                    o=L.Linear(None, 3),
                )
            ),
            data(floats(2, 3, 8, 8), labels(3, 2)),
        ),
        (
            lambda: L.Classifier(
                Net(_words, e=L.EmbedID(7, 4), h=L.StatelessLSTM(4, 4), o=L.Linear(4, 3))
            ),
            data(labels(7, 5), labels(3, 5)),
        ),
        MODELS["mlp_relu"][:2],
        MODELS["conv_net"][:2],
    ]
    setups = [*OPTIMIZERS.values(), OPTIMIZERS["adam"]]
    for (make, given), setup in zip(models, setups, strict=True):
        for options in ({}, {"validate_every": 2}):
            _, model, _ = train(make, given, setup, static=True, steps=4, **options)
            for schedule in model.schedule_manager.schedules.values():
                for programs in (p for s in schedule for p in s.programs.values()):
                    yield from programs if isinstance(programs, list) else [programs]


def single() -> Iterator[Program]:
    """Programs of one op each, as the tests of kernels have them, in an arena."""
    for op in OPS:
        cases = [] if op.family == "control" else cases_of(op.name, "f4")
        cases = [c for c in cases if 0 < sum(o.view.size for o in c.operands) < 2000]
        for case in cases[:: max(1, len(cases) // 4)][:6]:
            yield _assembled(case, 0)
            yield _assembled(case, 4096)


def _assembled(case: Case, room: int) -> Program:
    """The op of a case; whole operands have so many bytes behind them, into which they may grow."""
    builder, rows = Builder(), {}
    for k, o in enumerate(case.operands):
        make = builder.table.bound if k < len(case.ins) and k % 2 == 0 else builder.new
        n = o.base.size + room // o.base.itemsize
        if id(o) not in rows:
            root = make((n,), o.base.dtype, "operand")
            rows[id(o)] = builder.table.view(root, o.view.shape, o.view.strides, o.offset)
    given, cut = [rows[id(o)] for o in case.operands], len(case.ins)
    builder.emit(case.op, given[:cut], given[cut:], case.ints, case.floats)
    arena = plan(builder.instructions, builder.table)
    return assemble(builder.instructions, builder.table, "single", arena)


class Mutants:
    """Changes programs and runs what is not refused.

    Parameters
    ----------
    folder : Path
        Where the number of the mutant that runs is written, before it does.
    """

    def __init__(self, folder: Path):
        self.kinds = [
            [p for p in found if not set(p.opcodes.tolist()) & ADDRESSES]
            for found in (trained(), single())
        ]
        self.counts: collections.Counter = collections.Counter()
        self.words: collections.Counter = collections.Counter()
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "mutant.txt"

    def check(self, number: int) -> None:
        """Make the mutant of a number, and run it unless it is refused."""
        rng = random.Random(number)
        program = mutant(rng.choice(rng.choice(self.kinds)), rng)
        self.path.write_text(f"{number}\n")
        self.counts["mutants"] += 1
        try:
            program.validate()
        except ValidationError as error:
            self.counts["refused"] += 1
            self.words["".join(c for c in str(error) if not c.isdigit())[:40]] += 1
            return
        if not set(program.opcodes.tolist()) & ADDRESSES and not _endless(program):
            self.counts[_run(program, np.random.default_rng(number))] += 1

    def report(self) -> str:
        """What was tried."""
        counts = ", ".join(f"{word} {n}" for word, n in self.counts.most_common())
        of = f"{len(self.kinds[0])} programs of models and {len(self.kinds[1])} of one op"
        return f"mutants of {of}: {counts}; {len(self.words)} messages"


def mutant(program: Program, rng: random.Random) -> Program:
    """A copy of a program with one to three numbers changed."""
    made = dataclasses.replace(program, **{
        name: getattr(program, name).copy() for name in ARRAYS if name != "slots"
    })  # fmt: skip
    made.slots = tuple(copy.copy(slot) for slot in program.slots)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choices(list(ARRAYS), list(ARRAYS.values()))[0]
        if name == "slots":
            slot = rng.choice(made.slots)
            slot.nbytes = changed(slot.nbytes, rng, 1 << 62)
            continue
        array = getattr(made, name)
        if name == "rows":
            array = array[rng.choice(ROW_DTYPE.names)]
        if array.size:
            at = rng.randrange(array.size)
            others = array.reshape(-1)
            limit = np.iinfo(array.dtype).max
            old = int(array.flat[at])
            new = int(others[rng.randrange(array.size)]) if rng.random() < 0.4 else old
            array.flat[at] = changed(old, rng, limit) if new == old else new
    return made


def changed(old: int, rng: random.Random, limit: int) -> int:
    """Another number that an array may hold: near the old one, a multiple of it, or an edge."""
    step = rng.choice((1, 2, 4, 8, 64))
    new = rng.choice((old + step, old - step, 2 * old, -old, old // 2, rng.choice(EDGES)))
    return max(-limit - 1, min(limit, new))


def _endless(program: Program) -> bool:
    for i, code in enumerate(program.opcodes.tolist()):
        if OPS[code].family in ("pooling", "convolution"):
            ints = program.attributes_of(i)[0]
            if max(ints) > MOST_PLACES or (ints[0] * ints[1] * ints[2]) > MOST_PLACES:
                return True
    return False


def _run(program: Program, rng: np.random.Generator) -> str:
    """Run a program once on memory that is as large as it says and no larger."""
    memory = Memory(max((s.index for s in program.slots), default=-1) + 1, 0)
    total = sum(max(s.nbytes, program.arena_bytes) for s in program.slots)
    if total > 1 << 26:
        return "too large"
    arrays = [_filled(slot, program, rng) for slot in program.slots]
    for slot, array in zip(program.slots, arrays, strict=True):
        memory.bind(slot.index, array)
    before = [array.view("u1").reshape(-1).copy() for array in arrays]
    try:
        sdbr.backends.make_executable(program, memory, "cython").run()
        found = "ran"
    except BackendError:
        found = "no kernel"
    except (IndexError, OtherAnswer):
        found = "stopped"
    for old, new, mask in zip(before, arrays, _written(program, before), strict=True):
        same = old == new.view("u1").reshape(-1)
        assert (same | mask).all(), "an op has written what is none of its operands"
    return found


def _filled(slot, program: Program, rng: np.random.Generator) -> np.ndarray:
    """Memory for a slot: numbers of all sorts, or small integers as labels and indices are."""
    if slot.array is not None:
        return slot.array.copy()
    n = slot.nbytes or program.arena_bytes
    if rng.random() < 0.5:
        return rng.integers(-2, 4, n // 4 + 1).astype("i4").view("u1")[:n].copy()
    return rng.standard_normal(n // 4 + 1).astype("f4").view("u1")[:n].copy()


def _written(program: Program, slots: list[np.ndarray]) -> list[np.ndarray]:
    """Of each slot which bytes ops may write."""
    masks = [np.zeros(slot.size, bool) for slot in slots]
    for i, code in enumerate(program.opcodes.tolist()):
        ins, outs = program.operands_of(i)
        for r in [*outs, *(ins if OPS[code].writes_inputs else ())]:
            row = program.rows[r]
            item = DTYPES[row["type"]].itemsize
            shape, strides = (*program.row_shape(r), item), (*program.row_strides(r), 1)
            if 0 not in shape:
                mask = masks[row["slot"]]
                np.ndarray(shape, bool, mask, int(row["offset"]), strides)[...] = True
    return masks
