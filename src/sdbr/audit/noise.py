"""How far rounding errors carry define-by-run away from itself.

A replay adds up in another order. Where a call amplifies such errors (a relu at zero, the gradient
of a bias before batch normalization, which is nothing but rounding), it may differ from
define-by-run by more than any fixed limit and be as right. So before a difference counts,
define-by-run runs again on inputs that are disturbed by some units in the last place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sdbr.audit.contents import copy_of, overwrite
from sdbr.devices.arrays import (
    ARRAYS,
    PLAIN,
    device_of,
    is_writeable,
    may_share_memory,
    on_device,
    on_host,
)
from sdbr.trace._node_copies import inner_function
from sdbr.trace.code.foreign import is_users

import chainer
import numpy as np
from chainer.functions.activation import elu, log_softmax, sigmoid, softmax, softplus, swish, tanh
from chainer.functions.loss import sigmoid_cross_entropy, softmax_cross_entropy
from chainer.functions.normalization import batch_normalization
from chainer.functions.rnn import lstm, slstm, tree_lstm

#: Sizes of the disturbance, in units of the last place; one run each, until one explains it. Where
#: a sum next to zero decides (a relu), half of the runs leave it where it is: some of each size.
DISTURBANCES = (4, 16, 64, 5, 17, 65, 6, 18, 66, 7, 19, 67)
#: With float16 among them ties are frequent, and a rounding that breaks one moves an accuracy, or
#: the place of a maximum. Whether it does in one run is a matter of chance, so more are made.
_OF_HALF = (*range(4, 14), 64)
#: Numbers so coarse would hide whatever there is if they were disturbed by more than that.
_MOST_OF_HALF = 13
#: The unit where products round their factors to TF32, which may take 2 ** -11 of each: four units.
#: Numbers that are so coarse hide more: they are not disturbed by more than that.
TF32 = 2.0**-13
_OF_TF32 = (4, 8)


class Disturbed:
    """Arguments, and arrays such as those of parameters, disturbed.

    Parameters
    ----------
    args, kwargs :
        Of the call; they stay as they are.
    arrays : list of ndarray
        Those of floats are disturbed in place while the context lasts.
    tf32 : bool
        Whether products may round their factors to TF32.
    """

    def __init__(self, args: tuple, kwargs: dict, arrays: list, tf32: bool = False):
        self.tf32 = tf32
        self.args = args
        self.kwargs = kwargs
        self.arrays = [array for array in arrays if _is_float(array)]
        #: id of a Variable among the arguments -> the one in its place, of the last run.
        self.pairs: dict[int, object] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the disturbances."""
        if self.tf32:
            return _OF_TF32
        return _OF_HALF if _has_half((self.arrays, self.args, self.kwargs)) else DISTURBANCES

    @contextlib.contextmanager
    def by(self, units: int) -> Iterator[tuple]:
        """Yield ``(args, kwargs)`` that are disturbed by about `units` in the last place."""
        rng = np.random.RandomState(units)  # not the global generator, which the call may use
        self.pairs = {}
        kept = [(array, copy_of(array)) for array in self.arrays]
        try:
            for array, _ in kept:
                if is_writeable(array):
                    overwrite(array, self.shaken(array, units, rng))
            yield self._filled((self.args, self.kwargs), units, rng)
        finally:
            for array, contents in kept:
                if is_writeable(array):
                    overwrite(array, contents)

    def shaken(self, array, units: int, rng: np.random.RandomState, whole: bool = True):
        """A copy of `array` in which each number is another by some units in the last place.

        Whole numbers stay if `whole`: they may be masks and codes, which are compared. The numbers
        are the same ones wherever the array lies.
        """
        given, array = array, on_host(array)
        if array.dtype == np.float16:
            units = min(units, _MOST_OF_HALF)
        tf32 = self.tf32 and array.dtype == np.float32
        size = units * (TF32 if tf32 else np.finfo(array.dtype).eps)
        noise = rng.uniform(-size, size, array.shape)
        with np.errstate(all="ignore"):
            # Of no dimensions it would be a scalar.
            noisy = np.asarray(array * (1 + noise)).astype(array.dtype)
            if whole:
                noisy = np.where(array == np.rint(array), array, noisy)
        return _to_place_of(given, noisy)

    def _filled(self, thing, units: int, rng: np.random.RandomState):
        """`thing` with disturbed arrays; what is the same object stays so."""
        if isinstance(thing, chainer.Parameter):
            return thing
        if isinstance(thing, (*ARRAYS, chainer.Variable)):
            if id(thing) not in self.pairs:
                self.pairs[id(thing)] = self._leaf(thing, units, rng)
            return self.pairs[id(thing)]
        if type(thing) is dict:
            return {k: self._filled(x, units, rng) for k, x in thing.items()}
        if type(thing) in (list, tuple):
            return type(thing)([self._filled(x, units, rng) for x in thing])
        return thing

    def _leaf(self, thing, units: int, rng: np.random.RandomState):
        array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
        if type(array) not in PLAIN or not _is_float(array):
            return thing
        array = self.shaken(array, units, rng)
        if not isinstance(thing, chainer.Variable):
            return array
        return chainer.Variable(array, requires_grad=thing.requires_grad, name=thing.name)


