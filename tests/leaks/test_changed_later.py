"""The programs about arrays that are written or replaced after the call, each with its verdict."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "changed_later.py"


@pytest.mark.parametrize("name", names_in(PATH))
def test_program(name):
    verdict = judge(PATH, name)
    assert verdict.word == "right", verdict


@pytest.mark.parametrize("name", ["p_05_slice", "p_05_y_and_array", "p_05_slice_of_argument"])
def test_without_the_mend(name):
    with OFF[5]():
        assert judge(PATH, name).word == "silent"


@pytest.mark.parametrize("name", [name for name in names_in(PATH) if name.startswith("p_19_")])
def test_without_following(name):
    with OFF[19]():
        assert judge(PATH, name).word == "silent"
