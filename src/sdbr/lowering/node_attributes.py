"""What lies on nodes beside their inputs: numbers that may change, arrays that decide on shapes."""

from __future__ import annotations

import math
import operator

from sdbr.functions import registry
from sdbr.trace import values as v
from sdbr.trace.arrays._scalars import (
    Condition,
    is_computed,
    parts_of,
    scalars_in,
    shown_scalars,
)

import numpy as np


def settle_scalars(trace: v.Trace) -> None:
    """Decide which floats become slots of the control block, once the trace is complete.

    Where a native row looks at a float in a way that a slot does not serve, it stays as traced.
    """
    for node in trace.nodes:
        row = registry.row_of(node.function) if node.scalars else None
        for name, _, scalar in node.scalars if row is None else ():
            if scalar.kind is int and name:  # it may be an axis or a size there
                scalar.must_stay()
        for name, _, scalar in node.scalars if row is not None else ():
            number = getattr(registry.function_of(node.function), name)
            by_type = name in row.typed and type(number) is not float
            by_type |= scalar.kind is int and any(x.dtype.kind != "f" for x in node.inputs)
            if name not in row.scalars or by_type:
                scalar.must_stay()
            elif name in row.positive:
                trace.conditions += [
                    Condition(operator.gt, (scalar, 0), bool(number > 0)),
                    Condition(math.isfinite, (scalar,), math.isfinite(number)),
                ]
    found = {}
    for node in trace.nodes:
        node.scalars = [entry for entry in node.scalars if entry[2].changes]
        found.update((scalar, None) for _, _, scalar in node.scalars)
    shown = shown_scalars(trace)
    found.update((scalar, None) for scalar in shown if scalar.kind is not int)
    trace.scalars = list(found)
    written = scalars_in([effect.value for effect in (*trace.writes, *trace.stores)])
    exact = [scalar for scalar in shown if scalar.kind is int]
    trace.numbers = list(dict.fromkeys([*written, *exact]))
    trace.conditions = [c for c in trace.conditions if any(s.changes for s in c.scalars)]
    compared = [scalar for condition in trace.conditions for scalar in condition.scalars]
    looked_at = parts_of([*trace.scalars, *trace.numbers, *compared])
    trace.conditions += [  # what nothing is made of, but an error
        Condition(is_computed, (scalar,), True)
        for scalar in trace.fallible
        if scalar not in looked_at and scalar.changes
    ]


def structural_arrays(trace: v.Trace) -> list[tuple[v.Rebinding, np.ndarray]]:
    """Arrays of nobody known whose values decide about shapes."""
    found = []
    for node in trace.nodes:
        for r in node.rebind:
            row = registry.row_of(node.function)
            if row is None or r.name not in row.structural:
                continue
            if all(x.kind == v.CONSTANT for x in r.values):
                found.extend((r, x.source) for x in r.values)
    return found