def _is_float(array) -> bool:
    return isinstance(array, ARRAYS) and array.dtype.kind == "f" and array.size > 0


def _has_half(thing) -> bool:
    """Whether an array of float16 is in it."""
    if isinstance(thing, (list, tuple)):
        return any(map(_has_half, thing))
    if isinstance(thing, dict):
        return any(map(_has_half, thing.values()))
    array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
    return _is_float(array) and array.dtype == np.float16


def _to_place_of(array, contents: np.ndarray):
    """`contents` where `array` lies."""
    device = device_of(array)
    return contents if device is None else on_device(contents, device)


def _of_itself(function, inputs, y):
    return np.abs(y)


def _of_a_fraction(function, inputs, y):
    """The same, but for whole numbers, which count and choose."""
    return np.where(y == np.rint(y), 0, np.abs(y))


def _of_one(function, inputs, y):
    return 1.0


def _of_gradient(function, inputs, y):
    """Products with the gradient that came in, which is the last input."""
    return _largest(inputs[-1])


def _of_mean(function, inputs, y):
    """The same, where a mean over `count` was taken."""
    size = _of_gradient(function, inputs, y)
    return size / float(function.count) if function.reduce == "mean" else size


def _of_coefficient(function, inputs, y):
    """The same, times a coefficient."""
    size = _of_gradient(function, inputs, y)
    return size if function.coeff is None else size * abs(float(function.coeff))


def _of_inputs(function, inputs, y):
    return _largest(inputs[0])


def _of_swish(function, inputs, y):
    """A sigmoid of ``beta * x`` times `x`, in its gradient times `beta` and what came in."""
    x, beta, *gradient = map(_largest, inputs)
    return max(1.0, x * beta) * gradient[0] if gradient else x


def _of_lstm(function, inputs, y):
    """Sigmoids times cells, the first inputs, and times the tanh of what comes after them."""
    n = {lstm.LSTM: 1, slstm.SLSTM: 2}.get(type(function), len(inputs) - 1)
    return max(map(_largest, inputs[:n])) + min(1.0, max(map(_largest, inputs[n:])))


def _of_lstm_gradient(function, inputs, y):
    """Sigmoids times gradients, the last two inputs, and times cells, the first ones."""
    cells = inputs[: 1 if len(inputs) == 5 else 2]
    return max(1.0, *map(_largest, cells)) * sum(map(_largest, inputs[-2:]))


def _largest(x):
    array = getattr(x, "array", x)
    return 0.0 if array is None else np.max(np.abs(on_host(array)), initial=0.0)


#: Functions whose formulas take numbers from others that are nearly the same: where they saturate,
#: what they give is nothing but the rounding of these, however small it is. Each with the size of
#: what is rounded; of all other functions of Chainer's it is what they give. What a gradient makes
#: of an output near one is seen where that is disturbed.
SATURATING = {
    elu.ELU: _of_itself,
    sigmoid.Sigmoid: _of_one,
    softmax.Softmax: _of_itself,
    softplus.SoftplusGrad: _of_gradient,
    tanh.Tanh: _of_itself,
    log_softmax.LogSoftmax: _of_inputs,
    sigmoid_cross_entropy.SigmoidCrossEntropyGrad: _of_mean,
    softmax_cross_entropy.SoftmaxCrossEntropy: _of_inputs,
    softmax_cross_entropy._SoftmaxCrossEntropyGrad_NoDoubleBackprop: _of_coefficient,
    swish.Swish: _of_swish,
    swish.SwishGrad: _of_swish,
    lstm.LSTM: _of_lstm,
    lstm.LSTMGrad: _of_lstm_gradient,
    slstm.SLSTM: _of_lstm,
    slstm.SLSTMGrad: _of_lstm_gradient,
    tree_lstm.TreeLSTM: _of_lstm,
}
_UP_TO_ONE = (sigmoid.Sigmoid, softmax.Softmax, tanh.Tanh)
#: In units in the last place of that size: the least that moves a number just below it. What counts
#: as rounding is `compare.AMPLIFIED` times as much.
_MOVED_BY = 0.5


