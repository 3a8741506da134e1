"""Row 21: audits, replays beside define-by-run."""

from __future__ import annotations

import array
import random
import tracemalloc

import sdbr
from sdbr.audit.compare import difference

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near, copy_of
from tests.harness.hidden import hidden
from tests.harness.models import MLP, Net
from tests.harness.threads import in_threads
from tests.tolerances import MEMORY, RESULTS, ROUNDINGS

EVERY = 1e9  # a share that lets every replay be audited
FEWEST = 1e-9  # that lets none be which need not, however long replays take on a busy machine
FACTOR = [1.0]
DRIFT = array.array("d", [1.0])  # what no audit puts back
factor, moving = hidden(FACTOR), hidden(FACTOR, by=1)


@pytest.fixture(autouse=True)
def audits_on():
    FACTOR[0] = 1.0
    with chainer.using_config("sdbr_audit", "auto"):
        yield


def fresh(n=6, dtype="f"):
    return np.random.randn(n, 4).astype(dtype)


def labels(n=6):
    return np.random.randint(0, 3, n).astype("i")


def scaled(self, x):
    return F.tanh(self.l(x)) * factor()


def audits(model):
    return model.schedule_manager.audits


@pytest.mark.parametrize("backend", BACKENDS)
def test_when(backend):
    """The first replay, the first on other data, then only within the share."""
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)), backend=backend)
    x = fresh()
    with chainer.using_config("sdbr_audit", FEWEST), chainer.no_backprop_mode():
        model(x)
        model(x)
        assert audits(model).passed == 1  # the first replay, though nothing has changed
        for _ in range(5):
            model(x)
        assert audits(model).passed == 1
        model(fresh())
        assert audits(model).passed == 2
        for _ in range(5):
            model(fresh())
    assert audits(model).passed == 2
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 12, 0)


def test_another_argument_that_differs_for_the_first_time():
    model = sdbr.static_graph(
        Net(lambda self, x, mask: self.l(x) * mask, l=L.Linear(4, 3)), on_dynamic="raise"
    )
    mask = np.ones((6, 3), "f")
    for _ in range(4):
        model(fresh(), mask)
    before = audits(model).passed
    model(fresh(), mask * 2)
    assert audits(model).passed == before + 1


def test_at_most_the_share():
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    with chainer.using_config("sdbr_audit", 0.04), chainer.no_backprop_mode():
        for _ in range(3):
            model(fresh())
        budget, passed = audits(model).budget, audits(model).passed
        budget.spend(1000.0, 0.04)
        budget.add(24_990.0, 0.04)
        for _ in range(100):
            model(fresh())
        assert audits(model).passed == passed  # 1,000 seconds are more than 4 % of 24,990
        budget.add(100.0, 0.04)
        model(fresh())
        assert audits(model).passed == passed + 1
        budget.spend(10.0, 0.04)
        for _ in range(100):
            model(fresh())
        assert audits(model).passed == passed + 1
    assert model.schedule_manager.statistics.replays == 203


@pytest.mark.parametrize("setting", ["off", 0])
def test_off(setting):
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    with chainer.using_config("sdbr_audit", setting):
        for _ in range(4):
            model(fresh())
    assert (audits(model).passed, audits(model).budget.audited) == (0, 0.0)


@pytest.mark.parametrize("setting", ["sometimes", -1, True, None, float("nan")])
def test_bad_settings(setting):
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    model(fresh())
    wrong = pytest.raises(ValueError, match=r"sdbr_audit.*'auto', 'off' or a share")
    with wrong, chainer.using_config("sdbr_audit", setting):
        model(fresh())
    model(fresh())


def test_the_setting_is_no_part_of_the_key():
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    for setting in ("auto", "off", 0.3, "auto"):
        with chainer.using_config("sdbr_audit", setting):
            model(fresh())
    assert model.schedule_manager.statistics.traces == 1


