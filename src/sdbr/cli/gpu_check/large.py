"""Kernels at sizes that no cache holds, against the bytes that they have to move."""

from __future__ import annotations

import dataclasses

from sdbr.cli.gpu_check import job as jobs
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.launched import Given, Operands, launcher
from sdbr.cli.gpu_check.rates import copy_rate
from sdbr.cli.gpu_check.timing import timed
from sdbr.devices.driver import Device
from sdbr.ops.fused import Step, encode
from sdbr.ops.table import BY_NAME

ELEMENTS = 1 << 26  # of float32: 256 MiB each
ROW = 1 << 12
LAUNCHES = 8


@dataclasses.dataclass(frozen=True)
class Large:
    """An op with its operands.

    Attributes
    ----------
    name, op : str
    ins, outs : tuple of Given
    ints, floats : tuple
    below : int
        Integers are drawn below this.
    """

    name: str
    op: str
    ins: tuple[Given, ...]
    outs: tuple[Given, ...]
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    below: int = 2


def cases(n: int, row: int) -> list[Large]:
    """One or more of each family, of about `n` elements, in rows of `row`."""
    x, wide, rows = ((n,), "f4"), ((n,), "f8"), n // row
    matrix, turned = (rows, row), ((rows, row), "f4", (4, 4 * rows))
    cube, flat, column = ((rows, row, 1), "f4"), ((1, rows, row), "f4"), ((rows, 1), "f4")
    labels, one = ((rows, 1), "i4"), ((), "f4")
    adam = (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.0, 1e9)
    fused, numbers = _fused()
    m = n // 4
    return [
        Large("add", "add", (x, x), (x,)),
        Large("relu", "relu", (x,), (x,)),
        Large("exp", "exp", (x,), (x,)),
        Large("tanh", "tanh", (x,), (x,)),
        Large("fused: relu(a * b + c)", "fused", (x, x, x), (x,), fused, numbers),
        Large("copy", "copy", (x,), (x,)),
        Large("copy, transposed", "copy", (turned,), ((matrix, "f4"),)),
        Large("cast to float64", "cast", (x,), (wide,)),
        Large("where", "where", (((n,), "?"), x, x), (x,)),
        Large("take rows", "take", (((1, rows, row), "f4"), ((rows,), "i4")), (flat,), (0, 0),
              below=rows),
        Large("sum of all", "sum", (((1, n, 1), "f4"),), (((1, 1), "f4"),)),
        Large("sum of rows", "sum", (cube,), (column,)),
        Large("sum of columns", "sum", (flat,), (((1, row), "f4"),)),
        Large("softmax", "softmax", (cube,), (cube,)),
        Large("softmax_cross_entropy", "softmax_cross_entropy", (cube, labels),
              (one, column, one), (1, -1)),
        Large("softmax_cross_entropy_grad", "softmax_cross_entropy_grad",
              (cube, labels, column, one, one), (cube,), (-1,)),
        Large("sgd", "sgd", (x, x), (x,), (), (0.01,)),
        Large("adam", "adam", (x, x, x, x), (x, x, x), (), adam),
        Large("lstm", "lstm", (((m,), "f4"), ((m, 4), "f4")),
              (((m, 4), "f4"), ((m,), "f4"), ((m,), "f4"))),
    ]  # fmt: skip


def _fused() -> tuple[tuple[int, ...], tuple]:
    """``relu(a * b + c)``: three inputs, one output, two temporaries."""
    a, b, c, out, first, second = range(6)
    steps = [("multiply", (a, b), first), ("add", (first, c), second), ("relu", (second,), out)]
    return encode([Step(BY_NAME[name], ins, to, (), 0) for name, ins, to in steps])


def measure(job: Job) -> None:
    """Microseconds of each, and how many times as long as a copy of its bytes."""
    device = jobs.open_device(job.ordinal)
    with device.current():
        rate = job.measure("copy_bytes_per_s", lambda: copy_rate(device, device.stream()))
        for case in cases(ELEMENTS, ROW):
            job.measure(case.name, lambda c=case: one(device, c, rate))


def one(device: Device, case: Large, rate: float | None) -> dict[str, float | None]:
    """One kernel; the ratio is None where the rate is not known."""
    ins = Operands(device, case.ins, case.below)
    outs = Operands(device, case.outs)
    launch = launcher(device, BY_NAME[case.op], ins, outs, case.ints, case.floats)
    stream = device.stream()
    seconds = timed(lambda: launch(stream), stream, LAUNCHES)[1]
    nbytes = ins.nbytes + outs.nbytes
    ratio = None if rate is None else seconds * rate / nbytes
    return {"us": 1e6 * seconds, "bytes": nbytes, "of_copy": ratio}
