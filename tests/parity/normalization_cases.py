"""Cases of normalization."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sdbr.ops.table import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, spread, values, whole

#: ``[outer, c, inner]``: short planes, planes of every rest, pieces of a plane and of a batch.
BATCHES = (
    (1, 1, 1), (5, 3, 1), (2, 3, 7), (130, 5, 4), (3, 130, 2), (4, 9, 31), (3, 2, 32), (2, 3, 49),
    (3, 2, 67), (1, 6, 4100), (1, 5, 8201), (70, 3, 100), (3, 300, 1),
)  # fmt: skip


def _batches(rng, dtype) -> Iterator[tuple]:
    for shape in BATCHES:
        yield "ordinary values", shape, values(rng, shape, dtype)
    for shape in ((9, 3, 4), (4, 3, 40)):
        for kind in KINDS[1:]:
            x = spread(rng, (*shape[:2], shape[2]), 2, dtype, kind)
            if kind == "largest":  # one in each channel: no sum of two
                x[1:] = values(rng, (shape[0] - 1, *shape[1:]), dtype)
            yield f"{kind} values", shape, x
        x = values(rng, shape, dtype)
        yield "far from zero", shape, (x / 8 + 64).astype(dtype)
        yield "constant", shape, np.full(shape, 3, dtype)


def _statistics(rng, x, dtype) -> list:
    """Mean and variance of `x` if they are numbers, else some others."""
    with np.errstate(all="ignore"):
        mean, var = x.mean((0, 2)), x.var((0, 2))
    fine = np.isfinite(mean) & np.isfinite(var)
    other = abs(values(rng, mean.shape, dtype)) + 1
    return [np.where(fine, v, other).astype(dtype) for v in (mean, var)]


def batch_norm(op: Op, rng, dtype) -> Iterator[Case]:
    """Both activations, out of place and in place."""
    for what, shape, x in _batches(rng, dtype):
        c = (shape[1],)
        activations = (0, 1, 2, 3) if op.name == "fixed_batch_norm" else (0, 1)
        for activation, more in itertools.product(activations, (False, True)):
            for inplace in (False, True) if what[0] in "of" else (False,):
                ins = [whole(x), whole(values(rng, c, dtype)), whole(values(rng, c, dtype))]
                y = ins[0] if inplace else blank(shape, dtype)
                outs = [y, blank(c, dtype), blank(c, dtype)]
                if op.name == "fixed_batch_norm":
                    ins += [whole(v) for v in _statistics(rng, x, dtype)]
                    outs = [y]
                if more:
                    ins.append(whole(values(rng, shape, dtype)))
                yield Case(
                    op.name, f"{what}, in place {inplace}", ins, outs, (activation,), (2e-5,)
                )


def _for_gradients(rng, dtype) -> Iterator[tuple]:
    """Without the largest numbers, whose products overflow, and of more than one number."""
    for what, shape, x in _batches(rng, dtype):
        if what[0] != "l" and shape != (1, 1, 1):
            yield what, shape, x


def batch_norm_grad(op: Op, rng, dtype) -> Iterator[Case]:
    """With and without the output of a relu; NaN and infinities in the gradient, too."""
    for what, shape, x in _for_gradients(rng, dtype):
        c = (shape[1],)
        for relu in (False, True):
            for k in (None, *op.inplace) if what[0] in "o" else (None,):
                mean, var = _statistics(rng, x, dtype)
                kind = what.partition(" ")[0] if what[0] in "ni" else "ordinary"
                ins = [x, values(rng, c, dtype), mean, var, values(rng, shape, dtype, kind)]
                ins = [whole(v) for v in ins + [values(rng, shape, dtype)] * relu]
                gx = blank(shape, dtype) if k is None else ins[k]
                outs = [gx, blank(c, dtype), blank(c, dtype)]
                yield Case(op.name, f"{what}, relu {relu}, in place of {k}", ins, outs, (), (1e-3,))


def batch_norm_relu_grad(op: Op, rng, dtype) -> Iterator[Case]:
    """The output is none of the operands; no element of it is so small that its sign is open."""
    for what, shape, x in _for_gradients(rng, dtype):
        c = (shape[1],)
        for k in (None, *op.inplace) if what[0] in "o" else (None,):
            mean, var = _statistics(rng, x, dtype)
            gamma, beta = np.full(c, 0.5, dtype), values(rng, c, dtype)
            with np.errstate(all="ignore"):
                y = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3) * 0.5 + beta[:, None]
            far = np.where(abs(y) < 1e-3, 0, 1)
            ins = [x, gamma, beta, mean, var, (values(rng, shape, dtype) * far).astype(dtype)]
            ins = [whole(v) for v in ins]
            gx = blank(shape, dtype) if k is None else ins[k]
            outs = [gx, blank(c, dtype), blank(c, dtype)]
            yield Case(op.name, f"{what}, in place of {k}", ins, outs, (), (1e-3,))


def batch_norm_sums(op: Op, rng, dtype) -> Iterator[Case]:
    """Sums alone."""
    for what, shape, x in _for_gradients(rng, dtype):
        c = (shape[1],)
        ins = [x, *_statistics(rng, x, dtype), values(rng, shape, dtype)]
        outs = [blank(c, dtype), blank(c, dtype)]
        yield Case(op.name, what, [whole(v) for v in ins], outs, (), (2e-5,))


def update_statistics(op: Op, rng, dtype) -> Iterator[Case]:
    """In place, of one element and of many."""
    for n in (1, 3, 67):
        for count in (1, 2, 3, 1000):
            ins = [whole(values(rng, (n,), dtype)) for _ in range(4)]
            yield Case(op.name, f"{count} elements", ins, ins[2:], (count,), (0.9,))


#: ``[n, groups, length]``, elements of a run.
GROUPS = (
    (1, 1, 2, 1), (3, 1, 7, 1), (9, 1, 67, 1), (4, 3, 33, 1), (2, 1, 4100, 1), (5, 2, 64, 32),
    (3, 3, 98, 49), (2, 1, 8202, 4101),
)  # fmt: skip


def group_norm(op: Op, rng, dtype) -> Iterator[Case]:
    """Single elements and runs, of all kinds, in place and not."""
    for n, groups, length, run in GROUPS:
        for kind in KINDS[:3] if n > 3 else KINDS[:1]:
            shape, c = (n, groups, length), (groups * length // run,)
            x, gamma, beta, gy = (values(rng, s, dtype) for s in (shape, c, c, shape))
            x = values(rng, shape, dtype, kind)
            for k in (None, *op.inplace):
                if op.name == "group_norm":
                    ins, rest, ints, floats = [x, gamma, beta], [shape[:2]] * 2, (), (1e-5,)
                else:
                    with np.errstate(all="ignore"):
                        mean, var = (
                            np.nan_to_num(f(2), posinf=1, neginf=2) for f in (x.mean, x.var)
                        )
                    inv_std = (1 / np.sqrt(var + 0.1)).astype(dtype)
                    ins, rest = [x, gamma, mean.astype(dtype), inv_std, gy], [c] * 2
                    ints, floats = (int(run == 1),), ()
                ins = [whole(v) for v in ins]
                outs = [blank(shape, dtype) if k is None else ins[k]]
                outs += [blank(s, dtype) for s in rest]
                yield Case(
                    op.name, f"{kind} values, run {run}, in place of {k}", ins, outs, ints, floats
                )


def local_response(op: Op, rng, dtype) -> Iterator[Case]:
    """Windows narrower and wider than the channels, and as wide as they may be."""
    for shape in ((1, 1, 1), (2, 7, 9), (3, 40, 1), (1, 5, 130), (0, 3, 2), (2, 3, 0)):
        for half, floats in ((2, (2.0, 1e-4, 0.75)), (15, (1.5, 0.1, 0.5)), (0, (1.0, 1.0, 0.75))):
            for kind in KINDS[:5] if shape[0] == 2 else KINDS[:1]:
                for k in (None, *op.inplace):
                    ins = [whole(values(rng, shape, dtype, kind)) for _ in op.inputs]
                    out = blank(shape, dtype) if k is None else ins[k]
                    yield Case(op.name, f"{kind} values", ins, [out], (half,), floats)


BY_OP = {
    "group_norm": group_norm,
    "group_norm_grad": group_norm,
    "local_response": local_response,
    "local_response_grad": local_response,
    "local_response_kept_grad": local_response,
    "batch_norm": batch_norm,
    "fixed_batch_norm": batch_norm,
    "batch_norm_grad": batch_norm_grad,
    "batch_norm_relu_grad": batch_norm_relu_grad,
    "batch_norm_sums": batch_norm_sums,
    "update_statistics": update_statistics,
}