def losses(setting, make, steps=8):
    """Losses, parameters and the random state of a run; whatever audits do, the very same."""
    np.random.seed(3)
    random.seed(3)
    model = sdbr.static_graph(L.Classifier(make()), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    found = []
    with chainer.using_config("sdbr_audit", setting):
        for i in range(steps):
            x, t = fresh(), labels()
            if i % 3:
                optimizer.update(model, x, t)
                found.append(copy_of(model.loss.array))
            else:
                loss = model(x, t)
                model.cleargrads()
                loss.backward()
                optimizer.update()
                found.append(copy_of(loss.array))
    found += [copy_of(p.array) for p in model.params()]
    found += [copy_of(p.grad) for p in model.params()]
    state = np.random.get_state()
    return found, (state[1].tobytes(), state[2]), random.getstate(), model


class Dropped(MLP):
    def forward(self, x):
        h = F.dropout(F.relu(self.l1(x)), 0.3)
        return self.l2(h)


def test_a_run_is_the_same_to_the_last_bit_with_and_without():
    """Draws are made once, too: the generators end in one state."""
    want = losses("off", lambda: Dropped(4, 8, 3))
    got = losses(EVERY, lambda: Dropped(4, 8, 3))
    for g, w in zip(got[0], want[0], strict=True):
        assert g.tobytes() == w.tobytes()
    assert got[1:3] == want[1:3]
    counts = audits(got[3])
    assert counts.passed == 7 and counts.failed == 0 and counts.gradients >= 2
    statistics = got[3].schedule_manager.statistics
    assert (statistics.replays, statistics.define_by_run_calls) == (7, 0)


def test_batch_normalization_moves_its_averages_once():
    def make(setting):
        np.random.seed(0)
        model = sdbr.static_graph(
            Net(lambda self, x: F.relu(self.bn(self.l(x))), l=L.Linear(4, 5),
                bn=L.BatchNormalization(5)), on_dynamic="raise"
        )  # fmt: skip
        with chainer.using_config("sdbr_audit", setting):
            for _ in range(5):
                F.sum(model(fresh())).backward()
        return model

    want, got = make("off"), make(EVERY)
    assert audits(got).failed == 0 and audits(got).passed == 4
    np.testing.assert_array_equal(got.bn.avg_mean, want.bn.avg_mean)
    np.testing.assert_array_equal(got.bn.avg_var, want.bn.avg_var)


def test_static_code_runs_once():
    class Watched(MLP):
        @sdbr.static_code
        def watch(self, inputs, outputs):
            self.calls = getattr(self, "calls", 0) + 1
            self.seen.append(float(inputs[0].sum()))
            outputs[0][...] = np.random.rand(*inputs[0].shape)
            chainer.report({"calls": self.calls}, self)

        def forward(self, x):
            h = self.l1(x)
            noise = np.empty_like(h.array)
            self.watch(inputs=[h.array], outputs=[noise])
            return self.l2(h + noise)

    def run(setting):
        np.random.seed(1)
        model = Watched(4, 8, 3)
        model.seen = []
        sdbr.static_graph(model, on_dynamic="raise")
        reporter = chainer.Reporter()
        reporter.add_observer("m", model)
        ys, reports = [], []
        with chainer.using_config("sdbr_audit", setting):
            for _ in range(5):
                observation = {}
                with reporter.scope(observation):
                    ys.append(model(fresh()).array)
                reports.append(dict(observation))
        return model, ys, reports

    want, want_ys, want_reports = run("off")
    got, ys, reports = run(EVERY)
    assert audits(got).passed == 4 and audits(got).failed == 0
    assert (got.calls, reports) == (5, want_reports)
    # In an audit it sees what define-by-run makes, which rounds in an order of its own.
    np.testing.assert_allclose(got.seen, want.seen, rtol=RESULTS)
    for y, w in zip(ys, want_ys, strict=True):
        np.testing.assert_array_equal(y, w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_difference_is_said_and_define_by_run_counts(backend):
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)), backend=backend)
    with chainer.using_config("sdbr_audit", EVERY):
        model(fresh())
        model(fresh())
        FACTOR[0] = 2.0
        x = fresh()
        with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run: op .*test_audits"):
            y = model(x)
        assert_near(y.array, np.tanh(model.l(x).array) * 2, RESULTS, "values")
        model.cleargrads()
        F.sum(y).backward()  # through define-by-run's graph
        assert model.l.W.grad is not None
        FACTOR[0] = 3.0
        y = model(x)  # dynamic from here on
    assert_near(y.array, np.tanh(model.l(x).array) * 3, RESULTS, "values")
    statistics = model.schedule_manager.statistics
    assert (statistics.define_by_run_calls, audits(model).failed) == (1, 1)


