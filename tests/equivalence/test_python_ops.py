"""What makes Python ops, and why: everything else in the tables is asserted to make none."""

from __future__ import annotations

from sdbr.functions.registry import registered
from sdbr.inspection.targets import schedules_of
from sdbr.lowering.python_only import REASONS

import pytest

from .cases import CASES
from .harness import SUBJECTS, TRAINING, configured, run_once
from .link_cases import CASES as LINK_CASES

#: Cases of float32 or float64 that do not claim to be native, or claim it but for their draws.
OTHERS = [
    (case, how)
    for cases, how in ((CASES, "function"), (LINK_CASES, "link"))
    for case in cases
    if case.dynamic is None and case.dtypes != "e" and (not case.native or case.draws)
]


@pytest.mark.parametrize(("case", "how"), OTHERS, ids=[f"{how} {case.id}" for case, how in OTHERS])
def test_a_python_op_has_a_reason(case, how):
    """A case that makes no Python op has to claim it, so that it stays so."""
    dtype = case.dtypes[0]
    with configured(case, dtype, TRAINING):
        subject = SUBJECTS[how](case, dtype, {"on_dynamic": "raise"})
        for step in range(case.traces + 1):
            run_once(subject, case, dtype, TRAINING, step, case.traces)
    assert subject.statistics.python_ops > 0, "no Python op ran: the case may claim native=True"
    manager = (subject.model or subject.target).schedule_manager
    reasons = {
        node.reason
        for schedule in schedules_of(manager)
        for node in schedule.forward.lowered.nodes
        if node.function_row is None or node.node.python
    } - {""}
    assert reasons
    assert "no native code" not in reasons


def test_what_has_a_row_needs_no_reason():
    assert not {f"chainer.functions.{name}" for name in REASONS} & set(registered())
