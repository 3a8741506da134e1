"""The second trace of a call whose constants came from untracked places."""

from __future__ import annotations

from sdbr.base.reasons import Reason, Remedy
from sdbr.trace.values import ALIAS, Value, handed_out

import chainer
import numpy as np

_NUMBERS = (bool, int, float, complex, str, np.generic)


def given(leaves: list) -> dict[int, np.ndarray]:
    """Copies of the arrays among the arguments, by their place."""
    return {i: _array(leaf).copy() for i, leaf in enumerate(leaves)}


def is_settled(schedule, leaves: list) -> bool:
    """Whether `schedule` may serve a call with these arguments without a further trace."""
    if schedule.unconfirmed:
        return False
    known = schedule.bound_to
    return not known or len(still_given(leaves, known)) == len(known)


def still_given(leaves: list, before: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Those of `before` that the arguments hold again."""
    return {i: x for i, x in before.items() if _same_bytes(_array(leaves[i]), x)}


def _array(leaf) -> np.ndarray:
    return leaf._data[0] if isinstance(leaf, chainer.Variable) else leaf


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(np.array_equal(a, b)) or a.tobytes() == b.tobytes()  # nan


def contents_of_constants(trace) -> list:
    """What the constants of a trace hold now."""
    return [x.source.tobytes() if x.kind == "constant" else None for x in trace.values]


def confirm(trace, first, before) -> None:
    """Compare the constants of two traces of one call; a difference makes the second dynamic.

    `before` are the contents of the first trace's constants just before the second call: an array
    that outlives the calls may change between them, but not during one.
    """
    pairs = _pairs(trace, first)
    if pairs is None:
        trace.dynamic = trace.dynamic or Reason(
            "two traces of the same call differ in their functions", Remedy.USE_FUNCTIONS
        )
        return
    for a, b in pairs:
        same = a.kind == b.kind and a.shape == b.shape and a.dtype == b.dtype
        if same and a.kind == "constant":
            same = a.source.tobytes() == before[b.index]
        if not same:
            trace.dynamic = trace.dynamic or Reason(
                "an array was computed by Python code that sdbr cannot see into, and it changes "
                "from call to call",
                Remedy.USE_FUNCTIONS,
            )
            return
    for a, b in zip(trace.nodes, first.nodes, strict=True):
        name = _other_number(a, b)
        if name is not None:
            trace.dynamic = trace.dynamic or Reason(
                f"the number {name!r} of {a.label} was computed where sdbr cannot see it, and it "
                "changes from call to call",
                Remedy.USE_FUNCTIONS,
                a.line,
            )
    for a, b in zip(trace.reports, first.reports, strict=True):
        for name, x in a.items.items():
            y = b.items.get(name)
            if type(x) is not Value and repr(x) != repr(y):
                trace.dynamic = trace.dynamic or Reason(
                    f"the reported value {name!r} was computed in Python", Remedy.USE_FUNCTIONS
                )
    _confirm_places(trace, first)


def _confirm_places(trace, first) -> None:
    """The same for what they leave in places and return."""
    written = {(id(w.link), w.name): repr_scalars(w.value) for w in first.writes}
    for write in trace.writes:
        if written.get((id(write.link), write.name)) != repr_scalars(write.value):
            trace.dynamic = trace.dynamic or Reason(
                f"attribute {write.name!r}, which the call sets, was computed in Python",
                Remedy.USE_FUNCTIONS,
            )
    stored = {store.sink.key: repr_scalars(store.value) for store in first.stores}
    for store in trace.stores:
        key = store.sink.key
        if store.target is None and key in stored and repr_scalars(store.value) != stored[key]:
            trace.dynamic = trace.dynamic or Reason(
                f"{store.sink.name!r}, which the call sets, was computed in Python",
                Remedy.USE_FUNCTIONS,
            )
    if trace.shared != first.shared:
        trace.dynamic = trace.dynamic or Reason(
            "which lists and dicts lie in more than one place changes from call to call",
            Remedy.KEEP_A_COPY,
        )
    if repr_scalars(trace.result) != repr_scalars(first.result):
        trace.dynamic = trace.dynamic or Reason(
            "a returned number was computed in Python", Remedy.USE_FUNCTIONS
        )


def _other_number(a, b) -> str | None:
    """The name of a number on a node that is another one in the second trace."""
    if a.template is None or b.template is None:
        return None
    follow = {name for name, _, _ in a.scalars} | {r.name for r in a.rebind}
    for name, x in a.template.__dict__.items():
        if isinstance(x, _NUMBERS) and name not in follow:
            y = b.template.__dict__.get(name)
            if type(x) is not type(y) or repr(x) != repr(y):
                return name
    return None


def _pairs(trace, first) -> list[tuple[Value, Value]] | None:
    """The values of two traces that take the same places; None when there is no such pairing.

    Not by their numbers: a first call that initialises parameters meets them in another order.
    """
    if len(trace.nodes) != len(first.nodes):
        return None
    pairs: list[tuple[Value, Value]] = []
    places = zip(_places(trace), _places(first), strict=True)
    for ours, theirs in places:
        if len(ours) != len(theirs):
            return None
        pairs += zip(ours, theirs, strict=True)
    pairs += [(a.source, b.source) for a, b in pairs if a.kind == b.kind == ALIAS]
    partner: dict[int, int] = {}
    for a, b in pairs:
        if partner.setdefault(a.index, b.index) != b.index:
            return None
    return pairs


def _places(trace) -> list[list[Value]]:
    """The values of each node, and those that are handed out."""
    places = [
        [*node.inputs, *node.outputs, *[x for r in node.rebind for x in r.values]]
        for node in trace.nodes
    ]
    return [*places, list(handed_out(trace))]


def repr_scalars(structure):
    """Comparable form of a result structure."""
    if isinstance(structure, Value):
        return "value"
    if isinstance(structure, dict):
        return [(k, repr_scalars(x)) for k, x in structure.items()]
    if isinstance(structure, (list, tuple)):
        return [repr_scalars(x) for x in structure]
    return repr(structure)
