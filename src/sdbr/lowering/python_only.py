"""Why function nodes have no function row: what runs as a Python op, and will."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil

from sdbr.functions.registry import lookup

import chainer
import chainer.functions
import chainer.links

GRADIENT = "part of a gradient that the call differentiates in turn"
_SCIPY = "SciPy's function; the C library has none"
_LAPACK = "LAPACK, through NumPy"
_REGIONS = "sums over regions that data choose"
_SPATIAL = "samples at places that data choose"
_FFT = "NumPy's FFT"
_STATISTICS = "statistics of its own kind, seldom used"

#: Node class below ``chainer.functions``, or its whole name -> reason.
REASONS = {
    "array.as_strided.AsStrided": "depends on how its input lies in memory",
    "array.select_item.Assign": GRADIENT,
    "array.spatial_transformer_grid.SpatialTransformerGrid": _SPATIAL,
    "array.spatial_transformer_sampler.SpatialTransformerSampler": _SPATIAL,
    "math.cholesky.Cholesky": _LAPACK,
    "math.cumprod.Cumprodsum": GRADIENT,
    "math.det.BatchDet": _LAPACK,
    "math.fft.FFT": _FFT,
    "math.inv.BatchInv": _LAPACK,
    "math.inv.Inv": _LAPACK,
    "math.ndtri.Ndtri": _SCIPY,
    "math.polygamma.PolyGamma": _SCIPY,
    "math.sparse_matmul.CooMatMul": "SciPy's sparse matrices",
    "math.zeta.Zeta": _SCIPY,
    "normalization.batch_renormalization.BatchRenormalizationFunction": _STATISTICS,
    "normalization.decorrelated_batch_normalization.DecorrelatedBatchNormalization": _LAPACK,
    "normalization.decorrelated_batch_normalization.FixedDecorrelatedBatchNormalization": _LAPACK,
    "pooling.max_pooling_nd.MaxPoolingNDWithIndexes": GRADIENT,
    "pooling.roi_average_align_2d.ROIAverageAlign2D": _REGIONS,
    "pooling.roi_average_pooling_2d.ROIAveragePooling2D": _REGIONS,
    "pooling.roi_max_align_2d.ROIMaxAlign2D": _REGIONS,
    "pooling.roi_max_pooling_2d.ROIMaxPooling2D": _REGIONS,
    "pooling.roi_pooling_2d.ROIPooling2D": _REGIONS,
    "theano.theano_function.TheanoFunction": "Theano's code",
    "util.forget.Forget": "its functions run twice; natively where that is the same",
    "chainer.links.loss.hierarchical_softmax.BinaryHierarchicalSoftmaxFunction": "walks through a "
    "tree of Python objects",
}
#: Base classes, and what runs on a GPU alone.
_NEVER_APPLIED = (
    "Cudnn", "CuDNN", "GPU", "SelectorBase", "IndexSelectorBase", "Pooling2D", "_PoolingND",
    "NStep", "NStepGRU", "NStepBiGRU", "NStepLSTM", "NStepBiLSTM", "NStepRNNTanh", "NStepRNNReLU",
    "NStepBiRNNTanh", "NStepBiRNNReLU", "BaseNStepRNN",
)  # fmt: skip


def reason_of(node_class: type) -> str:
    """Why a node of a class without function row runs as a Python op."""
    name = f"{node_class.__module__}.{node_class.__qualname__}"
    found = REASONS.get(name.removeprefix("chainer.functions."))
    if found is None and name.startswith("chainer.functions.") and _is_gradient(node_class):
        found = GRADIENT
    return found or "no native code"


def without_row() -> dict[str, str]:
    """Chainer's own node classes without function row, by dotted name, with the reason of each."""
    found = {}
    modules = itertools.chain.from_iterable(
        pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for package in (chainer.functions, chainer.links)
    )
    for info in modules:
        module = importlib.import_module(info.name)
        for thing in vars(module).values():
            if (
                inspect.isclass(thing)
                and thing.__module__ == info.name
                and issubclass(thing, (chainer.FunctionNode, chainer.Function))
                and lookup(thing) is None
                and not _is_never_applied(thing.__name__)
            ):
                found[f"{info.name}.{thing.__qualname__}"] = reason_of(thing)
    return dict(sorted(found.items()))


def _is_gradient(node_class: type) -> bool:
    name = node_class.__name__
    return "Grad" in name or name in ("_SetItemZero", "_XHat", "_MulInvStd")


def _is_never_applied(name: str) -> bool:
    return name in _NEVER_APPLIED or any(word in name for word in _NEVER_APPLIED[:3])
