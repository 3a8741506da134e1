"""Each rule with each hook, wherever it may be: one native call for a step."""

import chainer
import numpy as np
import pytest

from tests.harness.trainings import Runs
from tests.harness.update_rules import HOOKS, RULES


@pytest.fixture(autouse=True, params=["cython"])
def backend(request):
    with chainer.using_config("sdbr_backend", request.param):
        yield request.param


def whole(runs, n):
    """All but the first, which is traced, were one native call, without code of Chainer's."""
    statistics = runs.static.update_statistics
    assert runs.steps == n - 1
    assert (statistics.python_updates, statistics.mixed_updates) == (0, 0)


def add(name, level, timing):
    def prepare(optimizer):
        if name is None:
            return
        if level == "optimizer":
            optimizer.add_hook(HOOKS[name](), timing=timing)
        else:
            for param in list(optimizer.target.params())[::2]:
                param.update_rule.add_hook(HOOKS[name](), timing=timing)

    return prepare


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hook", [None, *HOOKS])
@pytest.mark.parametrize("rule", RULES)
def test_two_hundred_steps(rule, hook, dtype):
    runs = Runs(RULES[rule], add(hook, "optimizer", "auto"), dtype)
    for _ in range(200):
        runs.step()
        if dtype == np.float32:  # what is rounded differently grows from step to step
            runs.together()
    whole(runs, 200)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    ("level", "timing"), [("optimizer", "post"), ("rule", "pre"), ("rule", "post")]
)
@pytest.mark.parametrize("rule", RULES)
def test_where_and_when(rule, level, timing, hook):
    if level == "rule" and hook.startswith("clip"):
        level = "optimizer"  # it looks at all parameters at once
    runs = Runs(RULES[rule], add(hook, level, timing))
    runs.step(12)
    whole(runs, 12)


@pytest.mark.parametrize("hook", [None, *HOOKS])
@pytest.mark.parametrize("rule", RULES)
def test_audits_find_nothing(rule, hook):
    runs = Runs(RULES[rule], add(hook, "optimizer", "auto"))
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(8):
            runs.step()
            runs.together()
    whole(runs, 8)
    audits = runs.static.target.schedule_manager.audits
    assert (audits.passed, audits.failed) == (7, 0)
