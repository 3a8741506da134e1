"""chainer.functions.noise."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import N, U, array_of
from tests.equivalence.harness import Case, native
from tests.tolerances import DOUBLE, DOUBLE_LONG

NOISE = [
    ("dropout", F.dropout, [N(3, 4)]),
    ("dropout ratio", lambda x: F.dropout(x, 0.2), [N(30, 4)]),
    ("dropout ratio 0", lambda x: F.dropout(x, 0.0), [N(3, 4)]),
    ("dropout twice", lambda x: F.dropout(F.dropout(x, 0.2) * 2, 0.7), [N(5, 7)]),
    ("dropout of a view", lambda x: F.dropout(x.T, 0.4), [N(5, 7)]),
]
DROPCONNECT = [
    ("simplified_dropconnect", F.simplified_dropconnect, [N(3, 4), N(2, 4), N(2)]),
    ("simplified_dropconnect 3-D", F.simplified_dropconnect, [N(3, 2, 2), N(2, 4)]),
    (
        "simplified_dropconnect options",
        lambda x, W: F.simplified_dropconnect(x, W, ratio=0.3, use_batchwise_mask=False),
        [N(3, 4), N(2, 4)],
    ),
]

CASES = [
    *native(NOISE),
    Case(
        "dropout mask",
        lambda x, m: F.dropout(x, 0.5, mask=array_of(m)),
        [N(3, 4), U(0, 2, 3, 4)],
        native=True,
    ),
    Case(
        "dropout return_mask",
        lambda x: F.dropout(x, 0.3, return_mask=True),
        [N(3, 4)],
        native=True,
    ),
    Case("gaussian", F.gaussian, [N(3, 4), N(3, 4)], native=True, draws=1),
    Case(
        "gaussian eps",
        lambda m, v, e: F.gaussian(m, v, eps=array_of(e)),
        [N(3, 4), N(3, 4), N(3, 4)],
        native=True,
    ),
    Case(
        "gaussian return_eps",
        lambda m, v: F.gaussian(m, v, return_eps=True),
        [N(3, 4), N(3, 4)],
        native=True,
        draws=1,
    ),
    Case(
        "gumbel_softmax",
        F.gumbel_softmax,
        [N(3, 4)],
        # A tau of 0.1 saturates the softmax: gradients are differences of nearly equal numbers.
        tolerances={"d": (DOUBLE, DOUBLE_LONG)},
        native=True,
        draws=1,
    ),
    Case(
        "gumbel_softmax options",
        lambda x: F.gumbel_softmax(x, 0.7, axis=0),
        [N(3, 4)],
        native=True,
        draws=1,
    ),
    *native(DROPCONNECT),
    Case(
        "simplified_dropconnect mask",
        lambda x, W, m: F.simplified_dropconnect(x, W, mask=array_of(m)),
        [N(3, 4), N(2, 4), U(0, 2, 3, 2, 4)],
        native=True,
    ),
    Case("zoneout", F.zoneout, [N(3, 4), N(3, 4)], native=True),
    Case("zoneout ratio", lambda h, x: F.zoneout(h, x, 0.2), [N(30, 4), N(30, 4)], native=True),
]
