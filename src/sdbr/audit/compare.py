"""How two runs of one call differ."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from sdbr.audit._budget import largest_difference
from sdbr.devices.arrays import ARRAYS, Array, device_of, on_host
from sdbr.devices.contents import Extent, extents
from sdbr.trace.values import OF_VARIABLES

import chainer
import numpy as np

#: Largest difference relative to the largest magnitude of an array, by bytes of the dtype; twice
#: the limits of replays, for sums of errors. Beyond it the noise of define-by-run itself decides.
TOLERANCES = {2: 1e-2, 4: 2e-5, 8: 2e-12, 16: 2e-12}
#: The same for gradients and what an optimizer makes of them.
GRADIENT_TOLERANCES = {2: 5e-2, 4: 2e-4, 8: 2e-11, 16: 2e-11}
_MOST_DEPTH = 8


def flat(name: str, thing, facts: dict[str, Any], met: dict[int, tuple], depth: int = 0) -> None:
    """Take `thing` apart: arrays, numbers and types by name, into `facts`.

    `met` receives the lists and dicts by id, each with its names, for `one_object`.
    """
    if isinstance(thing, (list, dict)):
        met.setdefault(id(thing), (thing, []))[1].append(name)
    if isinstance(thing, chainer.Variable):
        facts[name] = thing._data[0]
        facts[f"{name}: requires_grad"] = bool(thing.requires_grad)
        facts[f"{name}: name"] = thing.name
        for key in list(thing.__dict__):
            if depth < _MOST_DEPTH and key not in OF_VARIABLES:
                flat(f"{name}.{key}", thing.__dict__[key], facts, met, depth + 1)
    elif isinstance(thing, ARRAYS):
        facts[name] = thing
    elif isinstance(thing, np.generic):
        facts[name] = np.asarray(thing)
        facts[f"{name}: type"] = type(thing).__name__
    elif isinstance(thing, dict):
        facts[f"{name}: keys"] = [repr(key)[:80] for key in list(thing)]
        if depth < _MOST_DEPTH:
            for key, item in list(thing.items()):
                flat(f"{name}[{key!r:.40}]", item, facts, met, depth + 1)
    elif isinstance(thing, (list, tuple)):
        facts[f"{name}: length"] = (type(thing).__name__, len(thing))
        if depth < _MOST_DEPTH:
            for i, item in enumerate(thing):
                flat(f"{name}[{i}]", item, facts, met, depth + 1)
    elif isinstance(thing, (bool, int, float, complex, str, bytes, type(None))):
        facts[name] = thing
    elif isinstance(thing, chainer.Link) or callable(thing):
        facts[f"{name}: object"] = id(thing)
    else:
        facts[f"{name}: type"] = type(thing).__name__
        attributes = getattr(thing, "__dict__", None)
        if depth < _MOST_DEPTH and type(attributes) is dict:
            for key, item in list(attributes.items()):
                flat(f"{name}.{key}", item, facts, met, depth + 1)


def one_object(met: dict[int, tuple]) -> dict[str, Any]:
    """Facts on the lists and dicts that lie in more than one place."""
    groups = [sorted(names) for _, names in met.values() if len(names) > 1]
    return {f"{first}: the same object as": others for first, *others in groups}


def differences(got: dict[str, Any], want: dict[str, Any], tolerances=None) -> dict[str, str]:
    """The names whose facts differ, and how; in the order of `want`."""
    measured = _measured(got, want)
    found = _differing(got, want, tolerances or TOLERANCES, {}, measured)
    # What other arrays hold is looked at only where it may matter.
    return found and _differing(
        got, want, tolerances or TOLERANCES, _floors(want, measured), measured
    )


def _differing(got, want, tolerances, floors, measured) -> dict[str, str]:
    found = {}
    for name in [*want, *[name for name in got if name not in want]]:
        if name not in got:
            found[name] = "only define-by-run has it"
        elif name not in want:
            found[name] = "define-by-run does not have it"
        else:
            floor = floors.get(_group(name), 0.0) if floors else 0.0
            problem = difference(got[name], want[name], tolerances, floor, measured.get(name))
            if problem:
                found[name] = problem
    return found


def _group(name: str) -> str:
    """What the fact is one of: gradients, states of one sort; empty for anything else."""
    if name.startswith("the gradient of"):
        return "gradients"
    return name[name.index("._state[") :] if "._state[" in name else ""


#: Rounding errors of a sum that cancels are of the size of what is summed, not of the sum (the
#: gradient of a bias before batch normalization is zero but for them); the largest number among its
#: like stands for that. In units of the last place.
_CANCELLED = 16


def _measured(got: dict[str, Any], want: dict[str, Any]) -> dict[str, Extent]:
    """The extents of what lies on GPUs, by name; what has nothing like it by its own size."""
    pairs = {}
    for name, fact in want.items():
        if isinstance(fact, Array):
            other = got.get(name)
            pairs[name] = (other if _are_alike(other, fact) else fact, fact)
    return dict(zip(pairs, extents(list(pairs.values())), strict=True))


def _are_alike(got, want) -> bool:
    """Whether the one is an array as the other is: shape, dtype, device."""
    return isinstance(got, ARRAYS) and (
        (got.shape, got.dtype, device_of(got)) == (want.shape, want.dtype, device_of(want))
    )


def _floors(facts: dict[str, Any], measured: dict[str, Extent]) -> dict[str, float]:
    """By group: the size of errors that sums of such numbers have."""
    floors: dict[str, float] = {}
    for name, fact in facts.items():
        group = _group(name)
        if group and isinstance(fact, ARRAYS) and fact.dtype.kind == "f" and fact.size:
            extent = measured.get(name) or _extent(fact, fact)
            size = _CANCELLED * float(np.finfo(fact.dtype).eps) * extent.scale
            floors[group] = max(floors.get(group, 0.0), size)
    return floors


def difference(
    got, want, tolerances=None, floor: float = 0.0, measured: Extent | None = None
) -> str:
    """How two arrays, numbers or other things differ beyond rounding; empty when they do not.

    `measured` is how far apart arrays of GPUs are.
    """
    if isinstance(want, ARRAYS) and isinstance(got, ARRAYS):
        return _array_difference(got, want, tolerances or TOLERANCES, floor, measured)
    if isinstance(want, float) and isinstance(got, float):
        near = got == want or abs(got - want) <= 1e-4 * abs(want) or (got != got and want != want)
        return "" if near else f"{got!r}, in define-by-run {want!r}"
    if type(got) is not type(want):
        return f"{type(got).__name__}, in define-by-run {type(want).__name__}"
    return "" if got == want else f"{got!r:.80}, in define-by-run {want!r:.80}"


@functools.cache
def _flushed(dtype: np.dtype) -> float:
    """What numbers may differ by because gradients below the smallest normal one became zero.

    On its way down a gradient is multiplied by weights and derivatives, and summed.
    """
    return float(np.finfo(dtype).tiny) * (4 if dtype.itemsize < 4 else 1e8)


def is_flushed(got, want) -> bool:
    """Whether two arrays of the host differ by numbers that one run has made zero alone.

    No run does so in float16, where such numbers are large.
    """
    return (
        isinstance(got, np.ndarray)
        and _are_alike(got, want)
        and want.dtype.char in "fd"
        and not (extent := _extent(got, want)).wrong
        and extent.largest <= _flushed(want.dtype)
    )


def _array_difference(got, want, tolerances, floor: float, measured: Extent | None) -> str:
    if not _are_alike(got, want):
        return f"{_described(got)}, in define-by-run {_described(want)}"
    if got is want:
        return ""
    extent = measured or _extent(got, want)
    if want.dtype.kind not in "fc":
        return f"{extent.wrong} of {want.size} elements" if extent.wrong else ""
    if extent.wrong:
        return "infinities or NaNs in other places"
    limit = tolerances[want.dtype.itemsize if want.dtype.kind == "f" else 8] * extent.scale
    if extent.largest <= max(limit, floor, _flushed(want.real.dtype)):
        return ""
    return f"by up to {extent.largest:.3g}, where the largest magnitude is {extent.scale:.3g}"


def _described(array) -> str:
    device = device_of(array)
    return f"{array.dtype.name}{list(array.shape)}" + (
        "" if device is None else f" of GPU {device}"
    )


def _extent(got: np.ndarray, want: np.ndarray) -> Extent:
    """How far two arrays of the host are apart."""
    if want.dtype.kind not in "fc":
        return Extent(int(np.count_nonzero(got != want)), 0.0, 0.0)
    if not want.size:
        return Extent(0, 0.0, 0.0)
    at_once = largest_difference(got, want)
    if at_once is not None:
        return Extent(0, *at_once)
    with np.errstate(all="ignore"):
        error = np.abs(got - want)
        odd = ~(np.isfinite(got) & np.isfinite(want))
        if not np.array_equal(got[odd], want[odd], equal_nan=True):
            return Extent(1, 0.0, 0.0)
        scale = np.max(np.abs(want[~odd]), initial=0.0)
        return Extent(0, float(np.max(error[~odd], initial=0.0)), float(scale))


def is_itself(got, want, disturbed: list[dict], tolerances, unordered: bool) -> bool:
    """Whether a run of define-by-run gives what another one gave.

    Parameters
    ----------
    got, want : dict
        Facts.
    disturbed : list of dict
        Facts of runs on disturbed inputs.
    tolerances : dict or None
    unordered : bool
        Whether sums may come out otherwise each time, as rounding goes.
    """
    found = differences(got, want, tolerances)
    return not found or (
        unordered
        and all(
            name in got
            and name in want
            and is_noise(got[name], want[name], [x[name] for x in disturbed if name in x])
            for name in found
        )
    )


#: A difference counts as rounding when it is at most this many times what a disturbance of a few
#: units in the last place makes of define-by-run itself.
AMPLIFIED = 16


def is_noise(got, want, disturbed) -> bool:
    """Whether `got` is as near to `want` as rounding lets define-by-run be to itself.

    Parameters
    ----------
    got, want : object
        Facts of the replay and of define-by-run.
    disturbed : list
        The same fact of runs of define-by-run on inputs that were disturbed by rounding errors.
    """
    got, want, disturbed = on_host(got), on_host(want), list(map(on_host, disturbed))
    if isinstance(want, float) and isinstance(got, float):
        got, want = np.asarray(got), np.asarray(want)
        disturbed = [np.asarray(x) for x in disturbed if isinstance(x, float)]
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
        return any(got == x for x in disturbed if type(x) is type(got))
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    disturbed = [
        x
        for x in disturbed
        if isinstance(x, np.ndarray) and (x.shape, x.dtype) == (want.shape, want.dtype)
    ]
    if not disturbed:
        return False
    if want.dtype.kind not in "fc":
        wrong = np.count_nonzero(got != want)
        return wrong <= AMPLIFIED * max(np.count_nonzero(x != want) for x in disturbed)
    with np.errstate(all="ignore"):
        odd = ~(np.isfinite(got) & np.isfinite(want))
        # Replays overflow later in float16: they compute in float32 on the way.
        late = np.isfinite(got) if want.dtype == np.float16 else np.zeros_like(odd)
        told = odd & ~late
        if told.any() and not np.array_equal(got[told], want[told], equal_nan=True):
            return False
        error = np.max(np.abs(got[~odd] - want[~odd]), initial=0.0)
        spread = max(np.nanmax(np.where(odd, 0, np.abs(x - want)), initial=0.0) for x in disturbed)
    return bool(error <= AMPLIFIED * spread)


def rounding_explains(
    got: dict[str, Any],
    want: dict[str, Any],
    names: Iterable[str],
    once_more: Callable[[int], dict[str, Any]],
    sizes: Iterable[int],
    tolerances: dict[int, float],
    unordered: bool,
) -> bool:
    """Whether rounding errors explain every difference, and define-by-run repeats itself.

    Parameters
    ----------
    got, want : dict
        Facts of the replay and of define-by-run.
    names : iterable of str
        The facts that differ.
    once_more : callable
        Gives the facts of define-by-run on inputs that are disturbed by so many units.
    sizes : iterable of int
        One run each, until one explains it.
    tolerances : dict
    unordered : bool
        See `is_itself`.
    """
    names = list(names)
    if any(name not in got or name not in want for name in names):
        return False
    seen: list[dict[str, Any]] = []
    for units in sizes:
        seen.append(once_more(units))
        if all(
            is_noise(got[n], want[n], [facts[n] for facts in seen if n in facts]) for n in names
        ):
            # Else define-by-run depends on something that nothing here puts back.
            return is_itself(once_more(0), want, seen, tolerances, unordered)
    return False
