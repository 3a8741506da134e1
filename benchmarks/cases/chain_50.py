"""What a step costs per parameter: there are a hundred of them, and next to no arithmetic."""

from benchmarks.cases.base import Case
from benchmarks.cases.deep_chain import WIDTH

N_LAYERS = 50

CASE = Case(
    name="chain_50",
    title="50 x (Linear(8, 8) + ReLU), sum, SGD",
    kind="chain",
    sizes=(WIDTH,) * (N_LAYERS + 1),
    batch=1,
)
