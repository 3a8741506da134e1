"""Fixes for variables, files and devices."""

from __future__ import annotations

from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.stack import Stack

import numpy as np


def _fix_debug_print(module: ModuleType) -> None:
    def make(debug_print):
        def name_cpu_as_before(self) -> str:
            text = debug_print(self)
            if isinstance(self.array, np.ndarray):
                text = text.replace("\n- device: cpu\n", "\n- device: CPU\n", 1)
            return text

        return name_cpu_as_before

    wrap(module.Variable, "debug_print", make)


DEBUG_PRINT = FunctionFix(
    name="debug-print-device",
    module="chainer.variable",
    reason="NumPy arrays have a device attribute now, so 'cpu' is printed in place of 'CPU'",
    stacks="NumPy >= 2.0",
    needed=lambda stack: stack.numpy >= (2,),
    apply=_fix_debug_print,
)


def _fix_hdf5(module: ModuleType) -> None:
    def make(call):
        def decode_text(self, key, value):
            if isinstance(value, str | None) and self.group is not None and key in self.group:
                dataset = self.group[key]
                kind = module.h5py.check_string_dtype(dataset.dtype)
                # Text read without a template of its own type was text only if stored as UTF-8.
                if kind is not None and dataset.shape is not None:
                    if value is not None:
                        return type(value)(dataset.asstr()[()])
                    if kind.length is None and kind.encoding == "utf-8":
                        return np.asarray(dataset.asstr()[()], dtype=object)
            return call(self, key, value)

        return decode_text

    wrap(module.HDF5Deserializer, "__call__", make)


HDF5_TEXT = FunctionFix(
    name="hdf5-text",
    module="chainer.serializers.hdf5",
    reason="h5py returns stored text as bytes",
    stacks="h5py >= 3",
    needed=lambda stack: (stack.h5py or ()) >= (3,),
    apply=_fix_hdf5,
)


def _fix_cudnn_warning(module: ModuleType) -> None:
    # The flag that Chainer sets itself after the first warning.
    module.check_cuda_available._already_warned = True


CUDNN_WARNING = FunctionFix(
    name="cudnn-warning",
    module="chainer.backends.cuda",
    reason="it advises to install cuDNN, which CuPy no longer uses",
    stacks="any with CuPy",
    needed=lambda stack: stack.has_cupy,
    apply=_fix_cudnn_warning,
)


def _fix_available(module: ModuleType) -> None:
    why = Stack().no_gpu
    if not module.available or why is None:
        return
    try:  # where there is none, nothing is begun by asking
        found = bool(module.cupy.cuda.is_available())
    except Exception:  # CuPy 13 raises
        found = False
    if not found:
        module.available = False
        module._resolution_error = f"CuPy is here, but no GPU: {why}"


CUDA_AVAILABLE = FunctionFix(
    name="cuda-available",
    module="chainer.backends.cuda",
    reason="chainer.backends.cuda.available is True without a GPU, and what looks at it fails",
    stacks="any with CuPy and cuBLAS, where the driver is missing or hides all GPUs",
    needed=lambda stack: stack.has_cupy and stack.no_gpu is not None and stack.has_cublas,
    apply=_fix_available,
)


def _fix_reason(module: ModuleType) -> None:
    lines = str(module._resolution_error).strip().splitlines() or ["it cannot be imported"]
    text = f"CuPy is here, but Chainer cannot use it: {lines[0]}"
    if "cublas" in text:
        text += (
            "; pip install 'cupy-cuda12x[ctk]' or 'cupy-cuda13x[ctk]' (CuPy 14) brings CUDA's "
            "libraries, and LD_LIBRARY_PATH names the folder of those that are there"
        )
    why = Stack().no_gpu
    module._resolution_error = text + (f"; besides, {why}" if why else "")


CUDA_REASON = FunctionFix(
    name="cuda-reason",
    module="chainer.backends.cuda",
    reason="nobody says what would help where CuPy finds no cuBLAS",
    stacks="any with CuPy and without cuBLAS",
    needed=lambda stack: stack.has_cupy and not stack.has_cublas,
    apply=_fix_reason,
)

FIXES = (DEBUG_PRINT, HDF5_TEXT, CUDNN_WARNING, CUDA_AVAILABLE, CUDA_REASON)
