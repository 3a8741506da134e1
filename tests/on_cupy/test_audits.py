"""Row 21 on a GPU: audits, replays beside define-by-run; arrays are compared where they lie."""

from __future__ import annotations

import contextlib
import functools
import gc
import time
import warnings
from unittest import mock

import sdbr
from sdbr.audit import _budget, calls
from sdbr.base.errors import ValidationError
from sdbr.call import _due
from sdbr.devices import arrays, cublaslt, driver

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import cupyx
import numpy as np
import pytest
from chainer import optimizers

from tests.harness import device

from .audited import EVERY, WRONG_ADAM, batch, made, no_gpu, perceptron, spoiled
from .programs import Way, assert_alike, normal, seen, state, two_devices


@pytest.fixture(autouse=True)
def audits_on():
    with chainer.using_config("sdbr_audit", "auto"):
        yield


def audits(model):
    return model.schedule_manager.audits


def test_when():
    """The first replay, the first on other data, then only within the share."""
    model = made(Way(True))
    with chainer.using_config("sdbr_audit", 1e-9):
        for _ in range(4):
            model(*batch(0))
        assert audits(model).passed == 1
        model(*batch(1))
        assert audits(model).passed == 2
        for k in range(20):
            model(*batch(k))
    assert audits(model).passed == 2
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 24, 0)


def test_data_that_stay_the_same_are_looked_at_ever_more_rarely(monkeypatch):
    looks = []
    monkeypatch.setattr(_due, "checksums", lambda arrays: looks.append(1) or [0 for _ in arrays])
    model = made(Way(True))
    with chainer.using_config("sdbr_audit", 1e-9):
        for _ in range(200):
            model(*batch(0))
        assert len(looks) < 50
        assert audits(model).passed == 1
        monkeypatch.setattr(_due, "checksums", lambda arrays: [1 for _ in arrays])
        for _ in range(40):
            model(*batch(1))
    assert audits(model).passed == 2


# --- what is wrong is found ----------------------------------------------------------------------

FORWARD = {
    "a product": (
        ("device/product.cuh", "v + SDBR_IN(2)[column]", "v + 2 * SDBR_IN(2)[column]"),
        r"op 0 of the {} program \(Tanh /layer at .*in perceptron\) \[0 linear .*differs: by up",
    ),
    "an index": (
        (
            "device/loss.cuh",
            "chosen = x[first + at * inner]",
            "chosen = x[first + (n - 1 - at) * inner]",
        ),
        r"op 2 of the {} program \(SoftmaxCrossEntropy / at .*softmax_cross_entropy .*differs: by",
    ),
    "an elementwise kernel": (
        (
            "math/arithmetic.h",
            "return (void)p, (void)q, FN(sdbr_tanh)(a);",
            "return (void)p, (void)q, a;",
        ),
        r"op 0 of the {} program \(Tanh /layer at .*in perceptron\) \[0 linear .*differs: by up",
    ),
}
SLOPE = "FN(op_tanh_grad)(T y, T gy, T p, T q) {"
BACKWARD = {
    "a slope": (
        ("math/arithmetic.h", SLOPE, f"{SLOPE}\n    y = -y / 2;"),
        r"the gradient of .*W.* differs: by up to .*; op \d+ of the {} program wrote it \[",
    ),
    "a label": (
        ("device/loss.cuh", "(T)(k == label)) * factor", "(T)(k == 0 * label)) * factor"),
        r"the gradient of .* differs: by up to .*; op \d+ of the {} program wrote it \[",
    ),
}  # fmt: skip
UPDATE = {
    "a rule": (
        WRONG_ADAM,
        r"layer.W in place differs: by up to .*; op \d+ of the step program wrote it \[\d+ adam",
    ),
    "words that come too late": (
        ("device/words.cuh", "k++)\n        words->base", "k++)\n        if (k) words->base"),
        "differs",
    ),
}  # fmt: skip


