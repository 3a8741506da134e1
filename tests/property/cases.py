"""The strategies, and what is asserted about one case."""

from __future__ import annotations

import collections
import re
import warnings

import sdbr  # noqa: F401  (first: it makes Chainer importable)
from sdbr.schedule.back_off import BACKING_OFF, FULL, FULL_AND_NEW, WAITING

from hypothesis import strategies as st

from . import networks
from .operations import TEMPLATES, all_templates, gradients
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


def _event(kind: str, **choices):
    return st.tuples(st.just(kind), _options(**choices))


def _change(kind: str, **choices):
    """An event that names all its options."""
    drawn = st.fixed_dictionaries({k: st.sampled_from(v) for k, v in choices.items()})
    return st.tuples(st.just(kind), drawn)


steps = _event("step", n=[2, 3], clear=["cleargrads"] * 5 + ["zerograds"])
changes = st.one_of(
    _change("alpha", value=[0.25, 0.75]),
    _change("rate", value=[0.01, 0.02]),
    _change("replace", how=["contents", "array", "order"]),
    _change("freeze", part=["first", "second"], off=[False, True]),
    _change("state_of", how=["unchain", "reset"]),
    _event("collect"),
    _change("duplicate", how=["deepcopy", "copy", "share"]),
    _event("parameter"),
)
called = st.tuples(st.just("call"), calls)
plans = st.one_of(
    st.lists(st.one_of(called, called, called, steps, changes), min_size=1, max_size=6),
    st.lists(st.one_of(steps, steps, steps, changes), min_size=2, max_size=6),
)
settings_of_cases = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["d", "d", "d", "f"]),
        "form": st.sampled_from(["instance", "method"]),
        "optimizer": st.sampled_from(
            ["SGD", "MomentumSGD", "Adam", "Adam", "MomentumSGD", "AdaGrad"]
        ),
        "hooks": st.sampled_from([[], [], ["decay"], ["clip"], [], ["decay", "python"]]),
        "layout": st.sampled_from(["whole"] * 5 + ["parts"]),
        "tied": st.sampled_from([False] * 5 + [True]),
        "static_optimizer": st.sampled_from([True] * 5 + [False]),
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


def _number(limit: int):
    """Numbers below `limit`, at most 512, evenly: hypothesis prefers the small of a long range."""
    digit = st.sampled_from(range(8))
    return st.tuples(digit, digit, digit).map(lambda d: (64 * d[0] + 8 * d[1] + d[2]) % limit)


N_CURATED, N_ALL = len(TEMPLATES), len(all_templates())
N_FOUND = N_ALL - N_CURATED - len(gradients())
# Curated templates (state, links, the native ones) as often as all the discovered together.
indices = st.one_of(
    _number(N_CURATED),
    _number(N_CURATED),
    _number(N_FOUND).map(lambda i: N_CURATED + i),
    _number(N_FOUND).map(lambda i: N_CURATED + i),
    _number(len(gradients())).map(lambda i: N_ALL - 1 - i),
)
picks = st.sampled_from(range(4))
statements = st.tuples(indices, st.tuples(picks, picks, picks), st.sampled_from([0, 1, -1, 2]))
bodies = st.fixed_dictionaries(
    {
        "drawn": st.lists(statements, min_size=1, max_size=10),
        "tail": st.sampled_from(networks.TAILS),
        "learns": st.sampled_from([True] * 5 + [False]),
        "outputs": st.lists(st.sampled_from(range(8)), max_size=3),
    }
)
cases = st.tuples(bodies, settings_of_cases, plans)

# Events after which other objects are in the place of those that a schedule was made for.
NEW_OBJECTS = {"parameter", "duplicate"}


class Tally(collections.Counter):
    """What was tried: cases, calls, replays, templates used, arrays without digits."""

    def __init__(self):
        super().__init__()
        self.used: collections.Counter = collections.Counter()
        self.reasons: collections.Counter = collections.Counter()
        self.no_step: collections.Counter = collections.Counter()


def check(case, tally: Tally | None = None) -> None:
    """Static equals define-by-run, and what was called before is replayed.

    Raises
    ------
    AssertionError
        With a script that shows the difference.
    """
    drawn, settings, plan = case
    tally = Tally() if tally is None else tally
    body = networks.Body(dtype=settings["dtype"], **drawn)
    source = body.source()
    settings = {**settings, "tail": drawn["tail"], "single": "'f4'" in source}
    plan = [(kind, dict(options)) for kind, options in plan]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run, loose = networks.compare(source, plan, settings)
        if not dynamic(run, source, tally):
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


#: What makes a network dynamic that takes gradients itself: Chainer's backwards that look at
#: arrays, differentiated in turn, and gradients that are None, as Variables.
_OF_GRADIENTS = re.compile(
    r"a gradient was taken through .*, which ran before|the result.* is a Variable without an array"
)


def dynamic(run, source: str, tally: Tally) -> bool:
    """Whether a network is dynamic for what it does with gradients of its own."""
    managers = [m for model in run.managers if (m := getattr(model, "schedule_manager", None))]
    reasons = {reason for manager in managers for reason in manager.define_by_run_reasons}
    if "chainer.grad(" not in source or not any(map(_OF_GRADIENTS.match, reasons)):
        return False
    tally["dynamic for gradients"] += 1
    return True


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
        tally.no_step.update([manager.step_reason] if manager.step_reason else [])
        assert s.traces + s.replays + s.define_by_run_calls == s.calls, s
        few = settings["options"].get("max_schedules")
        backed_off = {BACKING_OFF, FULL, FULL_AND_NEW, WAITING} if few else set()
        assert not manager.define_by_run_reasons.keys() - backed_off, manager.define_by_run_reasons
    if NEW_OBJECTS & {kind for kind, _ in plan} or not run.second_pass:
        return
    if settings["options"].get("max_schedules"):
        return
    before, now = run.second_pass, run.model.schedule_manager.statistics.to_dict()
    new = {k: now[k] - before[k] for k in now}
    assert not new["traces"], f"traced again: {manager.misses}"
