"""Events of followed code: all of them, in order, of one thread; and everything is given back."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import types
import weakref

from sdbr.trace.watch._events import Events
from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.watching import watch

import pytest

MONITORED = sys.version_info >= (3, 12)
HERE = __file__
pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


class Watch(Events):
    """Follows functions by their names; keeps events, and fails in the handler that is named."""

    def __init__(self, *names, fail=None):
        self.names, self.fail = names, fail
        self.asked, self.log, self.depth, self.n_steps = [], [], 0, {}

    def note(self, what, frame, *more):
        if self.fail == what:
            raise ArithmeticError(what)
        self.log.append((what, frame.f_code.co_name, *more))
        return 0

    def follows(self, code):
        if self.fail == "follows":
            raise ArithmeticError("follows")
        self.asked.append(code)
        return code.co_filename == HERE and code.co_name in self.names

    def entered(self, frame):
        self.depth += 1
        return self.note("entered", frame)

    def instruction(self, frame, offset):
        if self.fail == "instruction":
            raise ArithmeticError("instruction")
        name = frame.f_code.co_name
        self.n_steps[name] = self.n_steps.get(name, 0) + 1
        return 0

    def left(self, frame, value):
        self.depth -= 1
        return self.note("left", frame, value)

    def raised(self, frame, error):
        return self.note("raised", frame, type(error))

    def unwound(self, frame):
        self.depth -= 1
        return self.note("unwound", frame)

    def __enter__(self):
        assert self.start() is None
        return self

    def __exit__(self, *error):
        self.reason = self.stop()
        assert_nothing_is_set()


def assert_nothing_is_set():
    assert sys.gettrace() is None
    if MONITORED:
        assert [sys.monitoring.get_tool(i) for i in (3, 4, 5)] == [None] * 3
        assert [sys.monitoring.get_events(i) for i in (3, 4, 5)] == [0] * 3


def double(x):
    return x * 2


def fail(x):
    raise KeyError(x)


def caller():
    a = double(1)
    try:
        fail(a)
    except KeyError:
        return double(a)


def numbers(n):
    for i in range(n):
        try:
            got = yield i
        except ValueError:
            got = None
        if got:
            return got


def test_events_come_in_order():
    with Watch("caller", "double", "fail") as watch:
        assert caller() == 4
    assert watch.log == [
        ("entered", "caller"),
        ("entered", "double"),
        ("left", "double", 2),
        ("entered", "fail"),
        ("raised", "fail", KeyError),
        ("unwound", "fail"),
        ("raised", "caller", KeyError),
        ("entered", "double"),
        ("left", "double", 4),
        ("left", "caller", 4),
    ]
    assert watch.reason is None
    assert watch.n_steps["double"] == 2 * 4 - (sys.version_info >= (3, 14)) * 2


def test_code_that_is_not_followed_has_no_events_and_is_asked_for_once():
    with Watch("double") as watch:
        caller()
        caller()
    assert {name for _, name, *_ in watch.log} == set(watch.n_steps) == {"double"}
    assert [watch.asked.count(f.__code__) for f in (caller, double, fail)] == [1] * 3


def test_followed_code_below_code_that_is_not():
    with Watch("caller", "fail") as watch:
        assert sorted([3], key=lambda x: caller()) == [3]
    assert [x[:2] for x in watch.log][:2] == [("entered", "caller"), ("entered", "fail")]
    assert watch.depth == 0


def test_equal_code_objects_are_told_apart():
    ours, other = (
        compile("def same(): return 1", name, "exec").co_consts[0] for name in (HERE, "other")
    )
    with Watch("same") as watch:
        for code in (other, ours, other):
            assert types.FunctionType(code, {})() == 1
    assert len(watch.log) == 2


def test_recursion():
    def down(n):
        return n and 1 + down(n - 1)

    with Watch("down") as watch:
        assert down(50) == 50
    assert [x[2] for x in watch.log if x[0] == "left"] == list(range(51))
    assert watch.depth == 0


def test_a_frame_that_was_there_before_is_not_followed():
    watch = Watch("outer")

    def outer(n):
        if n:
            watch.start()
            outer(0)
            x = n + 1
            watch.stop()
            return x
        return 7

    assert outer(1) == 2
    assert watch.log == [("entered", "outer"), ("left", "outer", 7)]
    first = watch.n_steps["outer"]
    with watch:
        outer(0)
    assert watch.n_steps["outer"] == 2 * first  # each time the same instructions


def test_the_watch_ends_in_a_followed_frame():
    watch = Watch("inner")

    def inner():
        watch.stop()
        return 1

    watch.start()
    assert inner() == 1
    assert watch.log == [("entered", "inner")]
    assert_nothing_is_set()


def test_generators_take_turns():
    with Watch("numbers") as watch:
        a, b = numbers(3), numbers(3)
        found = [next(a), next(b), next(a), a.throw(ValueError), b.send(None)]
        with pytest.raises(StopIteration):
            b.send(9)
        a.close()
    assert found == [0, 0, 1, 2, 1]
    values = [x[2] for x in watch.log if x[0] == "left"]
    assert values == [0, 0, 1, 2, 1, 9]
    assert [x[2] for x in watch.log if x[0] == "raised"][:1] == [ValueError]
    assert watch.depth == 0


def test_a_generator_that_began_before_is_followed_when_it_goes_on():
    a = numbers(3)
    next(a)
    with Watch("numbers") as watch:
        next(a)
    assert watch.log == [("entered", "numbers"), ("left", "numbers", 1)]
    assert watch.n_steps["numbers"] > 5
    assert not a.gi_frame.f_trace_opcodes
    assert list(a) == [2]


def test_coroutines():
    async def main():
        return await asyncio.gather(one(1), one(2))

    async def one(x):
        await asyncio.sleep(0)
        async with asyncio.Lock():
            return [y async for y in each(x)]

    async def each(x):
        yield x
        await asyncio.sleep(0)
        yield -x

    with Watch("main", "one", "each") as watch:
        assert asyncio.run(main()) == [[1, -1], [2, -2]]
    assert ("left", "main", [[1, -1], [2, -2]]) in watch.log
    assert watch.depth == 0
    assert all(watch.n_steps[name] > 5 for name in ("main", "one", "each"))


def test_other_threads_are_not_seen():
    def work():
        return double(3)

    with Watch("double", "work") as watch:
        thread = threading.Thread(target=work)
        thread.start()
        double(1)
        thread.join()
    assert watch.log == [("entered", "double"), ("left", "double", 2)]


def test_only_the_thread_that_began_ends_it():
    watch = Watch("double")
    errors = []

    def end():
        with pytest.raises(RuntimeError, match="thread") as caught:
            watch.stop()
        errors.append(caught.value)

    with watch:
        with pytest.raises(RuntimeError, match="already"):
            watch.start()
        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        double(1)
    assert len(errors) == 1 and len(watch.log) == 2
    assert watch.stop() is None


@pytest.mark.parametrize(
    "handler", ("follows", "entered", "instruction", "left", "raised", "unwound")
)
def test_an_error_in_a_handler_ends_the_watch_and_not_the_program(handler):
    watch = Watch("caller", "double", "fail", fail=handler)
    watch.start()
    assert [caller(), caller()] == [4, 4]
    with pytest.raises(ArithmeticError, match=handler):
        watch.stop()
    assert_nothing_is_set()
    watch.fail, watch.log = None, []
    with watch:
        caller()
    assert len(watch.log) == 10


def test_errors_of_the_program_are_its_own():
    with pytest.raises(KeyError, match="5"), Watch("fail") as watch:
        fail(5)
    assert [x[0] for x in watch.log] == ["entered", "raised", "unwound"]


def test_frames_die_as_without_a_watch():
    class Thing:
        pass

    refs = []

    def makes():
        thing = Thing()
        refs.append(weakref.ref(thing))
        return len(refs)

    gc.disable()
    try:
        with Watch("makes"):
            makes()
            assert refs[0]() is None
    finally:
        gc.enable()


def test_nothing_keeps_a_watch_that_has_ended():
    watch = Watch("caller", "double", "fail")
    ref = weakref.ref(watch)
    with watch:
        caller()
    del watch
    gc.collect()
    assert ref() is None


def test_two_threads_watch_at_once():
    logs, meet = {}, threading.Barrier(2, timeout=60)

    def work(n):
        watch = Watch("double")
        assert watch.start() is None
        meet.wait()
        for i in range(50):
            double(n + i)
        meet.wait()
        assert watch.stop() is None
        logs[n] = [x[2] for x in watch.log if x[0] == "left"]

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert logs == {n: [2 * (n + i) for i in range(50)] for n in (0, 1000)}
    assert_nothing_is_set()


def test_who_is_there_already_is_named():
    watch = Watch("double")

    def other(frame, event, arg):
        return None

    if MONITORED:
        for tool in (3, 4, 5):
            sys.monitoring.use_tool_id(tool, f"tool{tool}")
    else:
        sys.settrace(other)
    try:
        reason = watch.start()
        double(1)
    finally:
        if MONITORED:
            for tool in (3, 4, 5):
                sys.monitoring.free_tool_id(tool)
        else:
            assert sys.gettrace() is other
            sys.settrace(None)
    assert ("tool3" if MONITORED else "other") in reason
    assert watch.stop() is None and not watch.log


def test_a_second_watch():
    with Watch("double") as watch:
        second = Watch("double")
        reason = second.start()
        double(1)
        second.stop()
        double(2)
    assert len(watch.log) == 4
    assert (reason is None) == MONITORED
    assert len(second.log) == (2 if MONITORED else 0)


@pytest.mark.parametrize("put_back", (False, True))
def test_code_that_sets_a_trace_function_of_its_own(put_back):
    def own(frame, event, arg):
        return None

    def program():
        before = sys.gettrace()
        sys.settrace(own)
        double(1)
        sys.settrace(before if put_back else None)
        double(2)
        return 3

    watch = Watch("double")
    watch.start()
    assert program() == 3
    reason = watch.stop()
    assert_nothing_is_set()
    if MONITORED:  # does not meet trace functions
        assert reason is None and len(watch.log) == 4
    else:
        assert "trace function" in reason


@pytest.mark.skipif(MONITORED, reason="trace functions are not ours")
def test_a_trace_function_of_the_code_stays():
    def own(frame, event, arg):
        return None

    watch = Watch("double")
    watch.start()
    sys.settrace(own)
    reason = watch.stop()
    assert sys.gettrace() is own and "trace function" in reason


@pytest.mark.skipif(MONITORED, reason="trace functions are not ours")
def test_frames_are_given_back_to_a_trace_function_of_the_code():
    """A debugger knows nothing of events of single instructions."""
    events = set()

    def own(frame, event, arg):
        events.add(event)
        return own

    def program():
        sys._getframe().f_trace = own
        sys.settrace(own)
        n = 1
        sys.settrace(None)
        return n

    _, reads = watch(program)
    assert events == {"line", "return"} or events == {"line"}
    assert any("trace function" in text for text, _ in reads.dynamic)
    assert_nothing_is_set()


COLLECTED = """
import gc, threading
import sdbr
from sdbr.trace.watch.watching import watch

