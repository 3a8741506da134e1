"""Row 21: audits by the number of a replay, however little time replays take."""

from __future__ import annotations

from unittest import mock

import sdbr
from sdbr.audit._budget import AuditCount, Budget
from sdbr.base.audit_share import SHARE

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.hidden import hidden
from tests.harness.models import MLP, Net
from tests.tolerances import RESULTS

EARLY = [2**k for k in range(11)]  # 1 to 1,024
BELOW = 0.049  # a share that 'auto' is above
FACTOR = [1.0]
factor = hidden(FACTOR)


@pytest.fixture(autouse=True)
def audits_on():
    FACTOR[0] = 1.0
    with chainer.using_config("sdbr_audit", "auto"), chainer.no_backprop_mode():
        yield


def inputs(n=6):
    return np.random.randn(n, 4).astype("f")


def traced(early=True):
    """A model that reads a hidden number, its input and its manager, after the first call."""
    model = Net(lambda self, x: F.tanh(self.l(x)) * factor(), l=L.Linear(4, 3))
    model, x = sdbr.static_graph(model), inputs()
    model(x)
    no_share_left(model.schedule_manager, early)
    return model, x, model.schedule_manager


def no_share_left(manager, early=True):
    """Audits have had their share of the time, for ever; `early`: those at powers of two come."""
    manager.audits.budget.spend(1e9, SHARE)
    manager.audits.budget.mark = 1e12 * early  # as if it were theirs to come, whatever they take


def audited(manager, call, n):
    """The numbers of those of the next `n` replays that were audited."""
    found, statistics = [], manager.statistics
    for _ in range(n):
        before = manager.audits.passed, statistics.replays
        call()
        assert statistics.replays == before[1] + 1
        if manager.audits.passed > before[0]:
            found.append(statistics.replays)
    return found


def test_powers_of_two_and_no_more_where_they_take_long():
    """One array for all calls: nothing but the number asks for an audit."""
    model, x, manager = traced()
    assert audited(manager, lambda: model(x), 9300) == EARLY
    # As if they had taken next to nothing: the next one is that which had been put off.
    manager.audits.budget.audits = 1 << 60
    assert audited(manager, lambda: model(x), 9000) == [1024 + 16384]


def test_each_1024th_where_they_do_not():
    model, x, manager = traced()
    manager.audits.budget.audits = 1 << 60  # each of them took next to nothing
    assert audited(manager, lambda: model(x), 3100) == [*EARLY, 2048, 3072]


def test_large_models_are_a_matter_of_time_alone():
    """Audits have taken seconds already."""
    model, x, manager = traced(early=False)
    assert audited(manager, lambda: model(x), 600) == [1]


@pytest.mark.parametrize(
    ("seconds", "n"), [(25.5, 2048), (25.7, 3072), (51.1, 3072), (51.3, 5120), (102.5, 9216)]
)
def test_half_of_the_share_is_for_those_that_come_late(seconds, n):
    """An audit may take 2.5 % of the replays of a second since the last: 25.6 of 1,024."""
    count, budget = AuditCount(), Budget()
    budget.audited, budget.audits = 10 * seconds, 10
    for _ in range(1023):
        count.served()
    count.audited()
    while not count.is_due(SHARE, budget, 1.0):
        count.served()
    assert count.n + 1 == n


@pytest.mark.parametrize("spent", [0.9, 1.1])
def test_early_ones_may_take_a_second(spent):
    count, budget = AuditCount(), Budget()
    budget.audited, budget.audits, budget.mark = 7.0 + spent, 1, 7.0
    assert count.is_due(SHARE, budget, 1e-6) == (spent < 1)


