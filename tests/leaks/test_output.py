"""Programs that tell the world something, or ask it, in a call."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in

PATH = FOLDER / "output.py"
#: Those that replay; the others say that they cannot.
RIGHT = {
    "p_log_below_the_level", "p_buffer_of_its_own", "p_traceback_of_its_own", "p_print_in_a_node",
    "p_warning", "p_environment", "p_environment_absent", "p_print_in_static_code",
}  # fmt: skip


@pytest.mark.parametrize("name", names_in(PATH))
def test_programs(name):
    verdict = judge(PATH, name)
    assert verdict.word == ("right" if name in RIGHT else "dynamic"), verdict


def test_the_warning_names_it_and_what_to_do():
    (said,) = judge(PATH, "p_print").warnings
    assert "print(...) would run only while the call is traced" in said
    assert "output.py:" in said
    assert "sdbr.static_code, which runs in every call" in said