@no_gpu
@pytest.mark.parametrize("what", FORWARD)
def test_a_wrong_forward(what):
    kernels, text = FORWARD[what]
    want = made(Way(False))
    with spoiled(*kernels):
        model = made(Way(True))
        model(*batch(0))
        with pytest.warns(sdbr.SdbrWarning, match=text.format("forward") + ".*no other replay is"):
            found = model(*batch(1))
        assert_alike(seen(found), seen(want(*batch(1))))
        found = model(*batch(2))
    assert_alike(seen(found), seen(want(*batch(2))))
    assert (audits(model).failed, audits(model).passed) == (1, 0)
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.define_by_run_calls) == (1, 1)


@no_gpu
@pytest.mark.parametrize("what", BACKWARD)
def test_a_wrong_backward(what):
    kernels, text = BACKWARD[what]
    found = []
    with spoiled(*kernels):
        for way in (Way(False), Way(True)):
            model = made(way)
            for k in range(3):
                model.cleargrads()
                loss = model(*batch(k))
                if way.is_static and k == 1:
                    with pytest.warns(sdbr.SdbrWarning, match=text.format("backward")):
                        loss.backward()
                else:
                    loss.backward()
                found.append(state(model))
    assert_alike(found[3:], found[:3])
    assert audits(model).failed == 1


@no_gpu
@pytest.mark.parametrize("what", {**FORWARD, **BACKWARD, **UPDATE})
def test_a_wrong_step(what):
    kernels, text = {**FORWARD, **BACKWARD, **UPDATE}[what]
    found = []
    with spoiled(*kernels):
        for way in (Way(False), Way(True)):
            model = made(way)
            optimizer = way.optimizer(optimizers.Adam(0.1), model)
            optimizer.update(model, *batch(0))
            with (
                pytest.warns(sdbr.SdbrWarning, match=text.format("step"))
                if way.is_static
                else contextlib.nullcontext()
            ):
                optimizer.update(model, *batch(1))
            optimizer.update(model, *batch(2))
            found.append((state(model), optimizer.t))
    assert_alike(found[1], found[0])
    assert audits(model).failed == 1


class TestChains:
    """Ops that are one kernel, of which only some can be looked at."""

    @pytest.fixture
    def chained(self):
        return True

    @no_gpu
    def test_which_kernel_it_was_is_said(self):
        def forward(self, x, t):
            h = F.tanh(self.layer(x))
            return F.sum(F.exp(self.out(h))[:, 0] * h[:, 1])

        with spoiled(
            "math/arithmetic.h",
            "return (void)p, (void)q, FN(sdbr_exp)(a);",
            "return (void)p, (void)q, a;",
        ):
            model = made(Way(True), forward)
            optimizer = sdbr.static_optimizer(optimizers.SGD()).setup(model)
            optimizer.update(model, *batch(0))
            with pytest.warns(
                sdbr.SdbrWarning,
                match=r"op \d+ .*\(exp / at .*in one kernel with those from \d+ to \d+, differs",
            ):
                optimizer.update(model, *batch(1))


@no_gpu
def test_a_graph_that_does_not_run():
    model = made(Way(True))
    model(*batch(0))
    with (
        mock.patch.object(driver.Graph, "launch", lambda self, stream: None),
        pytest.warns(
            sdbr.SdbrWarning, match="differs.*launched one by one give what define-by-run"
        ),
    ):
        found = model(*batch(1))
    assert_alike(seen(found), seen(made(Way(False))(*batch(1))))


# --- updates alone -------------------------------------------------------------------------------


def dropped(self, x, t):
    h = F.dropout(F.tanh(self.layer(x)), 0.5)
    return F.softmax_cross_entropy(F.dropout(self.out(h), 0.2), t)


def noisy(self, x, t):
    h = self.layer(x) + cupy.random.normal(0.0, 0.1, (5, 4), "f")
    return F.softmax_cross_entropy(self.out(F.gaussian(h, h * 0)), t)


OWN = cupy.random.RandomState(3)