def test_an_attribute_that_differs_is_said_and_define_by_runs():
    """Nothing of the result depends on it."""

    def forward(self, x):
        self.used = np.full(3, factor(), "f")
        return F.tanh(self.l(x))

    model = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    with chainer.using_config("sdbr_audit", EVERY):
        for _ in range(3):
            model(fresh())
        assert audits(model).failed == 0 and audits(model).passed > 0
        FACTOR[0] = 2.0
        with pytest.warns(sdbr.SdbrWarning, match=r"\.used differs"):
            model(fresh())
    np.testing.assert_array_equal(model.used, np.full(3, 2, "f"))


def test_how_many_replays_may_be_affected_is_said():
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    with chainer.using_config("sdbr_audit", FEWEST):
        for _ in range(3):
            model(fresh())
        FACTOR[0] = 2.0
        for _ in range(6):
            model(fresh())
    with (
        chainer.using_config("sdbr_audit", EVERY),
        pytest.warns(sdbr.SdbrWarning, match=r"up to [67] replays since the last that was"),
    ):
        audits(model).budget.due = True
        model(fresh())


@pytest.mark.parametrize("share", [FEWEST, EVERY])
def test_steps_whose_reports_are_listened_to_are_audited_and_native(share):
    """As a Trainer does it: its reporter is Chainer's own."""
    model = sdbr.static_graph(L.Classifier(Net(scaled, l=L.Linear(4, 3))), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    listener = chainer.Reporter()
    listener.add_observer("main", model)
    with chainer.using_config("sdbr_audit", share):
        for _ in range(8):
            observation: dict = {}
            with listener.scope(observation):
                optimizer.update(model, fresh(), labels())
                assert set(observation) == {"main/loss", "main/accuracy"}
    manager = model.schedule_manager
    assert manager.audits.passed == (7 if share == EVERY else 1)
    assert (manager.statistics.steps, manager.statistics.define_by_run_calls) == (7, 0)


def test_a_step_that_is_declined_is_not_audited_again_and_again():
    """Its parts are: a rate that is an array goes Chainer's way, and is right there."""

    def make(static):
        np.random.seed(0)
        model = L.Classifier(Net(scaled, l=L.Linear(4, 3)))
        optimizer = chainer.optimizers.SGD(0.5)
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for i in range(9):
            if i == 1:
                optimizer.hyperparam.lr = np.array(0.5, "f")
            x = np.random.RandomState(i).randn(6, 4).astype("f")
            optimizer.update(model, x, np.arange(6, dtype="i") % 3)
        return model

    with chainer.using_config("sdbr_audit", FEWEST):
        plain, static = make(False), make(True)
    for p, q in zip(plain.params(), static.params(), strict=True):
        np.testing.assert_allclose(q.array, p.array, rtol=RESULTS, atol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.steps, statistics.traces) == (0, 1)
    assert statistics.define_by_run_calls == 1  # the audit of the declined step
    assert statistics.replays == 7


def test_a_step_that_differs_is_define_by_runs():
    def make(static):
        np.random.seed(0)
        model = L.Classifier(Net(scaled, l=L.Linear(4, 3)))
        optimizer = chainer.optimizers.Adam()
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        return model, optimizer.setup(model)

    plain, static = make(False), make(True)
    batches = [(fresh(), labels()) for _ in range(5)]
    with chainer.using_config("sdbr_audit", EVERY):
        for model, optimizer in (plain, static):
            FACTOR[0] = 1.0
            for i, batch in enumerate(batches):
                if i == 3:
                    FACTOR[0] = 2.0
                if i == 3 and model is static[0]:
                    with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run"):
                        optimizer.update(model, *batch)
                else:
                    optimizer.update(model, *batch)
    for p, q in zip(plain[0].params(), static[0].params(), strict=True):
        np.testing.assert_allclose(q.array, p.array, rtol=RESULTS, atol=ROUNDINGS)
    assert static[1].t == plain[1].t == 5
    assert static[0].schedule_manager.statistics.steps == 3  # the fourth was taken back
    np.testing.assert_allclose(static[0].loss.array, plain[0].loss.array, rtol=RESULTS)


def test_with_raise_nothing_is_changed():
    model = sdbr.static_graph(L.Classifier(Net(scaled, l=L.Linear(4, 3))), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    with chainer.using_config("sdbr_audit", EVERY):
        for _ in range(3):
            optimizer.update(model, fresh(), labels())
        before = [copy_of(p.array) for p in model.params()]
        FACTOR[0] = 2.0
        with pytest.raises(sdbr.ValidationError, match="differs from define-by-run"):
            optimizer.update(model, fresh(), labels())
        assert optimizer.t == 3
        for p, b in zip(model.params(), before, strict=True):
            np.testing.assert_array_equal(p.array, b)
        with pytest.raises(sdbr.NotStaticError):
            model(fresh(), labels())


def test_a_reporter_of_the_users_own_hears_once():
    class Own(chainer.Reporter):
        def report(self, values, observer=None):
            heard.append(sorted(values))
            super().report(values, observer)

    heard: list = []
    model = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)))
    reporter = Own()
    reporter.add_observer("m", model)
    with chainer.using_config("sdbr_audit", EVERY), reporter.scope({}):
        for _ in range(4):
            model(fresh(), labels())
    assert heard == [["loss"], ["accuracy"]] * 4
    assert audits(model).passed == 3


