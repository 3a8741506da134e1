"""The strategies, and what is asserted about one case."""

from __future__ import annotations

import collections
import warnings

import sdbr  # noqa: F401  (first: it makes Chainer importable)

from hypothesis import strategies as st

from . import networks
from .operations import TEMPLATES, all_templates
from .runner import Refused


def _options(**choices):
    """A dictionary with the entries that differ from the first choice, which is the default."""
    return st.fixed_dictionaries({k: st.sampled_from(v) for k, v in choices.items()}).map(
        lambda drawn: {k: v for k, v in drawn.items() if v != choices[k][0]}
    )


calls = _options(
    n=[2, 3, 4],
    train=[True, True, False],
    backprop=[True, True, True, False],
    x=["array", "variable", "constant", "again", "fed"],
    calls=[1, 1, 2, 3],
    clear=["cleargrads", "cleargrads", "zerograds", "keep"],
    back=["all", "all", "first", "last", "separate", "given", "grad", "later", "none"],
    hold=[False, True],
    update=[True, False],
)
events = st.one_of(
    st.tuples(st.just("call"), calls),
    st.tuples(st.just("call"), calls),
    st.tuples(st.just("call"), calls),
    st.tuples(st.just("step"), _options(n=[2, 3], clear=["cleargrads", "zerograds"])),
    st.tuples(st.just("step"), _options(n=[2, 3])),
    st.tuples(st.just("alpha"), st.fixed_dictionaries({"value": st.sampled_from([0.25, 0.75])})),
    st.tuples(
        st.just("freeze"),
        st.fixed_dictionaries({"part": st.sampled_from(["first", "second"]), "off": st.booleans()}),
    ),
    st.tuples(
        st.just("replace"),
        st.fixed_dictionaries({"how": st.sampled_from(["contents", "array", "order"])}),
    ),
    st.tuples(st.just("parameter"), st.just({})),
    st.tuples(
        st.just("state_of"),
        st.fixed_dictionaries({"how": st.sampled_from(["unchain", "reset"])}),
    ),
    st.tuples(
        st.just("duplicate"),
        st.fixed_dictionaries({"how": st.sampled_from(["deepcopy", "copy", "share"])}),
    ),
    st.tuples(st.just("collect"), st.just({})),
    st.tuples(st.just("rate"), st.fixed_dictionaries({"value": st.sampled_from([0.01, 0.02])})),
)
plans = st.lists(events, min_size=1, max_size=6)
settings_of_cases = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["d", "d", "d", "f"]),
        "form": st.sampled_from(["instance", "method"]),
        "optimizer": st.sampled_from(["SGD", "MomentumSGD", "Adam", "AdaGrad"]),
        "hooks": st.sampled_from([[], [], ["decay"], ["clip"], ["decay", "python"]]),
        "layout": st.sampled_from(["whole", "whole", "parts"]),
        "tied": st.sampled_from([False, False, False, True]),
        "static_optimizer": st.booleans(),
        "options": st.sampled_from(
            [
                {},
                {},
                {"backend": "numpy"},
                {"memory": "no_reuse"},
                {"minimize_cache_size": False},
                {"max_schedules": 2},
            ]
        ),
    }
)
N_CURATED, N_ALL = len(TEMPLATES), len(all_templates())
# Curated templates (state, links, the native ones) as often as all the discovered together.
indices = st.one_of(st.sampled_from(range(N_CURATED)), st.sampled_from(range(N_CURATED, N_ALL)))
bodies = st.lists(
    st.tuples(indices, st.sampled_from(range(343)), st.integers(0, 3)), min_size=1, max_size=10
)
cases = st.tuples(
    bodies, st.sampled_from(networks.TAILS), st.sampled_from(range(2**15)), settings_of_cases, plans
)

# Events after which other objects are in the place of those that a schedule was made for.
NEW_OBJECTS = {"parameter", "duplicate"}


class Tally(collections.Counter):
    """What was tried: cases, calls, replays, templates used, arrays without digits."""

    def __init__(self):
        super().__init__()
        self.used: collections.Counter = collections.Counter()
        self.reasons: collections.Counter = collections.Counter()


def check(case, tally: Tally | None = None) -> None:
    """Static equals define-by-run, and what was called before is replayed.

    Raises
    ------
    AssertionError
        With a script that shows the difference.
    """
    drawn, tail, outputs, settings, plan = case
    tally = Tally() if tally is None else tally
    body = networks.Body(drawn, tail, settings["dtype"])
    source = body.source(outputs)
    settings = {**settings, "tail": tail}
    plan = [(kind, dict(options)) for kind, options in plan]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run, loose = networks.compare(source, plan, settings)
        replayed(run, plan, settings, tally)
    except Refused:
        tally["refused by Chainer"] += 1
        return
    except Exception as error:
        text = networks.script(source, plan, settings)
        raise AssertionError(f"{type(error).__name__}: {error}\n\n{text}") from error
    tally["cases"] += 1
    tally["arrays"] += len(run.records)
    tally["arrays without digits"] += loose
    tally.used.update(body.used)


def replayed(run, plan, settings, tally: Tally) -> None:
    """What the counters must say."""
    for model in run.managers:
        manager = getattr(model, "schedule_manager", None)
        if manager is None:  # never called
            continue
        s = manager.statistics
        for name in ("calls", "traces", "replays", "steps", "define_by_run_calls", "python_ops"):
            tally[name] += getattr(s, name)
        tally.reasons.update(manager.define_by_run_reasons)
        assert s.traces + s.replays + s.define_by_run_calls == s.calls, s
        assert s.define_by_run_calls == 0, manager.define_by_run_reasons
    if NEW_OBJECTS & {kind for kind, _ in plan} or not run.second_pass:
        return
    if settings["options"].get("max_schedules"):
        return
    before, now = run.second_pass, run.model.schedule_manager.statistics.to_dict()
    new = {k: now[k] - before[k] for k in now}
    assert new["traces"] == new["second_traces"], f"traced again: {manager.misses}"
