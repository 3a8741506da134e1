"""Row 10: whole numbers that leave their arrays (``int(x)``, ``x.item()``) are of each call."""

import math
from collections import defaultdict

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_all_near, gradients_of
from tests.harness.numbers import numbers_in
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS

N, D, K = 6, 3, 4


class Counting(chainer.Chain):
    def __init__(self, count):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(D, K)
        self.count = count
        self.total = self.seen = self.told = 0
        self.share = 0.0

    def forward(self, x, t):
        return self.count(self, self.l(x), t)


def right(h, t):
    return (h.array.argmax(1) == t).sum()


# --- followed: one schedule ----------------------------------------------------------------------
def reported(self, h, t):
    chainer.report({"right": int(right(h, t)), "low": h.array.argmin().item()}, self)
    return F.softmax_cross_entropy(h, t)


def accuracy(self, h, t):
    n = int(right(h, t))
    chainer.report({"accuracy": n / len(t), "error": 1 - n / len(t), "%": 100.0 * n / len(t)}, self)
    return F.softmax_cross_entropy(h, t)


def assigned(self, h, t):
    self.told = int(t.sum())
    self.share = self.told / len(t)
    return F.sum(h)


def added_up(self, h, t):
    self.total += int(right(h, t))
    self.seen += len(t)
    self.share = self.total / self.seen
    return F.softmax_cross_entropy(h, t)


def in_containers(self, h, t):
    n = int(t.sum())
    self.told = {"n": n, "two": [n * 2, -n, abs(n - 9), n + n, (1 - n, n - 0.5)]}
    return F.sum(h)


def handed_back(self, h, t):
    n, m = int((h.array > 0).sum()), t.max().item()
    return F.sum(h), {"n": n, "both": n * m + 3}


def divided_by(self, h, t):
    return F.sum(h**2) / (int((h.array > 0).sum()) + 1)


def multiplied_by(self, h, t):
    return F.sum(h * (h.array / (1 + t.sum().item()))) * float(int(t.sum()))


def by_math(self, h, t):
    n = int(t.sum())
    return F.sum(h) / math.sqrt(n + 1) + math.log(n + 2) + math.exp(-n)


def asked_of_what_class(self, h, t):
    return F.sum(h) * (int(t.sum()) if isinstance(int(t.sum()), int) else 2)


def in_a_local_dict(self, h, t):
    counts = defaultdict(int)
    counts["t"] += int(t.sum())
    chainer.report({"t": counts["t"]}, self)
    return F.sum(h)


def summed_in_python(self, h, t):
    return F.sum(h) * sum(int(x) for x in t[:3])


def unlike_what_was_converted(self, h, t):
    zeros = np.zeros(K, int) + np.arange(K).astype(int)
    return F.sum(h) * int("3") * int(2.7) * int("11", base=2) + zeros.sum()


FOLLOWED = [
    reported, accuracy, assigned, added_up, in_containers, handed_back, divided_by, multiplied_by,
    by_math, asked_of_what_class, in_a_local_dict, summed_in_python,
    unlike_what_was_converted,
]  # fmt: skip


# --- asked: a way for each answer ----------------------------------------------------------------
def compared_with(self, h, t):
    return F.sum(h) * (2 if int((h.array > 0).sum()) > N * K // 2 else 1)


def the_larger(self, h, t):
    return F.sum(h) * max(int((h.array > 0).sum()), int(t.sum()), 1)


def precision(self, h, t):
    y = h.array.argmax(1)
    hits = int(((y == 1) & (t == 1)).sum())
    chainer.report({"precision": hits / max(int((y == 1).sum()), 2)}, self)
    return F.sum(h)


def as_an_index(self, h, t):
    return F.sum(h[int(t[0]) :])


def as_a_length(self, h, t):
    total = 0
    for i in range(int(t[0]) + 1):
        total += F.sum(h) * i
    return total


def as_a_text(self, h, t):
    self.told = f"{int(t[0])} of {K}"
    return F.sum(h)


def as_a_key(self, h, t):
    return F.sum(h) * {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}[int(t[0])]


def for_a_function(self, h, t):
    return F.sum(F.clip(h, -float(int(t[0])), float(int(t[0]) + 1)))


def by_other_arithmetic(self, h, t):
    n = int(t[0])
    return F.sum(h) * (n**2 + n // 2 + n % 2 + (n << 1))


def with_whole_numbers(self, h, t):
    return F.sum(h) * (t * int(t[0])).sum()


ASKED = [
    compared_with, the_larger, precision, as_an_index, as_a_length, as_a_text, as_a_key,
    for_a_function, by_other_arithmetic, with_whole_numbers,
]  # fmt: skip


def batches(times):
    rng = np.random.RandomState(1)
    for _ in range(times):
        yield rng.randn(N, D).astype("f"), rng.randint(0, K, N).astype("i")


def models(count):
    np.random.seed(0)
    plain = Counting(count)
    return plain, sdbr.static_graph(plain.copy(mode="copy"), on_dynamic="raise")


def seen(model, call) -> tuple:
    """What a call gives, reports and leaves, and the numbers among it."""
    reporter, observed = chainer.Reporter(), {}
    reporter.add_observer("main", model)
    with reporter.scope(observed):
        result = call()
    loss, *more = result if isinstance(result, tuple) else (result,)
    return loss, numbers_in([more, observed, model.total, model.seen, model.told, model.share])


def compared(count, times=12, **config):
    plain, static = models(count)
    with chainer.using_config("sdbr_audit", config.get("audit", "off")):
        for i, batch in enumerate(batches(times)):
            found = []
            for model in (plain, static):
                loss, numbers = seen(model, lambda model=model, batch=batch: model(*batch))
                model.cleargrads()
                loss.backward()
                found.append(({"loss": loss.array.copy(), **gradients_of(model)}, numbers))
            assert_all_near(found[1][0], found[0][0], GRADIENTS, f"call {i}")
            assert found[1][1] == found[0][1]
    return statistics_of(static)


@pytest.mark.parametrize("audit", ["off", "1.0"])
@pytest.mark.parametrize("count", FOLLOWED)
def test_one_schedule_serves_all_numbers(count, audit):
    statistics = compared(count, audit=audit)
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 11, 0)


@pytest.mark.parametrize("count", ASKED)
def test_each_answer_has_a_way(count):
    statistics = compared(count, times=24)
    assert 1 < statistics.traces <= 12
    assert statistics.replays >= 8 and statistics.define_by_run_calls == 0


@pytest.mark.parametrize("count", FOLLOWED)
def test_in_whole_steps(count):
    plain, static = models(count)
    pairs = [
        (plain, chainer.optimizers.SGD(0.01).setup(plain)),
        (static, sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)),
    ]
    for i, batch in enumerate(batches(6)):
        found = []
        for model, optimizer in pairs:

            def loss(*args, model=model):
                result = model(*args)
                return result[0] if isinstance(result, tuple) else result

            found.append(
                seen(model, lambda o=optimizer, f=loss, b=batch: (o.update(f, *b), None)[1:])[1]
            )
        assert found[1] == found[0]
        assert_all_near(
            {k: p.array for k, p in static.namedparams()},
            {k: p.array for k, p in plain.namedparams()},
            GRADIENTS,
            f"step {i}",
        )
    assert statistics_of(static).replays >= 4
