"""A signal may come at any moment: whatever it interrupts, the next calls are right.

`sys.settrace` raises `KeyboardInterrupt` before a chosen line of the library; a timer does the
same for signals during native code.
"""

from __future__ import annotations

import contextvars
import gc
import linecache
import signal
import sys
import threading

import sdbr
from sdbr.base import forks
from sdbr.trace.current import TRACES_UNDER_WAY, current
from sdbr.trace.patches import PATCHES

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import reporter

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, state_of
from tests.harness.models import MLP, Net, floats, labels
from tests.harness.threads import attempts
from tests.harness.unwatched import traced_all_the_same
from tests.tolerances import RESULTS, SUMS

X = floats(5, 4)(np.random.RandomState(0))
T = labels(3, 5)(np.random.RandomState(1))


class Interrupter:
    """Raises `KeyboardInterrupt` before the n-th line that runs in the given modules."""

    def __init__(self, n: int, modules: tuple):
        self.left = n
        self.modules = modules
        self.raised = False

    def __call__(self, frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        return self._line if name.startswith(self.modules) else None

    def _line(self, frame, event, argument):
        # Leaving a `with` counts as its line once more, and what is raised there keeps __exit__
        # from running; a signal is never handled at that point.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if event == "line" and not self.raised and not line.startswith("with "):
            self.left -= 1
            if self.left < 0:
                self.raised = True
                raise KeyboardInterrupt
        return self._line

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)


def interrupted(call, modules, step=1):
    """Interrupt `call` before every `step`-th line; yields after each time until it ends."""
    n = 0
    while n < 100_000:
        try:
            with traced_all_the_same(), Interrupter(n, modules) as interrupter:
                call()
        except KeyboardInterrupt:
            pass
        if not interrupter.raised:
            return
        yield n
        n += step


def assert_clean():
    assert current() is None
    assert not TRACES_UNDER_WAY[0]
    assert not PATCHES.active
    assert "__getattribute__" not in vars(chainer.Link)
    assert not reporter._get_reporters()
    assert gc.isenabled()
    assert not any(lock._is_owned() for lock in list(forks._locks))


def test_while_patches_come_and_go():
    """The entry to and exit from a trace, line by line."""
    points = 0

    def call():
        sdbr.static_graph(lambda x: F.relu(x) * 2)(X)

    trace = ("current", "recorder", "applies", "numpy_calls", "arrays.provenance")
    modules = ("sdbr.compat.patches", *[f"sdbr.trace.{name}" for name in trace])
    for _ in interrupted(call, modules, 7):
        points += 1
        static = sdbr.static_graph(lambda x: F.relu(x) * 2)
        for _ in range(3):
            assert_near(static(X).array, np.maximum(X, 0) * 2, 0, "output")
        assert static.schedule_manager.statistics.replays == 2
        assert_clean()
    assert points > 20


def forget(model) -> None:
    model.schedule_manager.clear()


@pytest.mark.parametrize("what", ["trace", "replay", "compiled replay"])
def test_anywhere_in_a_call(what):
    """One call in many is interrupted somewhere in the library; the next good ones are right."""
    np.random.seed(0)
    plain = L.Classifier(MLP(4, 8, 3))
    static = sdbr.static_graph(plain.copy(mode="copy"))

    def call(model=static):
        loss = model(X, T)
        model.cleargrads()
        loss.backward()
        return {n: copy_of(p.grad) for n, p in sorted(model.namedparams())}

    want = call(plain)

    def once():
        if what == "trace":
            forget(static)
        elif what == "replay":
            static.schedule_manager.runners.clear()
        if what != "trace":
            # An instance whose claim was interrupted stays taken: those are not waited for.
            static.schedule_manager.static_schedule.instances.clear()
        call()

    call(), call()
    steps = {"trace": 193, "replay": 5, "compiled replay": 3}
    points = 0
    for _ in interrupted(once, ("sdbr.",), steps[what]):
        points += 1
        for _ in range(2):
            assert_all_near(call(), want, RESULTS, "gradient")
        replays = static.schedule_manager.statistics.replays
        assert_all_near(call(), want, RESULTS, "gradient")
        assert static.schedule_manager.statistics.replays == replays + 1
        assert_clean()
    assert points > {"trace": 10, "replay": 20, "compiled replay": 5}[what]


