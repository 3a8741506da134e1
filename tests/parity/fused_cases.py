"""Cases of the fused op: every step alone, and random programs over every layout of inputs."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops import fused
from sdbr.ops.table import BY_NAME, OPS

import numpy as np

from .harness import Case
from .values import LAYOUTS, SPECIAL_KINDS, blank, laid_out, repeated, values, whole

#: Steps whose results are the same on every backend, and bounded by what they are given.
EXACT = ("add", "subtract", "multiply", "maximum", "negative", "mul_constant", "relu", "where_ge")
SMOOTH = ("tanh", "sigmoid", "tanh_grad", "elu", "softplus", "clip", "copy", "fill")


def _alone(rng, dtype) -> Iterator[Case]:
    # Not at the top: this is one of the generators.
    from .generators import generator

    for name in sorted(op.name for op in OPS if op.step and not op.moves):
        op = BY_NAME[name]
        make = generator(op)
        for k, case in enumerate(make(op, rng, dtype) if make else ()):  # a test asks for cases
            contiguous = case.outs[0].view.flags.c_contiguous
            if k % 9 == 0 and contiguous and case.outs[0].view.size:
                n = len(case.ins)
                step = fused.Step(op, tuple(range(n)), n, case.floats, 0)
                yield Case(
                    "fused", f"{name} alone; {case.what}", case.ins, case.outs,
                    *fused.encode([step]), exact=case.exact, per_element=case.per_element,
                )  # fmt: skip


def random_steps(rng, names, n_in: int, n_out: int, n_steps: int) -> list[fused.Step]:
    """Steps that read whatever is written; the last ones write the outputs."""
    registers = list(range(n_in))
    first = n_in + n_out
    steps, at = [], 0
    for i in range(n_steps):
        op = BY_NAME[names[rng.integers(len(names))]]
        ins = tuple(int(registers[rng.integers(len(registers))]) for _ in op.inputs)
        left = n_steps - i
        out = n_in + n_out - left if left <= n_out else first + int(rng.integers(4))
        numbers = {"clip": (-2.0, 2.0)}.get(op.name, tuple(rng.random(len(op.floats)) + 0.5))
        steps.append(fused.Step(op, ins, out, numbers, at))
        at += len(op.floats)
        if out not in registers:
            registers.append(out)
    return steps


def _inputs(rng, shape, dtype, kind):
    x = values(rng, shape, dtype, kind)
    yield whole(x)
    for layout in LAYOUTS:
        yield laid_out(values(rng, shape, dtype, kind), layout)
    for small in ((), shape[-1:], (1, *shape[1:]), (shape[0], *[1] * (len(shape) - 1))):
        yield repeated(values(rng, small, dtype, kind), shape)
    if len(shape) == 3:
        yield repeated(values(rng, (1, shape[1], 1), dtype, kind), shape)


def _programs(rng, dtype) -> Iterator[Case]:
    for shape in ((3, 5), (64, 63), (2, 7, 9), (5, 16, 300), (1, 4096), (0, 4)):
        for kind, names in (
            ("ordinary", EXACT + SMOOTH),
            ("ordinary", SMOOTH),
            *((kind, EXACT[:4]) for kind in SPECIAL_KINDS),
        ):
            operands = list(_inputs(rng, shape, dtype, kind))
            ins = [operands[i] for i in rng.permutation(len(operands))[:6]]
            n_out = int(rng.integers(1, 4))
            steps = random_steps(rng, names, len(ins), n_out, int(rng.integers(n_out, 12)))
            outs = [blank(shape, dtype) for _ in range(n_out)]
            what = ", ".join(fused.describe(range(6), range(6, 6 + n_out), *fused.encode(steps)))
            yield Case("fused", f"{kind}: {what}", ins, outs, *fused.encode(steps))


def _in_place(rng, dtype) -> Iterator[Case]:
    add, scale = BY_NAME["add"], BY_NAME["mul_constant"]
    for n in (7, 5000):
        x, y = (whole(values(rng, (n,), dtype)) for _ in range(2))
        steps = [fused.Step(add, (0, 1), 2, (), 0), fused.Step(scale, (2,), 3, (2.0,), 0)]
        for outs in ([x, y], [y, x]):
            yield Case("fused", "in place", [x, y], outs, *fused.encode(steps))


def cases(op, rng, dtype) -> Iterator[Case]:
    """All cases."""
    dtype = np.dtype(dtype)
    yield from _alone(rng, dtype)
    yield from _programs(rng, dtype)
    yield from _in_place(rng, dtype)


BY_OP = {"fused": cases}
