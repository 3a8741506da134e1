"""Runs a model define-by-run and static, and compares everything that a user could look at."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F

from tests.tolerances import CONTRACT

BACKENDS = ["cython", "numpy"]


def variables_of(result) -> list:
    """The Variables and arrays in a result, in order."""
    if isinstance(result, (chainer.Variable, np.ndarray)):
        return [result]
    if isinstance(result, dict):
        return [y for part in result.values() for y in variables_of(part)]
    if isinstance(result, (list, tuple)):
        return [y for part in result for y in variables_of(part)]
    return []


def assert_near(got, want, tolerance: float, what: str) -> None:
    """Equal up to `tolerance` times the largest magnitude; exact for anything but floats."""
    assert type(got) is type(want), what
    if want is None:
        return
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind != "f" or not want.size:
        np.testing.assert_array_equal(got, want, what)
        return
    scale = np.nanmax(np.abs(want)) or 1.0
    error = np.max(np.abs(got.astype("d") - want))
    assert error <= tolerance * scale, (
        f"{what}: off by {error / scale:.2g} of the largest magnitude"
    )


def assert_all_near(got: dict, want: dict, tolerance: float, what: str) -> None:
    assert list(got) == list(want), what
    for name in want:
        assert_near(got[name], want[name], tolerance, f"{what} {name}")


def copy_of(array):
    """A copy that later writes cannot reach."""
    return None if array is None else np.array(array)


def state_of(model) -> dict:
    """Parameters, persistent values and attributes of a link and all below it, as copies."""
    state = {}
    for path, link in model.namedlinks():
        for name, thing in sorted(link.__dict__.items()):
            if isinstance(thing, chainer.Variable):
                state[f"{path}/{name}"] = copy_of(thing.array)
            elif isinstance(thing, np.ndarray):
                state[f"{path}/{name}"] = copy_of(thing)
    return state


def gradients_of(model) -> dict:
    return {f"gradient of {name}": copy_of(p.grad) for name, p in sorted(model.namedparams())}


def scalar_of(result):
    """A loss to go backward from: the result itself, or a sum over what has a gradient."""
    if isinstance(result, chainer.Variable) and result.shape == ():
        return result
    ys = [y for y in variables_of(result) if isinstance(y, chainer.Variable) and y.requires_grad]
    total = 0
    for i, y in enumerate(ys):
        total = total + F.sum(y * y) * (1 + 0.5 * i)
    return total


def iteration(model, args, kwargs, optimizer, backprop=True) -> dict:
    """One iteration; everything it leaves behind."""
    reporter = chainer.Reporter()
    if isinstance(model, chainer.Link):
        reporter.add_observer("main", model)
        reporter.add_observers("main/", model.namedlinks(skipself=True))
    observation: dict = {}
    with reporter.scope(observation):
        result = model(*args, **kwargs)
    record = {"outputs": {}, "gradients": {}}
    for i, y in enumerate(variables_of(result)):
        record["outputs"][str(i)] = copy_of(getattr(y, "array", y))
    record["types"] = structure_of(result)
    if backprop:
        model.cleargrads()
        loss = scalar_of(result)
        loss.backward()
        record["gradients"] = gradients_of(model)
        for i, x in enumerate(variables_of((args, kwargs))):
            if isinstance(x, chainer.Variable):
                record["gradients"][f"argument {i}"] = copy_of(x.grad)
        if optimizer is not None:
            optimizer.update()
    record["reported"] = {
        k: copy_of(getattr(v, "array", v)) for k, v in sorted(observation.items())
    }
    record["state"] = state_of(model)
    return record


def structure_of(result):
    """Types of a nested result, Variables and arrays included."""
    if isinstance(result, dict):
        return type(result), [(k, structure_of(v)) for k, v in result.items()]
    if isinstance(result, (list, tuple)):
        return type(result), [structure_of(v) for v in result]
    if isinstance(result, (chainer.Variable, np.ndarray)):
        return type(result)
    return type(result), repr(result)


def assert_same_record(got: dict, want: dict, dtype: str, where: str) -> None:
    tolerance, gradient_tolerance = CONTRACT[dtype]
    assert got["types"] == want["types"], where
    assert_all_near(got["outputs"], want["outputs"], tolerance, f"{where}: output")
    assert_all_near(got["gradients"], want["gradients"], gradient_tolerance, f"{where}: gradient")
    assert_all_near(got["reported"], want["reported"], tolerance, f"{where}: reported")
    assert_all_near(got["state"], want["state"], gradient_tolerance, f"{where}: state")


def run(make, data, *, static, steps, optimizer, train, seed=0, between=None, **options) -> tuple:
    """`steps` iterations on fresh data; the records and the model."""
    np.random.seed(seed)
    model = make()
    if static:
        model = sdbr.static_graph(model, **options)
    if optimizer is not None:
        optimizer = optimizer().setup(model)
    rng = np.random.RandomState(seed + 1)
    records = []
    for i in range(steps):
        args = data(rng)
        args, kwargs = args if isinstance(args, list) else (args, {})
        with chainer.using_config("train", train), chainer.using_config("enable_backprop", train):
            records.append(iteration(model, args, kwargs, optimizer if train else None, train))
        if between is not None:
            between(model, i)
    return records, model


def check(
    make, data, *, backend="cython", steps=5, train=True, optimizer=None, dtype="f",
    traces=1, python_ops=None, between=None, **options,
):  # fmt: skip
    """Static equals define-by-run in every iteration, and all calls but `traces` were replays.

    Parameters
    ----------
    make : callable
        Returns a new model; draws of NumPy's global generator are seeded before.
    data : callable
        ``data(rng)`` returns the arguments: a tuple, or ``[args, kwargs]``.
    traces : int
        How many of the calls are traced.
    python_ops : bool, optional
        Whether Python ops are expected to run; None for either.

    Returns
    -------
    chainer.Link
        The static model.
    """
    settings = {"steps": steps, "optimizer": optimizer, "train": train, "between": between}
    want, _ = run(make, data, static=False, **settings)
    options.setdefault("on_dynamic", "raise")
    got, model = run(make, data, static=True, backend=backend, **settings, **options)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_same_record(g, w, dtype, f"iteration {i}")
    statistics = model.schedule_manager.statistics
    assert statistics.calls == steps
    assert (statistics.traces, statistics.replays) == (traces, steps - traces)
    assert statistics.define_by_run_calls == 0
    if python_ops is not None:
        assert bool(statistics.python_ops) == python_ops
    return model
