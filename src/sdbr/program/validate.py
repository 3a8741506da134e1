"""The check that every program passes before an executor sees it."""

from __future__ import annotations

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import ValidationError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.buffers import ARENA

import numpy as np


def validate_program(program) -> None:
    """Raise `ValidationError` unless the flat arrays form a program.

    Indices are looked at all at once, operands once for each kind of op and layouts.
    """
    n = len(program.opcodes)
    _check(
        len(program.operand_offsets) == n + 1,
        "operand_offsets must have one entry more than opcodes",
    )
    _check(
        len(program.attribute_offsets) == n + 1,
        "attribute_offsets must have one entry more than opcodes",
    )
    _check(len(program.n_outputs) == n, "n_outputs must have one entry per op")
    flushes = program.flushes
    _check(
        flushes is None or (flushes.shape == (n,) and flushes.dtype == bool),
        "flushes must have one bool per op",
    )
    opcodes = program.opcodes
    bad = np.flatnonzero((opcodes < 0) | (opcodes >= len(OPS)))
    if bad.size:
        raise ValidationError(
            f"op {bad[0]}: unknown opcode {opcodes[bad[0]]}; there are {len(OPS)}"
        )
    _check_offsets(program.operand_offsets, len(program.operands), "operand_offsets")
    for column, total in ((0, len(program.int_attributes)), (1, len(program.float_attributes))):
        _check_offsets(program.attribute_offsets[:, column], total, "attribute_offsets")
    bad = np.flatnonzero((program.operands < 0) | (program.operands >= len(program.rows)))
    if bad.size:
        op = int(np.searchsorted(program.operand_offsets, bad[0], side="right")) - 1
        raise ValidationError(
            f"op {op} ({OPS[opcodes[op]].name}): operand {program.operands[bad[0]]} is not a row; "
            f"there are {len(program.rows)}"
        )
    _check_counts(program)
    _check_rows(program)
    _check_operands(program)
    refs = program.control_references
    if len(refs):
        inside = (
            (refs[:, 0] >= 0) & (refs[:, 0] < len(program.float_attributes)) & (refs[:, 1] >= 0)
        )
        _check(bool(inside.all()), "control_references point outside float_attributes")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValidationError(message)


def _check_offsets(offsets, total: int, name: str) -> None:
    fine = (
        len(offsets) > 0
        and offsets[0] == 0
        and offsets[-1] == total
        and bool((np.diff(offsets) >= 0).all())
    )
    _check(fine, f"{name} must rise from 0 to {total}")


_FIXED_IN = np.array([sum(not w.endswith("*") for w in op.inputs) for op in OPS])
_VARIADIC_IN = np.array([any(w.endswith("*") for w in op.inputs) for op in OPS])
_FIXED_OUT = np.array([sum(not w.endswith("*") for w in op.outputs) for op in OPS])
_VARIADIC_OUT = np.array([any(w.endswith("*") for w in op.outputs) for op in OPS])
_INTS = np.array([sum(not n.endswith("*") for n in op.ints) for op in OPS])
_FLOATS = np.array([sum(not n.endswith("*") for n in op.floats) for op in OPS])
_VARIADIC = np.array([any(n.endswith("*") for n in op.ints + op.floats) for op in OPS])
_FORK = BY_NAME["fork"].opcode
_PYTHON = BY_NAME["python"].opcode
_NOT_IN_BRANCHES = [_PYTHON, _FORK]


def _check_counts(program) -> None:
    codes = program.opcodes
    outs = program.n_outputs
    ins = np.diff(program.operand_offsets) - outs
    for got, fixed, variadic, what in (
        (ins, _FIXED_IN, _VARIADIC_IN, "inputs"),
        (outs, _FIXED_OUT, _VARIADIC_OUT, "outputs"),
    ):
        wrong = np.where(variadic[codes], got < fixed[codes], got != fixed[codes])
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise ValidationError(
                f"op {i} ({OPS[codes[i]].name}): {got[i]} {what}, expected {fixed[codes[i]]}"
            )
    counts = np.diff(program.attribute_offsets, axis=0)
    for column, want, what in ((0, _INTS, "integer"), (1, _FLOATS, "float")):
        wrong = (counts[:, column] != want[codes]) & ~_VARIADIC[codes]
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise ValidationError(
                f"op {i} ({OPS[codes[i]].name}): {counts[i, column]} {what} attributes, "
                f"expected {want[codes[i]]}"
            )
    for i in np.flatnonzero(codes == _FORK).tolist():
        lengths = program.attributes_of(i)[0]
        inside = codes[i + 1 : i + 1 + sum(lengths)]
        fine = min(lengths) >= 0 and lengths[0] > 0 and len(inside) == sum(lengths)
        _check(
            fine and not np.isin(inside, _NOT_IN_BRANCHES).any(),
            f"op {i} (fork): branches of {lengths} ops, which hold no python op and no fork",
        )
    python = np.flatnonzero(codes == _PYTHON)
    for i in python.tolist():
        slot = int(program.int_attributes[program.attribute_offsets[i, 0]])
        _check(
            0 <= slot < len(program.objects), f"op {i} (python): object slot {slot} does not exist"
        )


