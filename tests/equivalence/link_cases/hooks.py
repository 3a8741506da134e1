"""chainer.link_hooks: links whose weight is computed anew before each of their calls."""

from __future__ import annotations

import chainer.functions as F
import chainer.links as L
from chainer.link_hooks import SpectralNormalization, WeightStandardization

from tests.equivalence.arguments import N, T

from .make import case


def spectral(make, **kwargs):
    return lambda: make().add_hook(SpectralNormalization(**kwargs))


def standard(make, **kwargs):
    return lambda: make().add_hook(WeightStandardization(**kwargs))


def linear():
    return L.Linear(4, 3)


def convolution():
    return L.Convolution2D(2, 3, 3)


def deconvolution():
    return L.Deconvolution2D(2, 3, 3)


def twice(link, x, y):
    """As a discriminator sees real and generated images."""
    return F.mean(link(x)) - F.mean(link(y))


IMAGES = N(2, 2, 5, 4)

CASES = [
    case("SpectralNormalization", spectral(linear), [N(5, 4)]),
    case("SpectralNormalization gamma", spectral(linear, use_gamma=True), [N(5, 4)]),
    case("SpectralNormalization factor", spectral(linear, factor=2.0, eps=1e-3), [N(5, 4)]),
    case("SpectralNormalization iterations", spectral(linear, n_power_iteration=3), [N(5, 4)]),
    case("SpectralNormalization twice", spectral(linear), [N(5, 4), N(5, 4)], twice),
    case("SpectralNormalization convolution", spectral(convolution), [IMAGES]),
    case("SpectralNormalization deconvolution", spectral(deconvolution), [IMAGES]),
    case("SpectralNormalization embedding", spectral(lambda: L.EmbedID(5, 3)), [T(5, 6)]),
    case("SpectralNormalization of unknown size", spectral(lambda: L.Linear(3)), [N(5, 4)]),
    case(
        "SpectralNormalization gamma of unknown size",
        spectral(lambda: L.Convolution2D(None, 3, 3), use_gamma=True),
        [IMAGES],
    ),
    case("WeightStandardization", standard(convolution), [IMAGES]),
    case("WeightStandardization linear", standard(linear, eps=1e-3), [N(5, 4)]),
    case("WeightStandardization of unknown size", standard(lambda: L.Linear(3)), [N(5, 4)]),
]
