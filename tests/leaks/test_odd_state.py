"""Programs whose calls depend on state in odd places, and on errors."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in

PATH = FOLDER / "odd_state.py"
#: Those that replay; the others say that they cannot.
RIGHT = {
    "p_proxy", "p_proxy_in_a_list", "p_proxy_replaced", "p_module", "p_module_table",
    "p_module_in_an_object", "p_optimizer", "p_optimizer_momentum", "p_initializer",
    "p_child_name", "p_child_class", "p_warnings_ignored", "p_errstate_ignored",
    "p_no_gradient_given", "p_function_swapped", "p_rank_of_a_node",
    "p_node_that_only_reads", "p_times_updated", "p_counted_in_a_local_class", "p_linalg",
    "p_error_of_its_own",
}  # fmt: skip
#: Those that replay only some calls.
PARTLY = {"p_function_of_its_own_swapped", "p_dict_and_none"}


@pytest.mark.parametrize("name", names_in(PATH))
def test_programs(name):
    verdict = judge(PATH, name)
    assert verdict.word == ("right" if name in RIGHT | PARTLY else "dynamic"), verdict
    if name in RIGHT:
        assert verdict.statistics["traces"] < verdict.statistics["replays"] + 3, verdict


def test_what_calls_change_themselves_is_said():
    (said,) = judge(PATH, "p_list_of_sizes").warnings
    assert "'sizes', which the call reads, is changed by each call" in said