def test_rounding_is_no_difference():
    """The gradient of a bias before batch normalization is nothing but rounding; Adam shows it."""
    np.random.seed(0)
    model = sdbr.static_graph(
        L.Classifier(Net(lambda self, x: self.o(F.relu(self.bn(self.l(x)))), l=L.Linear(4, 8),
                         bn=L.BatchNormalization(8), o=L.Linear(8, 3))), on_dynamic="raise"
    )  # fmt: skip
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    with chainer.using_config("sdbr_audit", EVERY):
        for _ in range(12):
            optimizer.update(model, fresh(16), labels(16))
    assert audits(model).passed == 11 and audits(model).failed == 0
    assert model.schedule_manager.statistics.steps == 11


def test_chaos_in_the_call_itself_is_no_excuse():
    """What define-by-run does not do twice alike, on the same inputs, is not rounding."""

    class Drifting(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 1,)

        def backward(self, indexes, grads):
            DRIFT[0] += 1
            return (grads[0] * DRIFT[0],)

    model = sdbr.static_graph(
        Net(lambda self, x: F.sum(Drifting().apply((self.l(x),))[0]), l=L.Linear(4, 3))
    )
    with chainer.using_config("sdbr_audit", EVERY):
        model(fresh()).backward()
        with pytest.warns(sdbr.SdbrWarning, match="gradient of"):
            model(fresh()).backward()


def test_a_number_that_moves_on_with_every_run_is_no_excuse():
    """However far the disturbed runs are from the first: so is an undisturbed one."""

    def forward(self, x):
        return F.tanh(self.l(x)) * moving()

    model = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    with chainer.using_config("sdbr_audit", EVERY), chainer.no_backprop_mode():
        model(fresh())
        assert model.schedule_manager.static_schedule.dynamic is None
        with pytest.warns(sdbr.SdbrWarning, match="differs from define-by-run"):
            model(fresh())
    assert (audits(model).failed, audits(model).noisy) == (1, 0)


