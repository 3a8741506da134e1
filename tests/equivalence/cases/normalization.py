"""chainer.functions.normalization."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import H, M, N, P, array_of
from tests.equivalence.harness import Case, native


def far(x, *parameters):
    """The mean of each channel is large beside its deviation."""
    return F.batch_normalization(x * 0.5 + 16, *parameters)


def group(groups, **options):
    return lambda x, g, b: F.group_normalization(x, groups, g, b, **options)


NORMALIZATION = [
    ("batch_normalization", F.batch_normalization, [N(5, 3), P(3), N(3)]),
    ("batch_normalization small images", F.batch_normalization, [N(4, 3, 2, 2), P(3), N(3)]),
    ("batch_normalization images", F.batch_normalization, [N(4, 3, 7, 9), P(3), N(3)]),
    ("batch_normalization many", F.batch_normalization, [N(130, 5, 6), P(5), N(5)]),
    ("batch_normalization far from zero", far, [N(9, 2, 6, 7), P(2), N(2)]),
    (
        "batch_normalization options",
        lambda *a: F.batch_normalization(*a, eps=1e-3, decay=0.7, axis=(0, 1)),
        [N(5, 2, 3), P(3), N(3)],
    ),
    (
        "batch_normalization keys apart",
        lambda *a: F.batch_normalization(*a, axis=(1,)),
        [N(3, 6, 2), P(3, 2), N(3, 2)],
    ),
    (
        "batch_normalization running",
        lambda x, g, b, m, v: F.batch_normalization(
            x, g, b, running_mean=array_of(m), running_var=array_of(v)
        ),
        [N(5, 3), P(3), N(3), N(3), P(3)],
    ),
    (
        "batch_normalization then relu",
        lambda *a: F.relu(F.batch_normalization(*a)),
        [N(4, 3, 5), P(3), N(3)],
    ),
    (
        "batch_normalization of images plus another then relu",
        lambda x, g, b, h, *more: F.relu(
            F.batch_normalization(x, g, b) + F.batch_normalization(F.tanh(h), *more)
        ),
        [N(4, 3, 7, 9), P(3), N(3), N(4, 3, 7, 9), P(3), N(3)],
    ),
    (
        "batch_normalization of images then relu",
        lambda *a: F.relu(F.batch_normalization(*a)),
        [N(4, 3, 7, 9), P(3), N(3)],
    ),
    ("fixed_batch_normalization", F.fixed_batch_normalization, [N(5, 3), P(3), N(3), N(3), P(3)]),
    (
        "fixed_batch_normalization then relu",
        lambda *a: F.relu(F.fixed_batch_normalization(*a)),
        [N(5, 3, 6, 6), P(3), N(3), N(3), P(3)],
    ),
    (
        "fixed_batch_normalization plus input",
        lambda x, *a: F.fixed_batch_normalization(x, *a) + x,
        [N(5, 3, 4), P(3), N(3), N(3), P(3)],
    ),
    (
        "fixed_batch_normalization options",
        lambda *a: F.fixed_batch_normalization(*a, eps=1e-3, axis=(0, 1)),
        [N(5, 2, 3), P(3), N(3), N(3), P(3)],
    ),
    ("group_normalization", group(2), [N(3, 4, 2), P(4), N(4)]),
    ("group_normalization of vectors", group(2), [N(5, 40), P(40), N(40)]),
    ("group_normalization of images", group(3), [N(2, 6, 7, 9), P(6), N(6)]),
    ("group_normalization of instances", group(4), [N(3, 4, 6, 6), P(4), N(4)]),
    ("group_normalization one group", group(1, eps=1e-3), [N(3, 4, 5), P(4), N(4)]),
    ("layer_normalization", F.layer_normalization, [N(3, 4), P(4), N(4)]),
    ("layer_normalization wide", F.layer_normalization, [N(9, 67), P(67), N(67)]),
    (
        "layer_normalization eps",
        lambda *a: F.layer_normalization(*a, eps=0.1),
        [N(3, 4), P(4), N(4)],
    ),
    ("local_response_normalization", F.local_response_normalization, [N(2, 7, 3, 2)]),
    (
        "local_response_normalization options",
        lambda x: F.local_response_normalization(x, 3, 1.5, 0.1, 0.5),
        [N(2, 7, 3, 2)],
    ),
    ("local_response_normalization of images", F.local_response_normalization, [N(1, 4, 9, 9)]),
    ("normalize", F.normalize, [N(3, 4)]),
    ("normalize axes", lambda x: F.normalize(x, 1e-3, (0, 2)), [N(3, 4, 2)]),
]

CASES = [
    *native(NORMALIZATION),
    Case("batch_normalization float16", F.batch_normalization, [N(5, 3), P(3), N(3)], dtypes="e"),
    Case(
        "batch_renormalization",
        lambda x, g, b, m, v: F.batch_renormalization(
            x, g, b, 1.5, 0.5, running_mean=array_of(m), running_var=array_of(v)
        ),
        [N(5, 3), P(3), N(3), N(3), P(3)],
        config={"train": True},  # Chainer refuses in test mode
    ),
    Case(
        "decorrelated_batch_normalization",
        lambda x: F.decorrelated_batch_normalization(x, groups=1),
        [N(8, 4)],
    ),
    Case(
        "decorrelated_batch_normalization options",
        lambda x: F.decorrelated_batch_normalization(x, groups=2, eps=1e-3),
        [N(8, 4, 2)],
    ),
    Case(
        "fixed_batch_renormalization",
        F.fixed_batch_renormalization,
        [N(5, 3), P(3), N(3), N(3), P(3)],
        native=True,
    ),
    Case(
        "fixed_decorrelated_batch_normalization",
        lambda x, m, p: F.fixed_decorrelated_batch_normalization(
            x, array_of(m), array_of(p), groups=1
        ),
        [N(5, 3), N(1, 3), M(1, 3, 3)],
    ),
    Case(
        "batch_normalization mixed dtypes",
        F.batch_normalization,
        [H(5, 3), P(3), N(3)],
        native=True,
        dtypes="f",
        second=False,
    ),
]
