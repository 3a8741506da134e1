"""Fused ops: generated kernels, one straight line of expressions each.

Lengths and strides of inputs that are not C-contiguous stand in the source as numbers, so that the
compiler divides by constants; float attributes are read, since they change from call to call.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import describe
from sdbr.backends.cuda.launch import OPERANDS, Launch, Launches, teams_for
from sdbr.base.errors import BackendError
from sdbr.ops.fused import Step, decode, load_axes
from sdbr.ops.op import Op
from sdbr.program.buffers import is_c_contiguous

_LANES = {"f4": 4, "f8": 2}  # in 16 bytes
_DIRECT = {"fill": "p", "copy": "a"}  # steps that are no function of kernels/math


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of a fused op.

    Raises
    ------
    BackendError
        For outputs with gaps, or more operands than a launch holds.
    """
    dtype = suffix(outs[0])
    itemsize = int(dtype[1])
    if not all(is_c_contiguous(shape, strides, itemsize) for _, shape, strides in outs):
        raise BackendError(f"op {op.name!r} writes C-contiguous operands; got {describe(outs)}")
    steps = list(decode(ints, _Zeros()))
    if len(ins) + len(outs) > OPERANDS:
        raise BackendError(
            f"op {op.name!r} has at most {OPERANDS} operands on a GPU; got {len(ins) + len(outs)}"
        )
    axes = [
        None if is_c_contiguous(shape, strides, itemsize) else load_axes(shape, strides)
        for _, shape, strides in ins
    ]
    body = "\n".join(_lines(steps, axes, len(outs), dtype))
    name = "fused_" + hashlib.sha256(body.encode()).hexdigest()[:16]
    work = math.prod(outs[0][1])
    teams = teams_for(-(-work // _LANES[dtype]))
    return (Launch(f"{name}_{dtype}", body.replace("@", name), (work,), teams, dtype),)


def _lines(steps: list[Step], axes: list, n_out: int, dtype: str) -> Iterator[str]:
    """The source of a kernel named ``@``."""
    n_in, lanes = len(axes), _LANES[dtype]
    yield "SDBR_INLINE void FN(@_element)(const double *floats, const T *in, T *out) {"
    yield "    (void)floats, (void)in;"
    yield from (f"    {line}" for line in _expressions(steps, n_in, n_out))
    yield "}"
    for k, walked in enumerate(axes):
        if walked is not None:
            yield (
                f"SDBR_INLINE int64_t FN(@_at_{k})(uint64_t i) "
                f"{{ (void)i; return {_offset(walked)}; }}"
            )
    yield "SDBR_INLINE void FN(@_team)(sdbr_team team, const sdbr_device_op *op) {"
    yield f"    const int64_t n = op->ints[0], packs = sdbr_packs(op, {n_in + n_out}, n, {lanes});"
    yield "    const int64_t step = sdbr_stride(team);"
    for k in range(n_in + n_out):
        yield f"    char *at_{k} = sdbr_at(op, {k});"
    yield "    for (int64_t k = sdbr_first(team); k < packs; k += step) {"
    yield f"        FN(sdbr_pack) y[{n_out}];"
    if None in axes:
        yield f"        FN(sdbr_pack) x[{n_in}];"
    for k, walked in enumerate(axes):
        if walked is None:
            yield f"        x[{k}] = ((const FN(sdbr_pack) *)at_{k})[k];"
    yield f"        for (int lane = 0; lane < {lanes}; lane++) {{"
    yield from _one(axes, n_out, f"k * {lanes} + lane", "x[{0}].v[lane]", "y[{0}].v[lane]", 12)
    yield "        }"
    for k in range(n_out):
        yield f"        ((FN(sdbr_pack) *)at_{n_in + k})[k] = y[{k}];"
    yield "    }"
    yield f"    for (int64_t i = packs * {lanes} + sdbr_first(team); i < n; i += step) {{"
    yield from _one(axes, n_out, "i", "((const T *)at_{0})[i]", "((T *)at_{1})[i]", 8)
    yield "    }"
    yield "}"
    yield "SDBR_KERNEL(FN(@), FN(@_team))"


def _one(axes: list, n_out: int, i: str, read: str, write: str, indent: int) -> Iterator[str]:
    """Element `i`: all inputs are read before an output, which may lie on one, is written."""
    space = " " * indent
    yield f"{space}T in[{len(axes) + 1}], out[{n_out}];"
    for k, walked in enumerate(axes):
        place = f"*(const T *)(at_{k} + FN(@_at_{k})((uint64_t)({i})))"
        yield f"{space}in[{k}] = {read.format(k) if walked is None else place};"
    yield f"{space}FN(@_element)(op->floats, in, out);"
    for k in range(n_out):
        yield f"{space}{write.format(k, len(axes) + k)} = out[{k}];"


def _expressions(steps: list[Step], n_in: int, n_out: int) -> Iterator[str]:
    """One variable per step that an output needs; a register may be written several times."""
    names = {r: f"in[{r}]" for r in range(n_in)}
    made = []  # name, what it is made of, the expression
    for k, step in enumerate(steps):
        reads = [names[r] for r in step.ins]
        numbers = [f"(T)floats[{step.at + j}]" for j in range(len(step.op.floats))]
        p, q = [*numbers, "(T)0", "(T)0"][:2]
        value = f"FN(op_{step.op.name})({', '.join([*reads, p, q])})"
        if step.op.name in _DIRECT:
            value = p if _DIRECT[step.op.name] == "p" else reads[0]
        made.append((f"v{k}", reads, value))
        names[step.out] = f"v{k}"
    results = [names[n_in + k] for k in range(n_out)]
    needed = set(results)
    for name, reads, _ in reversed(made):
        needed.update(reads if name in needed else ())
    yield from (f"const T {name} = {value};" for name, _, value in made if name in needed)
    yield from (f"out[{k}] = {result};" for k, result in enumerate(results))


def _offset(axes: list[tuple[int, int]]) -> str:
    """Bytes from the first element to the i-th in C order."""
    parts, inner = [], 1
    for place, (length, stride) in reversed(list(enumerate(axes))):
        index = "i" if inner == 1 else f"i / {inner}u"
        if place:
            index = f"{index} % {length}u"
        if stride:
            parts.append(f"(int64_t)({index}) * {stride}")
        inner *= length
    return " + ".join(parts) or "0"


class _Zeros:
    """Stands for the float attributes, which are not known here."""

    def __getitem__(self, part: slice) -> list[float]:
        return [0.0] * (part.stop - part.start)
