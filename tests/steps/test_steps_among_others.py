"""Whole steps among other things: hooks, modes, backends, two optimizers, calls in between."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of, state_of
from tests.harness.models import MLP, Net, floats, labels
from tests.harness.nodes import Names
from tests.harness.steps import BATCH, classifier
from tests.tolerances import SUMS


def both(iterate, steps=8):
    """Run ``iterate(static)``, a generator of dictionaries, both ways and compare each of them."""
    want, got = iterate(False), iterate(True)
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        assert_all_near(g, w, SUMS, f"step {i}")


def prepared(static, make=classifier, rule=optimizers.Adam, seed=0, **options):
    np.random.seed(seed)
    model, optimizer = make(), rule()
    if static:
        model = sdbr.static_graph(model, on_dynamic="raise", **options)
        optimizer = sdbr.static_optimizer(optimizer)
    return model, optimizer.setup(model)


def test_backends_and_modes_in_turn():
    backends = ["cython", "numpy", "off", "cython", "auto", "numpy"] * 2
    models = []

    def iterate(static):
        model, optimizer = prepared(static)
        models.append(model)
        rng = np.random.RandomState(0)
        for i, backend in enumerate(backends):
            with (
                chainer.using_config("sdbr_backend", backend),
                chainer.using_config("train", i % 5 != 4),
                chainer.using_config("use_static_graph", i != 7),
            ):
                optimizer.update(model, *BATCH(rng))
            yield {**state_of(model), **gradients_of(model), "t": np.array(optimizer.t)}

    both(iterate)
    assert models[1].schedule_manager.statistics.steps >= 3


def test_function_hooks_during_steps():
    seen = {False: [], True: []}

    def iterate(static):
        model, optimizer = prepared(static)
        rng = np.random.RandomState(0)
        for i in range(6):
            if i in (3, 4):
                with Names() as hook:
                    optimizer.update(model, *BATCH(rng))
                seen[static].append(hook.seen)
            else:
                optimizer.update(model, *BATCH(rng))
            yield state_of(model)

    both(iterate)
    assert seen[True] == seen[False]
    assert any(name.startswith("gradient of") for name in seen[True][0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_between_steps(backend):
    """Steps, evaluation and a backward by hand share one model."""

    def iterate(static):
        model, optimizer = prepared(static, **({"backend": backend} if static else {}))
        rng = np.random.RandomState(0)
        for i in range(8):
            x, t = BATCH(rng)
            optimizer.update(model, x, t)
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                found = {"evaluated": copy_of(model(x, t).array), "accuracy": model.accuracy.array}
            if i % 3 == 0:
                model.cleargrads()
                model(x, t).backward()
                found |= gradients_of(model)
                optimizer.update()
            yield {**state_of(model), **found}

    both(iterate)


class Generator(MLP):
    pass


def adversarial(static, backend):
    """A generator and a discriminator that take turns, each with an optimizer of its own."""
    np.random.seed(0)
    generator, judge = Generator(3, 8, 4), MLP(4, 8, 1)

    def judge_loss(real, z):
        fake = generator(z).array
        return F.mean(F.softplus(-judge(real))) + F.mean(F.softplus(judge(fake)))

    def generator_loss(z):
        return F.mean(F.softplus(-judge(generator(z))))

    rules = [optimizers.Adam(0.01), optimizers.Adam(0.01)]
    if static:
        judge_loss = sdbr.static_graph(judge_loss, backend=backend, on_dynamic="raise")
        generator_loss = sdbr.static_graph(generator_loss, backend=backend, on_dynamic="raise")
        rules = [sdbr.static_optimizer(rule) for rule in rules]
    rules[0].setup(judge)
    rules[1].setup(generator)
    rng = np.random.RandomState(0)
    for _ in range(8):
        rules[0].update(judge_loss, floats(6, 4)(rng), floats(6, 3)(rng))
        first = gradients_of(judge)
        rules[1].update(generator_loss, floats(6, 3)(rng))
        yield {
            **{f"judge{k}": v for k, v in [*state_of(judge).items(), *first.items()]},
            **{f"generator{k}": v for k, v in state_of(generator).items()},
        }
    if static:
        assert judge_loss.schedule_manager.statistics.steps == 7
        assert generator_loss.schedule_manager.statistics.replays == 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_optimizers_take_turns(backend):
    # Around the generators: they take turns, and each would put back what the other has set.
    with chainer.using_config("sdbr_backend", backend):
        both(lambda static: adversarial(static, backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_loss_functions_of_one_optimizer(backend):
    def iterate(static):
        model, optimizer = prepared(
            static, lambda: Net(lambda self, x: F.sum(self.l(x) ** 2), l=L.Linear(4, 3))
        )

        def other(x):
            return F.sum(F.tanh(model.l(x)))

        if static:
            other = sdbr.static_graph(other)
        rng = np.random.RandomState(0)
        for i in range(10):
            with chainer.using_config("sdbr_backend", backend):
                optimizer.update(other if i % 2 else model, floats(5, 4)(rng))
            yield state_of(model)
        if static:
            assert model.schedule_manager.statistics.steps == 4
            assert other.schedule_manager.statistics.steps == 4

    both(iterate)


def test_a_new_optimizer_for_the_same_model():
    def iterate(static):
        model, optimizer = prepared(static)
        rng = np.random.RandomState(0)
        for i in range(9):
            if i % 3 == 0 and i:
                optimizer = optimizers.MomentumSGD(0.01)
                if static:
                    optimizer = sdbr.static_optimizer(optimizer)
                optimizer.setup(model)
            optimizer.update(model, *BATCH(rng))
            yield {**state_of(model), **gradients_of(model)}

    both(iterate)


def test_a_step_inside_no_backprop_mode_fails_as_in_chainer():
    model, optimizer = prepared(True)
    x, t = BATCH(np.random.RandomState(0))
    for _ in range(3):
        optimizer.update(model, x, t)
    before = state_of(model)
    with chainer.no_backprop_mode():
        optimizer.update(model, x, t)  # no gradient reaches a parameter: nothing to add
    for name, p in model.namedparams():
        assert p.array.shape == before[name.rpartition("/")[0] + "/" + p.name].shape
    optimizer.update(model, x, t)
    assert model.schedule_manager.statistics.steps >= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_integer_and_keyword_arguments_of_a_step(backend):
    def iterate(static):
        model, optimizer = prepared(
            static,
            lambda: Net(
                lambda self, x, n, *, t: F.softmax_cross_entropy(self.l(x) * n, t),
                l=L.Linear(4, 3),
            ),
        )
        rng = np.random.RandomState(0)
        for i in range(6):
            with chainer.using_config("sdbr_backend", backend):
                optimizer.update(model, floats(5, 4)(rng), 1 + i // 3, t=labels(3, 5)(rng))
            yield state_of(model)
        if static:
            assert model.schedule_manager.statistics.replays == 4

    both(iterate)
