"""Trains a model as its example does, define-by-run and static, and compares every iteration."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest

from tests.tolerances import EXAMPLES

ITERATIONS = 10

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])

# Of a whole training of ten steps, in which differences grow.


class Static:
    """Makes things static, or leaves them as they are.

    Parameters
    ----------
    on : bool
    **options
        Of the decorator.
    """

    def __init__(self, on: bool, **options):
        self.on = on
        self.options = {"on_dynamic": "raise", **options}
        self.things: list = []

    def __call__(self, thing, **options):
        if not self.on:
            return thing
        thing = sdbr.static_graph(thing, **{**self.options, **options})
        self.things.append(thing)
        return thing

    def optimizer(self, optimizer):
        return sdbr.static_optimizer(optimizer) if self.on else optimizer

    def statistics(self, i: int = 0):
        return self.things[i].schedule_manager.statistics

    def python_ops(self, i: int = 0) -> set[str]:
        """Labels of what runs as Python ops in the schedules of a static thing."""
        report = sdbr.explain(self.things[i]).to_dict()
        return {
            node["label"]
            for manager in report["managers"]
            for schedule in manager["schedules"]
            for node in schedule["python_nodes"]
        }


def parameters(*links) -> dict:
    """Parameters and persistent arrays, as copies."""
    found = {}
    for i, link in enumerate(links):
        for path, below in link.namedlinks():
            for name in [*sorted(below._params), *sorted(below._persistent)]:
                thing = getattr(below, name)
                array = thing.array if isinstance(thing, chainer.Variable) else thing
                if isinstance(array, np.ndarray):
                    found[f"{i}{path}/{name}"] = array.copy()
    return found


def both(train, dtype: str, tolerance: float | None = None, **options) -> Static:
    """Run ``train(static)`` in both modes from one seed; the records have to agree.

    Parameters
    ----------
    train : callable
        Gets a `Static`, yields once per iteration a dict of numbers and arrays.
    dtype : str
        ``chainer.config.dtype`` meanwhile.
    tolerance : float, optional
        Relative to the largest magnitude of each array.

    Returns
    -------
    Static
        Of the static run.
    """
    tolerance = EXAMPLES[dtype] if tolerance is None else tolerance
    records = []
    with chainer.using_config("dtype", np.dtype(dtype)):
        for on in (False, True):
            np.random.seed(0)
            static = Static(on, **options)
            records.append([
                {k: np.array(v) for k, v in record.items()} for record in train(static)
            ])  # fmt: skip
    want, got = records
    assert len(got) == len(want) >= ITERATIONS
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert list(g) == list(w), f"iteration {i}"
        for name in w:
            _assert_near(g[name], w[name], tolerance, f"iteration {i}: {name}")
    return static


def _assert_near(got, want, tolerance, what) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    assert np.isfinite(want).all(), what
    scale = np.abs(want).max() if want.size else 0.0
    error = np.abs(got.astype("d") - want).max() if want.size else 0.0
    assert error <= tolerance * scale, f"{what}: off by {error / (scale or 1):.2g}"
