"""Cases of running sums and products, and of images of another size."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.table import Op

from .array_cases import ROWS
from .harness import Case
from .values import KINDS, blank, values, whole

#: Products of more factors leave the range of the dtype.
FACTORS = tuple(shape for shape in ROWS if shape[1] <= 67)
#: ``n, (h, w), (out_h, out_w)``
IMAGES = (
    (1, (1, 1), (1, 1)), (2, (4, 5), (7, 9)), (3, (7, 6), (3, 2)), (1, (3, 4), (6, 8)),
    (2, (1, 3), (4, 1)), (1, (5, 1), (1, 6)), (1, (2, 9), (3, 600)), (0, (2, 2), (3, 3)),
    (2, (10, 10), (10, 10)),
)  # fmt: skip


def along(op: Op, rng, dtype) -> Iterator[Case]:
    """All shapes and value classes; sums in one order, so that nothing may differ."""
    shapes = ROWS if op.name == "cumsum" else FACTORS
    for shape in (*shapes, (2, 0, 3)):
        less = (shape[0], shape[2])
        for kind in KINDS:
            if kind == "largest" and op.name != "cumsum":
                continue  # which product leaves the range first depends on the order
            x, y, gy = (whole(values(rng, shape, dtype, k)) for k in (kind, kind, "ordinary"))
            few = whole(values(rng, less, dtype))
            ins, out = {
                "cumsum": ([x], shape),
                "cumprod": ([x], shape),
                "cumprod_grad": ([x, y, gy], shape),
                "prod": ([x], less),
                "prod_grad": ([x, few], shape),
            }[op.name]
            for ints in ((0,), (1,)) if op.ints else ((),):
                yield Case(op.name, f"{kind} values", ins, [blank(out, dtype)], ints)


def resize(op: Op, rng, dtype) -> Iterator[Case]:
    """Larger and smaller, in every mode."""
    for n, inner, outer in IMAGES:
        for kind in KINDS[:-1]:
            for mode in range(3):
                shapes = [(n, *inner), (n, *outer)]
                if op.name == "resize_grad":
                    shapes.reverse()
                ins = [whole(values(rng, shapes[0], dtype, kind))]
                yield Case(op.name, f"{kind} values", ins, [blank(shapes[1], dtype)], (mode,))


BY_OP = {
    **dict.fromkeys(("cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad"), along),
    **dict.fromkeys(("resize", "resize_grad"), resize),
}
