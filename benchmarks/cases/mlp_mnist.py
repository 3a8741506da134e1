"""Bound by matrix products and by the memory traffic of the update."""

from benchmarks.cases.base import Case

CASE = Case(
    name="mlp_mnist",
    title="784-1000-1000-10, softmax cross entropy, Adam",
    kind="train",
    sizes=(784, 1000, 1000, 10),
    batch=100,
    ring=16,
    # Adam divides gradients near zero by themselves: rounding grows fast in the first steps.
    check_steps=5,
    tolerance=1e-3,
)
