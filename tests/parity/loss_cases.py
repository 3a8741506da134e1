"""Cases of the losses and of what takes labels; labels that are out of range."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.table import BY_NAME, Op

import numpy as np

from .harness import Case
from .values import KINDS, Operand, blank, spread, values, whole

#: ``[outer, c, inner]``
SCORES = (
    (1, 1, 1),
    (3, 5, 1),
    (7, 10, 1),
    (2, 67, 1),
    (5, 3, 9),
    (1, 4, 65),
    (64, 10, 1),
    (0, 4, 1),
)
LABEL_DTYPES = (np.int32, np.int64, np.int8, np.int16, np.uint8)
FLAT = ((1,), (7,), (16,), (3, 5), (67,), (1037,))


def labels(rng, shape, n: int, dtype, ignore: int | None = None, negative: bool = False):
    """Labels below `n`, some of them `ignore` or counted from the end."""
    t = rng.integers(0, n, size=shape)
    if negative:
        t = np.where(rng.random(shape) < 0.3, t - n, t)
    if ignore is not None:
        t = np.where(rng.random(shape) < 0.3, ignore, t)
    return t.astype(dtype)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Log of the sums of exp(x) along axis 1, in the dtype of `x`."""
    with np.errstate(all="ignore"):
        top = x.max(axis=1, keepdims=True)
        return (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)[:, 0].astype(x.dtype)


def _label_variants(rng, shape, n: int) -> Iterator[tuple[str, np.ndarray, int]]:
    for dtype in LABEL_DTYPES:
        yield "plain labels", labels(rng, shape, n, dtype), -1
    yield "ignored labels", labels(rng, shape, n, np.int32, -1), -1
    yield "another ignored label", labels(rng, shape, n, np.int64, 99), 99
    yield "an ignored label in range", labels(rng, shape, n, np.int32), 0
    yield "all ignored", np.full(shape, -1, np.int32), -1
    yield "labels from the end", labels(rng, shape, n, np.int32, negative=True), -99


def softmax_cross_entropy(op: Op, rng, dtype) -> Iterator[Case]:
    """Forward and gradient, reduced or not, with and without class weights."""
    grad, reduced = op.name.endswith("_grad"), "no_reduce" not in op.name
    for shape in SCORES:
        outer, c, inner = shape
        for what, t, ignore in _label_variants(rng, (outer, inner), c):
            for kind in KINDS if shape in ((7, 10, 1), (5, 3, 9)) else ("ordinary",):
                for weighted in (False, True):
                    x = spread(rng, shape, 1, dtype, kind)
                    w = [whole(values(rng, (c,), dtype, positive=True))] * weighted
                    if grad:
                        ins = _gradient_inputs(rng, x, t, dtype, reduced)
                        outs = [blank(shape, dtype)]
                    else:
                        ins = [whole(x), whole(t)]
                        outs = [blank(() if reduced else t.shape, dtype), blank(t.shape, dtype)]
                        outs += [blank((), dtype)] * reduced
                    for normalize in (0, 1) if "normalize" in op.ints else (None,):
                        ints = (ignore,) if normalize is None else (normalize, ignore)
                        text = f"{what}, {kind} values, weights {weighted}"
                        outs = [blank(o.view.shape, dtype) for o in outs]
                        yield Case(op.name, text, [*ins, *w], outs, ints)
                        if grad and not weighted:
                            ins = [whole(x.copy()), *ins[1:]]
                            yield Case(op.name, f"{text}, in place", ins, ins[:1], ints)


def _gradient_inputs(rng, x, t, dtype, reduced: bool) -> list[Operand]:
    kept = [whole(x), whole(t), whole(log_sum_exp(x))]
    if reduced:
        coeff = np.asarray(1 / max(len(t), 1), dtype)
        return [*kept, whole(coeff), whole(values(rng, (), dtype))]
    return [*kept, whole(values(rng, t.shape, dtype))]


def sigmoid_cross_entropy(op: Op, rng, dtype) -> Iterator[Case]:
    """Forward and gradient, reduced or not; -1 is ignored."""
    grad, reduced = op.name.endswith("_grad"), "no_reduce" not in op.name
    for n in (1, 2, 7, 16, 67, 1037, 0):
        for label_dtype in LABEL_DTYPES[:4]:
            for what in ("plain", "ignored", "all ignored"):
                for kind in KINDS if n == 67 else ("ordinary",):
                    t = labels(rng, (n,), 2, label_dtype, -1 if what == "ignored" else None)
                    t = np.full_like(t, -1) if what == "all ignored" else t
                    ins = [whole(spread(rng, (n,), 0, dtype, kind)), whole(t)]
                    if grad and reduced:
                        count = np.asarray(max(int((t != -1).sum()), 1), dtype)
                        ins += [whole(count), whole(values(rng, (), dtype))]
                    elif grad:
                        ins += [whole(values(rng, (n,), dtype))]
                    for ints in ((1, 5), (0, 5), (0, 0)) if op.ints else ((),):
                        out = blank(() if reduced and not grad else (n,), dtype)
                        outs = [out] + [blank((), dtype)] * (reduced and not grad)
                        yield Case(op.name, f"{what} labels, {kind} values", ins, outs, ints)


