"""Programs that leave things outside of links, and read past what byte code names."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "stores.py"
#: The programs that are said to be dynamic; the others are replayed.
DYNAMIC = {
    "p_14_config",
    "p_14_config_number",
    "p_14_list",
    "p_14_long_list",
    "p_14_deque",
    "p_14_context_variable",
    "p_15_frame_locals",
}


@pytest.mark.parametrize("name", names_in(PATH))
@pytest.mark.parametrize("audit", ["off", "auto"])
def test_programs(name, audit):
    verdict = judge(PATH, name, audit)
    assert verdict.word == ("dynamic" if name in DYNAMIC else "right"), verdict


@pytest.mark.parametrize(
    "name",
    [
        "p_14_class_store_only",
        "p_14_function_attribute",
        "p_14_type_of_self",
        "p_14_config_number",
        "p_15_context_manager",
        "p_15_method_by_name",
        "p_15_context_var",
    ],
)
def test_the_mend_is_what_makes_them_right(name):
    with OFF[int(name[2:4])]():
        assert judge(PATH, name).word == "silent"
