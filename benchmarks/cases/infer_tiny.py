"""One sample through a small network: array in, result out."""

from benchmarks.cases.base import Case

CASE = Case(
    name="infer_tiny",
    title="4-64-64-2, forward only",
    kind="infer",
    sizes=(4, 64, 64, 2),
    batch=1,
)
