"""What a call reads from outside is seen, however it reads it: a change of it is found."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.watching import watch

import numpy as np
import pytest

from .models import MODELS
from .outside import PROGRAMS, Thing
from .plans import given

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.mark.parametrize("program, text", [pytest.param(p, t, id=n) for n, p, t in PROGRAMS])
def test_change_is_seen_and_nothing_else(program, text):
    steps = program()
    function = next(steps)
    _, reads = watch(function, given())
    if text.startswith("dynamic: "):
        assert any(reason.startswith(text[9:]) for reason, _ in reads.dynamic)
        steps.close()
        return
    assert not reads.dynamic
    for _ in range(3):
        assert reads.check(given(), {}) is None
    next(steps, None)
    assert str(reads.check(given(), {})).startswith(text)


@pytest.mark.parametrize("name", MODELS)
def test_ordinary_model_holds(name):
    model, arguments = MODELS[name]()
    _, reads = watch(model, arguments())
    assert not reads.dynamic
    for _ in range(5):
        args = arguments()
        assert reads.check(args, {}) is None
        model(*args)


def test_result_is_that_of_the_call():
    thing = Thing(k=2.0)
    result, reads = watch(thing.times, (3.0,))
    assert result == 6.0
    assert [str(guard) for guard in reads.guards][-1] == "self.k"


def test_error_goes_on_and_everything_is_given_back():
    before = list(gc.callbacks)
    with pytest.raises(ZeroDivisionError):
        watch(lambda x: x / 0, (1,))
    assert gc.callbacks == before and gc.isenabled() and sys.gettrace() is None


def test_arguments_are_compared():
    def f(x, k=2):
        return x * k

    _, reads = watch(f, (1.0,), {"k": 3})
    assert reads.check((1.0,), {"k": 3}) is None
    assert str(reads.check((1.0,), {"k": 4})) == "k"
    assert str(reads.check((2.0,), {"k": 3})) == "x"
    assert str(reads.check((1.0, 2.0), {})) == "the number of arguments"


def test_arrays_are_bound():
    thing = Thing(array=np.ones(3))

    def f():
        return thing.array

    _, reads = watch(f)
    thing.array = np.zeros(3)
    assert reads.check((), {}) is None
    (source,) = reads.bound
    assert str(source) == "thing.array" and source.get((), {}) is thing.array
    thing.array = np.zeros(4)
    assert str(reads.check((), {})) == "thing.array"


def test_what_the_call_has_written_is_its_own():
    thing = Thing(k=2.0)

    def f():
        thing.k = 5.0
        return thing.k

    _, reads = watch(f)
    thing.k = 3.0
    assert reads.check((), {}) is None
    assert reads.writes == ["thing: attribute 'k'"]


@pytest.mark.parametrize("delete, text", [
    (lambda thing, table: delattr(thing, "k"), "hasattr(thing, 'k')"),
    (lambda thing, table: table.__delitem__("k"), "'k' in table"),
    (lambda thing, table: table.pop("k"), "table['k']"),
])  # fmt: skip
def test_what_the_call_deletes_has_to_be_there(delete, text):
    thing, table = Thing(k=2.0), {"k": 2.0}

    def f():
        delete(thing, table)

    _, reads = watch(f)
    assert str(reads.check((), {})) == text
    thing.k = table["k"] = 2.0
    assert reads.check((), {}) is None


@pytest.mark.parametrize("function", [
    lambda things: [o.k for o in reversed(things)],
    lambda things: [o.k for i, o in enumerate(things)],
    lambda things: [o.k for o in itertools.chain(things, things)],
    lambda things: [o.k for o in itertools.chain.from_iterable([things])],
    lambda things: [o.k for o, _ in itertools.pairwise(things)],
    lambda things: sorted(things, key=lambda o: o.k)[0].k,
    lambda things: list(things).pop().k,
    lambda things: dict(zip("ab", things, strict=True))["a"].k,
    lambda things: sorted(zip("ab", things, strict=True))[0][1].k,
    lambda things: sum(map(lambda o: o.k, things)),  # noqa: C417
    lambda things: f"{Thing(k=things[0]).k.k}",
    lambda things: Told(things[0]).tell(),
])  # fmt: skip
def test_what_is_only_passed_on_is_not_compared(function):
    things = [Thing(k=1.0, n=0), Thing(k=2.0, n=0)]
    _, reads = watch(function, (things,))
    assert not reads.dynamic
    things[0].n = things[1].n = 1
    assert reads.check((things,), {}) is None
    things[0].k = things[1].k = 3.0
    assert reads.check((things,), {}) is not None


class Told:
    """Has a text of its own."""

    def __init__(self, thing):
        self.thing = thing

    def __str__(self):
        return str(self.thing.k)

    def tell(self):
        return f"{self} {[self]}"

    __repr__ = __str__


def test_draws_of_a_generator_are_named():
    state = np.random.RandomState(0)

    def f():
        return state.randint(2)

    _, reads = watch(f)
    assert reads.draws == ["randint"]
    assert reads.check((), {}) is None


def test_nothing_made_by_the_call_is_compared():
    def f():
        things = [Thing(k=i) for i in range(3)]
        table = {"a": 1, **{str(i): i for i in range(3)}}
        table["b"] = 2
        return sum(t.k for t in things) + len(table) + sum(table.values())

    _, reads = watch(f)
    assert not reads.dynamic and not reads.writes
    read = [g for g in reads.guards if g.source.kind in ("item", "constant")]
    assert all(g.kind == "definition" for g in read)


def test_collection_during_the_call():
    things = [Thing(k=2.0)]

    def f():
        made = [Thing(k=i) for i in range(3)]
        gc.collect()
        return made[0].k + things[0].k

    _, reads = watch(f)
    things[0].k = 3.0
    assert str(reads.check((), {})) == "things[0].k"


def test_code_that_the_collector_calls_is_not_followed():
    thing, seen = Thing(k=2.0), Thing(n=0)

    def told(phase, info):
        seen.n += 1

    def f():
        gc.collect()
        return thing.k

    gc.callbacks.append(told)
    try:
        _, reads = watch(f)
    finally:
        gc.callbacks.remove(told)
    assert seen.n == 2 and not reads.writes
    seen.n = 7
    assert reads.check((), {}) is None
    thing.k = 3.0
    assert str(reads.check((), {})) == "thing.k"


def test_collector_is_frozen_during_the_call():
    thing = Thing(k=2.0)

    def f():
        made = [Thing(k=i) for i in range(3)]
        gc.freeze()
        gc.unfreeze()
        return [Thing(k=thing.k) for _ in made]

    _, reads = watch(f)
    assert [text for text, _ in reads.dynamic][:1] == [
        "moves all objects out of the collector's sight"
    ]
    thing.k = 3.0
    assert reads.check((), {}) is not None


def test_other_threads_go_on():
    thing, stop = Thing(k=0.0), threading.Event()

    def count():
        while not stop.is_set():
            thing.k = sum(thing.k for _ in range(10))

    def f():
        return sum(i for i in range(20_000))

    other = threading.Thread(target=count)
    other.start()
    try:
        _, reads = watch(f)
    finally:
        stop.set()
        other.join()
    assert not reads.dynamic and not [g for g in reads.guards if "thing" in str(g)]


def test_another_tracer_is_named():
    def tracer(frame, event, arg):
        return tracer

    sys.settrace(tracer)
    try:
        _, reads = watch(lambda: 1)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    if sys.version_info < (3, 12):
        assert "tracer has the trace function" in reads.unseen
    else:
        assert reads.unseen is None


def test_guards_keep_nothing_alive():
    thing = Thing(k=2.0)
    _, reads = watch(thing.times, (3.0,))
    gone = weakref.ref(thing)
    del thing
    assert gone() is None
    assert str(reads.check((3.0,), {})) == "self"


def test_reason_names_the_line():
    numbers = iter([1, 2, 3])
    _, reads = watch(lambda: next(numbers))
    ((text, place),) = reads.dynamic
    assert text == "moves numbers, an iterator, which goes on from call to call"
    assert place.startswith(f"{__file__}:")


class Last:
    """Goes when the collector comes: its finalizer is the collector's, in the middle."""

    def __init__(self, finalizer):
        self.itself, self.finalizer = self, finalizer

    def __del__(self):
        self.finalizer()