class Draws(chainer.FunctionNode):
    """A user's function that draws, in both directions; and one that tells of it."""

    def __init__(self, tell=None):
        self.tell = tell

    def forward(self, xs):
        if self.tell is not None:
            self.tell()
        return (xs[0] * cupy.random.rand(*xs[0].shape, dtype="f"),)

    def backward(self, indexes, gys):
        return (gys[0] * OWN.standard_normal(gys[0].shape, dtype="f"),)


def by_function(self, x, t):
    (h,) = Draws().apply((self.layer(x),))
    return F.softmax_cross_entropy(self.out(F.dropout(h)), t)


TOLD = []


def by_teller(self, x, t):
    (h,) = Draws(lambda: print("told")).apply((self.layer(x),))
    return F.softmax_cross_entropy(self.out(F.dropout(h)), t)


def forgotten(self, x, t):
    h = F.forget(lambda x: F.dropout(F.tanh(self.layer(x))), x)
    return F.softmax_cross_entropy(self.out(h), t)


def of_code(self, x, t):
    noise = noise_of(x.array if isinstance(x, chainer.Variable) else x)
    return F.softmax_cross_entropy(self.out(F.dropout(self.layer(x + noise))), t)


@sdbr.static_code
def noise_of(x):
    return cupy.random.rand(*x.shape, dtype="f")


@pytest.mark.parametrize("setting", ["off", "auto", EVERY])
@pytest.mark.parametrize("how", ["call", "step"])
@pytest.mark.parametrize(
    "forward",
    [dropped, noisy, by_function, by_teller, forgotten, of_code],
    ids=lambda f: f.__name__,
)
def test_draws_are_those_of_define_by_run(forward, how, setting, capsys):
    """The numbers, and where both generators stand afterwards."""
    found = []
    for way in (Way(False), Way(True)):
        model = made(way, forward)
        optimizer = way.optimizer(optimizers.SGD(0.1), model)
        cupy.random.seed(5)
        OWN.seed(7)
        mine = []
        with chainer.using_config("sdbr_audit", setting):
            for k in range(6):
                if how == "step":
                    optimizer.update(model, *batch(k))
                else:
                    model.cleargrads()
                    loss = model(*batch(k))
                    loss.backward()
                    mine.append(seen(loss))
                    optimizer.update()
                mine.append(state(model))
                mine.append(seen(cupy.random.rand(2)))
                mine.append(seen(OWN.rand(2)))
        found.append((mine, capsys.readouterr().out))
    assert_alike(found[1], found[0])
    statistics = model.schedule_manager.statistics
    assert statistics.replays == 6 - statistics.traces >= 4
    a = audits(model)
    assert (a.failed, a.inconclusive, a.noisy) == (0, 0, 0)
    assert a.passed == {"off": 0, EVERY: statistics.replays}.get(setting, a.passed)


def test_a_replay_that_draws_more_is_found(monkeypatch):
    uniform = arrays.uniform
    monkeypatch.setattr(arrays, "uniform", lambda n: (uniform(n), uniform(n))[1])
    found = []
    for way in (Way(False), Way(True)):
        model = made(way, dropped)
        cupy.random.seed(5)
        model(*batch(0))
        expected = pytest.warns(sdbr.SdbrWarning, match="Dropout .*differs|draw . differs")
        with expected if way.is_static else contextlib.nullcontext():
            y = model(*batch(1))
        found.append((seen(y), seen(cupy.random.rand(3))))
    assert_alike(found[1], found[0])


def test_a_replay_that_draws_less_is_found(monkeypatch):
    monkeypatch.setattr(arrays, "uniform", lambda n: cupy.ones(n, "f"))
    model = made(Way(True), dropped)
    model(*batch(0))
    with pytest.warns(sdbr.SdbrWarning, match="draw 0 differs: only define-by-run has it|Dropout"):
        model(*batch(1))


# --- labels out of range -------------------------------------------------------------------------


WRONG_DROPOUT = (
    "SDBR_OUT(1)[i] = SDBR_IN(0)[i] * mask;",
    "SDBR_OUT(1)[i] = SDBR_IN(0)[i] * (1 - mask);",
)
WRONG = "index 7 at position 1 is out of range for 3"


