"""Kernels of the convolution family; which of several kernels runs is chosen here."""

from __future__ import annotations

import math

from sdbr.backends.cpu.onednn.convolution import Convolution
from sdbr.backends.cpu.prepare.blocking import Blocking, blocking_of
from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import describe
from sdbr.backends.cpu.tuning.convolution import choose
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(name: str, ins: list[Operand], outs: list[Operand], ints: tuple[int, ...]):
    """Kernel and integers of one convolution; see :mod:`sdbr.backends.cpu`."""
    operands = [*ins, *outs]
    contiguous(name, operands)
    sizes, has_bias = _sizes(name, ins, outs, ints), len(ins) > 2
    itemsize = DTYPES[outs[0][0]].itemsize
    room = math.prod(outs[1][1]) if len(outs) > 1 else 0
    shares = sizes.shares(name, itemsize, room)
    if shares < 1:
        raise BackendError(
            f"op {name!r}: scratch memory of {room}, not {sizes.scratch(name, itemsize)} "
            f"elements; got {describe(operands)}"
        )
    numbers = _numbers(name, sizes, has_bias, ints[10], itemsize, shares)
    own = {"own": (f"{name}{sizes.way(name)}_{suffix(outs[0])}", numbers)}
    specs = [(operand[1], DTYPES[operand[0]]) for operand in operands]
    return choose(_problem(name, sizes, has_bias, ints[10]), own, specs)


def scratch(
    name: str, ins: list[Operand], outs: list[Operand], ints: tuple[int, ...], threads: int
) -> int:
    """Elements of the memory that the kernel works in."""
    sizes = _sizes(name, ins, outs, ints)
    return sizes.scratch(name, DTYPES[outs[0][0]].itemsize, threads)


def _sizes(name, ins, outs, ints) -> Blocking:
    first, second, result = ins[0][1], ins[1][1], outs[0][1]
    shapes = {
        "convolution": (first, second, result),
        "convolution_grad_x": (result, second, first),
        "convolution_grad_w": (first, result, second),
    }[name]
    return blocking_of(shapes, ints)


def _problem(name: str, sizes: Blocking, has_bias: bool, last: int) -> Convolution:
    """The same as what is measured and what oneDNN is asked for."""
    accumulates = name == "convolution_grad_w"
    return Convolution(
        name,
        sizes.x,
        sizes.w,
        sizes.y,
        sizes.stride,
        sizes.pad,
        sizes.dilate,
        sizes.groups,
        bias=has_bias,
        relu=bool(last) and not accumulates,
        accumulate=bool(last) and accumulates,
    )


def _numbers(
    name: str, sizes: Blocking, has_bias: bool, last: int, itemsize: int, shares: int
) -> list[int]:
    """What ``kernels/convolution/shape.h`` reads."""
    slot = sizes.slot(name, itemsize)
    sizes = sizes.flat
    accumulates = name == "convolution_grad_w"
    return [
        sizes.x[0],
        sizes.x[1],
        sizes.w[0],
        sizes.groups,
        *sizes.x[2:],
        *sizes.y[2:],
        *sizes.w[2:],
        *sizes.stride,
        *sizes.pad,
        *sizes.dilate,
        0 if accumulates else last,
        int(has_bias),
        last if accumulates else 0,
        sizes.block(name, itemsize),
        shares,
        slot,
    ]
