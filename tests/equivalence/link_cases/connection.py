"""chainer.links.connection, chainer.links.theano."""

from __future__ import annotations

import types

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.equivalence.arguments import N, T

from .make import case, shaken


def parameter(*shape):
    return lambda: L.Parameter(np.random.standard_normal(shape).astype(chainer.config.dtype))


def theano_function():
    """Theano itself is not made for today's Python: its two compiled functions by hand."""
    link = object.__new__(L.TheanoFunction)
    chainer.Link.__init__(link)
    link.forward_func = _Compiled(lambda x, y: [x * y])
    link.backward_func = _Compiled(lambda x, y, g: [g * y, g * x])
    return link


class _Compiled:
    """What Chainer asks of a function of Theano's."""

    def __init__(self, function):
        kind = types.SimpleNamespace(ndim=2, numpy_dtype=chainer.config.dtype)
        place = types.SimpleNamespace(variable=types.SimpleNamespace(type=kind))
        self.indices = [(place,), (place,)]
        self.function = function

    def __call__(self, *arrays):
        return self.function(*arrays)


FLOAT32 = {"dtypes": "f"}  # its parameters are float32, whatever chainer.config.dtype says

SIMPLE = [
    case("Bias", lambda: shaken(L.Bias(1, (4,))), [N(3, 4, 2)]),
    case("Bias given", lambda: L.Bias(1), [N(3, 4, 2), N(4)]),
    case("Bilinear", lambda: L.Bilinear(3, 4, 2), [N(5, 3), N(5, 4)], **FLOAT32),
    case(
        "Bilinear without bias",
        lambda: L.Bilinear(3, 4, 2, nobias=True),
        [N(5, 3), N(5, 4)],
        **FLOAT32,
    ),
    case("EmbedID", lambda: L.EmbedID(5, 3), [T(5, 2, 3)]),
    case("EmbedID ignoring", lambda: L.EmbedID(5, 3, ignore_label=-1), [T(5, 6, ignore=-1)]),
    case("Highway", lambda: L.Highway(4), [N(3, 4)]),
    case("Highway tanh", lambda: L.Highway(4, nobias=True, activate=F.tanh), [N(3, 4)]),
    case("Linear", lambda: L.Linear(4, 3), [N(5, 4)]),
    case("Linear of unknown size", lambda: L.Linear(3), [N(5, 2, 2)]),
    case("Linear without bias", lambda: L.Linear(4, 3, nobias=True), [N(5, 4)]),
    case(
        "Linear two batch axes",
        lambda: L.Linear(None, 3),
        [N(2, 5, 4)],
        lambda link, x: link(x, n_batch_axes=2),
    ),
    case("Parameter", parameter(3, 4), [N(3, 4)], lambda link, x: link() * x),
    case("Parameter alone", parameter(3, 4), []),
    case("Scale", lambda: shaken(L.Scale(1, (4,))), [N(3, 4, 2)]),
    case("Scale with bias", lambda: shaken(L.Scale(1, (4,), True)), [N(3, 4, 2)]),
    case("Scale given", lambda: L.Scale(1, bias_term=True, bias_shape=(4,)), [N(3, 4, 2), N(4)]),
    case("TheanoFunction", theano_function, [N(3, 4), N(3, 4)], second=False),
]

