"""What Chainer computes outside of function nodes, and how each of it is recorded.

This is the only place that knows of such code by name. All else that Chainer computes outside of
nodes is NumPy on arrays of the call (``F.floor``, ``ceil``, ``fix``, ``sign``), or draws of
NumPy's global generator (``F.gumbel_softmax``, ``Distribution.sample``): these are recorded as
what they are, wherever they stand. `RECORDED_WHOLE` lists the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.stripping import PURE, is_traced, strip
from sdbr.trace.code.frames import user_line
from sdbr.trace.current import current
from sdbr.trace.effects.side_effects import Attributes, record_static_code
from sdbr.trace.values import ATTRIBUTE, TracedNode

import chainer
import numpy as np
from chainer import backend, links
from chainer.dataset import convert
from chainer.functions.loss import softmax_cross_entropy as _softmax_cross_entropy
from chainer.link_hooks import SpectralNormalization, spectral_normalization
from chainer.utils import conv, conv_nd
from chainer.utils.walker_alias import WalkerAlias


class OutsideCall:
    """A function of Chainer's on arrays, as the object of a recorded call.

    Parameters
    ----------
    function : callable
        On arrays, with one array or a tuple of arrays as result.
    name : str
    """

    reason = "Chainer computes it outside of function nodes"

    def __init__(self, function: Callable, name: str):
        self.function = function
        self.label = self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class LinkCall:
    """The forward of a link, in the place of the function nodes that it makes.

    A replay runs it on a copy of the link whose parameters are the Variables of the replay: so
    gradients are those of this very run, and two threads do not meet. What else the code writes
    to attributes goes to the link.

    Parameters
    ----------
    link : chainer.Link
    call : callable
        ``call(link, x)``.
    names : list of str
        The parameters of the link, in the order of the inputs after `x`.
    label : str
    """

    reason = "Chainer computes with a number that changes from call to call"

    def __init__(self, link: chainer.Link, call: Callable, names: list[str], label: str):
        self.link = link
        self.call = call
        self.names = names
        self.label = label

    def apply(self, xs: list) -> tuple:
        """Run the call on Variables, as ``FunctionNode.apply`` does."""
        link = self.link
        clone = object.__new__(type(link))
        clone.__dict__.update(link.__dict__)
        clone.__dict__.update(zip(self.names, xs[1:], strict=True))
        before = dict(clone.__dict__)
        y = self.call(clone, xs[0])
        for name, thing in clone.__dict__.items():
            if name not in before or before[name] is not thing:
                setattr(link, name, thing)
        return (y,)


def _record_link(recorder, link, call, x, label: str):
    """Call ``call(link, x)`` and record it as one node that runs it again in every replay."""
    line = user_line()
    value = (
        recorder.values.of_variable(x)
        if isinstance(x, chainer.Variable)
        else recorder.values.of_array(x)
    )
    before = Attributes(recorder)
    recorder.depth += 1
    try:
        y = call(link, strip(x))
    finally:
        recorder.depth -= 1
    before.forgive_writes()
    names = sorted(link.__dict__["_params"])
    parameters = [getattr(link, name) for name in names]  # a read, for the guards
    values = [value, *[recorder.values.of_variable(p) for p in parameters]]
    template = LinkCall(link, call, names, label)
    backprop = chainer.config.enable_backprop
    node = TracedNode(template, template, None, values, [], backprop, [], label, line)
    recorder.nodes.add_node(node, (y,))
    return y


# --- what is patched while a call is traced -----------------------------------------------------


def _tracing():
    """The recorder, when code outside of function nodes is being recorded."""
    recorder = current()
    return None if recorder is None or recorder.depth else recorder


def _sample(original):
    @functools.wraps(original)
    def sample(self, shape):
        recorder = _tracing()
        if recorder is None:
            return original(self, shape)
        call = OutsideCall(functools.partial(original, self), "WalkerAlias.sample")
        return recorder.calls.draw(call, (shape,), {})

    return sample


def _finetuning(original):
    @functools.wraps(original)
    def forward(self, x, *args, **kwargs):
        recorder = _tracing()
        finetune = args[0] if args else kwargs.get("finetune", False)
        if recorder is None or not finetune or not chainer.config.train:
            return original(self, x, *args, **kwargs)
        label = f"{type(self).__name__}(finetune)"
        return _record_link(recorder, self, functools.partial(_finetune, original), x, label)

    return forward


def _finetune(original, link, x):
    return original(link, x, finetune=True)


def _power_iteration(original):
    @functools.wraps(original)
    def update(weight_matrix, u, n_power_iteration, eps):
        recorder = _tracing()
        if recorder is None:
            return original(weight_matrix, u, n_power_iteration, eps)

        def iterate(matrix, u):
            return original(chainer.Variable(matrix), u, n_power_iteration, eps)

        matrix = weight_matrix.array
        recorder.depth += 1
        try:
            result = iterate(strip(matrix), strip(u))
        finally:
            recorder.depth -= 1
        call = OutsideCall(iterate, "SpectralNormalization power iteration")
        return recorder.calls.numpy_call(call, (matrix, u), {}, result)

    return update


def _normalize_weight(original):
    @functools.wraps(original)
    def normalize_weight(self, link):
        recorder = _tracing()
        if recorder is None:
            return original(self, link)
        if chainer.config.in_recomputing:
            recorder.mark_dynamic(
                "a recomputation reads what its hook kept", Remedy.USE_FUNCTIONS, quiet=True
            )
        weight = original(self, link)

        def keep(inputs):
            self.v = inputs[0]

        label = "SpectralNormalization keeps v"
        record_static_code(recorder, keep, (), {"inputs": [self.v]}, label)
        return weight

    return normalize_weight


def _first_values(link_of: Callable):
    """Code that gives attributes of a link their first values, in its first call only."""

    def factory(original):
        @functools.wraps(original)
        def prepare(self, *args, **kwargs):
            recorder = _tracing()
            if recorder is None:
                return original(self, *args, **kwargs)
            link = link_of(self, args)
            before, own = dict(link.__dict__), dict(self.__dict__)
            recorder.depth += 1
            try:
                result = original(self, *args, **kwargs)
            finally:
                recorder.depth -= 1
            if recorder.code_watch is not None:
                for name in _changed(self, own):
                    recorder.code_watch.wrote(self, "attribute", name)
            recorder.attributes.came_to_be(link, _changed(link, before))
            return result

        return prepare

    return factory


def _changed(thing, before: dict) -> list[str]:
    """Attributes that are others than before, or new."""
    now = list(thing.__dict__.items())
    return [name for name, x in now if name not in before or before[name] is not x]


def _copyto(original):
    @functools.wraps(original)
    def copyto(dst, src):
        recorder = _tracing()
        if recorder is None or not is_traced(dst) or dst.origin in (None, PURE):
            return original(dst, src)
        if dst.origin.kind != ATTRIBUTE or not isinstance(src, np.ndarray):
            return original(dst, src)

        def copy(inputs, outputs):
            original(outputs[0], inputs[0])

        arrays = {"inputs": [src], "outputs": [dst]}
        return record_static_code(recorder, copy, (), arrays, "copyto")

    return copyto


def _normalized(original):
    @functools.wraps(original)
    def softmax_cross_entropy(x, t, normalize, class_weight, ignore_label, reduce, is_chainerx):
        recorder = _tracing()
        if recorder is None or reduce != "mean" or not normalize:
            return original(x, t, normalize, class_weight, ignore_label, reduce, is_chainerx)
        start = len(recorder.trace.nodes)
        # Chainer compares the number of labels in use with 1 in Python; NumPy's maximum is noted.
        losses = original(x, t, normalize, class_weight, ignore_label, "no", is_chainerx)
        labels = t.array if isinstance(t, chainer.Variable) else t
        dtype = np.promote_types(losses.dtype, np.float32)
        count = np.maximum((labels != ignore_label).astype(dtype).sum(), dtype.type(1))
        loss = chainer.functions.sum(chainer.functions.cast(losses, dtype) / count)
        loss = chainer.functions.cast(loss, losses.dtype)
        for node in recorder.trace.nodes[start:]:
            node.applied = False  # others than define-by-run applies
        return loss

    return softmax_cross_entropy


def _padded(original):
    @functools.wraps(original)
    def concat(arrays, padding):
        recorder = _tracing()
        if recorder is None or not any(map(is_traced, arrays)):
            return original(arrays, padding)
        recorder.depth += 1
        try:
            result = original([strip(a) for a in arrays], padding)
        finally:
            recorder.depth -= 1
        call = OutsideCall(original, "concat_examples with padding")
        return recorder.calls.numpy_call(call, (list(arrays), padding), {}, result)

    return concat


def _of_arrays(original):
    """A function of arrays that fills its result item by item."""

    @functools.wraps(original)
    def function(array, *args, **kwargs):
        recorder = _tracing()
        if recorder is None or not is_traced(array):
            return original(array, *args, **kwargs)
        recorder.depth += 1
        try:
            result = original(strip(array), *args, **kwargs)
        finally:
            recorder.depth -= 1
        call = OutsideCall(original, original.__name__)
        return recorder.calls.numpy_call(call, (array, *args), kwargs, result)

    return function


#: Owner, name, wrapper.
RECORDED_WHOLE = (
    (WalkerAlias, "sample", _sample),  # L.BlackOut, L.NegativeSampling
    (links.BatchNormalization, "forward", _finetuning),
    (links.BatchRenormalization, "forward", _finetuning),
    (links.DecorrelatedBatchNormalization, "forward", _finetuning),
    (spectral_normalization, "update_approximate_vectors", _power_iteration),
    (SpectralNormalization, "normalize_weight", _normalize_weight),
    (SpectralNormalization, "_prepare_parameters", _first_values(lambda hook, args: args[0])),
    (links.BatchNormalization, "_initialize_params", _first_values(lambda link, args: link)),
    (backend, "copyto", _copyto),
    *[(conv, name, _of_arrays) for name in ("im2col_cpu", "col2im_cpu")],
    *[(conv_nd, name, _of_arrays) for name in ("im2col_nd_cpu", "col2im_nd_cpu")],
    (convert, "_concat_arrays_with_padding", _padded),
    (_softmax_cross_entropy, "_double_backward_softmax_cross_entropy", _normalized),
)


def register(patches) -> None:
    """Add the patches to the set that is in place while any call is traced."""
    for owner, name, factory in RECORDED_WHOLE:
        patches.register(owner, name, factory)
