"""Fixes for functions that fail on newer NumPy or SciPy, or that are wrong in 7.8.1 itself."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sdbr.compat.fix import FunctionFix, SourceFix, wrap

import numpy as np


def _fix_pad_sequence(module: ModuleType) -> None:
    def make(forward):
        def cast_padding_first(self, xs):
            if isinstance(self.padding, int) and xs[0].dtype.kind in "iu":
                # astype wraps out-of-range values, as assignment did before NEP 50.
                self.padding = np.asarray(self.padding).astype(xs[0].dtype)[()]
            return forward(self, xs)

        return cast_padding_first

    wrap(module.PadSequence, "forward", make)


PAD_SEQUENCE = FunctionFix(
    name="pad-sequence",
    module="chainer.functions.array.pad_sequence",
    reason="padding that is out of the dtype's range raises OverflowError (-1 into unsigned)",
    stacks="NumPy >= 2.0",
    needed=lambda stack: stack.numpy >= (2,),
    apply=_fix_pad_sequence,
)


def _fix_sparse_matmul(module: ModuleType) -> None:
    def single(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32) if array.dtype == np.float16 else array

    def make(matmul):
        def without_half(A_data, A_row, A_col, A_shape, B, dtype):
            return matmul(single(A_data), A_row, A_col, A_shape, single(B), dtype)

        return without_half

    wrap(module, "_coo_matmul_cpu", make)


SPARSE_MATMUL = FunctionFix(
    name="sparse-matmul-float16",
    module="chainer.functions.math.sparse_matmul",
    reason="scipy.sparse refuses float16",
    stacks="SciPy >= 1.15",
    needed=lambda stack: (stack.scipy or ()) >= (1, 15),
    apply=_fix_sparse_matmul,
)


def _fix_deconvolution_2d(module: ModuleType) -> None:
    def make(set_cover_all):
        def accept_arrays(self, x_shape: Any, w_shape: Any) -> None:
            set_cover_all(
                self,
                getattr(x_shape, "shape", x_shape),
                getattr(w_shape, "shape", w_shape),
            )

        return accept_arrays

    wrap(module.Deconvolution2DFunction, "_set_cover_all", make)


DECONVOLUTION_2D = FunctionFix(
    name="deconvolution-2d-backward",
    module="chainer.functions.connection.deconvolution_2d",
    reason="backward for W alone takes variables for shapes (an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    apply=_fix_deconvolution_2d,
)


def _fix_categorical(module: ModuleType) -> None:
    from chainer import backend

    def make(log_prob):
        def index_with_tuple(self, x):
            x = getattr(x, "array", x)
            xp = backend.get_array_module(x)
            rows = tuple(xp.indices(self.batch_shape)) if self.batch_shape else ()
            return self.log_p[(*rows, x.astype(np.int32))]

        return index_with_tuple

    wrap(module.Categorical, "log_prob", make)


CATEGORICAL = FunctionFix(
    name="categorical-log-prob",
    module="chainer.distributions.categorical",
    reason="numpy.meshgrid returns a tuple, to which a list cannot be added",
    stacks="NumPy >= 2.0",
    needed=lambda stack: stack.numpy >= (2,),
    apply=_fix_categorical,
)


def _fix_softmax_cross_entropy(module: ModuleType) -> None:
    def make(forward):
        def one_gradient(self, inputs):
            return forward(self, inputs)[:1]

        return one_gradient

    for name in ("forward_cpu", "forward_gpu"):
        wrap(module._SoftmaxCrossEntropyGrad_NoDoubleBackprop, name, make)


SOFTMAX_CROSS_ENTROPY = FunctionFix(
    name="softmax-cross-entropy-empty",
    module="chainer.functions.loss.softmax_cross_entropy",
    reason="backward of an empty batch returns a gradient too many (an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    apply=_fix_softmax_cross_entropy,
)


LABELS = SourceFix(
    name="softmax-cross-entropy-labels",
    module="chainer.functions.loss.softmax_cross_entropy",
    reason="labels that do not fit raise RuntimeError (An Expr instance cannot be evaluated as "
    "bool) in place of InvalidType (an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    replacements=(
        ("if t_type.dtype.kind == 'i'", "if type_check.eval(t_type.dtype.kind) == 'i'", 1),
    ),
)


def _fix_average_pooling_nd(module: ModuleType) -> None:
    def make(forward):
        def leave_the_gradient_alone(self, gys):
            if self.func.pad_value is None:  # it is divided in place
                gys = tuple(gy.copy() for gy in gys)
            return forward(self, gys)

        return leave_the_gradient_alone

    for name in ("forward_cpu", "forward_gpu"):
        wrap(module.AveragePoolingNDGrad, name, make)


AVERAGE_POOLING_ND = FunctionFix(
    name="average-pooling-nd-backward",
    module="chainer.functions.pooling.average_pooling_nd",
    reason="backward without a value of the border divides the gradient that others get, too "
    "(an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    apply=_fix_average_pooling_nd,
)


def _fix_embed_id(module: ModuleType) -> None:
    def make(forward):
        def with_wide_labels(self, inputs):
            x, gy = inputs
            if not isinstance(x, np.ndarray) and x.dtype.itemsize < 4:
                inputs = x.astype(np.int32), gy
            return forward(self, inputs)

        return with_wide_labels

    wrap(module.EmbedIDGrad, "forward", make)


EMBED_ID = FunctionFix(
    name="embed-id-small-labels",
    module="chainer.functions.connection.embed_id",
    reason="the kernel of its gradient has the width as a number of the labels' type: beyond int8 "
    "or int16 it raises OverflowError (CuPy 14) or writes elsewhere (an error of 7.8.1)",
    stacks="any with CuPy",
    needed=lambda stack: stack.has_cupy,
    apply=_fix_embed_id,
)

FIXES = (
    PAD_SEQUENCE,
    SPARSE_MATMUL,
    DECONVOLUTION_2D,
    CATEGORICAL,
    SOFTMAX_CROSS_ENTROPY,
    LABELS,
    AVERAGE_POOLING_ND,
    EMBED_ID,
)
