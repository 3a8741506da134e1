"""Row 20, with threads: indices that change during a call give a result or an IndexError.

Whether they change during one hangs on the scheduler. Where none did, the runs show that good and
bad indices are told apart, whichever of them a run finds.
"""

from __future__ import annotations

from sdbr.ops.table import OPS

import numpy as np
import pytest

from .apart import apart
from .spoiled_calls import calls
from .spoiled_ops import OPS as SPOILED
from .spoiled_ops import op_run


def test_every_op_that_takes_integers_from_data_is_spoiled():
    takes = {op.name for op in OPS if any(word.split(":")[1].startswith("I") for word in op.inputs)}
    assert takes == set(SPOILED)


@pytest.mark.alone
def test_ops_whose_indices_change_while_they_run(share):
    names = share(list(SPOILED))
    lines = apart("tests.soak.spoiling", "ops", "--only", *names, limit=900).splitlines()
    assert [line.split()[0] for line in lines] == [name for name in names for _ in range(2)]


@pytest.mark.alone
def test_calls_whose_indices_change_while_they_run(share):
    names = share([name for name, _ in calls()])
    lines = apart("tests.soak.spoiling", "calls", "--only", *names, limit=900).splitlines()
    assert len(lines) == len(names)
    for line in lines:
        *_, results, errors, replays, others = line.split()
        # A replay that raises counts as none; few calls were anything else.
        n = int(results) + int(errors)
        assert n > 5 and int(replays) > 1 and int(others) * 2 < n, line


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.int64])
def test_indices_of_a_dtype_that_has_no_wrong_ones_or_many(dtype):
    """Bounds beyond what the dtype holds; an ignored label that it does not hold."""
    run, indices = op_run("take", np.dtype(dtype).str[1:])
    [t] = indices
    t[...] = 0
    t[-1] = np.iinfo(dtype).max
    if np.iinfo(dtype).max < 500:
        run()
        return
    with pytest.raises(IndexError, match=f"index {np.iinfo(dtype).max} at position 8999"):
        run()
