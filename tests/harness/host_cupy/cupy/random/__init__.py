"""``cupy.random``: one generator for each device, and functions that draw from the current one."""

from __future__ import annotations

import os

from ..cuda.device import get_device_id
from .api import Generator, default_rng  # noqa: F401
from .generator import RandomState

_states: dict[int, RandomState] = {}


def get_random_state() -> RandomState:
    """The generator of the current device, made when it is first asked for."""
    device = get_device_id()
    if device not in _states:
        seed = os.environ.get("CUPY_SEED")
        _states[device] = RandomState(None if seed is None else int(seed))
    return _states[device]


def set_random_state(rs):
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _states[get_device_id()] = rs


def seed(seed=None):
    get_random_state().seed(seed)


def reset_states():
    _states.clear()


def _of_current(name):
    def draw(*args, **kwargs):
        return getattr(get_random_state(), name)(*args, **kwargs)

    draw.__name__ = name
    return draw


NAMES = [
    "beta",
    "binomial",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "rand",
    "randint",
    "randn",
    "random_sample",
    "rayleigh",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "uniform",
    "weibull",
]
globals().update((name, _of_current(name)) for name in NAMES)
random = ranf = sample = globals()["random_sample"]
