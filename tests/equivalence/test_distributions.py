"""chainer.distributions: samples are drawn anew in each replay; what is computed is computed."""

from __future__ import annotations

import inspect
import warnings

import chainer
import chainer.distributions as D
import chainer.functions as F
import numpy as np
import pytest
from chainer.utils.type_check import InvalidType

from .arguments import N, P
from .harness import TEST, TRAINING, Case, check

SHAPE = (3, 4)


def simplex(x):
    return F.softmax(x)


def triangle(scale):
    """Lower triangular matrices out of positive numbers."""
    matrix = F.broadcast_to(scale[:, :, None], (*scale.shape, scale.shape[1]))
    return matrix * np.tril(np.ones((4, 4), scale.dtype))


# Name -> what makes it of a real array `a` and a positive one `b`, and a value it may take.
MADE = {
    "Bernoulli": (lambda a, b: D.Bernoulli(logit=a), "binary"),
    "Bernoulli p": (lambda a, b: D.Bernoulli(F.sigmoid(a)), "binary"),
    "Beta": (lambda a, b: D.Beta(b, b + 1), "unit"),
    "Categorical": (lambda a, b: D.Categorical(simplex(a)), "class"),
    "Categorical logit": (lambda a, b: D.Categorical(logit=a), "class"),
    "Cauchy": (lambda a, b: D.Cauchy(a, b), "real"),
    "Chisquare": (lambda a, b: D.Chisquare(b + 1), "positive"),
    "Dirichlet": (lambda a, b: D.Dirichlet(b), "simplex"),
    "Exponential": (lambda a, b: D.Exponential(b), "positive"),
    "Gamma": (lambda a, b: D.Gamma(b, b + 1), "positive"),
    "Geometric": (lambda a, b: D.Geometric(F.sigmoid(a)), "count"),
    "Gumbel": (lambda a, b: D.Gumbel(a, b), "real"),
    "Independent": (lambda a, b: D.Independent(D.Normal(a, b)), "real"),
    "Laplace": (lambda a, b: D.Laplace(a, b), "real"),
    "LogNormal": (lambda a, b: D.LogNormal(a, b), "positive"),
    "MultivariateNormal": (
        lambda a, b: D.MultivariateNormal(loc=a, scale_tril=triangle(b)),
        "real",
    ),
    "Normal": (lambda a, b: D.Normal(a, b), "real"),
    "Normal log_scale": (lambda a, b: D.Normal(a, log_scale=a / 3), "real"),
    "OneHotCategorical": (lambda a, b: D.OneHotCategorical(simplex(a)), "hot"),
    "Pareto": (lambda a, b: D.Pareto(b, b + 3), "large"),
    "Poisson": (lambda a, b: D.Poisson(b), "count"),
    "Uniform": (lambda a, b: D.Uniform(low=a, high=a + b), "real"),
    "Uniform loc": (lambda a, b: D.Uniform(loc=a, scale=b), "real"),
}


def value(kind):
    """A maker of values."""

    def make(rng, dtype):
        if kind == "class":
            return rng.integers(0, 4, 3).astype("i")
        if kind in ("binary", "count"):
            return rng.integers(0, 2 if kind == "binary" else 5, SHAPE).astype(dtype)
        if kind == "hot":
            return np.eye(4, dtype=dtype)[rng.integers(0, 4, 3)]
        x = rng.standard_normal(SHAPE)
        if kind == "simplex":
            x = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
        elif kind == "unit":
            x = 1 / (1 + np.exp(-x))
        elif kind in ("positive", "large"):
            x = np.abs(x) + (3 if kind == "large" else 0.1)
        return np.asarray(x, dtype)

    return make


def sample(d, x):
    return d.sample(2)


def sample_shape(d, x):
    return d.sample((2, 1)), d.sample()


WAYS = {
    "sample": sample,
    "sample twice": sample_shape,
    "log_prob": lambda d, x: d.log_prob(x),
    "prob": lambda d, x: d.prob(x),
    "cdf": lambda d, x: d.cdf(x),
    "survival_function": lambda d, x: d.survival_function(x),
    "icdf": lambda d, x: d.icdf(F.sigmoid(x)),
    "mean": lambda d, x: d.mean,
    "mode": lambda d, x: d.mode,
    "stddev": lambda d, x: d.stddev,
    "variance": lambda d, x: d.variance,
    "covariance": lambda d, x: d.covariance,
    "entropy": lambda d, x: d.entropy,
}


def cases():
    for name, (make, kind) in MADE.items():
        for way, ask in WAYS.items():
            yield name, way, (lambda a, b, x, make=make, ask=ask: ask(make(a, b), x)), kind
        other = lambda a, b, x, make=make: chainer.kl_divergence(make(a, b), make(a / 2, b + 1))  # noqa: E731
        yield name, "kl_divergence", other, kind


def offered(call, kind) -> bool:
    """Whether Chainer has it, and makes a Variable of it."""
    rng = np.random.default_rng(0)
    a, b, x = (make(rng, "f") for make in (N(*SHAPE), P(*SHAPE), value(kind)))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(chainer.Variable(a), chainer.Variable(b), x)
    except (AttributeError, KeyError, NotImplementedError, RuntimeError, InvalidType):
        return False
    return True


def case_of(id, call, kind):
    inputs = [N(*SHAPE), P(*SHAPE), value(kind)]
    return Case(id, call, inputs, dtypes="f")


TABLE = [
    case_of(f"{name} {way}", call, kind) for name, way, call, kind in cases() if offered(call, kind)
]


def test_every_distribution_has_cases():
    public = {
        name
        for name, thing in vars(D).items()
        if inspect.isclass(thing) and issubclass(thing, chainer.Distribution)
    }
    assert {case.name for case in TABLE} == public
    assert {case.name for case in TABLE if "sample" in case.id} == public
    assert len(TABLE) > 180


@pytest.mark.parametrize("case", TABLE, ids=[case.id for case in TABLE])
@pytest.mark.parametrize("mode", [TRAINING, TEST], ids=["training", "test"])
def test_distribution(case, mode):
    check(case, "f", "function", mode)
