"""Cases of elementwise ops."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops import elementwise as family
from sdbr.ops.op import Op

from .harness import Case
from .values import KINDS, LAYOUTS, SPECIAL_KINDS, Operand, blank, laid_out, repeated, values, whole

#: Float attributes to try, by op. An op with attributes must be here.
FLOATS: dict[str, list[tuple]] = {
    "leaky_relu": [(0.2,), (0.0,), (-0.5,)],
    "elu": [(1.0,), (0.3,)],
    "clipped_relu": [(20.0,), (1.0,)],
    "softplus": [(1.0,), (2.5,)],
    "clip": [(-1.0, 0.5), (0.0, 1.0)],
    "add_constant": [(1.3,), (0.0,)],
    "rsub_constant": [(1.3,), (0.0,)],
    "mul_constant": [(1.3,), (-1.0,)],
    "div_constant": [(1.3,), (-2.0,)],
    "rdiv_constant": [(1.3,), (-2.0,)],
    "pow_constant": [(2.0,), (3.0,), (0.5,), (-1.0,), (1.7,), (0.0,), (1.0,)],
    "rpow_constant": [(2.0,), (0.3,)],
    "leaky_relu_grad": [(0.2,), (0.0,)],
    "elu_grad": [(1.0,), (0.3,)],
    "clipped_relu_grad": [(20.0,), (1.0,)],
    "softplus_grad": [(1.0,), (2.5,)],
    "clip_grad": [(-1.0, 0.5), (0.0, 1.0)],
    "pow_constant_grad": [(2.0,), (3.0,), (0.5,), (-1.0,), (1.7,), (1.0,), (1.5,), (0.0,)],
    "rpow_constant_grad": [(2.0,), (0.3,)],
    "rdiv_constant_grad": [(1.3,), (-2.0,)],
    "huber": [(1.0,), (0.4,)],
    "huber_grad": [(1.0,), (0.4,)],
    "bernoulli_log_prob": [(0.0,), (1.0,)],
    "bernoulli_log_prob_grad": [(0.0,), (1.0,)],
}

LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 1037)
SHAPES = ((), (0,), (3, 0), (3, 5), (2, 3, 4, 5))
#: Shapes of the inputs of one op that broadcast against the last one.
BROADCASTS = (
    ((1,), (17,)),
    ((1, 9), (5, 9)),
    ((5, 1), (5, 9)),
    ((), (5, 9)),
    ((4, 1, 9), (4, 3, 9)),
    ((1, 3, 1), (4, 3, 33)),
)


def elementwise(op: Op, rng, dtype, tried=FLOATS) -> Iterator[Case]:
    """Every layout, broadcast, value class and in-place variant of an elementwise op."""
    n = len(op.inputs)

    def arrays(shape, kind="ordinary", positive=False):
        return [values(rng, shape, dtype, kind, positive) for _ in range(n)]

    def case(what, ins, out=None, floats=None):
        out = blank(ins[0].view.shape, dtype) if out is None else out
        return Case(
            op.name,
            what,
            ins,
            [out],
            floats=attributes[0] if floats is None else floats,
            exact=op.exact,
            zero_sign=not op.zero_sign_open,
            per_element=True,
        )

    attributes = tried[op.name] if op.floats else [()]
    for shape in (*((k,) for k in LENGTHS), *SHAPES):
        yield case("contiguous", [whole(x) for x in arrays(shape)])
    for floats in attributes:
        for kind in KINDS:
            for positive in (False, True):
                ins = [whole(x) for x in arrays((7, 11), kind, positive)]
                yield case(f"{kind} values", ins, floats=floats)
    yield from (case(what, ins) for what, ins in _mixed_kinds(n, rng, dtype))
    for layout in LAYOUTS:
        for shape in ((5, 9), (37,), (2, 3, 4)):
            ins = [laid_out(x, layout) for x in arrays(shape, "nan")]
            yield case(f"{layout} operands", ins, laid_out(blank(shape, dtype).base, layout))
            for k in range(n):
                ins = [laid_out(x, layout if k == j else "") for j, x in enumerate(arrays(shape))]
                yield case(f"input {k} {layout}", ins)
    for small, big in BROADCASTS:
        for k in range(n):
            ins = [
                repeated(values(rng, small, dtype), big) if k == j else whole(x)
                for j, x in enumerate(arrays(big))
            ]
            yield case(f"input {k} broadcast from {small}", ins)
        yield case("all broadcast", [repeated(x, big) for x in arrays(small)])
    yield from _in_place(op, case, arrays, rng, dtype)


def _mixed_kinds(n: int, rng, dtype) -> Iterator[tuple[str, list[Operand]]]:
    if n > 1:
        for k in range(n):
            for kind in SPECIAL_KINDS:
                ins = [values(rng, (43,), dtype, kind if j == k else "ordinary") for j in range(n)]
                yield f"{kind} values in input {k}", [whole(x) for x in ins]


def _in_place(op: Op, case, arrays, rng, dtype) -> Iterator[Case]:
    for k in op.inplace:
        for shape in ((1,), (33,), (5, 9), (0,), (1037,)):
            ins = [whole(x) for x in arrays(shape, "nan")]
            yield case(f"in place of input {k}", ins, ins[k])
        ins = [laid_out(x, "transposed" if k == j else "") for j, x in enumerate(arrays((5, 9)))]
        yield case(f"in place of a transposed input {k}", ins, ins[k])
        ins = [
            whole(x) if k == j else repeated(values(rng, (5, 1), dtype), (5, 9))
            for j, x in enumerate(arrays((5, 9)))
        ]
        yield case(f"in place of input {k}, others broadcast", ins, ins[k])
        one = whole(values(rng, (67,), dtype))
        yield case("in place, one array in all places", [one] * len(op.inputs), one)


BY_OP = {op.name: elementwise for op in family.OPS if not op.floats or op.name in FLOATS}
