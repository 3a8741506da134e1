"""Random networks, calls and mode switches: static equals define-by-run after each event."""

from __future__ import annotations

import sdbr  # noqa: F401  (first: it makes Chainer importable)

from hypothesis import HealthCheck, given, settings

from .cases import Tally, cases, check

TALLY = Tally()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases)
def test_static_equals_define_by_run(case):
    check(case, TALLY)
