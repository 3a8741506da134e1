"""chainer.functions.activation."""

from __future__ import annotations

import chainer.functions as F
from equivalence.arguments import N, Q
from equivalence.harness import Case

ROWS = [
    Case("relu", F.relu, [Q(3, 4)], native=True),
    Case("relu 0-d", F.relu, [N()], native=True),
    Case("selu", F.selu, [N(3, 4)]),
    Case("rrelu", F.rrelu, [N(3, 4)]),
]