@pytest.mark.parametrize("generation", [0, 2])
@pytest.mark.parametrize("place", ["before", "in the middle", "after"])
def test_collection_in_another_thread(place, generation):
    """What the call makes meanwhile is its own, in whichever list it lies afterwards."""
    begun, made, ended = (threading.Lock() for _ in range(3))

    def waits():
        begun.release()
        assert made.acquire(timeout=60)

    def told(phase, _):
        waits() if phase == ("start" if place == "before" else "stop") else None

    def collect():
        if place == "in the middle":
            Last(waits)
        else:
            gc.callbacks.insert(1, told)
        gc.collect(generation)
        if told in gc.callbacks:
            gc.callbacks.remove(told)
        ended.release()

    def f():
        go_on, wait = made.release, ended.acquire  # a look at a read finds what is new
        start()
        begun.acquire(True, 60)
        things = [[i] for i in range(1000)]  # more than lie where others of the call lay
        go_on()
        wait(True, 60)
        return sum(x[0] for x in things)

    for lock in (begun, made, ended):
        lock.acquire()
    thread = threading.Thread(target=collect)
    start = thread.start
    result, reads = watch(f)
    thread.join(60)
    assert not thread.is_alive() and result == 499500
    constants = [str(source) for source in reads.sources if source.kind == "constant"]
    assert constants == ["f"]
