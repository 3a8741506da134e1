"""What no replay could take back: errors that user code inside the call catches, draws on a GPU."""

from __future__ import annotations

from sdbr.base.reasons import Reason, Remedy
from sdbr.functions.registry import draws, function_of, row_of
from sdbr.trace.questions import Question
from sdbr.trace.values import CONSTANT, Trace, TracedNode

import numpy as np

#: Functions and methods of NumPy that keep their form and raise because of values, besides those
#: that look up; of the others nobody knows.
_RAISING = frozenset({
    "apply_along_axis", "apply_over_axes", "average", "choose", "digitize", "nanargmax",
    "nanargmin", "nanpercentile", "nanquantile", "percentile", "polyfit", "quantile",
    "ravel_multi_index", "unravel_index",
})  # fmt: skip


def may_raise(node: TracedNode) -> bool:
    """Whether what a node computes may raise because of data."""
    return _looks_up(node) or _is_python(node)


def caught_error(trace: Trace) -> Reason | None:
    """The first function that may raise in a replay what user code catches.

    What cannot raise because of data may be inside any ``try``.
    """
    for node in trace.nodes:
        index, anything = node.caught
        if (index and _looks_up(node)) or (anything and _is_python(node)):
            text = f"an error of {node.label} may be caught"
            return Reason(text, Remedy.CATCH_OUTSIDE, node.line)
    return None


def _looks_up(node: TracedNode) -> bool:
    """Whether it takes indices that come from data."""
    if node.template is not None:
        row = row_of(node.template)
        if row is None or not row.checks:
            return False
    elif isinstance(node.call[0], np.ufunc):
        return False
    values = [*node.inputs, *[value for r in node.rebind for value in r.values]]
    return any(v.dtype.kind in "iu" and v.kind != CONSTANT for v in values)


def _is_python(node: TracedNode) -> bool:
    """Whether code runs that no table knows: static_code, functions of users, those without a row,
    and calls of NumPy that may raise.
    """
    if node.effect:
        return True
    if node.template is None:
        call = node.call[0]
        is_whole = node.outputs and node.outputs[0].dtype.kind in "iu"
        return (
            getattr(call, "gives_form", False)
            or getattr(call, "__module__", "") == "numpy.linalg"
            or getattr(call, "__name__", "") in _RAISING
            or (call is np.power and is_whole)
        )
    return row_of(node.template) is None


def asked_after_a_draw(trace: Trace) -> Reason | None:
    """Why a run on a GPU that meets another answer could not be begun anew, or None.

    For a CuPy whose generators cannot be set back to where they were.
    """
    drawn = ""
    for node in trace.nodes:
        if type(node) is Question and drawn:
            text = f"a value decides about the way after {drawn} has drawn on a GPU"
            return Reason(text, Remedy.STAY_ARRAYS, node.line)
        of_numpy = node.draws and node.outputs[0].host
        if (node.draws and not of_numpy) or node.effect or _draws(node):
            drawn = drawn or node.label
    return None


def _draws(node: TracedNode) -> bool:
    return node.function is not None and draws(type(function_of(node.function)))
