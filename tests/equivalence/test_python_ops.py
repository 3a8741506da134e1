"""What makes Python ops, and why: everything else in the tables is asserted to make none."""

from __future__ import annotations

from sdbr.functions.registry import registered
from sdbr.inspection.targets import schedules_of
from sdbr.lowering.python_only import REASONS

import pytest

from .harness import SUBJECTS, TRAINING, configured, run_once
from .link_rows import ROWS as LINK_ROWS
from .rows import ROWS

#: Rows of float32 or float64 that do not claim to be native, or claim it but for their draws.
OTHERS = [
    (row, how)
    for rows, how in ((ROWS, "function"), (LINK_ROWS, "link"))
    for row in rows
    if row.dynamic is None and row.dtypes != "e" and (not row.native or row.draws)
]


@pytest.mark.parametrize(("row", "how"), OTHERS, ids=[f"{how} {row.id}" for row, how in OTHERS])
def test_a_python_op_has_a_reason(row, how):
    """A row that makes no Python op has to claim it, so that it stays so."""
    dtype = row.dtypes[0]
    with configured(row, dtype, TRAINING):
        subject = SUBJECTS[how](row, dtype, {"on_dynamic": "raise"})
        for step in range(row.traces + 1):
            run_once(subject, row, dtype, TRAINING, step, row.traces)
    assert subject.statistics.python_ops > 0, "no Python op ran: the row may claim native=True"
    manager = (subject.model or subject.target).schedule_manager
    reasons = {
        node.reason
        for schedule in schedules_of(manager)
        if not schedule.unconfirmed
        for node in schedule.forward.lowered.nodes
        if node.row is None or node.node.python
    } - {""}
    assert reasons
    assert "no native row" not in reasons


def test_what_has_a_row_needs_no_reason():
    assert not {f"chainer.functions.{name}" for name in REASONS} & set(registered())
