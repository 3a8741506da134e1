"""Row 10: numbers that leave their arrays (``float(x)``, ``x.item()``) are those of each call."""

from __future__ import annotations

import math
import os
import re
from functools import partial

import sdbr
from sdbr.trace.arrays.traced_float import TracedFloat

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS
from tests.harness.numbers import BY_VALUE
from tests.harness.threads import in_threads
from tests.harness.twins import counts, statistics_of
from tests.tolerances import DOUBLE, DOUBLE_ROUNDINGS, ROUNDINGS, SUMS

KEPT = None
LIST: list = []
TABLE: dict = {}


class Told(chainer.Chain):
    """A classifier that tells numbers."""

    def __init__(self, tell):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)
            self.o = L.Linear(4, 2)
        self.tell = tell
        self.last = self.beside = None
        self.scale = 0.5

    def forward(self, x, t):
        h = self.l(x)
        loss = F.softmax_cross_entropy(self.o(F.tanh(h)), t)
        return self.tell(self, h, loss)


def reported(self, h, loss):
    chainer.report({"loss": float(loss.array)}, self)
    return loss


def reported_items(self, h, loss):
    chainer.report(
        {"low": h.array.min().item(), "loss": loss.item(), "n": h.array[0].item(2)}, self
    )
    return loss


def arithmetic(self, h, loss):
    a, b = float(loss.array), h.array.max().item()
    chainer.report({"a": a + 0.1 * b, "b": -(a - 3) / 2, "c": 1 / (1 + a) - abs(a - 0.7)}, self)
    chainer.report({"d": a / (a + abs(b) + 1), "e": a**2, "f": 2 - a, "g": (a * 3) ** 0.5}, self)
    return loss


def by_math(self, h, loss):
    a = float(loss.array)
    chainer.report({"a": math.sqrt(a), "b": math.exp(a), "c": math.log(a)}, self)
    return loss