def wrong(k):
    return normal(5, 3, seed=k), cupy.asarray([0, 7, 1, 1, 0], "i")


def embedded(self, x, t):
    h = self.words(t) * 2
    return F.sum(F.select_item(self.out(self.layer(x) + h), t))


@pytest.mark.parametrize("forward", [perceptron, embedded])
@pytest.mark.parametrize("label", [-2, -1, 3, 1000])
@pytest.mark.parametrize("how", ["call", "step"])
def test_define_by_run_does_not_look_behind_an_array(forward, label, how, monkeypatch):
    """Its kernels would read there, and write: such calls are replayed alone."""
    parts = {"layer": lambda: L.Linear(3, 4), "out": lambda: L.Linear(4, 3)}
    model = Way(True).model(forward, words=lambda: L.EmbedID(3, 4), **parts)
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
    begun, audit = [], calls.Audit

    def run(x, t):
        optimizer.update(model, x, t) if how == "step" else model(x, t)

    def noted(*args, **kwargs):
        begun.append(args)
        return audit(*args, **kwargs)

    with chainer.using_config("sdbr_audit", EVERY):
        for k in range(3):
            run(*batch(k))
        monkeypatch.setattr(calls, "Audit", noted)
        x, t = batch(4)
        t[2] = label
        run(x, t)
        is_ignored = label == -1 and forward is perceptron
        assert len(begun) == is_ignored
        assert audits(model).inconclusive == (not is_ignored)
        monkeypatch.undo()
        if label > 0:
            with pytest.raises(IndexError, match=r"index .* at position 2 is out of range for 3"):
                run(*batch(5))
        run(*batch(5))
    sdbr.synchronize()
    assert (audits(model).failed, audits(model).passed) == (0, 3 + is_ignored)


@no_gpu  # define-by-run reads where there may be nothing
@pytest.mark.parametrize("setting", ["off", EVERY])
def test_labels_out_of_range_in_steps(setting):
    model = made(Way(True))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    with chainer.using_config("sdbr_audit", setting):
        for k in range(3):
            optimizer.update(model, *batch(k))
        before = state(model), [seen(dict(p.update_rule.state)) for p in model.params()]
        optimizer.update(model, *wrong(3))
        assert_alike(
            (state(model), [seen(dict(p.update_rule.state)) for p in model.params()]), before
        )
        t = optimizer.t
        with pytest.raises(IndexError, match=WRONG):
            optimizer.update(model, *batch(4))
        assert_alike(
            (state(model), [seen(dict(p.update_rule.state)) for p in model.params()]), before
        )
        assert optimizer.t == t
        optimizer.update(model, *batch(5))
        optimizer.update(model, *batch(6))
    sdbr.synchronize()
    assert model.schedule_manager.statistics.steps == 5
    assert audits(model).failed == 0
    assert (audits(model).passed, audits(model).inconclusive) == (
        (4, 1) if setting == EVERY else (0, 0)
    )


@no_gpu
@pytest.mark.parametrize("setting", ["off", EVERY])
@pytest.mark.parametrize("how", ["call", "backward", "step"])
def test_labels_that_the_call_computes(setting, how):
    """Nobody knows before that they are out of range."""

    def forward(self, x, t):
        y = self.out(F.tanh(self.layer(x)))
        return F.softmax_cross_entropy(y, t * 2 - 1)

    model = made(Way(True), forward)
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)

    def run(x, t):
        if how == "step":
            optimizer.update(model, x, t)
            return
        model.cleargrads()
        loss = model(x, t)
        if how == "backward":
            loss.backward()

    def given(k, *labels):
        return normal(5, 3, seed=k), cupy.asarray([*labels, 1, 1, 1], "i")

    with chainer.using_config("sdbr_audit", setting):
        for k in range(3):
            run(*given(k, 0, 1))
        before = state(model)
        with pytest.raises(IndexError, match="index 3 at position 1 is out of range for 3"):
            run(*given(4, 1, 2))
            assert_alike(
                [(name, value) for name, value, _ in state(model)],
                [(name, value) for name, value, _ in before],
            )
            if how == "step":
                assert_alike(state(model), before)
            run(*given(5, 0, 1))
        run(*given(6, 0, 1))
    a = audits(model)
    assert a.failed == 0
    assert (a.passed, a.inconclusive) == ((3, 1) if setting == EVERY else (0, 0))