#: Functions whose first result adds up to zero over some axes, by formulas with sums over these.
#: What is left of it in further sums is how those were rounded: the same for every element, and
#: the more the longer they are.
CENTERED = {batch_normalization.BatchNormalizationGrad: lambda function: function.axis}
#: How many times that the means of batch normalization are off, as a rule (by its deviation): up
#: to four were seen where NumPy added up images. All elements of a channel move together.
_OF_MEANS = 2.0


class Rounding:
    """Other roundings of what functions give, and inside of those that saturate, center, normalize.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int):
        self._rng = np.random.RandomState(seed)

    def disturb(self, function, inputs, outputs) -> None:
        """Change what a function node gives, in place.

        Signs stay, for logarithms and roots are taken of such numbers, and so do limits of one.
        """
        kind = type(inner_function(function) or function)
        axes_of = CENTERED.get(kind)
        if axes_of is not None:
            self._move(outputs[0]._data[0], axes_of(function))
            return
        if kind is batch_normalization.BatchNormalization:
            self._center(function, inputs, outputs[0]._data[0])
            return
        if is_users(kind.__module__):
            return  # a replay runs the very same code
        size_of = SATURATING.get(kind, _of_a_fraction)
        for y in outputs:
            array = y._data[0]
            if array is None or not _is_float(array) or not is_writeable(array):
                continue
            given_arrays = [getattr(x, "array", x) for x in inputs]
            if any(x is not None and may_share_memory(x, array) for x in given_arrays):
                continue  # a view: it rounds nothing, and may be one of what the user holds
            given, array = array, on_host(array)
            size = _MOVED_BY * np.finfo(array.dtype).eps * size_of(function, inputs, array)
            size = self._rng.choice((-1, 1), array.shape) * size
            with np.errstate(all="ignore"):
                moved = np.abs(array) + size
                if kind in _UP_TO_ONE:
                    moved = np.where(moved > 1, moved - 2 * size, moved)
                moved = np.copysign(np.abs(moved), array).astype(array.dtype)
            overwrite(given, _to_place_of(given, moved))

    def _center(self, function, inputs, array) -> None:
        """Move what was normalized as other roundings of the means, which are long sums, do."""
        if array is None or not _is_float(array) or not is_writeable(array):
            return
        given, array = array, on_host(array)
        x, gamma = (on_host(getattr(y, "array", y)) for y in inputs[:2])
        axes = function.axis
        with np.errstate(all="ignore"):
            mean = np.mean(np.abs(x), axis=axes, keepdims=True, dtype=gamma.dtype)
            deviation = np.sqrt(
                np.var(x, axis=axes, keepdims=True, dtype=gamma.dtype) + function.eps
            )
            size = _MOVED_BY * np.finfo(gamma.dtype).eps * np.sqrt(x.size / mean.size)
            size = size * self._rng.normal(0, _OF_MEANS, mean.shape)
            moved = array + size * mean / deviation * np.reshape(gamma, mean.shape)
        overwrite(given, _to_place_of(given, moved.astype(array.dtype)))

    def _move(self, array, axes: tuple[int, ...]) -> None:
        """Move what is summed over `axes`, as rounding errors of sums that long may."""
        if array is None or not _is_float(array) or not is_writeable(array):
            return
        given, array = array, on_host(array)
        n = np.prod([array.shape[axis] for axis in axes])
        size = _MOVED_BY * np.finfo(array.dtype).eps * np.sqrt(n)
        with np.errstate(all="ignore"):
            mean = np.mean(np.abs(array), axis=axes, keepdims=True)
            moved = (array + self._rng.choice((-1, 1), mean.shape) * size * mean).astype(
                array.dtype
            )
        overwrite(given, _to_place_of(given, moved))