@pytest.mark.parametrize("what", ["build", "step", "update"])
def test_anywhere_in_an_update(what):
    """Either the whole step was made or nothing: parameters, state and counts agree."""
    np.random.seed(0)
    static = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static)
    twin = L.Classifier(MLP(4, 8, 3))
    other = chainer.optimizers.Adam().setup(twin)

    def follow():
        """Make the twin what the static model is now."""
        twin.copyparams(static)
        other.t = optimizer.t
        for p, q in zip(twin.params(), static.params(), strict=True):
            rule, now = p.update_rule, q.update_rule
            rule.t = now.t
            rule._state = None
            if now.state is not None:
                rule._state = {k: copy_of(a) for k, a in now.state.items()}

    def once():
        if what == "build":
            forget(static)
            optimizer.update(static, X, T)
        elif what == "update":
            static.cleargrads()
            static(X, T).backward()
            optimizer.update()
            return
        optimizer.update(static, X, T)

    for _ in range(3):
        optimizer.update(static, X, T)
    once(), once()
    modules, step = ("sdbr.",), 1
    if what == "build":
        step = 503
    elif what == "update":
        modules = ("sdbr.optimizers", "sdbr.static_optimizer")
    points, begun = 0, {n: p.array.copy() for n, p in static.namedparams()}
    for _ in interrupted(once, modules, step):
        points += 1
        counts = {p.update_rule.t for p in static.params()}
        assert counts == {optimizer.t}
        for _ in range(3):
            follow()
            other.update(twin, X, T)
            optimizer.update(static, X, T)
            after = dict(twin.namedparams())
            for n, p in static.namedparams():
                assert_near(p.array, after[n].array, RESULTS, n)
        steps = static.schedule_manager.statistics.steps
        optimizer.update(static, X, T)
        assert static.schedule_manager.statistics.steps == steps + 1
        assert_clean()
        # Once the labels are learnt gradients are nothing but roundings, of which Adam makes steps.
        for n, p in static.namedparams():
            p.array[...] = begun[n]
    assert points > 5


# --- inside Python code of the call --------------------------------------------------------------
# Where to raise, and what. No part of the key: what a context variable holds is not compared.
BURN = contextvars.ContextVar("burn", default=(None, None))


class Fuse(chainer.FunctionNode):
    """Raises in its forward or backward when told to."""

    def forward(self, inputs):
        if BURN.get()[0] == "forward":
            raise BURN.get()[1]
        return (inputs[0] * 2,)

    def backward(self, indexes, grads):
        if BURN.get()[0] == "backward":
            raise BURN.get()[1]
        return (grads[0] * 2,)


@sdbr.static_code
def look(inputs):
    if BURN.get()[0] == "static_code":
        raise BURN.get()[1]


def guarded(self, x, t):
    h = Fuse().apply((self.l(x),))[0]
    look(inputs=[h.array])
    return F.softmax_cross_entropy(h, t)


class Hook:
    name = "fuse"
    timing = "pre"
    call_for_each_param = False

    def __call__(self, rule):
        if BURN.get()[0] == "hook":
            raise BURN.get()[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
@pytest.mark.parametrize("where", ["forward", "backward", "static_code", "hook"])
@pytest.mark.parametrize("whole_step", [True, False])
def test_in_python_code_of_a_step(where, error, whole_step, backend):
    np.random.seed(0)
    twin = Net(guarded, l=L.Linear(4, 3))
    static = sdbr.static_graph(twin.copy(mode="copy"), backend=backend)
    other = chainer.optimizers.Adam().setup(twin)
    optimizer = chainer.optimizers.Adam()
    if whole_step:
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(static)
    if where == "hook":
        for each in (optimizer, other):
            each.add_hook(Hook())
    with chainer.using_config("sdbr_backend", backend):
        for i in range(6):
            if i >= 2:
                before, t = state_of(static), optimizer.t
                burning = BURN.set((where, error("fuse")))
                with pytest.raises(error, match="fuse"):
                    optimizer.update(static, X, T)
                BURN.reset(burning)
                assert_all_near(state_of(static), before, 0, f"failed step {i}")
                assert optimizer.t == t == other.t
            for m, o in ((static, optimizer), (twin, other)):
                o.update(m, X + i, T)
            assert_all_near(state_of(static), state_of(twin), SUMS, f"step {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.traces == 1
    # A hook comes after the native part of the step.
    assert statistics.steps == whole_step * (9 if where == "hook" else 5)
    assert_clean()


@pytest.mark.alone
def test_in_native_code():
    """A signal that comes while kernels run: the step is whole or was not made.

    Where one falls hangs on the clock; wherever it does, this has to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals need the main thread")
    np.random.seed(0)
    x, t = floats(256, 128)(np.random.RandomState(0)), labels(3, 256)(np.random.RandomState(1))
    static = sdbr.static_graph(L.Classifier(MLP(128, 256, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static)
    for _ in range(3):
        optimizer.update(static, x, t)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    caught = 0
    try:
        for i in range(40):
            steps = optimizer.t
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 2e-4 * i)
                for _ in attempts("the signal is an interrupt"):
                    optimizer.update(static, x, t)
                    steps += 1
            except KeyboardInterrupt:
                caught += 1
            assert optimizer.t in (steps, steps + 1)
            assert {p.update_rule.t for p in static.params()} == {optimizer.t}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 40
    twin = L.Classifier(MLP(128, 256, 3))
    twin.copyparams(static)
    steps = static.schedule_manager.statistics.steps
    want = copy_of(twin(x, t).array)
    optimizer.update(static, x, t)
    assert static.schedule_manager.statistics.steps == steps + 1
    assert_near(copy_of(static.loss.array), want, SUMS, "loss")
    assert np.isfinite(want)
    assert_clean()
