"""ChainerMN on two processes, mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import ranks

SCRIPT = Path(__file__).with_name("on_two_ranks.py")


@ranks.with_mpi
@pytest.mark.parametrize("name", ["gradients", "parameters", "batches", "observations", "resumed"])
def test_on_two_ranks(name):
    done = ranks.start(2, SCRIPT, name)
    assert done.returncode == 0, done.stderr
