"""What random programs do besides functions: fragments of source, by family."""

from __future__ import annotations

from . import draws, leaks, mutations, questions, state, stores, writes
from .hazard import Hazard

FAMILIES: dict[str, list[Hazard]] = {
    "leak": leaks.HAZARDS,
    "draw": draws.HAZARDS,
    "store": stores.HAZARDS,
    "mutate": mutations.HAZARDS,
    "ask": questions.HAZARDS,
    "write": writes.HAZARDS,
    "count": state.HAZARDS,
}
#: How often each is drawn, and how seldom one that makes calls dynamic.
WEIGHTS = {"leak": 3, "draw": 3, "store": 5, "mutate": 8, "ask": 5, "write": 6, "count": 5}
DYNAMIC = 0.25
