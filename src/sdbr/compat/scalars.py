"""Fixes for NumPy scalars as hyperparameters: since NEP 50 they decide the dtype of results.

Where such a number meets a float32 array outside an in-place operation, float64 arrays come out.
A Python number of the same value leaves the array's dtype alone, as on older NumPy.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.stack import Stack

import numpy as np


def python_number(value: Any) -> Any:
    """Return a NumPy scalar (or array without dimensions) as a Python number, all else as is.

    Arrays of CuPy count as well: CuPy 14 promotes as NumPy 2 does.
    """
    from chainer.backends import cuda

    if isinstance(value, (np.generic, np.ndarray, cuda.ndarray)) and value.ndim == 0:
        return float(value) if value.dtype.kind == "f" else value.item()
    return value


def _has_nep50(stack: Stack) -> bool:
    return stack.numpy >= (2,)


def _fix_init(function_class: type) -> None:
    def make(init):
        def with_python_numbers(self, *args, **kwargs):
            init(
                self,
                *(python_number(value) for value in args),
                **{name: python_number(value) for name, value in kwargs.items()},
            )

        return with_python_numbers

    wrap(function_class, "__init__", make)


LAYER_NORMALIZATION = FunctionFix(
    name="layer-normalization-eps",
    module="chainer.functions.normalization.layer_normalization",
    reason="a float64 scalar as eps turns float32 results into float64",
    stacks="NumPy >= 2.0",
    needed=_has_nep50,
    apply=lambda module: _fix_init(module.LayerNormalization),
)

LOCAL_RESPONSE_NORMALIZATION = FunctionFix(
    name="local-response-normalization",
    module="chainer.functions.normalization.local_response_normalization",
    reason="a float64 scalar as k, alpha or beta turns float32 results into float64",
    stacks="NumPy >= 2.0",
    needed=_has_nep50,
    apply=lambda module: _fix_init(module.LocalResponseNormalization),
)


def _fix_smorms3(module: ModuleType) -> None:
    def make(update_core_cpu):
        def with_python_numbers(self, param):
            hyperparam = self.hyperparam
            given = hyperparam.lr, hyperparam.eps
            lr, eps = map(python_number, given)
            if lr is given[0] and eps is given[1]:
                return update_core_cpu(self, param)
            self.hyperparam = SimpleNamespace(lr=lr, eps=eps)
            try:
                return update_core_cpu(self, param)
            finally:
                self.hyperparam = hyperparam

        return with_python_numbers

    wrap(module.SMORMS3Rule, "update_core_cpu", make)


SMORMS3 = FunctionFix(
    name="smorms3-hyperparameters",
    module="chainer.optimizers.smorms3",
    reason="a float64 scalar as lr or eps turns the float32 state into float64",
    stacks="NumPy >= 2.0",
    needed=_has_nep50,
    apply=_fix_smorms3,
)

FIXED_BATCH_NORMALIZATION = FunctionFix(
    name="fixed-batch-normalization-eps",
    module="chainer.functions.normalization.batch_normalization",
    reason="with a float64 scalar as eps F.fixed_batch_normalization has no backward, and no "
    "forward on GPUs",
    stacks="NumPy >= 2.0",
    needed=_has_nep50,
    apply=lambda module: _fix_init(module.FixedBatchNormalization),
)

BATCH_RENORMALIZATION = FunctionFix(
    name="batch-renormalization-numbers",
    module="chainer.functions.normalization.batch_renormalization",
    reason="float64 scalars as rmax and dmax turn float32 results into float64",
    stacks="NumPy >= 2.0",
    needed=_has_nep50,
    apply=lambda module: _fix_init(module.BatchRenormalizationFunction),
)

CLIP = FunctionFix(
    name="clip-bounds",
    module="chainer.functions.math.clip",
    reason="a float64 scalar as a bound turns float32 results of GPUs into float64, and "
    "F.huber_loss has no backward there",
    stacks="CuPy >= 14",
    needed=lambda stack: (stack.cupy or ()) >= (14,),
    apply=lambda module: _fix_init(module.Clip),
)

FIXES = (
    LAYER_NORMALIZATION,
    LOCAL_RESPONSE_NORMALIZATION,
    SMORMS3,
    FIXED_BATCH_NORMALIZATION,
    BATCH_RENORMALIZATION,
    CLIP,
)
