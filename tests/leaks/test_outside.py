"""Programs that draw, iterate, and read state that lies outside of the chain."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

PATH = FOLDER / "outside.py"
#: The programs that are said to be dynamic; the others are replayed.
DYNAMIC = {
    "p_10_skip_a_layer_by_a_coin",
    "p_10_one_number_of_uniform_by_name",
    "p_10_bound_method_of_an_own_generator",
    "p_10_own_generator_global",
    "p_10_bytes_of_the_system",
    "p_10_a_secret_number",
    "p_10_a_uuid",
    "p_10_a_number_of_a_new_generator",
    "p_10_a_branch_on_a_new_generator_by_name",
    "p_10_a_system_generator",
    "p_10_generator_in_an_object",
    "p_10_generator_in_a_dataclass",
    "p_10_generator_in_a_dict_of_the_link",
    "p_10_array_of_a_generator_in_a_global_dict",
    "p_11_iterator_in_a_dict",
    "p_11_iterator_in_an_object",
    "p_11_cycle_in_an_object",
    "p_11_counter_in_a_global_dict",
    "p_11_queue",
    "p_11_simple_queue_in_a_dict",
    "p_11_generator_in_a_tuple",
    "p_11_bound_next",
    "p_11_deque_that_rotates",
    "p_13_number_through_the_dictionary_within",
    "p_13_shape_set_within",
    "p_13_shape_of_an_argument_set_within",
    "p_13_shape_of_a_copy_set_within",
}


@pytest.mark.parametrize("name", names_in(PATH))
def test_programs(name):
    verdict = judge(PATH, name)
    assert verdict.word == ("dynamic" if name in DYNAMIC else "right"), verdict


@pytest.mark.parametrize(
    "name",
    [
        "p_10_skip_a_layer_by_a_coin",
        "p_10_a_secret_number",
        "p_10_generator_in_an_object",
        "p_11_iterator_in_a_dict",
        "p_11_queue",
        "p_13_number_through_the_dictionary",
    ],
)
def test_the_mend_is_what_makes_them_right(name):
    with OFF[int(name[2:4])]():
        assert judge(PATH, name).word == "silent"
