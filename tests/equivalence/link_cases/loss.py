"""chainer.links.loss."""

from __future__ import annotations

import chainer.links as L

from tests.equivalence.arguments import N, T

from .make import case, shaken

TREE = ((0, 1), ((2, 3), 4))


def black_out():
    return shaken(L.BlackOut(4, [1, 2, 3, 4, 5], 3))


def negative_sampling():
    return shaken(L.NegativeSampling(4, [1, 2, 3, 4, 5], 3))


def crf():
    return shaken(L.CRF1d(3))


def hierarchical():
    return L.BinaryHierarchicalSoftmax(4, TREE)


SEQUENCE = [N(4, 3), N(4, 3), N(2, 3), T(3, 4), T(3, 4), T(3, 2)]  # time first
LENGTHS = [N(2, 3), N(4, 3), N(3, 3), T(3, 2), T(3, 4), T(3, 3)]  # a sequence each

CASES = [
    case("BinaryHierarchicalSoftmax", hierarchical, [N(6, 4), T(5, 6)], second=False),
    case("BlackOut", black_out, [N(6, 4), T(5, 6)]),
    case("CRF1d", crf, SEQUENCE, lambda link, *a: link(a[:3], a[3:])),
    case("CRF1d no", crf, SEQUENCE, lambda link, *a: link(a[:3], a[3:], reduce="no")),
    case(
        "CRF1d transposing",
        crf,
        LENGTHS,
        lambda link, *a: link(list(a[:3]), list(a[3:]), transpose=True),
    ),
    case("CRF1d argmax", crf, SEQUENCE[:3], lambda link, *a: link.argmax(a)),
    case(
        "CRF1d argmax transposing",
        crf,
        LENGTHS[:3],
        lambda link, *a: link.argmax(list(a), transpose=True),
    ),
    case("NegativeSampling", negative_sampling, [N(6, 4), T(5, 6, ignore=-1)]),
    case(
        "NegativeSampling no",
        negative_sampling,
        [N(6, 4), T(5, 6)],
        lambda link, x, t: link(x, t, reduce="no"),
    ),
    case(
        "NegativeSampling with samples",
        negative_sampling,
        [N(6, 4), T(5, 6)],
        lambda link, x, t: link(x, t, return_samples=True),
    ),
]
