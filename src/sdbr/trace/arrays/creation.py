"""Arrays that user code makes from nothing, and draws of NumPy's global generator.

While a call is traced, NumPy's creating functions return arrays whose origin is `PURE`: such an
array is a constant at once. Draws are recorded as calls that every replay makes, in order.
"""

from __future__ import annotations

import functools
import random
import sys
import time
import types
from collections.abc import Callable

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays.asking import settled
from sdbr.trace.arrays.stripping import holds_known, holds_traced
from sdbr.trace.arrays.telling import record, unseen
from sdbr.trace.arrays.traced_float import strip_floats
from sdbr.trace.code._library import is_library_name
from sdbr.trace.code.frames import called_by_machinery, makes_parameters
from sdbr.trace.code.moving import CLOCKS
from sdbr.trace.current import current

import numpy as np

CREATORS = (
    'arange', 'empty', 'empty_like', 'eye', 'full', 'full_like', 'identity', 'indices',
    'linspace', 'ones', 'ones_like', 'tri', 'zeros', 'zeros_like',
)  # fmt: skip

#: The numbers that these are given say nothing of a shape.
_OF_NUMBERS = frozenset(("full", "full_like", "linspace"))

# These look at an array past its class: NumPy does not tell when they are called with one.
CONVERSIONS = (
    "argsort", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "require",
)  # fmt: skip

DRAWS = (
    'beta', 'binomial', 'chisquare', 'choice', 'dirichlet', 'exponential', 'f', 'gamma',
    'geometric', 'gumbel', 'hypergeometric', 'laplace', 'logistic', 'lognormal', 'logseries',
    'multinomial', 'multivariate_normal', 'negative_binomial', 'noncentral_chisquare',
    'noncentral_f', 'normal', 'pareto', 'permutation', 'poisson', 'power', 'rand', 'randint',
    'randn', 'random', 'random_sample', 'ranf', 'rayleigh', 'sample', 'standard_cauchy',
    'standard_exponential', 'standard_gamma', 'standard_normal', 'standard_t', 'triangular',
    'uniform', 'vonmises', 'wald', 'weibull', 'zipf',
)  # fmt: skip

# These give no new array: what they do cannot be recorded.
SETTERS = ("bytes", "seed", "set_state", "shuffle")

# Numbers of Python's own generator: what they decide cannot be repeated by a schedule.
PYTHON_DRAWS = (
    'betavariate', 'choice', 'choices', 'expovariate', 'gammavariate', 'gauss', 'getrandbits',
    'lognormvariate', 'normalvariate', 'paretovariate', 'randbytes', 'randint', 'random',
    'randrange', 'sample', 'shuffle', 'triangular', 'uniform', 'vonmisesvariate',
    'weibullvariate',
)  # fmt: skip


def _for_ourselves(recorder, frame) -> bool:
    """Whether code of ours looks at an array of a GPU, for which CuPy calls NumPy."""
    if not recorder.on_device:
        return False
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package != "cupy":
            return package == "sdbr"
        frame = frame.f_back
    return False


def only_numbers(thing) -> bool:
    """Whether `thing` consists of plain Python numbers (and dtypes), in lists and tuples."""
    if type(thing) in (list, tuple):
        return all(map(only_numbers, thing))
    return type(thing) in (bool, float, int, str) or isinstance(thing, (np.dtype, type))