def in_python(self, h, loss):
    a = float(loss.array)
    chainer.report({"a": math.atan2(a, 0.3), "b": a % 0.1, "c": round(a, 2), "d": a**1.7}, self)
    chainer.report({"e": a // 0.01, "f": math.erf(a)}, self)
    return loss


def of_double_precision(self, h, loss):
    number = float(h.array[0, 0].astype("d"))
    chainer.report({"a": number / 3, "b": np.float64(0.1) * number}, self)
    chainer.report({"c": number - np.float64(0.1), "d": np.sqrt(abs(number))}, self)
    chainer.report({"e": np.ones(2, "f") * number, "f": number * np.float32(0.3)}, self)
    return loss


def with_an_attribute(self, h, loss):
    chainer.report({"loss": float(loss.array) * self.scale}, self)
    self.scale = self.scale * 2 - float(loss.array)
    return loss


def kept_in_an_attribute(self, h, loss):
    self.last = float(loss.array)
    return loss * 2


def kept_in_containers(self, h, loss):
    self.last = {"loss": float(loss.array), "n": 3, "all": [h.array.max().item(), h]}
    self.beside = (float(loss.array) * 2, None)
    return loss


def kept_in_a_global(self, h, loss):
    global KEPT
    KEPT = float(loss.array) - 1
    return loss


def handed_back(self, h, loss):
    return loss, float(loss.array), {"double": [2 * float(loss.array)]}


def listed(self, h, loss):
    return loss, h.array[:2].tolist(), h.array.max().tolist()


def mapped(self, h, loss):
    low, high = map(float, (h.array.min(), h.array.max()))
    chainer.report({"range": high - low, "mean": sum(map(float, h.array[0])) / 4}, self)
    return loss


def fed_to_operators(self, h, loss):
    a = float(loss.array)
    return F.sum((h * a + a - 1 / (2 + a)) / (1 + a)) + a * loss - (a - h[0, 0]) ** 2


def fed_to_arrays(self, h, loss):
    a = float(loss.array)
    return F.sum(h * (h.array * a)) + F.sum(h * (a + (h.array > a)).astype("f"))


def temperature(self, h, loss):
    return F.sum(F.softmax(h / float(abs(h.array).max()))[:, 0]) + loss


def capped(self, h, loss):
    return loss * min(1.0, 0.7 / float(loss.array))


def clipped(self, h, loss):
    norm = float(np.sqrt((h.array**2).sum()))
    return F.sum(h * (2 / norm)) if norm > 2 else F.sum(h)


def checked(self, h, loss):
    if math.isnan(float(loss.array)) or not float(loss.array):
        raise FloatingPointError("loss")
    return loss * (1 + int(float(loss.array))) * (1 + math.floor(h.array.max().item() / 8))


def float_is_float(self, h, loss):
    a = float(loss.array)
    if not isinstance(a, float) or not isinstance(a, (int, float)) or isinstance(3, float):
        raise TypeError  # an assertion of pytest formats texts
    weights = (h.array > 0).astype(float) + np.zeros(4, dtype=float)
    return F.sum(h * weights.astype("f")) * a + float("0.5") + float(3) + {float: 1.0}[float]


NATIVE = [
    reported, reported_items, arithmetic, by_math, of_double_precision, with_an_attribute,
    kept_in_an_attribute, kept_in_containers, kept_in_a_global, handed_back, listed, mapped,
    fed_to_operators, fed_to_arrays, temperature, capped, clipped, checked, float_is_float,
]  # fmt: skip
if BY_VALUE:  # there a number of double precision asks no other for its way
    NATIVE.remove(of_double_precision)
PYTHON = [in_python]


def twins(tell, **options):
    np.random.seed(0)
    plain = Told(tell)
    static = plain.copy(mode="copy")
    return plain, sdbr.static_graph(static, on_dynamic="raise", **options)


def batches(n):
    rng = np.random.RandomState(1)
    for _ in range(n):
        yield rng.randn(5, 3).astype("f"), rng.randint(0, 2, 5).astype("i")


def observed(model, call):
    """What a call gives, reports and keeps."""
    global KEPT
    KEPT = None
    reporter = chainer.Reporter()
    reporter.add_observer("model", model)
    with reporter.scope({}):
        result = call()
        kept = [model.last, model.beside, model.scale, KEPT]
        return [result, dict(reporter.observation), *kept]


def assert_same(got, want):
    """The same classes, to the last one inside, and numbers."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = list(got.values()), list(want.values())
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    elif want is not None and not isinstance(want, int):
        np.testing.assert_allclose(
            getattr(got, "array", got), getattr(want, "array", want), SUMS, SUMS
        )


def loss_of(result):
    return result[0] if isinstance(result, tuple) else result


def update(model, optimizer, *batch):
    optimizer.update(lambda *args: loss_of(model(*args)), *batch)


@pytest.mark.parametrize("audit", ["off", "1.0"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tell", NATIVE + PYTHON)
def test_every_call_has_its_own_numbers(tell, backend, audit):
    plain, static = twins(tell, backend=backend)
    with chainer.using_config("sdbr_audit", audit):
        for x, t in batches(6):
            found = []
            for model in (plain, static):
                model.cleargrads()
                seen = observed(model, partial(model, x, t))
                loss_of(seen[0]).backward()
                found.append([*seen, [p.grad for _, p in sorted(model.namedparams())]])
            assert_same(found[1], found[0])
    statistics = statistics_of(static)
    assert statistics.define_by_run_calls == 0 and statistics.replays >= 3
    assert bool(statistics.python_ops) == (tell in PYTHON)


@pytest.mark.parametrize("tell", NATIVE)
def test_in_whole_steps_and_without_backprop(tell):
    pairs = []
    for around, model in zip((lambda o: o, sdbr.static_optimizer), twins(tell), strict=True):
        pairs.append((model, around(chainer.optimizers.SGD(0.05)).setup(model)))
    for x, t in batches(6):
        found = [observed(m, partial(update, m, o, x, t))[1:] for m, o in pairs]
        assert_same(found[1], found[0])
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            found = [observed(m, partial(m, x, t)) for m, _ in pairs]
        assert_same(found[1], found[0])
    for a, b in zip(pairs[0][0].params(), pairs[1][0].params(), strict=True):
        assert_same(b.array, a.array)
    statistics = statistics_of(pairs[1][0])
    assert statistics.replays >= 6 and statistics.python_ops == 0


def test_numbers_have_all_their_digits():
    """float32 to float is exact; what Python adds is added in double precision."""

    def f(x):
        a = float(x.sum())
        return a, a / 3, a * 1e300, x.astype("d").sum().item() * (1 / 3)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for k in range(5):
        x = np.float32([0.1, k, 1e-3])
        got = static(x)
        np.testing.assert_allclose(got[0], x.sum(), rtol=ROUNDINGS)
        assert got[0] == np.float32(got[0])
        assert got[1:3] == (got[0] / 3, got[0] * 1e300)
        assert got[3] == pytest.approx(x.astype("d").sum() / 3, rel=DOUBLE_ROUNDINGS)
    assert counts(static) == (1, 4, 0)


@pytest.mark.parametrize(
    ("compute", "error"),
    [
        (lambda a, b: a / b, ZeroDivisionError),
        (lambda a, b: 1 / b, ZeroDivisionError),
        (lambda a, b: math.log(b), ValueError),
        (lambda a, b: math.sqrt(b - 1e-9), ValueError),
        (lambda a, b: math.exp(1 / (b + 1e-4)), OverflowError),
        (lambda a, b: (1e200 * (2 - b)) ** 2, OverflowError),
        (lambda a, b: b**-2, ZeroDivisionError),
        (lambda a, b: a % b, ZeroDivisionError),
    ],
)
def test_errors_are_those_of_python(compute, error):
    static = sdbr.static_graph(lambda x: compute(float(x[0]), float(x[1])))
    plain = [2.0, 2.0, 2.0, 0.0, 2.0]
    for b in plain:
        x = np.array([3, b])
        if b:
            assert static(x) == pytest.approx(compute(3.0, b), rel=DOUBLE)
        else:
            with pytest.raises(error):
                static(x)
    assert statistics_of(static).replays >= 2


def test_a_comparison_is_a_question():
    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        return F.relu(x) if float(x.array.sum()) > 2 else F.tanh(x)

    for k in [0, 1, 0, 5, 5, 1, 5, np.nan, 1]:
        x = np.array([k, 0.5], "f")
        want = np.maximum(x, 0) if x.sum() > 2 else np.tanh(x)
        np.testing.assert_allclose(f(chainer.Variable(x)).array, want, SUMS)
    assert counts(f) == (2, 7, 0)


def test_second_derivatives_see_the_numbers_of_the_call():
    class Cubed(chainer.Chain):
        scale = None

        def forward(self, x):
            return F.sum(x**3 * (self.scale * float(x.array.sum())))

    plain, static = Cubed(), sdbr.static_graph(Cubed(), enable_double_backprop=True)
    for k in range(5):
        found = []
        for model in (plain, static):
            model.scale = 0.5 + k
            x = chainer.Variable(np.float32([1 + k, -0.5]))
            (gx,) = chainer.grad([model(x)], [x], enable_double_backprop=True)
            (ggx,) = chainer.grad([F.sum(gx**2)], [x])
            found.append([gx.array, ggx.array])
        assert_same(found[1], found[0])
    assert counts(static) == (1, 4, 0)


# --- what cannot be followed ---------------------------------------------------------------------
def written_as_a_text(x):
    return f"{float(x.sum()):.3f}"


def a_key(x):
    return {float(x.sum()): 1}


def into_a_list(x):
    LIST.append(float(x.sum()))
    return x * 2


def into_a_nested_list(x):
    TABLE.setdefault("last", []).append(x.sum().item())
    return x * 2


def past_the_reporter(x):
    chainer.reporter.get_current_reporter().observation["x"] = float(x.sum())
    return x * 2


def a_ratio(x):
    return F.dropout(x, float(x.sum()) * 0)


@pytest.mark.parametrize(
    "f", [written_as_a_text, a_key, into_a_list, into_a_nested_list, past_the_reporter, a_ratio]
)
def test_what_cannot_be_followed_is_said(f):
    global LIST, TABLE
    LIST, TABLE = [], {}  # not those that are frozen for the garbage collector
    static = sdbr.static_graph(f)
    reporter = chainer.Reporter()
    with reporter.scope({}), pytest.warns(sdbr.SdbrWarning, match="test_leaving_scalars"):
        for k in range(5):
            x = np.float32([k, 2])
            static(x)
            kept = {into_a_list: LIST, into_a_nested_list: TABLE.get("last")}.get(f, [])
            assert not kept or kept[-1] == k + 2
            assert not any(isinstance(number, TracedFloat) for number in kept)
            if f is past_the_reporter:
                assert reporter.observation["x"] == k + 2
    assert statistics_of(static).replays == 0


@pytest.mark.parametrize(
    "tell",
    [
        lambda x: "".join(x.astype(str)),
        lambda x: b"".join(x.astype("S8")),
        lambda x: "-".join(np.char.mod("%.2f", x)),
        lambda x: os.path.join("folder", x.astype(str)[0]),
        lambda x: re.sub("-", "", x.astype(str)[1]),
        lambda x: "".join(sorted(x.astype(str), key=len)),
    ],
    ids=["join", "bytes", "char", "path", "re", "sorted"],
)
def test_texts_of_numbers(tell):
    """Compiled code takes nothing but texts there."""
    static = sdbr.static_graph(tell)
    told = "(a value left NumPy as a text|an array went into numpy.mod.*) at .*leaving_scalars"
    with pytest.warns(sdbr.SdbrWarning, match=told):
        for k in range(4):
            x = np.float32([k, -2.5])
            assert static(x) == tell(x)
    assert statistics_of(static).replays == 0


class Averaging(chainer.Chain):
    def __init__(self, text):
        super().__init__()
        self.mean, self.rate, self.text = 0.0, 0.1, text

    def forward(self, x):
        if self.text:
            str(self.mean)
        self.mean = (1 - self.rate) * self.mean + self.rate * float(x.sum())
        return x * self.mean


@pytest.mark.parametrize("audit", ["off", "1.0"])
def test_an_average_is_read_and_written(audit):
    static, want = sdbr.static_graph(Averaging(False), on_dynamic="raise"), 0.0
    with chainer.using_config("sdbr_audit", audit):
        for k in range(9):
            static.rate = 0.1 + 0.01 * k
            x = np.float32([k, 2])
            y = static(x)
            want = (1 - static.rate) * want + static.rate * (k + 2)
            assert static.mean == pytest.approx(want, rel=DOUBLE_ROUNDINGS)
            assert static.mean.__class__ is want.__class__
            np.testing.assert_allclose(y, x * want, SUMS)
            if k == 5:
                static.mean = want = 3.5  # by somebody else
    assert counts(static) == (1, 8, 0)


def test_what_is_read_and_written_otherwise_is_dynamic():
    static, want = sdbr.static_graph(Averaging(True)), 0.0
    with pytest.warns(sdbr.SdbrWarning, match="'mean'"):
        for k in range(6):
            static(np.float32([k, 2]))
            want = 0.9 * want + 0.1 * (k + 2)
            assert static.mean == want and static.mean.__class__ is want.__class__
            assert not isinstance(static.mean, TracedFloat)
    assert counts(static)[:2] == (1, 0)


@pytest.mark.parametrize("writes", [False, True])
def test_another_call_reads_what_replays_write(writes):
    class Two(chainer.Chain):
        last = 0.0
        kept = None

        @sdbr.static_graph(on_dynamic="raise")
        def forward(self, x):
            self.last = float(x.sum())
            return x * 2

        @sdbr.static_graph(on_dynamic="raise")
        def scaled(self, x):
            if writes:
                self.kept = x * 2
            return (F.relu(x) if self.last > 3 else -F.relu(x)) * self.last

    two = Two()
    for k in [0, 1, 2, 5, 1, 7, 0, 9, 2]:
        x = np.float32([k, 1])
        two.forward(x)
        want = x * (k + 1) * (1 if k + 1 > 3 else -1)
        np.testing.assert_allclose(two.scaled(x).array, want, SUMS)
    assert two.schedule_manager.statistics.replays == 8


def test_several_threads_have_their_own_numbers():
    def f(x):
        a = float(x.sum())
        return a, F.relu(x) * a

    static, found = sdbr.static_graph(f, on_dynamic="raise"), []
    for _ in range(3):
        static(np.float32([1, 2]))

    def work(k):
        with chainer.using_config("sdbr_audit", "off"):
            for _ in range(50):
                number, y = static(np.float32([k, 1]))
                found.append(number == k + 1 and (y.array == np.float32([k, 1]) * (k + 1)).all())

    before = statistics_of(static).replays
    in_threads(4, work)
    assert len(found) == 200 and all(found)
    assert statistics_of(static).replays == before + 200
