"""Row 17: hooks of single links. Those of Chainer's that compute weights replay."""

from __future__ import annotations

import copy

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer.link_hooks import SpectralNormalization, TimerHook, WeightStandardization

from tests.harness.comparison import assert_all_near, gradients_of, state_of
from tests.harness.models import Net
from tests.tolerances import RESULTS, SUMS

X = np.random.RandomState(0).randn(6, 5, 4).astype("f")


class Critic(chainer.Chain):
    """A network like a discriminator: two hooked links, called twice in one call."""

    def __init__(self, *hooks):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 6)
            self.b = L.Linear(6, 1)
        for hook in hooks:
            self.a.add_hook(hook())

    def score(self, x):
        return self.b(F.leaky_relu(self.a(x)))

    def forward(self, x):
        return F.mean(self.score(x)) - F.mean(self.score(x * 2)) ** 2


def spectral():
    return SpectralNormalization(use_gamma=True)


def made(static, *hooks, cls=Critic, **options):
    np.random.seed(3)
    model = cls(*hooks)
    return sdbr.static_graph(model, **{"on_dynamic": "raise", **options}) if static else model


def iterate(model, x, optimizer=None) -> dict:
    """One iteration; everything that it leaves behind."""
    loss = model(x)
    model.cleargrads()
    loss.backward()
    found = {**gradients_of(model), "loss": loss.array.copy()}
    if optimizer is not None:
        optimizer.update()
    return {**found, **state_of(model)}


def compare(static, plain, n=6, between=None, optimizers=(None, None)):
    for i in range(n):
        if between is not None:
            between(static, i)
            between(plain, i)
        got, want = iterate(static, X[i], optimizers[0]), iterate(plain, X[i], optimizers[1])
        assert_all_near(got, want, SUMS, f"iteration {i}")


HOOKS = {"spectral": spectral, "standardization": WeightStandardization}


@pytest.mark.parametrize("name", HOOKS)
def test_replays_while_an_optimizer_updates(name):
    static, plain = made(True, HOOKS[name]), made(False, HOOKS[name])
    optimizers = [chainer.optimizers.Adam().setup(m) for m in (static, plain)]
    compare(static, plain, optimizers=optimizers)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 5)
    assert type(static.a.W) is chainer.Parameter


@pytest.mark.parametrize("name", HOOKS)
def test_whole_steps(name):
    static, plain = made(True, HOOKS[name]), made(False, HOOKS[name])
    fast = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.05)).setup(static)
    slow = chainer.optimizers.MomentumSGD(0.05).setup(plain)
    for i in range(6):
        fast.update(static, X[i])
        slow.update(plain, X[i])
        assert_all_near(state_of(static), state_of(plain), SUMS, f"step {i}")
    assert static.schedule_manager.statistics.steps >= 4


def test_what_the_hook_keeps_is_that_of_the_last_call():
    static, plain = made(True, spectral), made(False, spectral)
    compare(static, plain)
    got, want = (m.a.local_link_hooks["SpectralNormalization"].v for m in (static, plain))
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, want, rtol=RESULTS)


def test_vectors_rest_in_test_mode():
    static = made(True, spectral)
    static(X[0])
    u = static.a.W_u.copy()
    with chainer.using_config("train", False):
        for i in range(3):
            static(X[i])
    np.testing.assert_array_equal(static.a.W_u, u)
    static(X[0])
    assert (static.a.W_u != u).any()


def test_a_changed_factor_is_noticed():
    def anneal(model, i):
        model.a.local_link_hooks["SpectralNormalization"].factor = None if i < 2 else 1.0 + i // 4

    hook = SpectralNormalization
    static, plain = made(True, hook), made(False, hook)
    compare(static, plain, between=anneal)
    assert static.schedule_manager.statistics.traces == 3


def test_hooks_that_come_and_go():
    def change(model, i):
        if i == 2:
            model.b.add_hook(WeightStandardization())
        if i == 4:
            model.b.delete_hook("WeightStandardization")

    static, plain = made(True, spectral), made(False, spectral)
    compare(static, plain, between=change)
    assert static.schedule_manager.statistics.traces == 2  # the first schedule fits again


def test_a_hook_replaced_by_its_like():
    def change(model, i):
        if i == 3:
            model.a.delete_hook("WeightStandardization")
            model.a.add_hook(WeightStandardization(eps=0.5))

    static, plain = made(True, WeightStandardization), made(False, WeightStandardization)
    compare(static, plain, between=change)
    assert static.schedule_manager.statistics.traces == 2