def recorded_draw(original: Callable) -> Callable:
    """A method of NumPy's global generator that tells the recorder of what it draws."""

    @functools.wraps(original)
    def draw(*args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(*args, **kwargs)
        frame = sys._getframe(1)
        if not called_by_machinery(frame):
            return recorder.calls.draw(*recorder.meeting.with_numbers(original, args, kwargs))
        if not makes_parameters(frame):
            text = "an initializer draws an array that is no parameter"
            recorder.mark_dynamic(text, Remedy.DRAW_ARRAYS)
        recorder.depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            recorder.depth -= 1

    return draw


def _of_settled_shape(name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """With questions for what decides about the shape."""
    at = range(1) if name == "full" else range(2, len(args))
    args = tuple(settled(x) if i in at else x for i, x in enumerate(args))
    return args, {k: settled(x) if k in ("shape", "num") else x for k, x in kwargs.items()}


def creating(original):
    """A function that makes arrays from nothing: they are pure."""
    # Some of CuPy's make an array by another of these, and write there. Of NumPy's none does, and
    # its generators make some while they are looked at.
    nests = original.__module__.partition(".")[0] == "cupy"

    @functools.wraps(original)
    def create(*args, **kwargs):
        recorder = current()
        if recorder is not None:
            if original.__name__ in _OF_NUMBERS and recorder.meeting.fills_in:
                filled = args[1:2], kwargs.get("fill_value")
                number = recorder.meeting.holds_number((args[:2], kwargs))
                if number or (original.__name__ != "linspace" and holds_known(filled)):
                    return record(original, *_of_settled_shape(original.__name__, args, kwargs))
            args, kwargs = strip_floats(args), strip_floats(kwargs)
            if recorder.depth:
                return original(*args, **kwargs)
        if recorder is None:
            return original(*args, **kwargs)
        result = unseen(recorder, original, *args, **kwargs) if nests else original(*args, **kwargs)
        frame = sys._getframe(1)
        # The ones that ``chainer.grad`` starts from are constants as well.
        if called_by_machinery(frame) and frame.f_code.co_name != "grad":
            return result
        if type(result) not in PLAIN or _for_ourselves(recorder, frame):
            return result
        if original.__name__[:5] == "empty" and result.dtype.kind in "biufc":
            result.fill(0)  # whatever the call leaves of it is the same in every trace
        return recorder.values.made(result)

    return create


def _converting(original):
    """A function that makes arrays of other things."""

    @functools.wraps(original)
    def convert(*args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth or called_by_machinery(sys._getframe(1)):
            return original(*args, **kwargs)
        if holds_traced((args, kwargs)):
            return record(original, args, kwargs)
        result = original(*args, **kwargs)
        made = type(result) is np.ndarray and only_numbers([*args, *kwargs.values()])
        made = made and not _for_ourselves(recorder, sys._getframe(1))
        return recorder.values.made(result) if made else result

    return convert


def _drawing_in_python(original):
    """A function that draws Python numbers, which no schedule can repeat."""

    @functools.wraps(original)
    def draw(*args, **kwargs):
        recorder = current()
        if recorder is not None and not recorder.depth:
            recorder.mark_dynamic(f"random.{original.__name__} drew a number", Remedy.DRAW_ARRAYS)
        return original(*args, **kwargs)

    return draw


def setting(original):
    """A function that sets a generator."""

    @functools.wraps(original)
    def set_generator(*args, **kwargs):
        recorder = current()
        result = original(*args, **kwargs)  # may mark it, with a better reason
        if recorder is not None and not recorder.depth:
            module = "random" if original in _PYTHON_SETTERS else "numpy.random"
            recorder.mark_dynamic(f"{module}.{original.__name__} was called", Remedy.DRAW_ARRAYS)
        return result

    return set_generator


def _telling(original):
    """A function that tells the time."""

    @functools.wraps(original)
    def tell(*args):
        recorder = current()
        if recorder is not None and not recorder.depth:
            name = sys._getframe(1).f_globals.get("__name__", "")
            if not is_library_name(name):
                recorder.mark_dynamic(
                    f"time.{original.__name__} was called", Remedy.PASS_WHAT_IT_GIVES
                )
        return original(*args)

    return tell


_PYTHON_SETTERS = (random.seed, random.setstate)


def register(patches) -> None:
    """Add the patches to the set that is in place while any call is traced."""
    # What makes arrays: out of nothing, of the generator, of other things.
    for name in CONVERSIONS:
        patches.register(np, name, _converting)
    for name in CREATORS:
        patches.register(np, name, creating)
    for name in DRAWS:
        if hasattr(np.random, name):
            patches.register(np.random, name, recorded_draw)
    # Compiled code that draws: it finds `np.array` by its name, patched or not, and takes what that
    # gives for an ndarray without a look.
    itself = types.SimpleNamespace(**vars(np))
    for module in (np.random._bounded_integers, np.random._common):
        if hasattr(module, "np"):
            patches.register(module, "np", lambda original: itself)
    # What sets a generator, draws Python numbers or tells the time: dynamic.
    for name in CLOCKS:
        if hasattr(time, name):
            patches.register(time, name, _telling)
    for name in PYTHON_DRAWS:
        patches.register(random, name, _drawing_in_python)
    for name in ("seed", "setstate"):
        patches.register(random, name, setting)
    for name in SETTERS:
        patches.register(np.random, name, setting)
