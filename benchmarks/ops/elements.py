"""Functions that work element by element, on arrays of one shape and of several; normalizations."""

from __future__ import annotations

import chainer.functions as F
from chainer.distributions import Bernoulli

from benchmarks.ops.case import Size, cases_of
from tests.equivalence.arguments import B, N, P, T, U, array_of


def matrix(maker, n: int = 1):
    """`n` arrays of one shape: rows of 64."""
    return lambda s: [maker(s.rows(s(64)), s(64))] * n


def _pair(first, second):
    return lambda s: [make(s.rows(s(64)), s(64)) for make in (first, second)]


def _within(low: float, high: float):
    return matrix(lambda *shape: U(low, high, *shape))


def _with_row(s: Size) -> list:
    return [N(s.rows(s(64)), s(64)), P(s(64))]


def _with_column(s: Size) -> list:
    n = s.rows(s(64))
    return [N(n, s(64)), P(n, 1)]


def _with_channels(s: Size) -> list:
    return [N(s.rows(s(32), s(16)), s(32), s(16)), P(s(32), 1)]


def _with_columns(s: Size) -> list:
    n = s.side()
    return [N(n, n), N(n, n)]


def _with_bits(s: Size) -> list:
    n = s.rows(s(64))
    return [N(n, s(64)), lambda rng, dtype: rng.integers(0, 2, (n, s(64))).astype(dtype)]


def gelu(x):
    """As it is written where there is no erf."""
    return 0.5 * x * (1 + F.tanh(0.79788456 * (x + 0.044715 * x**3)))


NORMAL = (
    *("relu", "leaky_relu", "elu", "relu6", "sigmoid", "tanh", "softplus", "hard_sigmoid"),
    *("selu", "crelu", "rrelu", "exp", "square", "absolute", "floor", "ceil", "fix", "sign"),
    *("erf", "erfc", "expm1", "sin", "cos", "sinh", "cosh", "arctan", "ndtr", "erfcx"),
    *("log_ndtr", "identity", "dropout", "softmax", "log_softmax", "normalize"),
)
POSITIVE = ("log", "sqrt", "rsqrt", "log2", "log10", "log1p", "lgamma", "digamma")
SLOW = {"erfcx": 4, "log_ndtr": 4, "lgamma": 4, "digamma": 4, "erfinv": 4, "erfcinv": 4}

UNARY = [
    *[(name, getattr(F, name), matrix(N), SLOW.get(name, 1)) for name in NORMAL],
    *[(name, getattr(F, name), matrix(P), SLOW.get(name, 1)) for name in POSITIVE],
    *[
        (name, getattr(F, name), _within(-0.9, 0.9), SLOW.get(name, 1))
        for name in ("arcsin", "arccos", "arctanh", "tan", "erfinv")
    ],
    ("erfcinv", F.erfcinv, _within(0.2, 1.8), 4),
    ("clipped_relu", lambda x: F.clipped_relu(x, 0.5), matrix(N)),
    ("clip", lambda x: F.clip(x, -0.5, 0.5), matrix(N)),
    ("maxout", lambda x: F.maxout(x, 2), lambda s: [N(s.rows(64), 64)]),
    ("operator -x", lambda x: -x, matrix(N)),
    ("operator x + 2", lambda x: x + 2, matrix(N)),
    ("operator 2 - x", lambda x: 2 - x, matrix(N)),
    ("operator x * 2.5", lambda x: x * 2.5, matrix(N)),
    ("operator x / 3", lambda x: x / 3, matrix(N)),
    ("operator 3 / x", lambda x: 3 / x, matrix(P)),
    ("operator x ** 2", lambda x: x**2, matrix(N)),
    ("operator x ** 3", lambda x: x**3, matrix(N)),
    ("operator x ** 0.5", lambda x: x**0.5, matrix(P)),
    ("operator x ** -1.5", lambda x: x**-1.5, matrix(P)),
    ("operator 2 ** x", lambda x: 2**x, matrix(N)),
    ("operator abs(x) ** 1.7", lambda x: abs(x) ** 1.7, matrix(N)),
    ("operator chain", lambda x: ((-x + 1) * 2 - 3) / 4 + abs(x), matrix(N)),
    ("composite gelu", gelu, matrix(N)),
    ("cast", lambda x: F.cast(F.cast(x, "d") * 2, "f"), matrix(N)),
    ("cast half", lambda x: F.cast(F.cast(x, "e"), "f") * 2, matrix(N)),
    ("cast labels", lambda x, t: F.cast(t, "f") * x, _pair(N, lambda *s: T(9, *s))),
]

