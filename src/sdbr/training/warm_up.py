"""Tracing and building before the first step, leaving all as it was."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sdbr.audit.snapshot import Roots, Snapshot
from sdbr.base.errors import SdbrError
from sdbr.inspection.targets import Target

import chainer
import numpy as np

#: Steps at most; most trainings need two.
STEPS = 8


def warm_up(
    target: Any, *args: Any, shapes: Sequence | None = None, dtype: Any = None, **kwargs: Any
) -> int:
    """Make what calls or steps will be replayed from; all stays as it is.

    Some calls, or steps ``optimizer.update(lossfun, *args)``, are made, by which they are traced
    and programs are built. Then parameters, persistent values, gradients, attributes of links, the
    state of the optimizer and of random generators are what they were before. What was reported
    goes nowhere. After it and a load, a training that is resumed gives what it would have given
    without a pause, bit by bit (with audits, too, as long as they find nothing).

    Each kind of call gets its schedule, however many there are, up to `max_schedules` of
    `static_graph`; a warning says where these are too few. No schedule goes for another one.

    Code of the user's that runs in a call (`static_code`, hooks) runs in these as well. The
    configuration is that of the time: for inference inside ``using_config('train', False)`` and
    ``no_backprop_mode()``.

    Parameters
    ----------
    target : chainer.GradientMethod or callable
        An optimizer that is set up, static or not, with the loss function as the next argument; or
        what is called: a link, or a function, with something static in it.
    *args, **kwargs
        Arguments of the shapes and dtypes that are to come. Where these are no arrays alone, call
        it once for each kind: ``for x, t in kinds: sdbr.warm_up(optimizer, model, x, t, 0.5)``.
    shapes : sequence, optional
        In the place of arguments: for each kind of call the shape of its array, such as
        ``[(1, 784), (32, 784)]``, or a sequence of the shapes of its arrays, which hold zeros.
    dtype : dtype or sequence of dtype, optional
        Of these arrays, one for all or one each; by default ``chainer.config.dtype``.

    Returns
    -------
    int
        How many steps or calls were made.

    Raises
    ------
    TypeError
        If nothing static is called, or what cannot be, or there are both arguments and `shapes`.
    ValueError
        If `shapes` is empty or holds what is no shape, or `dtype` does not fit it, or the optimizer
        is not set up.
    SdbrError
        If something that was written cannot be put back.

    Examples
    --------
    >>> sdbr.warm_up(optimizer, model, x, t)
    >>> with chainer.using_config('train', False), chainer.no_backprop_mode():
    ...     sdbr.warm_up(model, shapes=[(1, 784), (32, 784)])
    >>> sdbr.warm_up(optimizer, model, shapes=[((32, 784), (32,))], dtype=('f', 'i'))
    """
    optimizer, call, args = _what(target, args)
    run = call if optimizer is None else functools.partial(optimizer.update, call)
    if shapes is not None and (args or kwargs):
        raise TypeError("shapes: stand in the place of arguments, and there are both")
    each = [(args, kwargs)] if shapes is None else [(x, {}) for x in zeros(shapes, dtype)]
    return sum(_warmed(optimizer, call, functools.partial(run, *a, **k), (a, k)) for a, k in each)


def _what(target: Any, args: tuple) -> tuple[chainer.GradientMethod | None, Callable, tuple]:
    """The optimizer, what is called, and its arguments."""
    if isinstance(target, chainer.Optimizer):
        if not args:
            raise TypeError("lossfun: missing; sdbr.warm_up(optimizer, lossfun, *args)")
        if not callable(args[0]):
            raise TypeError(f"lossfun: expected a function or a link, got {type(args[0]).__name__}")
        if getattr(target, "target", None) is None:
            raise ValueError("target: expected an optimizer that is set up: optimizer.setup(link)")
        return target, args[0], args[1:]
    if not callable(target):
        raise TypeError(
            f"target: expected an optimizer, a link or a function, got {type(target).__name__}"
        )
    return None, target, args


def zeros(shapes: Sequence, dtype: Any) -> list[tuple[np.ndarray, ...]]:
    """Arguments of some shapes, for each kind of call.

    Raises
    ------
    ValueError
        If these are no shapes, or the number of dtypes is another one.
    """
    found = []
    if not isinstance(shapes, Iterable) or isinstance(shapes, str):
        raise ValueError(
            f"shapes: expected a sequence of shapes, one for each call, got {shapes!r}"
        )
    for one in shapes:
        if not isinstance(one, Sequence):
            raise ValueError(
                f"shapes: expected a shape for each call, such as [(8, 784)], got {one!r} in "
                f"{shapes!r}"
            )
        several = isinstance(one, Sequence) and any(isinstance(x, Sequence) for x in one)
        each = list(one) if several else [one]
        if not isinstance(dtype, str | type | np.dtype | Sequence | None):
            raise ValueError(f"dtype: expected a dtype, or one for each array, got {dtype!r}")
        one_dtype = dtype is None or isinstance(dtype, str | type | np.dtype)
        dtypes = [dtype] * len(each) if one_dtype else list(dtype)
        if len(dtypes) != len(each):
            raise ValueError(f"dtype: expected one or {len(each)} for {one}, got {len(dtypes)}")
        try:
            found.append(
                tuple(
                    np.zeros(shape, chainer.get_dtype(kind))
                    for shape, kind in zip(each, dtypes, strict=True)
                )
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"shapes: expected shapes of arrays, got {one}: {error}") from None
    if not found:
        raise ValueError("shapes: expected at least one, got none")
    return found


def _warmed(
    optimizer: chainer.GradientMethod | None, call: Callable, run: Callable, given: tuple
) -> int:
    """Make one kind of call until it is replayed, and put everything back."""
    target = [] if optimizer is None else [optimizer.target]
    links = list(dict.fromkeys([*target, *_links_of(call)]))
    roots = Roots(links, given, (), optimizer, gradients=True, whole=True)
    before = Snapshot(roots)
    counts = _counts(optimizer, call)
    made = 0
    try:
        with _unreported(), _without_back_off(_managers(optimizer, call)):
            while made < STEPS:
                made += 1
                run()
                traces, replays, plain = counts
                counts = _counts(optimizer, call)
                if made > 1 and counts[0] == traces and (counts[1] > replays or counts[2] > plain):
                    break
    finally:
        lost = before.put_back(before.changes())
    if lost:
        raise SdbrError(f"warm_up could not put back {', '.join(lost)}")
    if not any(counts):
        raise TypeError(
            f"{'target' if optimizer is None else 'lossfun'}: expected something static to be "
            f"called, got {type(call).__name__} with nothing static in it; sdbr.static_graph makes "
            "it so"
        )
    return made


def _links_of(thing: Any, depth: int = 4) -> Iterator[chainer.Link]:
    """Links that a loss function can name: of its own, its closure, globals and attributes."""
    if isinstance(thing, chainer.Link):
        yield thing
        return
    if depth == 0:
        return
    inside: list[Any] = []
    if isinstance(thing, types.MethodType):
        inside = [thing.__self__, thing.__func__]
    elif isinstance(thing, functools.partial):
        inside = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, types.FunctionType):
        function = inspect.unwrap(getattr(thing, "_sdbr_function", thing))
        names = function.__code__.co_names
        inside = [function.__globals__.get(name) for name in names]
        inside += list(inspect.getclosurevars(function).nonlocals.values())
        inside += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    elif isinstance(thing, (list, tuple)):
        inside = list(thing)
    elif isinstance(thing, dict):
        inside = list(thing.values())
    elif isinstance(thing, chainer.Optimizer):
        inside = [thing.target]
    elif hasattr(thing, "__dict__") and not isinstance(thing, (type, types.ModuleType)):
        inside = list(vars(thing).values())
    for part in inside:
        yield from _links_of(part, depth - 1)


def _managers(optimizer: chainer.GradientMethod | None, call: Callable) -> list:
    """Those of all that is static in a call, as far as it is known."""
    found = [] if optimizer is None else Target(optimizer).managers()
    with contextlib.suppress(TypeError):
        found += [m for m in Target(call).managers() if m not in found]
    return found


def _counts(optimizer: chainer.GradientMethod | None, call: Callable) -> tuple[int, int, int]:
    """Traces, replays and calls that were neither."""
    found = [manager.statistics for manager in _managers(optimizer, call)]
    return (
        sum(s.traces for s in found),
        sum(s.replays for s in found),
        sum(s.define_by_run_calls for s in found),
    )


@contextlib.contextmanager
def _without_back_off(managers: list) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager.missed.without_back_off(manager))
        yield


@contextlib.contextmanager
def _unreported():
    """What is reported goes to an observation that nobody sees."""
    reporters = chainer.reporter._get_reporters()
    if not reporters:
        yield
        return
    with reporters[-1].scope({}):
        yield
