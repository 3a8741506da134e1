"""Each op with one operand that is not what it takes: refused, or computed alike everywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

from sdbr.base.errors import BackendError, ValidationError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.builder import Builder
from sdbr.program.program import Program, assemble

import numpy as np
import pytest

from .generators import cases_of
from .harness import Case, assert_parity, execute
from .values import Operand, whole

NAMES = [op.name for op in OPS if op.family != "control"]
HUGE = (1 << 32) + 1
#: Of each class of dtypes one that it does not hold.
FOREIGN = {"T": "i4", "I": "f4", "B": "i1", "D": "f4"}


def small(name: str, most: int = 3) -> list[Case]:
    """A few small cases, with something in each operand, of unlike numbers of operands first."""
    full = [c for c in cases_of(name, "f4") if all(o.view.size for o in c.operands)]
    full.sort(key=lambda c: ("ordinary" not in c.what, sum(o.view.size for o in c.operands)))
    unlike = {(len(c.ins), len(c.outs)): c for c in reversed(full)}
    return [*unlike.values(), *full][:most]


def program_of(case: Case, rows: list[Operand]) -> Program:
    """The op on memory of its own for each operand of `rows`, as whole arrays."""
    builder = Builder()
    made: dict[int, object] = {}
    for x in rows:
        if id(x) not in made:
            made[id(x)] = builder.table.bound(x.view.shape, x.view.dtype, "operand")
    given, cut = [made[id(x)] for x in rows], len(case.ins)
    builder.emit(case.op, given[:cut], given[cut:], case.ints, case.floats)
    return assemble(builder.instructions, builder.table)


def refused(program: Program) -> bool:
    try:
        program.validate()
    except ValidationError as error:
        assert "op 0 (" in str(error) or "row " in str(error)
        return True
    return False


def replaced(case: Case, k: int, x: np.ndarray) -> Case:
    """The case with `x` in the place of operand `k`, which then has memory of its own."""
    rows = [whole(o.view) if o.view is not o.base else o for o in case.operands]
    rows[k] = whole(x)
    cut = len(case.ins)
    return dataclasses.replace(case, what="damaged", ins=rows[:cut], outs=rows[cut:])


def unlike_shapes(case: Case) -> Iterator[tuple[int, tuple[int, ...]]]:
    """An operand, and its shape with one axis longer, shorter or gone."""
    for k, x in enumerate(case.operands):
        for axis, n in itertools.product(range(x.view.ndim), (1, -1, 0)):
            length = x.view.shape[axis] + n if n else 0
            if length != x.view.shape[axis]:
                yield k, (*x.view.shape[:axis], length, *x.view.shape[axis + 1 :])


@pytest.mark.parametrize("name", NAMES)
def test_another_length_is_refused_or_computed_alike(name):
    accepted = []
    for case in small(name):
        for k, shape in unlike_shapes(case):
            view = case.operands[k].view
            damaged = replaced(case, k, np.resize(view, shape))
            if not refused(program_of(damaged, damaged.operands)):
                accepted.append(damaged)
    for damaged in accepted:
        alike(damaged)


@pytest.mark.parametrize("name", NAMES)
def test_a_negative_or_huge_length_is_refused(name):
    for case in small(name):
        for k, x in enumerate(case.operands):
            program = program_of(case, [whole(o.view) for o in case.operands])
            start = int(program.rows["dims"][program.operands[k]])
            for axis in range(x.view.ndim):
                for length in (-1, -HUGE, HUGE, 1 << 62, -(1 << 63)):
                    program.dims = program.dims.copy()
                    program.dims[start + axis] = length
                    assert refused(program), (case, k, axis, length)
                    program.dims[start + axis] = x.view.shape[axis]


def another_dtype(op, kind: str, kinds: list[str]) -> list[str]:
    if kind == "T" and kinds.count("T") > 1:
        return ["f8", "i4", "f2", "c8"]
    if kind == "S" and kinds.count("S") > 1:
        return ["f8"]
    return [FOREIGN[kind]] if kind in FOREIGN else []


@pytest.mark.parametrize("name", NAMES)
def test_another_dtype_is_refused(name):
    op = BY_NAME[name]
    for case in small(name):
        cut = len(case.ins)
        kinds = []
        for k in range(len(case.operands)):
            words = op.words[k >= cut]
            kinds.append(words[min(k - cut * (k >= cut), len(words) - 1)][1])
        for k, kind in enumerate(kinds):
            for dtype in another_dtype(op, kind, kinds):
                damaged = replaced(case, k, np.zeros(case.operands[k].view.shape, dtype))
                assert refused(program_of(damaged, damaged.operands)), (damaged, k, dtype)


def in_one_slot(case: Case, a: int, b: int, shift: int) -> Program:
    """The op with operand `b` in the slot of operand `a`, so many bytes further on."""
    builder = Builder()
    rows, made = [], {}
    x, y = case.operands[a].view, case.operands[b].view
    room = builder.table.bound((x.nbytes + y.nbytes + shift + 16,), "u1", "room")
    room.slot.dtype = np.dtype("f8")  # as aligned as any operand
    room.slot.shape = (room.nbytes // 8,)
    room.slot.nbytes = room.nbytes // 8 * 8
    for k, o in enumerate(case.operands):
        if k in (a, b):
            row = builder.table.bound(o.view.shape, o.view.dtype, "operand")
            row.slot, row.place = room.slot, shift * (k == b)
            rows.append(row)
        else:
            made.setdefault(id(o), builder.table.bound(o.view.shape, o.view.dtype, "operand"))
            rows.append(made[id(o)])
    cut = len(case.ins)
    builder.emit(case.op, rows[:cut], rows[cut:], case.ints, case.floats)
    return assemble(builder.instructions, builder.table)


@pytest.mark.parametrize("name", NAMES)
def test_operands_overlap_only_where_the_op_says_so(name):
    op = BY_NAME[name]
    for case in small(name):
        n_in, n = len(case.ins), len(case.operands)
        may = {*op.memory_sharing(n_in, n - n_in, case.ints, case.floats), *op.updated}
        for a in range(0 if op.writes else n_in, n):
            for b in range(a):
                x, y = case.operands[a].view, case.operands[b].view
                item = max(x.itemsize, y.itemsize)
                if min(x.nbytes, y.nbytes) > item:
                    assert refused(in_one_slot(case, a, b, item)), (case, a, b, "shifted")
                alike = (x.shape, x.dtype) == (y.shape, y.dtype) or x.size == y.size
                fine = (a - n_in, b) in may and alike
                assert refused(in_one_slot(case, a, b, 0)) != fine, (case, a, b)


@pytest.mark.parametrize("name", [n for n in NAMES if BY_NAME[n].bounds])
def test_attributes_beyond_their_bounds_are_refused(name):
    for case in small(name, 1):
        for k, least, end in BY_NAME[name].bounds:
            for value in (least - 1, -(1 << 63), *([] if end is None else [end, (1 << 63) - 1])):
                ints = (*case.ints[:k], value, *case.ints[k + 1 :])
                changed = dataclasses.replace(case, ints=ints)
                program = program_of(changed, [whole(o.view) for o in case.operands])
                with pytest.raises(ValidationError, match=rf"{BY_NAME[name].ints[k]} is {value}"):
                    program.validate()


@pytest.mark.parametrize("name", [n for n in NAMES if BY_NAME[n].ints and n != "fused"])
def test_another_number_is_refused_or_computed_alike(name):
    for case in small(name, 1):
        for k, old in enumerate(case.ints):
            for value in (0, 1, 2, old + 1, old - 1, 7, (1 << 31) - 1, 1 << 31, (1 << 63) - 1):
                ints = (*case.ints[:k], value, *case.ints[k + 1 :])
                changed = dataclasses.replace(case, what=f"number {k} is {value}", ints=ints)
                if not refused(program_of(changed, [whole(o.view) for o in case.operands])):
                    alike(changed)


def alike(case: Case) -> None:
    """Both backends compute the same, unless there is no kernel or an index is out of range.

    NumPy has no memory for wide padding: kernels do without, and run alone.
    """
    op = BY_NAME[case.op]
    case.written = case.ins if op.writes else []
    wide = op.family in ("pooling", "convolution") and max(case.ints) > 1000
    with contextlib.suppress(BackendError, IndexError):
        if wide:
            execute([case], "cython")
        else:
            assert_parity([case], "cython")


@pytest.mark.parametrize("index", ["u1", "i4", "i8"])
@pytest.mark.parametrize("width", [4, 40])
@pytest.mark.parametrize("window", [(1, 2, 2, 1, 2, 2), (1, 3, 3, 1, 2, 2), (1, 2, 3, 1, 3, 3)])
def test_a_known_index_that_is_none_writes_nothing_elsewhere(window, width, index):
    """Whoever says that an index is known may be wrong: it came from a file."""
    x, y = (2, 1, 6, width), (2, 1, 2, (width - 3) // 3)
    base = np.full(2000 + np.prod(x) + 2000, 55, "f4")
    view = base[2000:-2000].reshape(x)
    limits = np.iinfo(index)
    wild = np.random.randint(limits.min, limits.max, y, index)
    wild.flat[:4] = limits.min, limits.max, 4, window[1] * window[2]
    ins = [whole(np.ones(y, "f4")), whole(wild)]
    gx = Operand(base, view)
    case = Case("max_pooling_grad", "", ins, [gx], (*window, 0, 0, 0, 1))
    after = execute([case], "cython")[id(gx)]
    assert (after[:2000] == 55).all() and (after[-2000:] == 55).all()
    assert np.isin(gx.window(after), range(window[1] * window[2] + 1)).all()
