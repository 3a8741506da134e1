"""Cases of functions of mathematics."""

from __future__ import annotations

import functools

from sdbr.ops import special

from .elementwise_cases import elementwise

#: Float attributes to try, by op.
FLOATS: dict[str, list[tuple]] = {"gauss_grad": [(1.1, -1.0), (-0.4, -0.5)]}

_cases = functools.partial(elementwise, tried=FLOATS)
BY_OP = {op.name: _cases for op in special.OPS if not op.floats or op.name in FLOATS}