@no_gpu
@pytest.mark.parametrize("setting", ["off", EVERY])
@pytest.mark.parametrize("goes_back", [False, True])
def test_labels_out_of_range_in_calls(setting, goes_back):
    model = made(Way(True))
    with chainer.using_config("sdbr_audit", setting):
        for k in range(3):
            model(*batch(k)).backward()
        loss = model(*wrong(3))
        with pytest.raises(IndexError, match=WRONG):
            loss.backward() if goes_back else model(*batch(4))
        model.cleargrads()
        model(*batch(5)).backward()
    assert audits(model).failed == 0
    assert audits(model).passed == (3 if setting == EVERY else 0)


# --- other random numbers, other precision -------------------------------------------------------


def drops_and_draws(self, x, t):
    h = F.dropout(F.tanh(self.layer(x)), 0.5)
    h = h + cupy.random.normal(0.0, 0.1, (5, 4), "f")
    return F.softmax_cross_entropy(self.out(F.gaussian(h, h * 0)), t)


@pytest.mark.parametrize("how", ["call", "step"])
def test_philox_is_compared_and_leaves_the_generator_alone(how, executables):
    """Only what is not made by kernels is drawn, whenever there is an audit."""
    found = []
    for setting in ("off", "auto", EVERY):
        model = made(Way(True), drops_and_draws)
        optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
        draws = []
        with (
            chainer.using_config("sdbr_random", "philox"),
            chainer.using_config("sdbr_audit", setting),
        ):
            for k in range(8):
                if k == 4:  # all programs are made, each with a seed
                    cupy.random.seed(5)
                if how == "step":
                    optimizer.update(model, *batch(k))
                else:
                    model.cleargrads()
                    model(*batch(k)).backward()
                draws.append(seen(cupy.random.rand(2)))
        found.append(draws[4:])
        a = audits(model)
        assert (a.failed, a.inconclusive, a.noisy) == (0, 0, 0)
        assert a.passed == {"off": 0, EVERY: 7}.get(setting, a.passed)
        assert setting == "off" or a.passed
    assert_alike(found[1], found[0])
    assert_alike(found[2], found[0])


@no_gpu
def test_a_wrong_dropout_that_makes_its_numbers():
    def forward(self, x, t):
        return F.softmax_cross_entropy(self.out(F.dropout(self.layer(x), 0.5)), t)

    with (
        spoiled("device/random.cuh", WRONG_DROPOUT[0], WRONG_DROPOUT[1]),
        chainer.using_config("sdbr_random", "philox"),
    ):
        model = made(Way(True), forward)
        model(*batch(0))
        with pytest.warns(sdbr.SdbrWarning, match=r"\(Dropout / at .*differs"):
            model(*batch(1))


