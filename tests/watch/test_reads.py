"""What a call reads from outside is seen, however it reads it: a change of it is found."""

from __future__ import annotations

import decimal
import gc
import os
import sys
import threading
import weakref

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.watching import watch

import chainer
import numpy as np
import pytest

from .models import MODELS
from .outside import PROGRAMS, Thing

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def state_of_libraries():
    """Is as before after each test."""
    errors, options, argv = np.geterr(), np.get_printoptions(), list(sys.argv)
    with decimal.localcontext():
        yield
    np.seterr(**errors)
    np.set_printoptions(**options)
    sys.argv[:] = argv
    os.environ.pop("SDBR_TEST_OUTSIDE", None)
    vars(chainer.config._local).pop("user_k", None)


def given():
    return (chainer.Variable(np.ones((2, 2), "f")),)


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
        return thing.array + 1

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
    assert str(reads.check((), {})) == "thing.k"


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
    assert bool(reads.dynamic) == (sys.version_info < (3, 12))
    assert all("tracer has the trace function" in text for text, _ in reads.dynamic)


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
    assert text == "moves a list_iterator that others may move"
    assert place.startswith(f"{__file__}:")
