"""Draws of CuPy's generators in an audited call.

Where such a generator stands cannot be read, and so it cannot be set back. It is asked in
define-by-run alone; the replay, and define-by-run once more on disturbed inputs, are given what it
gave. So it stands afterwards where define-by-run has left it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from sdbr.audit.contents import copy_of, overwrite
from sdbr.compat.patches import PatchSet
from sdbr.devices.arrays import Array
from sdbr.trace.arrays.creation import DRAWS
from sdbr.trace.effects.sides import side

from chainer.backends import cuda
from chainer.functions.noise import dropout

#: What draws besides the functions that NumPy has as well; some are what these consist of.
_OTHERS = (
    "shuffle", "tomaxint", "integers", "_random_sample_raw", "_generate_normal", "_interval",
    "_curand_generate", "_permutation",
)  # fmt: skip


class Drawn(NamedTuple):
    """One draw.

    Attributes
    ----------
    generator : cupy.random.RandomState or cupy.random.Generator
    name : str
        Of its method.
    asked : list of cupy.ndarray
        Arrays among the arguments, such as means.
    given : cupy.ndarray
        A copy of what it gave.
    is_private : bool
        Whether another generator was asked in its place.
    """

    generator: Any
    name: str
    asked: list[Any]
    given: Any
    is_private: bool = False


class Noted:
    """The draws of define-by-run, in order.

    Parameters
    ----------
    philox_seed : int, optional
        Where kernels make the numbers of dropouts, no generator of the user's is asked for them
        here either, but one with this seed.

    Attributes
    ----------
    found : list of Drawn
    """

    def __init__(self, philox_seed: int | None = None) -> None:
        self.found: list[Drawn] = []
        self._inside = False
        self._philox_seed = philox_seed
        self._private: Any = None

    def draw(self, original: Callable, generator, args: tuple, kwargs: dict):
        """Draw, and note what was drawn."""
        if self._inside:  # one draw that consists of others
            return original(generator, *args, **kwargs)
        asked = arrays_among(args, kwargs)
        is_private = self._philox_seed is not None and _is_of_dropout(sys._getframe(2))
        self._inside = True
        try:
            result = original(self._other() if is_private else generator, *args, **kwargs)
        finally:
            self._inside = False
        given = args[0] if result is None and args else result  # shuffled in place
        if isinstance(given, Array):
            drawn = Drawn(generator, original.__name__, asked, given, is_private)
            self.found.append(drawn)
            # Where there is no memory define-by-run ends here, and nobody writes into `given`.
            self.found[-1] = drawn._replace(given=copy_of(given))
        return result

    def _other(self):
        if self._private is None:
            self._private = cuda.cupy.random.RandomState(self._philox_seed)
        return self._private

    def facts(self) -> dict[str, Any]:
        """What was asked for, by name."""
        return facts_of(self.found)


class Given:
    """The draws of the run beside it: of each generator what it gave in define-by-run.

    Parameters
    ----------
    noted : Noted
    goes_on : bool
        Whether generators are asked where nothing is left; else others are, which nobody has.
    """

    def __init__(self, noted: Noted, goes_on: bool = False) -> None:
        self.found: list[Drawn] = []
        self._left = list(noted.found)
        self._goes_on = goes_on
        self._inside = False
        self._spare: dict[tuple, Any] = {}

    def draw(
        self, original: Callable, generator, args: tuple, kwargs: dict, is_feeding: bool = False
    ):
        """What was noted of the next draw of this generator.

        A generator that was spared in define-by-run is asked as well, but where the draw
        `is_feeding` kernels that make their numbers themselves otherwise.
        """
        drawn = next((x for x in self._left if x.generator is generator), None)
        if self._inside or (drawn is None and self._goes_on):
            return original(generator, *args, **kwargs)
        asked = arrays_among(args, kwargs)
        self._inside = True
        try:
            # Of another generator: it says which shape and dtype there has to be.
            result = original(self._another(generator), *args, **kwargs)
        finally:
            self._inside = False
        given = args[0] if result is None and args else result
        if not isinstance(given, Array):
            return result
        self.found.append(Drawn(generator, original.__name__, asked, given))
        if drawn is None:
            return result
        self._left.remove(drawn)
        if drawn.is_private and not is_feeding:
            self._inside = True
            try:
                original(generator, *args, **kwargs)
            finally:
                self._inside = False
        if (drawn.given.size, drawn.given.dtype) == (given.size, given.dtype):
            overwrite(given, drawn.given.reshape(given.shape))
        return result

    def _another(self, generator):
        """One of the same kind that nobody has."""
        random, device = cuda.cupy.random, cuda.cupy.cuda.Device().id
        make = random.default_rng if isinstance(generator, random.Generator) else random.RandomState
        if (make, device) not in self._spare:
            self._spare[make, device] = make(0)
        return self._spare[make, device]

    def facts(self) -> dict[str, Any]:
        """What was asked for, by name."""
        return facts_of(self.found)


def _is_of_dropout(frame) -> bool:
    """Whether `frame` was called by a dropout, whose numbers kernels may make."""
    for _ in range(_DEEPEST):
        if frame is None:
            return False
        if frame.f_code in _DROPOUT:
            return True
        frame = frame.f_back
    return False


#: How many calls lie between a dropout and the method that draws, at most.
_DEEPEST = 8
_DROPOUT = (dropout.Dropout.forward.__code__,)


def _noting(original: Callable) -> Callable:
    @functools.wraps(original)
    def draw(self, *args, **kwargs):
        present = side()
        if present is None:
            return original(self, *args, **kwargs)
        return present.draw(original, self, args, kwargs)

    return draw


#: In place during the runs of an audit.
DRAWING = PatchSet("draws of CuPy")
if cuda.available:
    for _kind in (cuda.cupy.random.RandomState, cuda.cupy.random.Generator):
        for _name in (*DRAWS, *_OTHERS):
            if hasattr(_kind, _name):
                DRAWING.register(_kind, _name, _noting)


def facts_of(found: list[Drawn]) -> dict[str, Any]:
    """Draws as facts: which, how many numbers, of what dtype, and of which arrays."""
    facts: dict[str, Any] = {}
    generators: dict[int, int] = {}
    for i, drawn in enumerate(found):
        number = generators.setdefault(id(drawn.generator), len(generators))
        name = f"draw {i}"
        facts[name] = f"{drawn.given.size} of {drawn.given.dtype.name} by generator {number}"
        facts.update({f"array {k} that {name} is given": x for k, x in enumerate(drawn.asked)})
    return facts


def arrays_among(args: tuple, kwargs: dict) -> list[Any]:
    """Copies of the arrays among arguments."""
    return [copy_of(x) for x in (*args, *kwargs.values()) if isinstance(x, Array)]