CONVOLUTIONS = [
    case("Convolution1D", lambda: L.Convolution1D(2, 3, 3, pad=1), [N(2, 2, 7)]),
    case("Convolution1D of unknown size", lambda: L.Convolution1D(None, 3, 3, 2), [N(2, 2, 7)]),
    case("Convolution2D", lambda: L.Convolution2D(2, 3, 3), [N(2, 2, 6, 5)]),
    case(
        "Convolution2D stride, pad, no bias",
        lambda: L.Convolution2D(None, 4, (3, 2), stride=2, pad=1, nobias=True),
        [N(2, 2, 6, 5)],
    ),
    case(
        "Convolution2D groups and dilation",
        lambda: L.Convolution2D(4, 6, 3, pad=2, dilate=2, groups=2),
        [N(2, 4, 6, 5)],
    ),
    case("Convolution3D", lambda: L.Convolution3D(2, 3, 2), [N(2, 2, 4, 3, 3)]),
    case("ConvolutionND", lambda: L.ConvolutionND(1, 2, 3, 3), [N(2, 2, 7)]),
    case(
        "ConvolutionND cover all",
        lambda: L.ConvolutionND(3, 2, 3, 2, stride=2, cover_all=True, nobias=True),
        [N(2, 2, 4, 3, 3)],
    ),
    case("Deconvolution1D", lambda: L.Deconvolution1D(2, 3, 3, 2), [N(2, 2, 4)]),
    case("Deconvolution2D", lambda: L.Deconvolution2D(2, 3, 3), [N(2, 2, 4, 3)]),
    case(
        "Deconvolution2D stride, pad, out size",
        lambda: L.Deconvolution2D(None, 4, 3, stride=2, pad=1, outsize=(8, 6), nobias=True),
        [N(2, 2, 4, 3)],
    ),
    case(
        "Deconvolution2D groups and dilation",
        lambda: L.Deconvolution2D(4, 6, 3, dilate=2, groups=2),
        [N(2, 4, 4, 3)],
    ),
    case("Deconvolution3D", lambda: L.Deconvolution3D(2, 3, 2), [N(2, 2, 3, 2, 2)]),
    case("DeconvolutionND", lambda: L.DeconvolutionND(1, 2, 3, 3, groups=1), [N(2, 2, 4)]),
    case(
        "DeformableConvolution2D",
        lambda: shaken(L.DeformableConvolution2D(2, 3, 3)),
        [N(2, 2, 6, 5)],
        second=False,
    ),
    case(
        "DeformableConvolution2D of unknown size",
        lambda: L.DeformableConvolution2D(None, 3, 3, pad=1, stride=2, deform_nobias=True),
        [N(2, 2, 6, 5)],
        second=False,
    ),
    case("DepthwiseConvolution2D", lambda: L.DepthwiseConvolution2D(2, 3, 3), [N(2, 2, 6, 5)]),
    case(
        "DepthwiseConvolution2D of unknown size",
        lambda: L.DepthwiseConvolution2D(None, 2, 3, stride=2, pad=1, nobias=True),
        [N(2, 2, 6, 5)],
    ),
    case(
        "DilatedConvolution2D", lambda: L.DilatedConvolution2D(2, 3, 3, dilate=2), [N(2, 2, 7, 6)]
    ),
    case(
        "Inception",
        lambda: L.Inception(4, 2, 2, 3, 2, 3, 2),
        [N(2, 4, 5, 4)],
    ),
    case("InceptionBN", lambda: L.InceptionBN(4, 2, 2, 3, 2, 3, "avg", 2), [N(2, 4, 5, 4)]),
    case(
        "InceptionBN downsampling",
        lambda: L.InceptionBN(4, 0, 2, 3, 2, 3, "max", stride=2),
        [N(2, 4, 6, 4)],
    ),
    case(
        "LocalConvolution2D",
        lambda: L.LocalConvolution2D(2, 3, (5, 4), 3),
        [N(2, 2, 5, 4)],
        native=True,
    ),
    case(
        "LocalConvolution2D of unknown size",
        lambda: L.LocalConvolution2D(None, 3, None, 3, nobias=True),
        [N(2, 2, 5, 5)],
        native=True,
    ),
    case("MLPConvolution2D", lambda: L.MLPConvolution2D(2, (4, 3), 3), [N(2, 2, 6, 5)]),
    case(
        "MLPConvolution2D tanh, of unknown size",
        lambda: L.MLPConvolution2D(None, (4, 3, 2), 3, stride=2, pad=1, activation=F.tanh),
        [N(2, 2, 6, 5)],
    ),
]

CASES = [*SIMPLE, *CONVOLUTIONS]
