"""What is compared of the things that a call reads from outside."""

from __future__ import annotations

import collections
import functools
import operator
import os
import sys
import types

import sdbr
from sdbr.trace.watch.fingerprints import deep

import chainer
import numpy as np
import pytest
from chainer import functions as F

X = np.arange(-4, 8, dtype="f").reshape(3, 4)
NAN = float("nan")


class Number(int):
    pass


class Holder:
    def __init__(self, **things):
        self.__dict__.update(things)


def counts(static):
    s = static.schedule_manager.statistics
    return s.traces, s.replays


def not_compared(static) -> list[str]:
    lines = str(sdbr.explain(static)).splitlines()
    return [line.strip() for line in lines if "not compared before replays" in line]


# --- numbers and texts ---------------------------------------------------------------------------
APART = [
    (0.0, -0.0), (1, True), (0, False), (1, 1.0), (1.0, np.float64(1)),
    (np.float32(1), np.float64(1)), (np.float32(0), np.float32(-0.0)),
    (complex(0.0, 0.0), complex(-0.0, 0.0)), (complex(NAN, 0), complex(0, NAN)), (1.0, NAN),
    ("1", 1), ("a", b"a"), (1, Number(1)), (None, 0), (2**70, 2**70 + 1),
]  # fmt: skip
ALIKE = [
    (NAN, -NAN), (1.5, float("1.5")), (2**70, int(str(2**70))), ("ab" * 9, "".join(["ab"] * 9)),
    (np.float32(0.5), np.float32(0.5)), (complex(1, NAN), complex(1, NAN)), (Number(3), Number(3)),
    (b"ab" * 9, bytes(bytearray(b"ab" * 9))),
]  # fmt: skip
HOLDERS = {
    "list": lambda x: [3, x],
    "tuple": lambda x: (x,),
    "deque": lambda x: collections.deque([x]),
    "dict": lambda x: {"a": 1, "b": x},
    "long list": lambda x: [*range(100), x],
    "long dict": lambda x: {**dict.fromkeys(range(100), 1), "b": x},
    "in a list in a dict": lambda x: {"a": [[x]]},
    "mapping proxy": lambda x: types.MappingProxyType({"a": x}),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_numbers_are_told_apart_as_their_texts_are(holder):
    make = HOLDERS[holder]
    for one, other in APART:
        assert deep(make(one)) != deep(make(other)), (one, other)
    for one, other in ALIKE:
        assert deep(make(one)) == deep(make(other)), (one, other)


@pytest.mark.parametrize("now", [-0.0, NAN, 2.0, 1], ids=repr)
def test_a_replay_sees_another_number(now):
    options = {"a": [0.0], "b": Holder(c=0.0)}
    plain = lambda x: F.identity(x) * (options["a"][0] + 1) * options["b"].c  # noqa: E731
    static = sdbr.static_graph(plain)
    for i in range(9):
        if i == 3:
            options["a"][0] = now
        if i == 6:
            options["b"].c = now
        with np.errstate(all="ignore"):
            got, want = static(X + i).array, plain(X + i).array
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert counts(static)[1] >= 3


# --- attributes that no code names ---------------------------------------------------------------
def test_what_the_call_does_not_name_is_not_compared():
    settings = Holder(scale=2.0, history=[], model={"a": [1]})
    static = sdbr.static_graph(lambda x: F.relu(x) * settings.scale)
    for i in range(6):
        settings.history.append([i])
        settings.model["a"].append(i)
        settings.counter = i
        np.testing.assert_array_equal(static(X + i).array, np.maximum(X + i, 0) * 2)
    assert counts(static) == (1, 5) and not not_compared(static)
    settings.scale = 3.0
    np.testing.assert_array_equal(static(X).array, np.maximum(X, 0) * 3)


def test_an_object_in_an_attribute_of_a_chain():
    class Scaled(chainer.Chain):
        def __init__(self, agent):
            super().__init__()
            self.agent = agent

        def forward(self, x):
            return F.relu(x) * self.agent.gamma

    agent = Holder(gamma=2.0, buffer=collections.deque(maxlen=3))
    static = sdbr.static_graph(Scaled(agent))
    for i in range(6):
        agent.buffer.append((np.zeros(2), i))
        agent.gamma = 2.0 + i // 3
        np.testing.assert_array_equal(static(X + i).array, np.maximum(X + i, 0) * agent.gamma)
    assert counts(static) == (2, 4)


def test_an_attribute_that_is_named_and_comes_to_be_later():
    class Optional:
        scale = 2.0

    settings = Optional()
    settings.other = 1.0
    static = sdbr.static_graph(lambda x: F.relu(x) * settings.scale)
    for i in range(8):
        if i == 3:
            settings.scale = 3.0
        if i == 6:
            del settings.scale
        want = np.maximum(X + i, 0) * settings.scale
        np.testing.assert_array_equal(static(X + i).array, want)
    assert counts(static)[1] >= 4


class Slotted:
    __slots__ = ("history", "scale")

    def __init__(self, scale):
        self.scale = scale
        self.history = []


class Behind(Holder):
    scale = property(operator.attrgetter("hidden"))


class Asking(Holder):
    def __getattr__(self, name):
        return self.__dict__["hid" + "den"]


class Private(Holder):
    def __init__(self, hidden):
        self.__hidden = hidden

    def set(self, hidden):
        self.__hidden = hidden

    def get(self):
        return self.__hidden


def _set_hidden(thing, value):
    thing.hidden = value


def _set_scale(thing, value):
    thing.scale = value


WAYS = {
    "a computed name": (Holder, "hidden", lambda o: getattr(o, "hid" + "den")),
    "vars": (Holder, "hidden", lambda o: vars(o)["hid" + "den"]),
    "all of them": (Holder, "hidden", lambda o: sum(o.__dict__.values())),
    "a property of compiled code": (Behind, "hidden", lambda o: o.scale),
    "__getattr__": (Asking, "hidden", lambda o: o.scale),
    "a text": (Holder, "hidden", lambda o: float("{0.hidden}".format(o))),  # noqa: UP030, UP032
    "slots": (Slotted, "scale", lambda o: o.scale),
    "a part of getattr": (Holder, "hidden", functools.partial(getattr)),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_read_an_attribute(way):
    cls, name, read = WAYS[way]
    thing = cls(2.0) if cls is Slotted else cls(**{name: 2.0})
    if way == "a part of getattr":
        found = functools.partial(getattr, thing, "hid" + "den")
        plain = lambda x: F.relu(x) * found()  # noqa: E731
    else:
        plain = lambda x: F.relu(x) * read(thing)  # noqa: E731
    static = sdbr.static_graph(plain)
    for i in range(6):
        setattr(thing, name, 2.0 + i // 3)
        np.testing.assert_array_equal(static(X + i).array, plain(X + i).array)
        assert thing is not None


def test_a_private_attribute():
    thing = Private(2.0)
    static = sdbr.static_graph(lambda x: F.relu(x) * thing.get())
    for i in range(6):
        thing.set(2.0 + i // 3)
        np.testing.assert_array_equal(static(X + i).array, np.maximum(X + i, 0) * (2.0 + i // 3))
    assert counts(static) == (2, 4)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="no such statement")
def test_an_attribute_that_a_pattern_names():
    names: dict = {"__name__": __name__, "Holder": Holder, "F": F, "thing": Holder(hidden=2.0)}
    exec(
        "def plain(x):\n"
        "    match thing:\n"
        "        case Holder(hidden=scale):\n"
        "            return F.relu(x) * scale\n",
        names,
    )
    static = sdbr.static_graph(names["plain"])
    for i in range(6):
        names["thing"].hidden = 2.0 + i // 3
        np.testing.assert_array_equal(static(X + i).array, names["plain"](X + i).array)
    assert counts(static) == (2, 4)


# --- what is large -------------------------------------------------------------------------------
def test_a_large_dictionary():
    """A change of an entry is seen as well."""
    words = {f"word {i}": i for i in range(50_000)}
    static = sdbr.static_graph(lambda x: F.relu(x) * float(len(words)) + words["word 7"])
    for i in range(9):
        if i == 3:
            words["another"] = 1
        if i == 6:
            words["word 7"] = 8
        want = np.maximum(X + i, 0) * float(len(words)) + words["word 7"]
        np.testing.assert_array_equal(static(X + i).array, want)
    assert counts(static)[1] >= 5
    assert not not_compared(static)


def test_a_long_deque_is_compared_by_its_length():
    buffer = collections.deque([(np.zeros(2), i) for i in range(1000)], 2000)
    static = sdbr.static_graph(lambda x: F.relu(x) * float(len(buffer)))
    for i in range(6):
        if i < 3:
            buffer.rotate()
        else:
            buffer.append((np.zeros(2), i))
        np.testing.assert_array_equal(static(X + i).array, np.maximum(X + i, 0) * len(buffer))
    assert counts(static)[1] == 2


def test_a_large_array_outside():
    tables = {"rows": np.ones((1 << 15, 4), "f"), "few": np.ones(4, "f")}
    static = sdbr.static_graph(lambda x: F.relu(x) * tables["rows"][3] + tables["few"])
    for i in range(8):
        if i == 3:
            tables["few"][1] = 2
        if i == 5:
            tables["rows"][...] = 3
        if i == 7:
            tables["rows"] = np.full((1 << 15, 4), 4, "f")
        want = np.maximum(X + i, 0) * tables["rows"][3] + tables["few"]
        np.testing.assert_array_equal(static(X + i).array, want)
    assert counts(static)[1] >= 2


@pytest.mark.parametrize("make", [lambda: [[0] for _ in range(1000)], lambda: np.zeros(1 << 16)])
def test_what_the_call_writes_into_something_large(make):
    """The traced call is looked at in full: such a write is no part of any replay."""
    state = {"log": make(), "at": np.arange(9)}

    def writes(x):
        state["log"][17 + int(state["at"][0])] = 5
        return F.relu(x)

    static = sdbr.static_graph(writes)
    for i in range(6):
        state["log"][17] = [0] if isinstance(state["log"], list) else 0
        static(X + i)
        assert state["log"][17] == 5, i


# --- the environment -----------------------------------------------------------------------------
READERS = {
    "item": lambda: os.environ["SDBR_TEST_SCALE"],
    "get": lambda: os.environ.get("SDBR_TEST_SCALE", "7"),
    "getenv": lambda: os.getenv("SDBR_TEST_SCALE", "7"),
    "in": lambda: 2 if "SDBR_TEST_SCALE" in os.environ else 3,
    "bytes": lambda: os.environb[b"SDBR_TEST_SCALE"],
    "bytes of getenv": lambda: os.getenvb(b"SDBR_TEST_SCALE", b"7"),
    "gone over": lambda: sum(float(os.environ[k]) for k in os.environ if k == "SDBR_TEST_SCALE"),
    "copied": lambda: os.environ.copy().get("SDBR_TEST_SCALE", "7"),
    "as a dict": lambda: dict(os.environ).get("SDBR_TEST_SCALE", "7"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_variables_of_the_environment(read, monkeypatch):
    monkeypatch.setenv("SDBR_TEST_SCALE", "2")
    static = sdbr.static_graph(lambda x: F.relu(x) * float(read()))
    for i in range(9):
        if i == 4:
            monkeypatch.setenv("SDBR_TEST_SCALE", "5")
        np.testing.assert_array_equal(static(X + i).array, np.maximum(X + i, 0) * float(read()))
    assert counts(static)[1] >= 5
    monkeypatch.delenv("SDBR_TEST_SCALE")
    try:
        want = float(read())
    except KeyError:
        with pytest.raises(KeyError):
            static(X)
    else:
        np.testing.assert_array_equal(static(X).array, np.maximum(X, 0) * want)


CHANGES = {
    "item": lambda: os.environ.__setitem__("SDBR_TEST_SCALE", "3"),
    "putenv": lambda: os.putenv("SDBR_TEST_UNREAD", "3"),
    "unsetenv": lambda: os.unsetenv("SDBR_TEST_UNREAD"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_the_environment(change, monkeypatch):
    """They are for other programs, too, whatever reads them here: dynamic, at the user's line."""
    monkeypatch.setenv("SDBR_TEST_SCALE", "2")

    def changes(x):
        change()
        return F.relu(x)

    static = sdbr.static_graph(changes)
    with pytest.warns(sdbr.SdbrWarning, match="test_compared.py"):
        static(X)
    assert counts(static)[1] == 0
