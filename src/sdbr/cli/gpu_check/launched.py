"""Single ops on memory of a device: their kernels as programs launch them, without a program."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence

from sdbr.backends.cuda.launch import THREADS
from sdbr.backends.cuda.plan import source
from sdbr.base.dtypes import DTYPE_CODES
from sdbr.cli.gpu_check import job as jobs
from sdbr.devices.driver import Buffer, Device, Stream
from sdbr.ops.op import Op

import numpy as np

#: Shape, dtype, and strides in bytes where it is not C-contiguous.
Given = tuple


class Operands:
    """Memory for the operands of an op, with random numbers.

    Parameters
    ----------
    device : Device
    given : sequence of Given
    below : int
        Integers are drawn below this.

    Attributes
    ----------
    operands : list
        As families take them.
    addresses : list of int
    nbytes : int
        Of all elements.
    """

    def __init__(self, device: Device, given: Sequence[Given], below: int = 2) -> None:
        self.operands, self.buffers = [], []
        numbers = np.random.default_rng(0)
        for shape, dtype, *strides in given:
            dtype = np.dtype(dtype)
            steps = strides[0] if strides else _steps(shape, dtype.itemsize)
            self.operands.append((DTYPE_CODES[dtype], tuple(shape), tuple(steps)))
            self.buffers.append(_filled(device, math.prod(shape), dtype, numbers, below))
        self.addresses = [buffer.address for buffer in self.buffers]
        self.nbytes = sum(buffer.nbytes for buffer in self.buffers)


def _steps(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    return tuple(itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _filled(device: Device, n: int, dtype: np.dtype, numbers, below: int) -> Buffer:
    """Never zeros; a million numbers again and again, since drawing takes longer than all else."""
    n_drawn = min(n, 1 << 20)
    if dtype.kind == "f":
        # Second moments are not below 0.
        drawn = np.abs(numbers.standard_normal(n_drawn)).astype(dtype)
    else:
        drawn = numbers.integers(0, below, n_drawn).astype(dtype)
    buffer = device.allocate(n * dtype.itemsize)
    for at in range(0, n, n_drawn):
        part = drawn[: min(n_drawn, n - at)]
        device.write(buffer.address + at * dtype.itemsize, part)
    return buffer


def launcher(
    device: Device,
    op: Op,
    ins: Operands,
    outs: Operands,
    ints: Sequence[int] = (),
    floats: Sequence[float] = (),
) -> Callable[[Stream], None]:
    """What launches the kernels of an op on a stream.

    Raises
    ------
    BackendError
        If it has none for these operands, or they do not compile.
    """
    family = importlib.import_module(f"sdbr.backends.cuda.families.{op.family}")
    launches = family.prepare(op, ins.operands, outs.operands, tuple(ints))
    module = device.load(jobs.machine_code(device, source(launches)))
    fault, work = device.allocate(64), device.allocate(8 * max(x.work for x in launches))
    device.write(fault.address, np.zeros(8, np.int64))
    numbers = device.allocate(8 * len(floats))
    device.write(numbers.address, np.array(floats, float))
    addresses = ins.addresses + outs.addresses
    made = [
        (
            module.function(x.kernel),
            x.grid,
            x.op(
                [addresses[k] for k in x.operands or range(len(addresses))],
                numbers.address, fault.address, 1, work.address,
            ),
        )
        for x in launches
    ]  # fmt: skip

    def launch(stream: Stream, kept=(module, ins, outs, fault, work, numbers)) -> None:
        for function, grid, parameters in made:
            stream.launch(function, grid, THREADS, parameters)

    return launch
