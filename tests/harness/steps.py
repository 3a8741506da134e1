"""Training by whole steps, define-by-run and static; what each step leaves behind."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import links as L
from chainer import optimizers
from chainer.optimizer_hooks import GradientClipping, WeightDecay

from tests.harness.comparison import assert_all_near, copy_of, gradients_of, state_of
from tests.harness.models import MLP, data, floats, labels
from tests.tolerances import GRADIENTS, RESULTS, SUMS

STEPS = 50


def classifier():
    return L.Classifier(MLP(4, 16, 3))


BATCH = data(floats(8, 4), labels(3, 8))


def momentum_with_hooks(model):
    optimizer = optimizers.MomentumSGD(lr=0.05).setup(model)
    optimizer.add_hook(WeightDecay(1e-3))
    optimizer.add_hook(GradientClipping(0.5))
    return optimizer


OPTIMIZERS = {
    "adam": lambda model: optimizers.Adam().setup(model),
    "sgd": lambda model: optimizers.SGD(0.1).setup(model),
    "momentum_with_hooks": momentum_with_hooks,
}


def updated(optimizer, model, whole, *args):
    """One update, as a whole step or in its parts."""
    if whole:
        optimizer.update(model, *args)
        return
    loss = model(*args)
    model.cleargrads()
    loss.backward()
    optimizer.update()


def trained_pairs(make, rule=optimizers.Adam, **options):
    """Define-by-run and static: the same model with an optimizer."""
    np.random.seed(0)
    plain = make()
    static = sdbr.static_graph(plain.copy(mode="copy"), **options)
    first, second = rule().setup(plain), sdbr.static_optimizer(rule()).setup(static)
    return (plain, first), (static, second)


def alike(one, other, tolerance=SUMS):
    for of in state_of, gradients_of:
        assert_all_near(of(one), of(other), tolerance, of.__name__)


def warmed(model, run, givens):
    """Go over `givens` until all are replays."""
    for _ in range(100):
        before = model.schedule_manager.statistics.replays
        for given in givens:
            run(given)
        if model.schedule_manager.statistics.replays - before == len(givens):
            break
    for given in givens:
        run(given)


def train(
    make, batch, setup, *, static, steps=STEPS, backend="cython", seed=0, each=None, **options
):
    """Train; returns what each step leaves behind, the model and its optimizer."""
    np.random.seed(seed)
    model = make()
    if static:
        model = sdbr.static_graph(model, backend=backend, on_dynamic="raise", **options)
    optimizer = setup(model)
    if static:
        optimizer = sdbr.static_optimizer(optimizer)
    rng = np.random.RandomState(seed)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    records = []
    batches = []  # all of them, so that none lies where one before it did
    for i in range(steps):
        observation: dict = {}
        batches.append(batch(rng))
        with chainer.using_config("sdbr_backend", backend), reporter.scope(observation):
            optimizer.update(model, *batches[-1])
        records.append(
            {
                "state": state_of(model),
                "gradients": gradients_of(model),
                "reported": {k: copy_of(getattr(v, "array", v)) for k, v in observation.items()},
                "t": (optimizer.t, [p.update_rule.t for p in model.params()]),
                "rules": {
                    f"{name}/{k}": copy_of(v) if isinstance(v, np.ndarray) else v
                    for name, p in sorted(model.namedparams())
                    for k, v in sorted((p.update_rule.state or {}).items())
                },
            }
        )
        if each is not None:
            each(model, optimizer, i)
    return records, model, optimizer


def compare(make, batch, setup, *, native=True, steps=STEPS, **settings):
    want, _, _ = train(make, batch, setup, static=False, steps=steps, each=settings.get("each"))
    got, model, optimizer = train(make, batch, setup, static=True, steps=steps, **settings)
    # Rounding differences grow from step to step, as between any two BLAS libraries.
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        growth = 1 + i / 5
        assert g["t"] == w["t"]
        assert_all_near(g["reported"], w["reported"], RESULTS * growth, f"step {i}: reported")
        assert_all_near(g["gradients"], w["gradients"], GRADIENTS * growth, f"step {i}: gradient")
        assert_all_near(g["state"], w["state"], SUMS * growth, f"step {i}: state")
        assert_all_near(g["rules"], w["rules"], SUMS * growth, f"step {i}: rule")
    statistics = model.schedule_manager.statistics
    assert (statistics.calls, statistics.traces) == (steps, 1)
    assert statistics.steps == statistics.replays == statistics.native_calls == steps - 1
    if native:
        assert statistics.python_ops == 0
    return model, optimizer