def _check_rows(program) -> None:
    rows = program.rows
    sizes = np.array([d.itemsize for d in DTYPES], np.int64)
    _check(
        bool(((rows["type"] >= 0) & (rows["type"] < len(DTYPES))).all()),
        "a row has an unknown dtype",
    )
    _check(
        bool(((rows["slot"] >= 0) & (rows["slot"] < len(program.slots))).all()),
        "a row has an unknown slot",
    )
    start, ndim = rows["dims"], rows["ndim"]
    fine = (ndim >= 0) & (start >= 0) & (start + 2 * ndim <= len(program.dims))
    _check(bool(fine.all()), "a row has its shape outside dims")
    slot_bytes = np.array(
        [
            program.arena_bytes if s.kind == ARENA and s.nbytes == 0 else s.nbytes
            for s in program.slots
        ],
        np.int64,
    )
    low = rows["offset"].astype(np.int64).copy()
    high = low + sizes[rows["type"]]
    empty = np.zeros(len(rows), bool)
    for d in range(int(ndim.max(initial=0))):
        has = ndim > d
        at = np.where(has, start + d, 0)
        shape = np.where(has, program.dims[at], 1)
        stride = np.where(has, program.dims[np.where(has, start + ndim + d, 0)], 0)
        _check(bool((shape >= 0).all()), "a row has a negative length")
        empty |= shape == 0
        reach = (shape - 1) * stride
        low += np.minimum(reach, 0)
        high += np.maximum(reach, 0)
    wrong = ~empty & ((low < 0) | (high > slot_bytes[rows["slot"]]))
    if wrong.any():
        r = int(np.flatnonzero(wrong)[0])
        raise ValidationError(
            f"row {r} reaches bytes {low[r]} to {high[r]} of slot {rows['slot'][r]}, "
            f"which has {slot_bytes[rows['slot'][r]]}"
        )


def _check_operands(program) -> None:
    """Dtypes and shapes of operands, by the rules of the op table; equal ops are checked once."""
    known: dict[tuple, int] = {}
    layouts: list[tuple] = []
    dims = program.dims.tolist()
    rows = program.rows
    kinds = []  # of each row: its dtype and shape, as an index into `layouts`
    for code, start, ndim in zip(
        rows["type"].tolist(), rows["dims"].tolist(), rows["ndim"].tolist(), strict=True
    ):
        key = (code, *dims[start : start + ndim])
        if key not in known:
            known[key] = len(layouts)
            layouts.append((DTYPES[code], key[1:]))
        kinds.append(known[key])
    operands = np.asarray(kinds, np.int64)[program.operands].tolist()
    offsets, n_outputs = program.operand_offsets.tolist(), program.n_outputs.tolist()
    starts = program.attribute_offsets.tolist()
    ints = program.int_attributes.tolist()
    checked: set[tuple] = set()
    for i, code in enumerate(program.opcodes.tolist()):
        (a, b), (c, d) = starts[i], starts[i + 1]
        mine = operands[offsets[i] : offsets[i + 1]]
        key = (code, n_outputs[i], d - b, *mine, None, *ints[a:c])
        if key in checked:
            continue
        checked.add(key)
        given = [layouts[k] for k in mine]
        cut = len(given) - n_outputs[i]
        op = OPS[code]
        problem = op.problem(given[:cut], given[cut:], ints[a:c], [0.0] * (d - b))
        if problem:
            label, line = (texts[i] if texts else "" for texts in (program.labels, program.lines))
            where = f"; {label}" + (f" at {line}" if line else "") if label or line else ""
            raise ValidationError(f"op {i} ({op.name}): {problem}{where}")
