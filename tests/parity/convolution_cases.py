"""Cases of convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.backends.cpu.prepare.blocking import blocking_of
from sdbr.ops import convolution as family
from sdbr.ops.op import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, values, whole

ONES, NONE = (1, 1, 1), (0, 0, 0)
#: x, w, y; stride, pad, dilate, groups. The last windows may reach beyond x, as with `cover_all`.
SHAPES = [
    ((2, 3, 1, 5, 4), (4, 3, 1, 3, 2), (2, 4, 1, 3, 3), ONES, NONE, ONES, 1),
    ((2, 3, 1, 7, 6), (5, 3, 1, 3, 3), (2, 5, 1, 4, 6), (1, 2, 1), (0, 1, 1), ONES, 1),
    ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1), ONES, NONE, ONES, 1),
    ((0, 3, 1, 5, 4), (4, 3, 1, 3, 2), (0, 4, 1, 3, 3), ONES, NONE, ONES, 1),
    ((2, 2, 3, 4, 5), (3, 2, 2, 3, 2), (2, 3, 2, 3, 4), (2, 1, 2), (1, 1, 2), ONES, 1),  # 3-D
    ((3, 4, 1, 1, 9), (6, 2, 1, 1, 3), (3, 6, 1, 1, 5), (1, 1, 2), (0, 0, 2), (1, 1, 2), 2),
    ((2, 4, 1, 7, 6), (6, 2, 1, 3, 2), (2, 6, 1, 3, 8), (1, 2, 1), (0, 1, 2), (1, 2, 2), 2),
    ((2, 6, 1, 6, 19), (6, 1, 1, 3, 3), (2, 6, 1, 6, 19), ONES, (0, 1, 1), ONES, 6),  # depthwise
    ((2, 3, 1, 9, 40), (6, 1, 1, 3, 5), (2, 6, 1, 5, 20), (1, 2, 2), (0, 1, 2), (1, 1, 1), 3),
    ((1, 3, 1, 4, 4), (2, 3, 1, 3, 3), (1, 2, 1, 8, 9), ONES, (0, 5, 5), ONES, 1),  # all in the pad
    ((2, 3, 1, 5, 5), (2, 3, 1, 2, 2), (2, 2, 1, 2, 3), (1, 3, 2), NONE, ONES, 1),  # unread, beyond
    ((9, 20, 1, 2, 2), (23, 20, 1, 3, 3), (9, 23, 1, 2, 2), ONES, (0, 1, 1), ONES, 1),  # many small
    ((3, 37, 1, 7, 7), (21, 37, 1, 1, 1), (3, 21, 1, 7, 7), ONES, NONE, ONES, 1),  # 1x1
    ((2, 9, 1, 8, 8), (16, 9, 1, 1, 1), (2, 16, 1, 4, 4), (1, 2, 2), NONE, ONES, 1),
    ((1, 40, 1, 6, 16), (64, 40, 1, 3, 3), (1, 64, 1, 6, 16), ONES, (0, 1, 1), ONES, 1),  # deep
    ((2, 3, 1, 30, 33), (17, 3, 1, 7, 7), (2, 17, 1, 15, 17), (1, 2, 2), (0, 3, 3), ONES, 1),
    ((1, 2, 1, 20, 70), (5, 2, 1, 5, 5), (1, 5, 1, 16, 66), ONES, NONE, ONES, 1),  # wide rows
    ((1, 2, 1, 1, 600), (3, 2, 1, 1, 2), (1, 3, 1, 1, 568), ONES, NONE, (1, 1, 32), 1),
    ((1, 2, 1, 21, 21), (3, 2, 1, 17, 17), (1, 3, 1, 5, 5), ONES, NONE, ONES, 1),  # large kernel
    ((3, 4, 1, 13, 13), (70, 4, 1, 4, 4), (3, 70, 1, 6, 6), (1, 2, 2), (0, 1, 1), ONES, 1),
    ((2, 0, 1, 4, 4), (3, 0, 1, 2, 2), (2, 3, 1, 3, 3), ONES, NONE, ONES, 1),  # nothing to sum
]  # fmt: skip


def convolution(op: Op, rng, dtype) -> Iterator[Case]:
    """Each shape with and without bias and activation, or overwriting and adding."""
    for number, (x, w, y, *options) in enumerate(SHAPES):
        numbers = tuple(np.concatenate([*options[:3], options[3:]]).tolist())
        sizes = blocking_of((x, w, y), numbers)
        assert sizes.problem is None
        scratch = sizes.scratch(op.name, dtype.itemsize)
        order = {"convolution": (x, w, y), "convolution_grad_x": (y, w, x)}
        first, second, result = order.get(op.name, (x, y, w))
        for kind in KINDS if number == 1 else ("ordinary",):
            for last in (0, 1):
                a = values(rng, first, dtype, kind)
                # Sums of about one, so that none overflows on the way.
                b = values(rng, second, dtype) / (8 * np.sqrt(max(1, np.prod(w[1:]))))
                a, ins = (a / 1024 if kind == "largest" else a), []
                if "b:T*" in op.inputs and last == number % 2:
                    ins = [whole(values(rng, (result[1],), dtype))]
                out = blank(result, dtype)
                if op.name == "convolution_grad_w" and last:
                    out = whole(values(rng, result, dtype))
                outs = [out, blank((scratch,), dtype)]
                ins = [whole(a.astype(dtype)), whole(b.astype(dtype)), *ins]
                yield Case(op.name, f"{kind} values", ins, outs, (*numbers, last))


BY_OP = {op.name: convolution for op in family.OPS}
