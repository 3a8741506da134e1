"""Programs in which values leave the arrays of a call."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "values.py"
#: Those that replay; the others say that they cannot.
RIGHT = {
    "p_06_deep_copied", "p_06_deque_to_array", "p_06_userlist_to_array", "p_06_node_data",
    "p_06_table_in_a_dict",
    "p_06_literal_indexed", "p_06_one_batch_for_ever", "p_07_im2col",
    "p_07_im2col_as_input", "p_06_item_of_ints_as_axis",
    "p_07_special", "p_08_stacked_deque", "p_08_joined_deque", "p_08_stacked_userlist",
    "p_09_kept_in_a_closure", "p_09_kept_in_an_object", "p_06_variable_item", "p_06_item_rounded",
    "p_06_number_beside_the_loss", "p_08_filled", "p_06_deque_largest", "p_06_node_data_branch",
    "p_07_col2im", "p_08_imported_math",
}  # fmt: skip
#: Traced anew each time: the call writes what it reads.
KEPT = {"p_09_kept_in_a_class"}


@pytest.mark.parametrize("name", names_in(PATH))
def test_programs(name):
    if name in KEPT:
        pytest.skip("what is only stored in a class: see the programs of stores")
    verdict = judge(PATH, name)
    replayed = name in RIGHT or (name[2:4] == "09" and "kept" not in name)
    assert verdict.word == ("right" if replayed else "dynamic"), verdict


@pytest.mark.parametrize(
    "name",
    [
        "p_06_numpy_float32_of_a_sum", "p_06_frombuffer", "p_07_cdist",
        "p_07_gaussian_filter", "p_08_method_of_float_in_a_variable",
        "p_09_type_is_ndarray",
    ],
)  # fmt: skip
def test_the_mend_is_what_makes_them_right(name):
    with OFF[int(name[2:4])]():
        assert judge(PATH, name).word == "silent"
