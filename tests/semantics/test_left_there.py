"""Rows 8 and 9: what a call leaves outside, and no replay writes, lies there before each replay."""

from __future__ import annotations

import functools
import operator
import types
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

X = np.linspace(-1, 1, 6).astype("f").reshape(2, 3)
CALLS, AT = 12, (4, 7)  # how many; before which ones others change something


class Table(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Picks:
    def run(self):
        return 2.0

    def other(self):
        return 3.0


def world():
    """What a call may write to, and others."""

    class Settings:
        level, mode = 1.0, "idle"

    return types.SimpleNamespace(
        table={"n": 0, "scale": 2.0}, seen=set(), names={"a", "b"}, numbers=[0.0, 1.0],
        settings=Settings, object=types.SimpleNamespace(on=False, level=1.0), more=Table(scale=2.0),
        thing=types.SimpleNamespace(level=3.0), picks=Picks(),
        array=np.arange(3, dtype="f"), get=operator.itemgetter("a"),
    )  # fmt: skip


def put(thing, key, value):
    thing[key] = value


def drop(w):
    if hasattr(w.object, "level"):
        del w.object.level


def flag(w):
    w.object.on = True
    y = 2.0 if w.object.on else 1.0
    w.object.on = False
    return y


def mode(w):
    before, w.settings.mode = w.settings.mode, "busy"
    try:
        return len(w.settings.mode)
    finally:
        w.settings.mode = before


#: What the call does, and what others do beforehand.
LEFT = {
    "item": (lambda w: put(w.table, "n", 3), lambda w: w.table.update(n=5)),
    "item, deleted": (lambda w: put(w.table, "n", 3), lambda w: w.table.pop("n")),
    "update": (lambda w: w.table.update(n=3), lambda w: w.table.clear()),
    "element": (lambda w: put(w.numbers, 0, 5.0), lambda w: w.numbers.insert(0, 7.0)),
    "added": (lambda w: w.seen.add("a"), lambda w: w.seen.clear()),
    "added tuple": (lambda w: w.seen.add((2, 3)), lambda w: w.seen.discard((2, 3))),
    "discarded": (lambda w: w.names.discard("a"), lambda w: w.names.add("a")),
    "class": (
        lambda w: setattr(w.settings, "level", 3.0), lambda w: setattr(w.settings, "level", 1),
    ),
    "deleted": (drop, lambda w: setattr(w.object, "level", 1)),
    "flag": (flag, lambda w: setattr(w.object, "on", True)),
    "put back": (mode, lambda w: setattr(w.settings, "mode", "other")),
    "attribute that is an item": (
        lambda w: setattr(w.more, "last", 3.0), lambda w: setattr(w.more, "last", 9.0),
    ),
    "thing": (
        lambda w: put(w.table, "thing", w.thing),
        lambda w: setattr(w, "thing", types.SimpleNamespace(level=4.0)),
    ),
}  # fmt: skip


def pick(thing):
    if "run" in vars(thing):
        del thing.run
    else:
        thing.run = thing.other


@functools.lru_cache(None)
def ramp(n):
    return np.arange(n, dtype="f")


#: What the call reads, and what others change of it.
READ = {
    "numbers and array": (
        lambda w: F.tanh(w.array) * (w.array > 1).astype("f"), lambda w: w.array.__iadd__(1),
    ),
    "text of an array": (lambda w: float(len(str(w.array))), lambda w: w.array.__iadd__(0.123)),
    "getter": (
        lambda w: w.get({"a": 1.0, "b": 2.0}),
        lambda w: setattr(w, "get", operator.itemgetter("b")),
    ),
    "array of a cache": (lambda w: ramp(3), lambda w: ramp(3).__iadd__(1)),
    "member": (lambda w: 2.0 if "a" in w.names else 1.0, lambda w: w.names.discard("a")),
    "method of its own": (lambda w: w.picks.run(), lambda w: pick(w.picks)),
    "resized": (
        lambda w: F.sum(chainer.as_variable(w.array)), lambda w: w.array.resize(4, refcheck=False),
    ),
}  # fmt: skip


def state(thing):
    """All that can be seen of a world."""
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, (set, list)):
        return type(thing), sorted(map(repr, thing))
    if isinstance(thing, dict):
        return [(k, state(x)) for k, x in thing.items()]
    if isinstance(thing, (types.SimpleNamespace, Picks, type)):
        return [(k, state(x)) for k, x in vars(thing).items() if k[:2] != "__"]
    return thing if isinstance(thing, (str, float, int)) else type(thing)


def compare(does, change):
    """What static calls make of a world, against those that are not; how many were replays."""
    ramp.cache_clear()
    seen = []
    for static in (False, True):
        w = world()

        def call(x, w=w):
            found = does(w)
            return F.tanh(x) * (1.0 if found is None else found)

        call = sdbr.static_graph(call) if static else call
        found = []
        for i in range(CALLS):
            if i in AT:
                change(w)
            found.append((np.array(call(X).array), state(w)))
        seen.append(found)
        ramp.cache_clear()
    for i, (want, got) in enumerate(zip(*seen, strict=True)):
        assert_near(got[0], want[0], RESULTS, f"call {i}")
        assert got[1] == want[1], i
    return call.schedule_manager.statistics.replays


@pytest.mark.parametrize("case", LEFT)
def test_what_a_call_leaves(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        assert compare(*LEFT[case]) >= 4


@pytest.mark.filterwarnings("ignore:.*not static")
@pytest.mark.parametrize("make", [lambda: [1], lambda: {"b": 2.0}, lambda: np.zeros(2), Picks])
def test_what_a_call_makes_anew_and_leaves(make):
    """Others may write to it: the next call leaves another one."""

    def change(w):
        if isinstance(w.table["made"], Picks):
            w.table["made"].level = 5.0
        else:
            w.table["made"][0] = 5.0

    compare(lambda w: put(w.table, "made", make()), change)


def test_what_is_made_in_the_first_call_is_there_in_the_next():
    """The first one is dynamic: it asks for what it has changed."""
    made = []

    @sdbr.static_graph
    def forward(x):
        if not made:
            made.append(2.0)
        return F.tanh(x) * made[0]

    with pytest.warns(sdbr.SdbrWarning, match="which it has changed"):
        forward(X)
    for i in range(8):
        if i == 4:
            made[0] = 3.0
        assert_near(forward(X).array, np.tanh(X) * made[0], RESULTS, f"call {i}")
    assert forward.schedule_manager.statistics.replays == 6


@pytest.mark.parametrize("case", READ)
def test_what_a_call_reads(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        assert compare(*READ[case]) >= 4