class Watching(chainer.LinkHook):
    name = "Watching"

    def __init__(self):
        self.seen = []

    def forward_preprocess(self, args):
        self.seen.append(type(args.link).__name__)


class Halved(SpectralNormalization):
    """A subclass may do anything."""

    def normalize_weight(self, link):
        return super().normalize_weight(link) * 0.5


@pytest.mark.parametrize("hook", [Watching, Halved])
def test_other_hooks_see_what_chainer_shows(hook):
    """Define-by-run, without a warning: it is no fault of the code."""
    static, plain = made(True, hook), made(False, hook)
    compare(static, plain)
    manager = static.schedule_manager
    assert manager.statistics.define_by_run_calls == 5
    assert manager.define_by_run_reasons == {
        f"a link hook is active: {hook.name} on Linear": 5,
    }
    assert f"a link hook is active: {hook.name}" in str(sdbr.explain(static))
    if hook is Watching:
        assert static.a.local_link_hooks["Watching"].seen == ["Linear"] * 12


def test_global_hooks_see_what_chainer_shows():
    static = made(True, spectral)
    static(X[0])
    with TimerHook() as hook:
        static(X[1])
        static(X[2])
    assert len(hook.call_history) == 2 * 5
    assert static.schedule_manager.statistics.define_by_run_calls == 2
    static(X[3])
    assert static.schedule_manager.statistics.replays == 1


@pytest.mark.parametrize("name", HOOKS)
def test_a_wrapped_link_that_has_a_hook_itself(name):
    results = []
    for static in (True, False):
        np.random.seed(1)
        link = L.Linear(4, 3).add_hook(HOOKS[name]())
        model = sdbr.static_graph(link, on_dynamic="raise") if static else link
        found = []
        for x in X:
            loss = F.sum(model(x) ** 2)
            model.cleargrads()
            loss.backward()
            found.append({**gradients_of(model), **state_of(model), "loss": loss.array})
        results.append(found)
        if static:
            assert model.schedule_manager.statistics.replays >= 4
    for i, (got, want) in enumerate(zip(*results, strict=True)):
        assert_all_near(got, want, SUMS, f"iteration {i}")


def test_copies_have_hooks_of_their_own():
    static, plain = made(True, spectral), made(False, spectral)
    compare(static, plain, 3)
    static, plain = copy.deepcopy(static), copy.deepcopy(plain)
    compare(static, plain, 3)
    assert static.schedule_manager.statistics.replays == 2


class Penalized(Critic):
    """A gradient penalty beside spectral normalization."""

    def forward(self, x):
        return self.score(x)


def test_second_derivatives_through_a_hooked_link():
    records = []
    for static in (True, False):
        model = made(static, spectral, cls=Penalized, enable_double_backprop=True)
        found = []
        for data in X:
            x = chainer.Variable(data)
            y = model(x)
            (gx,) = chainer.grad([y], [x], enable_double_backprop=True)
            loss = F.mean((F.sqrt(F.sum(gx**2, axis=1)) - 1) ** 2) + F.mean(y)
            model.cleargrads()
            loss.backward()
            found.append({**gradients_of(model), **state_of(model), "loss": loss.array})
        records.append(found)
        if static:
            assert model.schedule_manager.statistics.replays == 5
    for i, (got, want) in enumerate(zip(*records, strict=True)):
        assert_all_near(got, want, SUMS, f"iteration {i}")


SEQUENCES = np.random.RandomState(0).randn(6, 4, 3)


class Counting(chainer.LinkHook):
    """Counts the links that it sees."""

    name = "Counting"

    def __init__(self):
        self.seen = 0

    def forward_postprocess(self, args):
        self.seen += 1


def test_a_link_hook_on_the_static_chain_itself_between_whole_steps():
    model = sdbr.static_graph(Net(lambda self, x: F.sum(self.l(x) ** 2), l=L.Linear(3, 2)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    x = SEQUENCES[0].astype("f")
    for _ in range(4):
        optimizer.update(model, x)
    hook = Counting()
    model.add_hook(hook)
    for _ in range(3):
        optimizer.update(model, x)
    assert hook.seen == 3
    model.delete_hook("Counting")
    steps = model.schedule_manager.statistics.steps
    optimizer.update(model, x)
    assert hook.seen == 3
    assert model.schedule_manager.statistics.steps == steps + 1
