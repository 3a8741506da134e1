"""Dispatch overhead: a thousand operations that do next to nothing."""

from benchmarks.cases.base import Case

N_LAYERS = 500
WIDTH = 8
# Small: the loss is a plain sum, which a larger rate would drive to zero in a few steps.
LEARNING_RATE = 1e-7

CASE = Case(
    name="deep_chain",
    title="500 x (Linear(8, 8) + ReLU), sum, SGD",
    kind="chain",
    sizes=(WIDTH,) * (N_LAYERS + 1),
    batch=1,
)
