"""Calls that differ in a size alone: built of two traces where that is sound, else traced."""

from __future__ import annotations

import operator
import threading

import sdbr
from sdbr.schedule import sizes as rules

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.sized_calls import (
    BUILT,
    HELD,
    SIZES,
    TRACED,
    Limited,
    Net,
    inputs,
    labelled,
    mlp,
    twins,
)
from tests.harness.threads import join, start
from tests.tolerances import GRADIENTS, RESULTS

pytestmark = pytest.mark.filterwarnings("ignore:::sdbr")


def run(net, args):
    """Result and gradients, or the error, of one call and its backward."""
    np.random.seed(5)
    net.cleargrads()
    try:
        y = net(*args)
    except Exception as error:
        return type(error)
    total = F.sum(y)
    if total.requires_grad:
        total.backward()
    grads = [None if p.grad is None else p.grad.copy() for p in net.params()]
    return y.array.copy(), *grads


def check(plain, static, args, note=""):
    """A call of both, compared."""
    want, got = run(plain, args), run(static, args)
    assert isinstance(want, type) == isinstance(got, type), (note, want, got)
    if isinstance(want, type):
        return
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        assert (a is None) == (b is None), note
        if a is not None:
            tolerance = GRADIENTS if i else RESULTS
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=str(note))


def sweep(make, batch=inputs, sizes=SIZES):
    """Calls of these sizes, each twice; how many were traced and built."""
    plain, static = twins(make)
    for n in sizes:
        for seed in (0, 1000):
            given = batch(n, seed)
            check(plain, static, given if isinstance(given, tuple) else (given,), (n, seed))
    for a, b in zip(plain.links(), static.links(), strict=True):
        for name in a._persistent:
            want, got = getattr(a, name), getattr(b, name)
            np.testing.assert_allclose(got, want, rtol=RESULTS, atol=RESULTS, err_msg=name)
    statistics = static.schedule_manager.statistics
    return statistics.traces, statistics.builds


# --- what is built -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", BUILT)
def test_a_third_size_is_built_of_two_traces(name):
    assert sweep(*BUILT[name]) == (2, len(SIZES) - 2)


# --- what is not, and has to be right ------------------------------------------------------------
class Behind(Net):
    """What asks is behind members of its class."""

    rows = staticmethod(len)
    count = property(lambda self: operator.length_hint)
    hint = property(operator.attrgetter("__len__"))


class Lossy(L.Classifier):
    """Chainer calls a method of the user's."""

    def __init__(self):
        super().__init__(L.Linear(4, 3))
        del self.lossfun

    def lossfun(self, y, t):
        """Twice as much for large batches."""
        return F.softmax_cross_entropy(y, t) * (2 if len(y) > 17 else 1)


class Odd(chainer.Variable):
    """A Variable of the user's."""

    def __mul__(self, other):
        return chainer.Variable.__mul__(self, other * (2 if len(self) > 17 else 1))


@pytest.mark.parametrize("name", [*TRACED, *HELD])
def test_what_asks_for_a_size_is_never_built(name):
    forward, attributes = HELD.get(name) or (TRACED[name], {})
    _, builds = sweep(lambda: Net(forward, **attributes))
    assert builds == 0


def test_a_layer_of_the_users_that_asks():
    def make():
        net = Net(lambda self, x: self.limited(x))
        with net.init_scope():
            net.limited = Limited(4, 4)
        return net

    assert sweep(make)[1] == 0


# --- sizes that are special ----------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_size_that_broadcasts_or_coincides_is_traced(n):
    """One row, none, and as many as there are features."""
    plain, static = twins(lambda: Net(lambda self, x: self.l2(F.relu(self.l1(x))) + 1))
    for size in (16, 20, 30):
        check(plain, static, (inputs(size),))
    assert static.schedule_manager.statistics.builds == 1
    check(plain, static, (inputs(n),))
    check(plain, static, (inputs(n, 7),))
    assert static.schedule_manager.statistics.builds == 1
    assert static.schedule_manager.statistics.traces == 3


def test_one_row_is_no_sample():
    traced = sweep(lambda: Net(lambda self, x: self.l1(x) + x), sizes=(1, 16, 20, 30))
    assert traced == (3, 1)


def test_two_sizes_at_once_are_traced():
    """Of images whose number and height change together nothing is known."""

    def given(n, seed):
        return np.random.RandomState(seed).uniform(-1, 1, (n, 2, n + 1, 7)).astype("f")

    make = lambda: Net(lambda self, x: F.sum(F.relu(x), axis=(1, 2)))  # noqa: E731
    assert sweep(make, given) == (len(SIZES), 0)


def test_sizes_that_pooling_rounds_are_traced():
    def given(n, seed):
        return np.random.RandomState(seed).uniform(-1, 1, (2, 3, n, 5)).astype("f")

    make = lambda: Net(lambda self, x: F.max_pooling_2d(x, 2))  # noqa: E731
    assert sweep(make, given) == (len(SIZES), 0)


def test_a_row_of_two_batches_with_two_sizes():
    """The second batch has a size of its own: one of both changes at a time."""
    plain, static = twins(lambda: Net(lambda self, x, y: F.sum(self.l1(x)) * F.sum(self.l1(y))))
    for a, b in ((16, 20), (16, 30), (16, 40), (22, 40), (22, 50)):
        check(plain, static, (inputs(a), inputs(b)))
        check(plain, static, (inputs(a, 9), inputs(b, 9)))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (4, 1)


