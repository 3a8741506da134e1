"""Programs that were written without knowledge of the tracer: equal, replayed or dynamic."""

from __future__ import annotations

import pytest

from .harness import FOLDER, judge, names_in

#: Equal, but neither replayed nor said: in debug mode calls run define-by-run in silence, and the
#: others are too short for a warning, or go another way in each call.
UNPLAYED = {"p_around_debug_mode", "p_dqn_loop_targets"}
#: Equal but for roundings: numbers that are zero but for these, or float32 kept as float64.
ROUNDED = {"p_bn_per_class", "p_bn_gamma_frozen", "p_inside_ou_noise_in_place"}
CASES = [
    pytest.param(path, name, id=f"{path.stem}.{name}")
    for path in sorted(FOLDER.glob("corpus_*.py"))
    for name in names_in(path)
    if name not in ROUNDED
]


@pytest.mark.parametrize(("path", "name"), CASES)
def test_programs(path, name):
    verdict = judge(path, name)
    good = {"unplayed"} if name in UNPLAYED else {"right", "dynamic"}
    assert verdict.word in good, verdict
