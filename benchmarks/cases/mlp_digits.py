"""The network of the demo."""

from benchmarks.cases.base import Case

CASE = Case(
    name="mlp_digits",
    title="64-128-128-10, softmax cross entropy, Adam",
    kind="train",
    sizes=(64, 128, 128, 10),
    batch=64,
)
