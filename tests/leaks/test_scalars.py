"""The programs about NumPy scalars as hyperparameters: replayed with what they are now, or said."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in

PATH = FOLDER / "scalars.py"


@pytest.mark.parametrize("name", names_in(PATH))
def test_program(name):
    verdict = judge(PATH, name)
    assert verdict.word in ("right", "dynamic"), verdict
