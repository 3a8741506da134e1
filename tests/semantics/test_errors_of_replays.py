"""Row 20: an error in a replay leaves behind what it leaves in define-by-run, and is that error."""

from __future__ import annotations

import traceback

import sdbr
from sdbr.call.step import whole
from sdbr.schedule.step import StepPlan

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import reporter

from tests.harness.twins import counts
from tests.tolerances import RESULTS

SINGULAR = np.zeros((3, 3), "f")


def regular(i: int) -> np.ndarray:
    return np.eye(3, dtype="f") * (i + 1)


class Counts(chainer.Chain):
    """Writes numbers, arrays, Variables and lists before what may raise, and after it."""

    def __init__(self):
        super().__init__()
        self.n, self.after, self.log = 0, 0, []
        self.h = self.array = None
        with self.init_scope():
            self.scale = chainer.Parameter(np.ones((3, 3), "f"))

    def forward(self, x):
        self.n += 1
        self.h = self.scale * x
        self.array = np.exp(x.array)
        self.log.append(F.sum(x))
        chainer.report({"n": F.sum(x)}, self)
        inverse = np.linalg.inv(x.array)
        self.after += 1
        return F.sum(self.h * inverse)

    def seen(self):
        return (
            self.n, self.after, self.h.array, self.array, [float(x.array) for x in self.log],
        )  # fmt: skip


class Drops(chainer.Chain):
    """Draws, and takes statistics in, before what may raise."""

    def __init__(self):
        super().__init__()
        self.n = 0
        with self.init_scope():
            self.bn = L.BatchNormalization(3)

    def forward(self, x):
        self.n += 1
        h = F.dropout(self.bn(x), 0.5)
        return F.sum(h) + F.sum(h) * np.linalg.inv(x.array).sum()

    def seen(self):
        return self.n, self.bn.avg_mean, self.bn.avg_var, np.random.rand()


TOLD: list = []


@sdbr.static_code
def tell(x):
    TOLD.append(float(x.sum()))
    if not x.any():
        raise ValueError("nothing is there")


class Tells(Counts):
    """An error of code that runs in each call: once."""

    def forward(self, x):
        self.n += 1
        self.h = self.scale * x
        self.array = np.exp(x.array)
        self.log.append(F.sum(x))
        tell(x.array)
        self.after += 1
        return F.sum(self.h)


class Refuses(chainer.FunctionNode):
    """Raises, and counts its runs."""

    n = 0

    def forward(self, inputs):
        Refuses.n += 1
        if not inputs[0].any():
            raise ValueError("nothing is there")
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        return (gys[0] * 2,)


class OwnNode(Counts):
    """An error of a function node of the user's own: it runs once."""

    def forward(self, x):
        self.n += 1
        self.h = self.scale * x
        self.array = np.exp(x.array)
        self.log.append(F.sum(x))
        y = Refuses().apply((self.h,))[0]
        self.after += 1
        return F.sum(y)


OUTSIDE = 100 * np.eye(3, dtype="f")[::-1]  # an index is out of range
CASES = {
    "numbers, arrays, lists": (Counts, SINGULAR),
    "draws and statistics": (Drops, SINGULAR),
    "static_code": (Tells, SINGULAR),
    "an own node": (OwnNode, SINGULAR),
}


def trail(case: str, static: bool, step: bool, wrong: tuple = (4, 7)):
    """What a user sees of ten calls, and of the errors among them."""
    np.random.seed(0)
    TOLD.clear()
    Refuses.n = 0
    kind, bad = CASES[case]
    model = kind()
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    if static:
        model = sdbr.static_graph(model)
        optimizer = sdbr.static_optimizer(optimizer) if step else optimizer
    found = []
    observer = reporter.Reporter()
    observer.add_observer("net", model)
    for i in range(10):
        x = chainer.Variable(bad.copy() if i in wrong else regular(i))
        observed: dict = {}
        text = ""
        with observer.scope(observed):
            try:
                if step:
                    optimizer.update(model, x)
                else:
                    model(x).backward()
            except (np.linalg.LinAlgError, IndexError, ValueError) as error:
                text = f"{type(error).__name__}: {error}".partition("\n")[0]  # before 3.11: notes
        found.append((
            text, model.seen(), sorted(observed), [p.array.copy() for p in model.params()],
            [p.grad is None for p in model.params()], optimizer.t, list(TOLD), Refuses.n,
        ))  # fmt: skip
    return found, model


