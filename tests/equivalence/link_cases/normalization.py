"""chainer.links.normalization."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.equivalence.arguments import N

from .make import case, shaken


def batch(*args, **kwargs):
    return lambda: shaken(L.BatchNormalization(*args, **kwargs))


def renormalization(**kwargs):
    return lambda: shaken(L.BatchRenormalization(4, **kwargs))


def decorrelated(**kwargs):
    def make():
        return L.DecorrelatedBatchNormalization(4, 2, dtype=chainer.config.dtype, **kwargs)

    return make


def finetune(link, x):
    return link(x, finetune=True)


def finetune_twice(link, x):
    return link(link(x, finetune=True), finetune=True)


NATIVE = [
    ("BatchNormalization", batch(4), [N(6, 4)]),
    ("BatchNormalization of images", batch(4, decay=0.5, eps=1e-3), [N(3, 4, 2, 3)]),
    ("BatchNormalization of larger images", batch(4), [N(3, 4, 6, 7)]),
    ("BatchNormalization by axes", batch((3, 4), axis=(0, 2)), [N(5, 3, 2, 4)]),
    ("BatchNormalization of unknown size", lambda: L.BatchNormalization(axis=0), [N(6, 4)]),
    ("BatchNormalization bare", batch(4, use_gamma=False, use_beta=False), [N(6, 4)]),
    ("BatchNormalization without beta", batch(4, use_beta=False), [N(6, 4)]),
    (
        "BatchNormalization with initial values",
        batch(4, initial_avg_mean=np.arange(4.0), initial_avg_var=2, initial_gamma=3),
        [N(6, 4)],
    ),
    ("GroupNormalization", lambda: shaken(L.GroupNormalization(2, 4)), [N(3, 4, 5)]),
    ("GroupNormalization of unknown size", lambda: L.GroupNormalization(2), [N(3, 4, 2, 2)]),
    ("LayerNormalization", lambda: shaken(L.LayerNormalization(4)), [N(3, 4)]),
    ("LayerNormalization of unknown size", lambda: L.LayerNormalization(), [N(3, 4)]),
    ("BatchNormalization twice", batch(4), [N(6, 4)], lambda link, x: F.relu(link(link(x)))),
]

CASES = [
    *[case(*given, native=True) for given in NATIVE],
    case("BatchNormalization finetune", batch(4), [N(6, 4)], finetune),
    case("BatchNormalization finetune twice", batch(4), [N(6, 4)], finetune_twice),
    case(
        "BatchNormalization finetune bare",
        batch(4, use_gamma=False, use_beta=False),
        [N(6, 4)],
        finetune,
    ),
    case(
        "BatchNormalization finetune of unknown size",
        lambda: L.BatchNormalization(axis=(0, 2)),
        [N(5, 3, 2)],
        finetune,
    ),
    case("BatchRenormalization", renormalization(), [N(6, 4)], second=False),
    case(
        "BatchRenormalization limits",
        renormalization(rmax=2.0, dmax=1.0, decay=0.7),
        [N(6, 4, 3)],
        second=False,
    ),
    case(
        "BatchRenormalization bare",
        renormalization(use_gamma=False, use_beta=False),
        [N(6, 4)],
        second=False,
    ),
    case("BatchRenormalization finetune", renormalization(), [N(6, 4)], finetune, second=False),
    case("DecorrelatedBatchNormalization", decorrelated(), [N(9, 4)], second=False),
    case(
        "DecorrelatedBatchNormalization of images",
        decorrelated(decay=0.5),
        [N(4, 4, 2, 3)],
        second=False,
    ),
    case(
        "DecorrelatedBatchNormalization finetune", decorrelated(), [N(9, 4)], finetune, second=False
    ),
]
