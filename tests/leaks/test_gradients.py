"""The programs about gradients, each with the verdict that it has to get."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "gradients.py"
#: All others are right: equal, and replayed.
EXPECTED: dict[str, str] = {}


@pytest.mark.parametrize("name", names_in(PATH))
def test_program(name):
    verdict = judge(PATH, name)
    assert verdict.word == EXPECTED.get(name, "right"), verdict


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "p_01_own_node_steps"), (2, "p_02_heads_retained"), (3, "p_03_cam_seeded")],
)
def test_without_the_mend(number, name):
    with OFF[number]():
        assert judge(PATH, name).word == "silent"
