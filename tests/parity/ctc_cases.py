"""Cases of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops import ctc as formulas
from sdbr.ops.table import Op

import numpy as np

from .harness import Case
from .values import blank, values, whole

#: Times, samples, labels, length of the longest target.
SHAPES = ((1, 1, 2, 1), (4, 2, 3, 2), (9, 3, 5, 3), (12, 4, 30, 5), (3, 2, 4, 0), (5, 0, 3, 2))


def _lengths(rng, batch: int, longest: int, what: str) -> np.ndarray:
    if what == "whole":
        return np.full(batch, longest, np.int32)
    return rng.integers(min(1, longest), longest + 1, batch).astype(np.int32)


def _targets(rng, batch: int, labels: int, length: int, what: str) -> np.ndarray:
    t = rng.integers(1, labels, (batch, length)).astype(np.int32)
    if what == "repeated":
        t[:] = t[:, :1]
    return t - labels if what == "from the end" else t


def ctc(op: Op, rng, dtype) -> Iterator[Case]:
    """Lengths below the longest, the same label again and again, sure and impossible scores."""
    for shape in SHAPES:
        times, batch, labels, length = shape
        for what in ("whole", "shorter"):
            for targets in ("plain", "repeated", "from the end"):
                for scale in (1, 200):
                    n, m = (_lengths(rng, batch, k, what) for k in (times, length))
                    t = _targets(rng, batch, labels, length, targets)
                    x = (values(rng, (times, batch, labels), dtype) * scale / 2).astype(dtype)
                    text = f"{what} lengths, {targets} labels, scores times {scale}"
                    yield _case(op, rng, text, x, n, m, t)


def _case(op: Op, rng, text: str, x, n, m, t) -> Case:
    times, batch, _ = x.shape
    places = 2 * t.shape[1] + 1
    loss, y = np.zeros(batch, x.dtype), np.zeros_like(x)
    paths = np.zeros((times, batch, places), x.dtype)
    if op.name == "ctc":
        outs = [blank(a.shape, x.dtype) for a in (loss, y, paths)]
        outs.append(blank((4 * (places + 2),), x.dtype))
        return Case(op.name, text, [whole(a) for a in (x, n, m, t)], outs, (0,))
    with np.errstate(all="ignore"):
        formulas.ctc([x, n, m, t], [loss, y, paths, None], {"blank": 0})
    ins = [y, paths, n, m, t, values(rng, (batch,), x.dtype)]
    return Case(op.name, text, [whole(a) for a in ins], [blank(x.shape, x.dtype)], (0,))


BY_OP = {"ctc": ctc, "ctc_grad": ctc}


def out_of_range(dtype, wrong: int) -> Iterator[Case]:
    """Cases that must refuse the label `wrong`, the third of seven."""
    t = np.array([[0, 1, wrong, 0, 4, wrong + 1, 1]], np.int32)
    x, n, m = np.ones((4, 1, 5), dtype), np.array([4], np.int32), np.array([7], np.int32)
    paths, loss = np.ones((4, 1, 15), dtype), np.ones(1, dtype)
    ins = [whole(a) for a in (x, n, m, t)]
    outs = [blank(a.shape, dtype) for a in (loss, x, paths)]
    yield Case("ctc", "", ins, [*outs, blank((4 * 17,), dtype)], (0,))
    ins = [whole(a) for a in (x, paths, n, m, t, loss)]
    yield Case("ctc_grad", "", ins, [blank(x.shape, dtype)], (0,))