def test_whole_steps():
    model = sdbr.static_graph(L.Classifier(MLP(4, 5, 3)), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    manager = model.schedule_manager
    x, t = inputs(), np.random.randint(0, 3, 6).astype("i")
    with chainer.force_backprop_mode():
        optimizer.update(model, x, t)
        no_share_left(manager)
        assert audited(manager, lambda: optimizer.update(model, x, t), 300) == EARLY[:9]
    assert manager.statistics.steps == 300


def test_an_audit_for_other_data_counts():
    model, x, manager = traced()
    assert audited(manager, lambda: model(x), 5) == [1, 2, 4]
    y = inputs()
    assert audited(manager, lambda: model(y), 15) == [6, 8, 16]


def test_a_smaller_share_is_a_matter_of_time_alone():
    with chainer.using_config("sdbr_audit", BELOW):
        model, x, manager = traced()
        assert audited(manager, lambda: model(x), 40) == [1]


def test_what_comes_late_is_seen():
    model, x, _ = traced()
    for _ in range(600):
        model(x)
    FACTOR[0] = 2.0
    with pytest.warns(sdbr.SdbrWarning, match=r"up to 511 replays since the last"):
        for _ in range(600):
            model(x)
    np.testing.assert_allclose(model(x).array, np.tanh(model.l(x).array) * 2, RESULTS)


@pytest.mark.filterwarnings("ignore:.*(keeps changing|max_schedules)")
@pytest.mark.parametrize("steps", [False, True], ids=["calls", "steps"])
def test_the_same_calls_are_served_alike_with_audits_and_without(steps):
    """Of many sizes: which are traced, which replayed, which run define-by-run."""
    sizes = np.random.randint(1, 30, 400)

    def served(audit):
        np.random.seed(0)
        model = sdbr.static_graph(L.Classifier(MLP(4, 5, 3)))
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
        call, found = optimizer.update if steps else (lambda f, *args: f(*args)), []
        s = model.schedule_manager.statistics
        with chainer.using_config("sdbr_audit", audit), chainer.force_backprop_mode():
            for n in sizes:
                call(model, inputs(n), np.zeros(n, "i"))
                found.append((s.traces, s.replays, s.define_by_run_calls))
        assert (model.schedule_manager.audits.passed > 0) == (audit != "off")
        return found

    never = served("off")
    assert served(1e9) == served("auto") == never
    assert all(never[-1])


def test_a_runner_stays_while_calls_are_audited():
    """Another for each would take memory of its own, and on a GPU be recorded anew."""
    static = sdbr.static_graph(F.ceil)
    x = np.ones(3, "f")
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(3):
            static(x)
        with mock.patch.object(type(static.schedule_manager), "_remember") as remember:
            for _ in range(5):
                static(x)
        assert not remember.called
        assert static.schedule_manager.audits.passed >= 5


def test_after_a_difference_they_come_early_again():
    """What one schedule has overlooked others may overlook as well."""
    model = Net(lambda self, x: F.tanh(self.l(x)) * (factor() if len(x) == 6 else 1.0))
    model.add_link("l", L.Linear(4, 3))
    static = sdbr.static_graph(model)
    manager, x, other = static.schedule_manager, inputs(), inputs(3)
    for given in (x, other):
        static(given)
    no_share_left(manager, early=False)
    assert audited(manager, lambda: static(other), 600) == [1]
    FACTOR[0] = 2.0
    with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run"):
        static(x)
    budget, first = manager.audits.budget, manager.statistics.replays + 1
    assert (manager.audits.failed, budget.mark >= 1e9) == (1, True)
    assert audited(manager, lambda: static(other), 1) == [first]  # whatever audits have taken
    budget.mark = 1e12
    assert audited(manager, lambda: static(other), 39) == [first - 1 + n for n in (2, 4, 8, 16, 32)]


def test_sizes_that_are_built_count_together():
    """There may be many of them, of few replays each."""
    model = sdbr.static_graph(Net(lambda self, x: F.tanh(self.l(x)), l=L.Linear(4, 3)))
    manager = model.schedule_manager
    built = range(9, 17)
    for n in (7, 7, 8, 8, *built):
        model(inputs(n))
    assert (manager.statistics.traces, manager.statistics.builds) == (2, len(built))
    no_share_left(manager)
    rounds = iter([inputs(n) for n in built] * 8)
    found = audited(manager, lambda: model(next(rounds)), 8 * len(built))
    assert len(found) == 3  # the 16th, 32nd and 64th of all of them