class TestTF32:
    """Products that round their factors differ by more than the limits, and are right."""

    @pytest.fixture
    def races(self):
        with device.by_library(rounds=1):
            yield functools.cache(lambda number: device.Races(device.handle(number), None))

    @no_gpu
    @pytest.mark.parametrize("how", ["call", "step"])
    def test_rounding_to_tf32_is_no_difference(self, how):
        model = made(Way(True))
        optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
        with chainer.using_config("sdbr_tf32", True), chainer.using_config("sdbr_audit", EVERY):
            for k in range(6):
                if how == "step":
                    optimizer.update(model, *batch(k))
                else:
                    model.cleargrads()
                    model(*batch(k)).backward()
        a = audits(model)
        assert (a.failed, a.inconclusive, a.passed) == (0, 0, 5)
        assert a.noisy >= 5

    @no_gpu
    @pytest.mark.parametrize("tf32", [False, True])
    def test_the_same_error_without_leave_is_one(self, tf32, monkeypatch):
        """Nobody allowed it: the library rounds all the same."""
        monkeypatch.setattr(cublaslt, "_COMPUTE", {"f4": 77, "f8": 70})
        model = made(Way(True))
        with chainer.using_config("sdbr_tf32", tf32):
            model(*batch(0))
            with nothing_said() if tf32 else pytest.warns(sdbr.SdbrWarning, match="differs"):
                model(*batch(1))

    @no_gpu
    @pytest.mark.parametrize("what", ["an index", "a label"])
    def test_what_is_wrong_is_more_than_that(self, what):
        kernels, _ = {**FORWARD, **BACKWARD}[what]
        with spoiled(*kernels), chainer.using_config("sdbr_tf32", True):
            model = made(Way(True))
            optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
            optimizer.update(model, *batch(0))
            with pytest.warns(sdbr.SdbrWarning, match="differs"):
                optimizer.update(model, *batch(1))


@no_gpu  # where atomics do so by themselves
def test_sums_in_any_order_are_rounding(monkeypatch):
    """Each run of define-by-run adds in an order of its own; little is left of large numbers."""
    rng, orders = np.random.RandomState(0), []

    def scatter_add(a, slices, value):
        (places,) = slices
        for i in rng.permutation(len(places)):
            a._host[int(places[i])] += value._host[i]
        orders.append(None)

    monkeypatch.setattr(cupyx, "scatter_add", scatter_add)
    where = cupy.zeros(40, "i")

    def forward(self, x, t):
        large = F.reshape(self.layer(x) * 1e4, (40,))
        zeros = self.layer(x)[0, :1] * 0
        return F.scatter_add(zeros, where, large - F.flipud(large))

    model = Way(True).model(forward, layer=lambda: L.Linear(3, 8))
    with chainer.using_config("sdbr_audit", EVERY), nothing_said():
        for k in range(6):
            model(*batch(k))
    assert len(orders) > 12  # also on disturbed inputs, and once more on those that were given
    a = audits(model)
    assert (a.failed, a.passed) == (0, 5)
    assert a.noisy


@contextlib.contextmanager
def nothing_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- the rest of what users see ------------------------------------------------------------------


def everything(self, x, t):
    """Statistics that move, a report, an attribute, code that runs once."""
    h = F.dropout(self.norm(self.layer(x)), 0.2)
    self.h = h * self.scale
    note(h.array)
    y = self.out(F.relu(h))
    loss = F.softmax_cross_entropy(y, t)
    chainer.report({"loss": loss, "accuracy": F.accuracy(y, t)}, self)
    return loss


NOTED = []


@sdbr.static_code
def note(h):
    NOTED.append(h.copy())


def test_a_run_is_the_same_to_the_last_bit_with_and_without():
    found, noted = [], []
    for setting in ("off", "auto", EVERY):
        NOTED.clear()
        model = Way(True).model(
            everything,
            layer=lambda: L.Linear(3, 4),
            norm=lambda: L.BatchNormalization(4),
            out=lambda: L.Linear(4, 3),
        )
        model.scale = 2.0
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        reporter = chainer.Reporter()
        reporter.add_observer("main", model)
        cupy.random.seed(3)
        mine = []
        with chainer.using_config("sdbr_audit", setting):
            for k in range(8):
                with reporter.scope({}) as _, reporter:
                    if k % 3:
                        optimizer.update(model, *batch(k))
                    else:
                        model.cleargrads()
                        model(*batch(k)).backward()
                        optimizer.update()
                    mine.append(seen(dict(reporter.observation)))
                mine.append((state(model), seen(model.h), seen(cupy.random.rand(2))))
        assert len(NOTED) == 8
        found.append(mine)
        noted.append([seen(x) for x in NOTED])
        assert audits(model).failed == 0
        assert setting == "off" or audits(model).passed
    with np.printoptions(precision=17):
        assert repr(found[1]) == repr(found[0]) == repr(found[2])
    # In an audit it sees what define-by-run makes, which rounds in an order of its own.
    assert_alike(noted[1:], [noted[0]] * 2)