@pytest.mark.parametrize("step", [False, True], ids=["calls", "whole steps"])
@pytest.mark.parametrize("case", CASES)
def test_an_error_leaves_behind_what_define_by_run_leaves(case, step):
    want, _ = trail(case, False, step)
    got, model = trail(case, True, step)
    assert [x[0] for x in want if x[0]] != []
    for a, b in zip(got, want, strict=True):
        assert_same(a, b)
    assert counts(model)[1] >= 6


def drawn_by_python(x):
    """Normal draws come in pairs: one is kept beside the words of the generator."""
    return F.sum(F.gaussian(x, x * 0)) * np.linalg.inv(x.array).sum()


def drawn_before_an_index(x):
    h = F.dropout(x, 0.5)
    return F.sum(h[np.arange(3), 3 * (x.array[:, 0] > 99)])


def drawn_by_numpy_before_an_index(x):
    h = x + np.random.rand(3, 3).astype("f")
    return F.sum(h[np.arange(3), 3 * (x.array[:, 0] > 99)])


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (drawn_by_python, SINGULAR),
        (drawn_before_an_index, OUTSIDE),
        (drawn_by_numpy_before_an_index, OUTSIDE),
    ],
)
def test_what_cannot_be_taken_back_is_not_done_twice(function, bad):
    """The error is that of the replay then."""
    seen = []
    for call in (function, sdbr.static_graph(function)):
        np.random.seed(0)
        found = []
        for i in range(6):
            try:
                found.append(call(chainer.Variable(bad if i == 4 else regular(i))).array)
            except (np.linalg.LinAlgError, IndexError) as error:
                found.append(type(error).__name__)
            found.append(np.random.randn(3))
        seen.append(found)
    assert_same(seen[1], seen[0])
    assert counts(call)[1] == 4


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("step", [False, True], ids=["calls", "whole steps"])
def test_an_error_comes_out_of_nothing_but_the_call(step, audit):
    model = sdbr.static_graph(Counts())
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1).setup(model))
    with chainer.using_config("sdbr_audit", audit):
        for i in range(6):
            x = chainer.Variable(SINGULAR if i == 4 else regular(i))
            try:
                optimizer.update(model, x) if step else model(x)
            except np.linalg.LinAlgError as error:
                assert error.__context__ is error.__cause__ is None
                last = traceback.extract_tb(error.__traceback__)
                assert any(frame.filename == __file__ and frame.name == "forward" for frame in last)
                break
        else:
            raise AssertionError("nothing was raised")
    assert counts(model)[1] >= 2


def test_only_what_comes_before_the_last_op_that_may_raise_is_kept(monkeypatch):
    """No parameters: an update comes after all that the call may catch."""
    plans = []
    monkeypatch.setattr(
        whole, "StepPlan", lambda *given: plans.append(StepPlan(*given)) or plans[0]
    )

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.first, self.embed = L.Linear(3, 3), L.EmbedID(3, 3)

        def forward(self, x):
            h = self.first(x)
            try:
                return F.sum(F.space2depth(F.reshape(h, (1, 1, 3, 3)), 3) ** 2) + F.sum(
                    self.embed(F.argmax(x, axis=1).array)
                )
            except IndexError:
                return F.sum(h)

    model = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01).setup(model))
    for i in range(3):
        optimizer.update(model, chainer.Variable(regular(i)))
    [plan] = plans
    assert plan.taken_back.caught
    assert plan.taken_back[:3] == ((), False, False)


def assert_same(a, b) -> None:
    if isinstance(b, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(b, (np.ndarray, float)):
        np.testing.assert_allclose(a, b, rtol=RESULTS, atol=RESULTS)
    else:
        assert a == b