inside, go = threading.Event(), threading.Event()

class Last:
    def __del__(self):
        inside.set()
        go.wait(60)

def collect():
    last = Last()
    last.itself = last
    del last
    gc.collect(0)

def program():
    thread.start()
    inside.wait(60)
    n = sum(len(x) for x in [[i] for i in range(100)])
    go.set()
    thread.join(60)
    return n

thread = threading.Thread(target=collect)
assert watch(program)[0] == 100
"""


def test_a_collection_in_another_thread():
    """While it runs, objects lie in other lists. In a process of its own, which might not end."""
    done = subprocess.run([sys.executable, "-c", COLLECTED], timeout=120, check=False)
    assert done.returncode == 0


def test_pauses():
    with Watch("double") as watch:
        double(1)
        watch.pause()
        watch.pause()
        assert sys.gettrace() is None  # with one, Python runs slower
        double(2)
        watch.go_on()
        double(3)
        watch.go_on()
        double(4)
    assert [x[2] for x in watch.log if x[0] == "left"] == [2, 8]
    assert_nothing_is_set()


def test_an_end_in_a_pause():
    watch = Watch("double")
    watch.start()
    watch.pause()
    assert watch.stop() is None
    assert_nothing_is_set()
    with watch:
        double(1)
    assert len(watch.log) == 2


@pytest.mark.skipif(MONITORED, reason="trace functions are not ours")
def test_a_trace_function_that_is_set_in_a_pause_stays():
    def own(frame, event, arg):
        return None

    watch = Watch("double")
    watch.start()
    watch.pause()
    sys.settrace(own)
    watch.go_on()
    reason = watch.stop()
    assert sys.gettrace() is own and "trace function" in reason


@pytest.mark.skipif(not MONITORED, reason="needs sys.monitoring")
@pytest.mark.parametrize("how", ("events", "callback", "tool"))
def test_events_that_the_code_takes_away(how):
    watch = Watch("double")
    watch.start()
    tool = next(i for i in (3, 4, 5) if sys.monitoring.get_tool(i) == "sdbr")
    if how == "events":
        sys.monitoring.set_events(tool, 0)
    elif how == "callback":
        sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, None)
    else:
        sys.monitoring.free_tool_id(tool)
    double(1)
    assert "sys.monitoring" in watch.stop()
    assert_nothing_is_set()
    watch.log = []
    with watch:
        double(1)
    assert len(watch.log) == 2
