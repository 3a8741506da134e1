"""The programs about gradients, each with the verdict that it has to get."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in

PATH = FOLDER / "gradients.py"
#: All others are right: equal, and replayed.
EXPECTED: dict[str, str] = {}


@pytest.mark.parametrize("name", names_in(PATH))
def test_program(name):
    verdict = judge(PATH, name)
    assert verdict.word == EXPECTED.get(name, "right"), verdict
