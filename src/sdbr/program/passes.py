"""Passes over the instructions of a program; each can be switched off by name.

``chainer.config.sdbr_disabled_passes`` (or ``SDBR_DISABLED_PASSES``) is a
comma-separated list of names out of `PASSES`.
"""

from __future__ import annotations

import os

from sdbr.program.buffers import Row
from sdbr.program.builder import Instruction
from sdbr.program.ops import BY_NAME

import chainer

#: ``views`` lets an op write into the memory that is handed out, instead of a copy at the end.
PASSES = ("dead_code", "views", "fusion", "inplace")

_ACTIVATIONS = {"relu": 1, "sigmoid": 2, "tanh": 3}
_ACTIVATION_GRADS = {"relu_grad": 1, "sigmoid_grad": 2, "tanh_grad": 3}


def enabled() -> frozenset[str]:
    """Names of the passes that are on."""
    off = getattr(chainer.config, "sdbr_disabled_passes", None)
    if off is None:
        off = os.environ.get("SDBR_DISABLED_PASSES", "")
    names = {n.strip() for n in off.split(",")} if isinstance(off, str) else set(off)
    unknown = names - set(PASSES) - {""}
    if unknown:
        raise ValueError(
            f"sdbr_disabled_passes: unknown {sorted(unknown)}, expected some of {PASSES}"
        )
    return frozenset(PASSES) - names


def dead_code(instructions: list[Instruction], kept: set[int]) -> list[Instruction]:
    """Drop instructions whose results nobody reads.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program. Rows in slots count as kept.
    """
    live = set(kept)
    result = []
    for instruction in reversed(instructions):
        if (
            instruction.op.effect
            or not instruction.outs
            or any(y.root.slot is not None or y.root.index in live for y in instruction.outs)
        ):
            result.append(instruction)
            for x in instruction.ins:
                live.add(x.root.index)
    result.reverse()
    return result


def fusion(instructions: list[Instruction], kept: set[int]) -> list[Instruction]:
    """Put bias and activation behind the matrix product.

    ``linear`` then relu, sigmoid or tanh becomes one ``linear``; ``gemm`` then the gradient of
    such an activation becomes ``gemm_mask``. Only where nobody else reads the product.
    """
    uses: dict[int, int] = {}
    for instruction in instructions:
        for x in instruction.ins:
            uses[x.root.index] = uses.get(x.root.index, 0) + 1
    makers: dict[int, Instruction] = {}
    written_at: dict[int, int] = {}  # root row -> position of its latest writer
    dropped: set[int] = set()
    for position, instruction in enumerate(instructions):
        name = instruction.op.name
        if name in _ACTIVATIONS:
            maker = _sole_maker(instruction.ins[0], makers, uses, kept)
            if maker is not None and maker.op.name == "linear" and maker.ints == (0,):
                y = instruction.outs[0]
                if _same_place(instruction.ins[0], y) and y.shape == maker.outs[0].shape:
                    maker.ints = (_ACTIVATIONS[name],)
                    written_at[y.root.index] = written_at[maker.outs[0].root.index]
                    maker.outs = [y]
                    maker.label += f" + {instruction.label}"
                    dropped.add(id(instruction))
                    makers[y.root.index] = maker
                    continue
        elif name in _ACTIVATION_GRADS:
            maker = _sole_maker(instruction.ins[1], makers, uses, kept)
            if (
                maker is not None
                and maker.op.name == "gemm"
                and maker.ints == (0, 0, 0)
                and instruction.ins[0].is_contiguous
                and _same_place(instruction.ins[1], instruction.outs[0])
                and instruction.ins[0].shape == maker.outs[0].shape
                and instruction.outs[0].shape == maker.outs[0].shape
            ):
                # The mask must exist when the product runs: it does, it comes from the forward.
                mask = instruction.ins[0].root.index
                if written_at.get(mask, -1) < written_at[maker.outs[0].root.index]:
                    maker.op = BY_NAME["gemm_mask"]
                    maker.ints = (_ACTIVATION_GRADS[name],)
                    maker.ins = [*maker.ins, instruction.ins[0]]
                    written_at[instruction.outs[0].root.index] = written_at[
                        maker.outs[0].root.index
                    ]
                    maker.outs = [instruction.outs[0]]
                    maker.label += f" + {instruction.label}"
                    dropped.add(id(instruction))
                    makers[instruction.outs[0].root.index] = maker
                    continue
        for y in instruction.outs:
            makers[y.root.index] = instruction
            written_at[y.root.index] = position
    return [i for i in instructions if id(i) not in dropped]


def _sole_maker(row: Row, makers, uses, kept) -> Instruction | None:
    root = row.root
    if root.slot is not None or root.index in kept or uses.get(root.index) != 1:
        return None
    return makers.get(root.index)


def _same_place(x: Row, y: Row) -> bool:
    return x.is_contiguous and y.is_contiguous and x.nbytes == y.nbytes == x.root.nbytes


def inplace(instructions: list[Instruction], kept: set[int]) -> dict[int, Row]:
    """Find outputs that may take over the memory of an input that dies there.

    Returns
    -------
    dict
        Root row index of the output -> root row of the input.
    """
    last: dict[int, int] = {}
    first_write: dict[int, int] = {}
    for i, instruction in enumerate(instructions):
        for row in instruction.ins:
            last[row.root.index] = i
        for row in instruction.outs:
            last[row.root.index] = i
            first_write.setdefault(row.root.index, i)
    aliases: dict[int, Row] = {}
    for i, instruction in enumerate(instructions):
        if not instruction.op.inplace or not instruction.outs:
            continue
        y = instruction.outs[0]
        if y.root.slot is not None or first_write[y.root.index] != i or not _whole(y):
            continue
        for k in instruction.op.inplace:
            x = instruction.ins[k]
            if (
                x.root.slot is None
                and x.root.index not in kept
                and last[x.root.index] == i
                and _whole(x)
                and x.strides == y.strides
                and x.dtype == y.dtype
                and x.root is not y.root
                and first_write.get(x.root.index, i) < i
            ):
                # The other inputs must not lie in the same memory in another order.
                others = [o for j, o in enumerate(instruction.ins) if j != k and o.root is x.root]
                if all(o.strides == x.strides and o.offset == x.offset for o in others):
                    aliases[y.root.index] = x.root
                    break
    return aliases


def _whole(row: Row) -> bool:
    return row.offset == 0 and row.nbytes == row.root.nbytes and row.is_contiguous