def regression(op: Op, rng, dtype) -> Iterator[Case]:
    """Squared and absolute error and their gradients."""
    grad = op.name.endswith("_grad")
    for kind in KINDS:
        for shape in (*FLAT, (0,)):
            x = values(rng, shape, dtype, "ordinary" if kind == "largest" else kind)
            if kind == "largest" and x.size:
                x.reshape(-1)[0] = np.finfo(dtype).max
            y = values(rng, shape, dtype)
            y.reshape(-1)[::5] = x.reshape(-1)[::5]
            ins = [whole(x), whole(y)] + [whole(values(rng, (), dtype))] * grad
            yield Case(op.name, f"{kind} values", ins, [blank(shape if grad else (), dtype)])


def select_item(op: Op, rng, dtype) -> Iterator[Case]:
    """Every label dtype, labels from the end."""
    for n, c in ((1, 1), (7, 5), (3, 1037), (130, 4), (0, 3)):
        for label_dtype in LABEL_DTYPES:
            negative = np.dtype(label_dtype).kind == "i"
            t = labels(rng, (n,), min(c, 100), label_dtype, negative=negative)
            for kind in KINDS:
                if op.name == "select_item":
                    ins, shape = [whole(values(rng, (n, c), dtype, kind)), whole(t)], (n,)
                else:
                    ins, shape = [whole(t), whole(values(rng, (n,), dtype, kind))], (n, c)
                outs = [blank(shape, dtype)]
                yield Case(op.name, f"{kind} values", ins, outs, exact=True, zero_sign=True)


def negate_item(op: Op, rng, dtype) -> Iterator[Case]:
    """Every label dtype, labels from the end; only a sign changes."""
    for n, c in ((1, 1), (7, 5), (3, 1037), (0, 3)):
        for label_dtype in LABEL_DTYPES:
            negative = np.dtype(label_dtype).kind == "i"
            t = labels(rng, (n,), min(c, 100), label_dtype, negative=negative)
            for kind in KINDS:
                ins = [whole(values(rng, (n, c), dtype, kind)), whole(t)]
                outs = [blank((n, c), dtype)]
                yield Case(op.name, f"{kind} values", ins, outs, exact=True, zero_sign=True)


#: Rows shorter than a vector, of a few vectors and of blocks of them, with and without a rest.
ROWS = [(n, c, 1) for n in (3, 5, 131) for c in (1, 3, 7, 15, 16, 17, 61, 130, 259)]


def accuracy(op: Op, rng, dtype) -> Iterator[Case]:
    """Ties, NaN (the first counts as the largest), ignored labels."""
    for shape in [*SCORES, *ROWS, (2, 3, 5), (2, 3, 523)]:
        outer, c, inner = shape
        for what, t, ignore in _label_variants(rng, (outer, inner), c):
            for kind in KINDS:
                x = values(rng, shape, dtype, kind)
                x = np.round(x) if kind == "ordinary" else x  # ties
                for has_ignore in (0, 1):
                    ints = (has_ignore, ignore)
                    ins = [whole(x), whole(t)]
                    yield Case(op.name, f"{what}, {kind} values", ins, [blank((), dtype)], ints)


def argmax(op: Op, rng, dtype) -> Iterator[Case]:
    """Ties (the first counts) and NaN (the first counts as the largest)."""
    narrow = [(2, n, inner) for inner in (2, 3, 7, 16) for n in (1, 9, 65, 301)]
    for shape in [*SCORES, *ROWS, *narrow]:
        for kind in KINDS:
            x = values(rng, shape, dtype, kind)
            x = np.round(x) if kind == "ordinary" else x  # ties
            outs = [blank((shape[0], shape[2]), np.int32)]
            yield Case(op.name, f"{kind} values", [whole(x)], outs, exact=True)


BY_OP = {
    "argmax": argmax,
    "argmin": argmax,
    "select_item": select_item,
    "select_item_grad": select_item,
    "negate_item": negate_item,
    "accuracy": accuracy,
}
for _name in BY_NAME:
    if _name.startswith("softmax_cross_entropy"):
        BY_OP[_name] = softmax_cross_entropy
    elif _name.startswith("sigmoid_cross_entropy"):
        BY_OP[_name] = sigmoid_cross_entropy
    elif _name.startswith(("mean_squared_error", "mean_absolute_error")):
        BY_OP[_name] = regression


def out_of_range(dtype, wrong: int) -> Iterator[Case]:
    """One case for each op that must refuse the label `wrong`, which is the third of seven."""
    t = whole(np.array([0, 1, wrong, 0, 4, wrong + 1, 1], np.int32))
    column = whole(t.base.reshape(7, 1))
    x = whole(values(np.random.default_rng(0), (7, 5), dtype))
    scores = whole(x.base.reshape(7, 5, 1))
    yield Case("select_item", "", [x, t], [blank((7,), dtype)])
    yield Case(
        "softmax_cross_entropy",
        "",
        [scores, column],
        [blank((), dtype), blank((7, 1), dtype), blank((), dtype)],
        (1, -1),
    )
    yield Case("negate_item", "", [x, t], [blank((7, 5), dtype)])
    outs = [blank((7, 1), dtype), blank((7, 1), dtype)]
    yield Case("softmax_cross_entropy_no_reduce", "", [scores, column], outs, (-1,))
    one, seven = whole(np.ones((), dtype)), whole(np.ones(7, dtype))
    yield Case("select_item_grad", "", [t, seven], [blank((7, 5), dtype)])
    lse = whole(np.ones((7, 1), dtype))
    ins = [scores, column, lse, one, one]
    yield Case("softmax_cross_entropy_grad", "", ins, [blank((7, 5, 1), dtype)], (-1,))
    ins = [scores, column, lse, lse]
    yield Case("softmax_cross_entropy_no_reduce_grad", "", ins, [blank((7, 5, 1), dtype)], (-1,))