@pytest.mark.parametrize("ignored", [0, 5])
def test_labels_that_count(ignored):
    """What a loss divides by is how many labels there are, whatever they were in the traces."""

    def given(n, seed):
        x, t = labelled(n, seed)
        t[: ignored + seed // 1000] = -1
        return x, t

    assert sweep(lambda: Net(mlp), given) == (2, len(SIZES) - 2)


def test_state_that_has_a_size_is_traced():
    """A recurrent network keeps a state as large as its batch."""

    class Recurrent(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 4)
            self.h = None

        def forward(self, x):
            y = self.l(x) if self.h is None else self.l(x) + F.tanh(self.h)
            self.h = y
            return y

    plain, static = twins(Recurrent)
    for n in SIZES:
        plain.h = static.h = None
        for seed in range(3):
            check(plain, static, (inputs(n, seed),), (n, seed))


def test_a_progress_bar_has_a_thread_of_its_own():
    """What draws there is no matter to code that draws from nothing."""
    over = threading.Event()
    thread = start(over.wait)
    try:
        assert sweep(lambda: Net(mlp), labelled) == (2, len(SIZES) - 2)
    finally:
        over.set()
        join(thread)


def test_an_attribute_that_is_another_one():
    """Both traces have to fit as things are now."""
    plain, static = twins(
        lambda: Net(lambda self, x: self.l1(x) * (2 if self.n == "2" else 3), n="2")
    )
    check(plain, static, (inputs(16),))
    plain.n = static.n = "3"
    check(plain, static, (inputs(20),))
    check(plain, static, (inputs(30),))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (3, 0)
    check(plain, static, (inputs(11),))
    assert (statistics.traces, statistics.builds) == (3, 1)
    plain.n = static.n = "4"  # what was built has the guards of what was traced
    check(plain, static, (inputs(11),))
    assert (statistics.traces, statistics.builds) == (4, 1)


def test_modes_have_traces_of_their_own():
    plain, static = twins(lambda: Net(lambda self, x: F.dropout(self.l1(x), 0.5)))
    for n in (16, 20, 30):
        for train in (True, False):
            with chainer.using_config("train", train):
                check(plain, static, (inputs(n),))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (4, 2)


# --- how it is served ----------------------------------------------------------------------------
def test_only_the_first_is_compared_with_define_by_run():
    _, static = twins(lambda: Net(mlp))
    audits = static.schedule_manager.audits
    for n, passed in ((16, 0), (20, 0), (11, 1), (30, 1), (14, 1)):
        static(*labelled(n))
        assert audits.passed == passed, n
    assert static.schedule_manager.statistics.define_by_run_calls == 0


def test_one_that_is_wrong_is_never_used(monkeypatch):
    """What differs from define-by-run is said, and nothing more is built of these traces."""
    plain, static = twins(lambda: Net(lambda self, x: self.l1(x) * 2))
    original = rules.sized_schedule

    def spoiled(*args):
        schedule = original(*args)
        for node in schedule.trace.nodes:
            if hasattr(node.function, "value"):
                node.function.value = node.template.value = 5.0
        return schedule

    monkeypatch.setattr("sdbr.schedule.families.sized_schedule", spoiled)
    for n in (16, 20):
        check(plain, static, (inputs(n),))
    with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run"):
        check(plain, static, (inputs(30),))
    for n in (30, 11, 14):
        check(plain, static, (inputs(n),))
    statistics = static.schedule_manager.statistics
    assert statistics.builds == 1 and static.schedule_manager.audits.failed == 1
    assert statistics.replays == 1  # the one that was compared


def test_whole_steps():
    """They are built as one program."""
    models = twins(lambda: Net(mlp))
    rules_ = chainer.optimizers.Adam, sdbr.static_optimizer
    optimizers = [rules_[0]().setup(models[0]), rules_[1](rules_[0]()).setup(models[1])]
    for n in SIZES:
        for seed in (0, 1):
            for optimizer, model in zip(optimizers, models, strict=True):
                optimizer.update(model, *labelled(n, seed))
            for p, q in zip(models[0].params(), models[1].params(), strict=True):
                np.testing.assert_allclose(q.array, p.array, rtol=GRADIENTS, atol=GRADIENTS)
    statistics = models[1].schedule_manager.statistics
    assert (statistics.traces, statistics.builds) == (2, len(SIZES) - 2)
    assert statistics.steps == 2 * len(SIZES) - 2


def test_explain_tells_builds_from_traces():
    _, static = twins(lambda: Net(mlp))
    for n in SIZES:
        static(*labelled(n))
    report = sdbr.explain(static)
    assert report.to_dict()["managers"][0]["statistics"]["builds"] == len(SIZES) - 2
    assert "built for new sizes 3" in str(report)
    assert "built for this size of what was traced at" in str(report)


BEHIND = {
    "static method": lambda self, x: self.l1(x) * (2 if self.rows(x) > 17 else 1),
    "property": lambda self, x: self.l1(x) * (2 if self.count(x) > 17 else 1),
}


@pytest.mark.parametrize("name", BEHIND)
def test_members_of_classes_that_ask(name):
    assert sweep(lambda: Behind(BEHIND[name]))[1] == 0


def test_methods_that_chainer_calls():
    assert sweep(Lossy, labelled)[1] == 0


def test_variables_of_the_users():
    def given(n, seed):
        return Odd(inputs(n, seed))

    assert sweep(lambda: Net(lambda self, x: self.l1(x * 3)), given)[1] == 0


def test_functions_of_chainer_that_are_the_users_own(monkeypatch):
    original = F.relu
    monkeypatch.setattr(F, "relu", lambda x: original(x) * (2 if len(x) > 17 else 1))
    assert sweep(lambda: Net(lambda self, x: F.relu(self.l1(x))))[1] == 0


def test_functions_in_the_configuration():
    with chainer.using_config("rows", len):
        make = lambda: Net(  # noqa: E731
            lambda self, x: self.l1(x) * (2 if chainer.config.rows(x) > 17 else 1)
        )
        assert sweep(make)[1] == 0