BINARY = [
    ("add", lambda x, y: x + y, matrix(N, 2)),
    ("operator x - y", lambda x, y: x - y, matrix(N, 2)),
    ("operator x * y", lambda x, y: x * y, matrix(N, 2)),
    ("operator x / y", lambda x, y: x / y, _pair(N, P)),
    ("operator x ** y", lambda x, y: x**y, _pair(P, N)),
    ("maximum", F.maximum, matrix(N, 2)),
    ("minimum", F.minimum, matrix(N, 2)),
    ("arctan2", F.arctan2, matrix(N, 2)),
    ("fmod", F.fmod, _pair(N, P)),
    ("squared_error", F.squared_error, matrix(N, 2)),
    ("squared_difference", F.squared_difference, matrix(N, 2)),
    ("absolute_error", F.absolute_error, matrix(N, 2)),
    ("add three", lambda x, y, z: F.add(x, y, z), matrix(N, 3)),
    ("linear_interpolate", F.linear_interpolate, matrix(P, 3)),
    ("where", F.where, lambda s: [m(s.rows(s(64)), s(64)) for m in (B, N, N)]),
    ("zoneout", F.zoneout, matrix(N, 2)),
    ("gaussian", F.gaussian, matrix(N, 2)),
    ("composite Bernoulli", lambda x, y: Bernoulli(logit=x).log_prob(y), _with_bits),
    ("add a row", lambda x, y: x + y, _with_row),
    ("operator x * row", lambda x, y: x * y, _with_row),
    ("operator x / row", lambda x, y: x / y, _with_row),
    ("add a column", lambda x, y: x + y, _with_column),
    ("operator x * column", lambda x, y: x * y, _with_column),
    ("operator x / column", lambda x, y: x / y, _with_column),
    ("operator x * channels", lambda x, y: x * y, _with_channels),
    ("operator x.T * y", lambda x, y: x.T * y, _with_columns),
    ("operator x[:, ::2] * 2", lambda x: x[:, ::2] * 2, matrix(N)),
    ("maximum of a row", F.maximum, _with_row),
    ("bias", F.bias, lambda s: [N(s.rows(s(32), s(16)), s(32), s(16)), N(s(32))]),
    ("scale", F.scale, lambda s: [N(s.rows(s(32), s(16)), s(32), s(16)), N(s(32))]),
    ("prelu", F.prelu, _with_row),
    ("swish", F.swish, _with_row),
    ("dropout ratio 0.2", lambda x: F.dropout(x, 0.2), matrix(N)),
    ("gumbel_softmax", F.gumbel_softmax, matrix(N)),
    ("forget", lambda x, y: F.forget(lambda a, b: F.tanh(a) * b, x, y), matrix(N, 2)),
]


def _planes(*parameters):
    """Images of 16 channels, and parameters of that length."""
    return lambda s: [N(s.rows(16, s(16), s(16)), 16, s(16), s(16)), *[p(16) for p in parameters]]


def _rows(n: int, *parameters):
    return lambda s: [N(s.rows(s(n)), s(n)), *[p(s(n)) for p in parameters]]


def _running(x, gamma, beta, mean, var):
    return F.batch_normalization(
        x, gamma, beta, running_mean=array_of(mean), running_var=array_of(var)
    )


NORMALIZATION = [
    ("batch_normalization", F.batch_normalization, _rows(64, P, N)),
    ("batch_normalization images", F.batch_normalization, _planes(P, N)),
    ("batch_normalization running", _running, _rows(64, P, N, N, P)),
    ("fixed_batch_normalization", F.fixed_batch_normalization, _rows(64, P, N, N, P)),
    ("fixed_batch_normalization images", F.fixed_batch_normalization, _planes(P, N, N, P)),
    ("fixed_batch_renormalization", F.fixed_batch_renormalization, _rows(64, P, N, N, P)),
    ("layer_normalization", F.layer_normalization, _rows(64, P, N)),
    ("layer_normalization wide", F.layer_normalization, _rows(1024, P, N)),
    (
        "group_normalization",
        lambda x, g, b: F.group_normalization(x, 4, g, b),
        _planes(P, N),
    ),
    ("local_response_normalization", F.local_response_normalization, _planes()),
    ("normalize axis", lambda x: F.normalize(x, axis=(0, 2)), lambda s: _planes()(s)),
    ("softmax images", F.softmax, _planes()),
    ("log_softmax images", F.log_softmax, _planes()),
    ("softmax axis 0", lambda x: F.softmax(x, axis=0), matrix(N)),
    ("softmax wide", F.softmax, _rows(1024)),
    ("crelu images", F.crelu, _planes()),
]

CASES = cases_of([*UNARY, *BINARY, *NORMALIZATION])
