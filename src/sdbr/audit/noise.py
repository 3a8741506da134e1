"""How far rounding errors carry define-by-run away from itself.

A replay adds up in another order. Where a call amplifies such errors (a relu at zero, the gradient
of a bias before batch normalization, which is nothing but rounding), it may differ from
define-by-run by more than any fixed limit and be as right. So before a difference counts,
define-by-run runs again on inputs that are disturbed by some units in the last place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import chainer
import numpy as np
from chainer.functions.activation import elu, log_softmax, sigmoid, softmax, softplus, tanh
from chainer.functions.loss import sigmoid_cross_entropy, softmax_cross_entropy

#: Sizes of the disturbance, in units of the last place; one run each, until one explains it.
DISTURBANCES = (4, 16, 64)


class Disturbed:
    """Arguments and parameters, disturbed.

    Parameters
    ----------
    args, kwargs :
        Of the call; they stay as they are.
    parameters : list of chainer.Parameter
        Disturbed in place while the context lasts.
    """

    def __init__(self, args: tuple, kwargs: dict, parameters: list):
        self.args = args
        self.kwargs = kwargs
        self.parameters = [p for p in parameters if _is_float(p._data[0])]
        #: id of a Variable among the arguments -> the one in its place, of the last run.
        self.pairs: dict[int, object] = {}

    @contextlib.contextmanager
    def by(self, units: int) -> Iterator[tuple]:
        """Yield ``(args, kwargs)`` that are disturbed by about `units` in the last place."""
        rng = np.random.RandomState(units)  # not the global generator, which the call may use
        made = self.pairs = {}
        kept = [(p._data[0], p._data[0].copy()) for p in self.parameters]
        try:
            for array, _ in kept:
                if array.flags.writeable:
                    array[...] = shaken(array, units, rng)
            yield _filled((self.args, self.kwargs), units, rng, made)
        finally:
            for array, contents in kept:
                if array.flags.writeable:
                    array[...] = contents


def _is_float(array) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 0


def shaken(
    array: np.ndarray, units: int, rng: np.random.RandomState, whole: bool = True
) -> np.ndarray:
    """A copy of `array` in which each number is another by some units in the last place.

    Whole numbers stay if `whole`: they may be masks and codes, which are compared.
    """
    size = units * np.finfo(array.dtype).eps
    noise = rng.uniform(-size, size, array.shape)
    with np.errstate(all="ignore"):
        # Of no dimensions it would be a scalar.
        noisy = np.asarray(array * (1 + noise)).astype(array.dtype)
        return np.where(array == np.rint(array), array, noisy) if whole else noisy


def _filled(thing, units, rng, made):
    """`thing` with disturbed arrays; what is the same object stays so."""
    if isinstance(thing, chainer.Parameter):
        return thing
    if isinstance(thing, (np.ndarray, chainer.Variable)):
        if id(thing) not in made:
            made[id(thing)] = _shaken_leaf(thing, units, rng)
        return made[id(thing)]
    if type(thing) is dict:
        return {k: _filled(x, units, rng, made) for k, x in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)([_filled(x, units, rng, made) for x in thing])
    return thing


def _shaken_leaf(thing, units, rng):
    array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
    if type(array) is not np.ndarray or not _is_float(array):
        return thing
    array = shaken(array, units, rng)
    if isinstance(thing, chainer.Variable):
        return chainer.Variable(array, requires_grad=thing.requires_grad, name=thing.name)
    return array


def _of_itself(function, inputs, y):
    return np.abs(y)


def _of_one(function, inputs, y):
    return 1.0


def _of_gradient(function, inputs, y):
    """Products with the gradient that came in, which is the last input."""
    return np.max(np.abs(_array(inputs[-1])), initial=0.0)


def _of_mean(function, inputs, y):
    """The same, where a mean over `count` was taken."""
    size = _of_gradient(function, inputs, y)
    return size / function.count if function.reduce == "mean" else size


def _of_coefficient(function, inputs, y):
    """The same, times a coefficient."""
    size = _of_gradient(function, inputs, y)
    return size if function.coeff is None else size * abs(float(function.coeff))


def _of_inputs(function, inputs, y):
    return np.max(np.abs(_array(inputs[0])), initial=0.0)


def _array(x):
    return getattr(x, "array", x)


#: Functions whose formulas take numbers from others that are nearly the same: where they saturate,
#: what they give is nothing but the rounding of these, however small it is. Each with the size of
#: what is rounded. What a gradient makes of an output near one is seen where that is disturbed.
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
}
_UP_TO_ONE = (sigmoid.Sigmoid, softmax.Softmax, tanh.Tanh)
#: In units in the last place of that size: the least that moves a number just below it. What counts
#: as rounding is `compare.AMPLIFIED` times as much.
_MOVED_BY = 0.5


class Rounding:
    """Other roundings inside of the functions that saturate.

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
        size_of = SATURATING.get(type(function))
        if size_of is None:
            return
        for y in outputs:
            array = y._data[0]
            if array is None or not _is_float(array) or not array.flags.writeable:
                continue
            size = _MOVED_BY * np.finfo(array.dtype).eps * size_of(function, inputs, array)
            size = self._rng.choice((-1, 1), array.shape) * size
            with np.errstate(all="ignore"):
                moved = np.abs(array) + size
                if type(function) in _UP_TO_ONE:
                    moved = np.where(moved > 1, moved - 2 * size, moved)
                array[...] = np.copysign(np.abs(moved), array)
