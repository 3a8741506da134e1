"""The plan of a check over long times, in several threads, and whatever happens."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import threading
import types

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.watching import watch

import chainer
import pytest

from .models import MODELS
from .outside import Thing
from .plans import FUNCTIONS, Plain, agrees, planned

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def functions_are_let_go():
    yield
    FUNCTIONS.clear()


# --- for long -----------------------------------------------------------------------------------
def test_memory_does_not_grow():
    model, arguments = MODELS["mlp"]()
    args = arguments()
    model(*args)
    _, reads = watch(model, args)
    thing = Thing(k=2.5)
    more = planned(lambda: thing.k)
    reads.check(args, {})
    gc.collect()
    references = sys.getrefcount(args[0]), sys.getrefcount(model.predictor)
    before = sys.getallocatedblocks()
    for i in range(100_000):
        assert reads.check(args, {}) is None
        if i % 10 == 0:
            thing.k = float("2.5")
            assert more.check((), {}) is None
    gc.collect()
    assert abs(sys.getallocatedblocks() - before) < 500
    assert references == (sys.getrefcount(args[0]), sys.getrefcount(model.predictor))


def test_another_thread_writes():
    thing = Thing(k=2.0, inner=Thing(k=1.0), table={"a": Thing(k=1.0)}, numbers=[Thing(k=1.0)])
    local, stop, plain = threading.local(), threading.Event(), Plain()
    plain.k = 1.0

    def f():
        one = plain.k + thing.k + thing.inner.k + thing.table["a"].k + thing.numbers[0].k
        return one + len(chainer.config.use_ideep) + hasattr(local, "k")

    reads = planned(f)

    def write():
        numbers = itertools.count()
        while not stop.is_set():
            thing.inner = Thing(k=1.0)
            thing.table = {"a": Thing(k=1.0)}
            thing.numbers[0] = Thing(k=1.0)
            thing.n = next(numbers)
            Thing.n = thing.n
            plain.__dict__ = dict(plain.__dict__)
            assert reads.check((), {}) is None

    others = [threading.Thread(target=write) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for other in others:
            other.start()
        for _ in range(20_000):
            assert reads.check((), {}) is None
    finally:
        stop.set()
        for other in others:
            other.join()
        sys.setswitchinterval(before)
        del Thing.n
    assert agrees(reads) == "None"
    thing.inner = Thing(k=2.0)
    assert agrees(reads) == "thing.inner.k"


def test_own_state_of_threads():
    local = threading.local()
    local.k = 2.0
    reads = planned(lambda: local.k)
    assert agrees(reads) == "None"
    found = []

    def other(k):
        local.k = k
        found.append(agrees(reads))

    for k in (3.0, 2.0, 3.0):
        thread = threading.Thread(target=other, args=(k,))
        thread.start()
        thread.join()
        assert agrees(reads) == "None"
    assert found == ["local.k", "None", "local.k"]


class Base:
    k = 1.0

    def get(self):
        return self.k


class Derived(Base):
    def get(self):
        return super().get() + self.z


class Slots:
    __slots__ = ("a", "b")


class World:
    """Objects that are read, and what may happen to them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kinds = [type(f"K{i}", (Derived,), {"k": 1.0, "z": 1.0}) for i in range(2)]
        self.things = [self.make() for _ in range(3)]
        self.slots = Slots()
        self.slots.a, self.slots.b = 1.0, Thing(k=1.0)
        self.table = {"a": 1.0, 2: self.make(), "list": [1.0, self.make()]}
        self.module = types.ModuleType("module")
        self.module.thing = self.make()
        self.module.f = self.function()
        self.cell = self.make()

    def make(self):
        thing = self.random.choice(self.kinds)()
        thing.w = self.number()
        thing.inner = Thing(k=self.number(), next=None)
        return thing

    def number(self):
        return float(f"{self.random.choice([1, 1, 1, 1, 2])}.0")

    def function(self):
        number = self.number()

        def f(x, k=number):
            return x * k

        return f

    def reader(self):
        things, slots, table, module = self.things, self.slots, self.table, self.module

        def f(x):
            for thing in things:
                x = x + thing.get() * thing.w + thing.inner.k
                if hasattr(thing, "extra"):
                    x = x + thing.extra
            x = x + slots.a + slots.b.k + table["a"] + table[2].inner.k
            x = x + table["list"][1].w + len(table["list"]) + module.thing.w
            if self.cell is module.thing:
                x = x + 1
            return module.f(x) + self.cell.w + len(table)

        return f

    def happen(self):
        """Something happens; it may matter or not."""
        r = self.random
        target = r.choice([*self.things, self.table[2], self.module.thing, self.cell])
        r.choice([
            lambda: setattr(target, "w", self.number()),
            lambda: setattr(target, "inner", Thing(k=self.number())),
            lambda: setattr(target.inner, "k", self.number()),
            lambda: setattr(target, "unread", self.number()),
            lambda: setattr(target, "__dict__", dict(target.__dict__)),
            lambda: setattr(target, "__class__", r.choice(self.kinds)),
            lambda: target.__dict__.pop("extra", None),
            lambda: setattr(target, "extra", 1.0) if r.random() < 0.3 else None,
            lambda: setattr(r.choice(self.kinds), "z", self.number()),
            lambda: setattr(r.choice(self.kinds), "unread", 1),
            lambda: setattr(Derived, "unread", 1),
            lambda: setattr(self.slots, "a", self.number()),
            lambda: setattr(self.slots, "b", Thing(k=self.number())),
            lambda: self.table.__setitem__("a", self.number()),
            lambda: self.table.__setitem__("list", [1.0, self.make()]),
            lambda: self.table["list"].__setitem__(1, self.make()),
            lambda: self.table.__setitem__(2, self.make()),
            lambda: self.things.__setitem__(r.randrange(3), self.make()),
            lambda: setattr(self.module, "thing", self.make()),
            lambda: setattr(self.module, "f", self.module.f),
            lambda: setattr(self.module.f, "__defaults__", self.module.f.__defaults__),
            lambda: setattr(self, "cell", r.choice([self.make(), self.cell])),
            lambda: gc.collect(1),  # of all would take most of the time among other tests
        ])()  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_agrees_whatever_happens(seed):
    world = World(seed)
    f = world.reader()
    held = 0
    for _ in range(25):
        _, reads = watch(f, (1.0,))
        assert not reads.dynamic
        reads.check((1.0,), {})
        for _ in range(60):
            world.happen()
            held += agrees(reads, (1.0,)) == "None"
            kept = {k: world.random.choice([1.0, 2.0]) for k in "ab"}  # noqa: F841
    assert held > 40
