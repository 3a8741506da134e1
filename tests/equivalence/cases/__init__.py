"""The table for chainer.functions: one module per family, named like those of Chainer."""

from __future__ import annotations

import importlib
from dataclasses import replace

FAMILIES = (
    "activation",
    "array",
    "composite",
    "connection",
    "evaluation",
    "joining",
    "loss",
    "math",
    "matmul",
    "noise",
    "normalization",
    "operators",
    "pooling",
    "rnn",
)

# Chainer has no second derivative of these, or nothing of theirs has a gradient.
NO_SECOND = {
    "accuracy",
    "argmax",
    "argmin",
    "batch_renormalization",
    "binary_accuracy",
    "ceil",
    "classification_summary",
    "connectionist_temporal_classification",
    "decorrelated_batch_normalization",
    "decov",
    "deformable_convolution_2d_sampler",
    "f1_score",
    "fix",
    "fixed_decorrelated_batch_normalization",
    "floor",
    "forget",
    "hinge",
    "local_response_normalization",
    "precision",
    "r2_score",
    "recall",
    "roi_average_align_2d",
    "roi_average_pooling_2d",
    "roi_max_align_2d",
    "roi_max_pooling_2d",
    "roi_pooling_2d",
    "sign",
    "softmax_cross_entropy",
    "spatial_transformer_grid",
    "spatial_transformer_sampler",
    "tree_lstm",
}


def _cases(family: str) -> list:
    cases = importlib.import_module(f"tests.equivalence.cases.{family}").CASES
    return [
        replace(case, second=case.second and (case.name not in NO_SECOND or "twice" in case.id))
        for case in cases
    ]


CASES = [case for family in FAMILIES for case in _cases(family)]
