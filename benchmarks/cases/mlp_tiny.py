"""Dispatch against arithmetic: the smallest network that is trained in earnest."""

from benchmarks.cases.base import Case

CASE = Case(
    name="mlp_tiny",
    title="4-64-64-2, softmax cross entropy, Adam",
    kind="train",
    sizes=(4, 64, 64, 2),
    batch=32,
)