def test_an_error_is_that_of_the_replay_and_nothing_changes():
    model = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    with chainer.using_config("sdbr_audit", EVERY):
        for _ in range(3):
            optimizer.update(model, fresh(), labels())
        before = [copy_of(p.array) for p in model.params()]
        wrong = labels()
        wrong[1] = 99
        with pytest.raises(IndexError):
            optimizer.update(model, fresh(), wrong)
        for p, b in zip(model.params(), before, strict=True):
            np.testing.assert_array_equal(p.array, b)
        optimizer.update(model, fresh(), labels())
    assert optimizer.t == 4 and audits(model).failed == 0


def test_threads_that_come_in_between_leave_it_open():
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))

    def work(_):
        for _ in range(40):
            model(fresh())

    with chainer.no_backprop_mode():
        model(fresh())
    in_threads(4, work)
    assert audits(model).failed == 0


def test_explain_shows_them():
    model = sdbr.static_graph(Net(scaled, l=L.Linear(4, 3)))
    assert "audits: no replay was compared" in str(sdbr.explain(model))
    with chainer.using_config("sdbr_audit", EVERY):
        for _ in range(3):
            model(fresh())
        assert "audits 2: passed 2, failed 0" in str(sdbr.explain(model))
        FACTOR[0] = 2.0
        with pytest.warns(sdbr.SdbrWarning):
            model(fresh())
    text = str(sdbr.explain(model))
    assert "audits 3: passed 2, failed 1" in text and "a replay differs from" in text
    facts = sdbr.explain(model).to_dict()["managers"][0]["audits"]
    assert facts["failed"] == 1 and facts["seconds"] > 0
    assert "test_audits.py" in facts["failures"][0]["line"]


@pytest.mark.alone
def test_memory():
    """At most what define-by-run and the schedule take."""

    def forward(self, x):
        h = self.l(x)
        for _ in range(20):
            h = F.tanh(h) * 0.9
        return F.sum(h)

    def peak(call):
        call()
        tracemalloc.start()
        call()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    x = fresh(256)
    plain = Net(forward, l=L.Linear(4, 512))
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 512)))
    define_by_run = peak(lambda: plain(x).backward())
    with chainer.using_config("sdbr_audit", "off"):
        static(x).backward()
        replay = peak(lambda: static(x).backward())
        arena = static.schedule_manager.static_schedule.programs["forward"].arena_bytes
    with chainer.using_config("sdbr_audit", EVERY):
        audited = peak(lambda: static(x).backward())
    assert audits(static).passed >= 2
    assert audited <= (1 + MEMORY) * (define_by_run + replay + arena)


# --- what counts as a difference ------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["e", "f", "d", ">f4"])
@pytest.mark.parametrize("gaps", [False, True])
def test_arrays_differ_by_the_largest_error(dtype, gaps):
    """However they lie in memory: the largest error, against the largest magnitude."""
    rng = np.random.RandomState(3)
    want = rng.randn(6, 8).astype(dtype)[:: 2 if gaps else 1]
    assert difference(want.copy(), want) == ""
    for place in ((0, 0), (2, 7)):
        for error in (0.5, -0.5):
            got = want.copy()
            got[place] += error
            largest, scale = abs(got - want).max(), abs(want).max()
            said = f"by up to {largest:.3g}, where the largest magnitude is {scale:.3g}"
            assert difference(got, want) == said
            assert difference(want, got) and not difference(got, want, floor=0.6)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_infinities_and_nans_have_their_places(dtype, odd):
    want = np.linspace(1, 2, 7).astype(dtype)
    want[3] = odd
    assert difference(want.copy(), want) == ""
    got = want.copy()
    got[4] = odd
    assert difference(got, want) == difference(want, got) == "infinities or NaNs in other places"
    got = want.copy()
    got[3] = 1
    assert difference(got, want) == difference(want, got) == "infinities or NaNs in other places"
    got = want.copy()
    got[5] += 0.5
    assert difference(got, want)[:5] == "by up"


def test_a_difference_beyond_the_largest_number():
    want = np.array([3e38], "f")
    assert difference(-want, want)
