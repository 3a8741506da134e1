"""Programs whose Variables, parameters and links lie outside of the chain."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "captured.py"
#: What comes of a program that is not right and replayed.
OTHERWISE = {
    "p_04_argument_and_global": "dynamic",
}


@pytest.mark.parametrize("name", names_in(PATH))
def test_programs(name):
    verdict = judge(PATH, name)
    assert verdict.word == OTHERWISE.get(name, "right"), verdict


@pytest.mark.parametrize("name", ["p_04_partial", "p_04_long_list", "p_04_whole_step_with_mask"])
def test_the_mend_is_what_makes_them_right(name):
    with OFF[4]():
        assert judge(PATH, name).word in ("silent", "dynamic")  # or another rule stops them


@pytest.mark.parametrize("name", ["p_05_softmax_cross_entropy", "p_05_lstm", "p_05_absolute_error"])
def test_what_is_kept_makes_them_right(name):
    with OFF[5]():
        assert judge(PATH, name).word == "silent"