def test_validate_every():
    """The second of two replays is compared, whatever audits may cost."""
    forward = sdbr.static_graph(perceptron, validate_every=2)
    model = Way(False).model(forward, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 3))
    with chainer.using_config("sdbr_audit", "off"):
        for k in range(7):
            model(*batch(k)).backward()
    assert (audits(model).passed, audits(model).gradients) == (3, 3)


@no_gpu
@pytest.mark.parametrize("options", [{"validate_every": 1}, {"on_dynamic": "raise"}])
@pytest.mark.parametrize("part", ["forward", "backward"])
def test_differences_that_are_errors(options, part):
    kernels, text = FORWARD["an index"] if part == "forward" else BACKWARD["a slope"]
    with spoiled(*kernels):
        forward = sdbr.static_graph(perceptron, **options)
        model = Way(False).model(forward, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 3))
        model(*batch(0)).backward()
        before = [seen(p.array) for p in model.params()]
        with pytest.raises(ValidationError, match=text.format(part)):
            model(*batch(1)).backward()
    assert_alike([seen(p.array) for p in model.params()], before)


@two_devices
def test_audits_on_another_gpu_than_the_current_one():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way, dropped)
        model.to_device("@cupy:1")
        optimizer = way.optimizer(optimizers.Adam(), model)
        with chainer.using_config("sdbr_audit", EVERY):
            for k in range(5):
                args = [chainer.get_device("@cupy:1").send(x) for x in batch(k)]
                with cupy.cuda.Device(1):
                    cupy.random.seed(k)
                if k % 2:
                    optimizer.update(model, *args)
                else:
                    model.cleargrads()
                    model(*args).backward()
                    optimizer.update()
        found.append(state(model))
    assert_alike(found[1], found[0])
    assert (audits(model).failed, audits(model).passed) == (0, 4)


def test_audits_on_streams_of_the_users():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        optimizer = way.optimizer(optimizers.Adam(), model)
        with chainer.using_config("sdbr_audit", EVERY):
            for k in range(6):
                with cupy.cuda.Stream():
                    optimizer.update(model, *batch(k))
        found.append(state(model))
    assert_alike(found[1], found[0])
    assert (audits(model).failed, audits(model).passed) == (0, 5)


def test_nothing_of_an_audit_stays():
    """Without the collector of cycles: memory of a GPU is not given back by it in time."""
    for forward in (perceptron, dropped, forgotten):
        model = made(Way(True), forward)
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        pool = cupy.get_default_memory_pool()
        used = []
        gc.collect()
        gc.disable()
        try:
            with chainer.using_config("sdbr_audit", EVERY):
                for k in range(8):
                    x, t = batch(k)
                    if k % 2:
                        loss = model(x, t)
                        model.cleargrads()
                        loss.backward()
                        del loss
                    optimizer.update(model, x, t)
                    used.append(pool.used_bytes())
        finally:
            gc.enable()
        assert used[-4:-2] == used[-2:], (forward, used)


def test_the_time_of_the_gpu_counts(monkeypatch):
    """Nobody waits for a replay, so what it takes is seen in a few that are waited for."""
    waits = []

    def wait(device):
        waits.append(device)
        time.sleep(0.002)

    monkeypatch.setattr(_budget, "wait_quietly", wait)
    model = made(Way(True))
    with chainer.using_config("sdbr_audit", 1e-9):
        for k in range(4):
            model(*batch(k))
        before, n = audits(model).budget.replayed, len(waits)
        for k in range(100):
            model(*batch(k)).backward()
    assert audits(model).budget.replayed - before > 2 * 100 * 0.002
    assert len(waits) - n < 20
    assert set(waits) == {0}


def test_explain_shows_them():
    model = made(Way(True))
    with chainer.using_config("sdbr_audit", EVERY):
        for k in range(3):
            model(*batch(k)).backward()
    assert "audits 2: passed 2, failed 0" in str(sdbr.explain(model))
