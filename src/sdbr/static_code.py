"""``static_code``: code that must run in every iteration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from sdbr.base.options import names_what_it_takes
from sdbr.trace.current import current
from sdbr.trace.effects.side_effects import record_static_code
from sdbr.trace.effects.sides import run_code

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What ``static_code(...)`` without a function gives."""

    def __call__(self, func: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def static_code(func: Callable[P, R], *, func_name: str | None = ...) -> Callable[P, R]: ...


@overload
def static_code(func: None = None, *, func_name: str | None = ...) -> Decorator: ...


@names_what_it_takes
def static_code(func: Callable[..., Any] | None = None, *, func_name: str | None = None) -> Any:
    """Mark a function whose code has to run in every iteration.

    While a static chain is traced, a call of the function becomes one Python op of the schedule,
    in its place among the others, and runs again in every replay. Inside the forward or backward
    of a function node, and outside static chains, the function is just called.

    The function may read and write attributes and do anything else. Arrays that come from the
    static chain have to be handed over: each array of the call (in ``inputs=[...]``, or as any
    other argument) is given anew in every replay, a Variable as a Variable without history. A
    result goes into the arrays of ``outputs=[...]``, which are written in place, or is returned
    as an array or a tuple of arrays; gradients do not flow through it. What else is passed
    (numbers, strings, objects) is the same in every replay.

    An array of ``outputs`` that is no attribute of a link counts as made by the call: it starts
    each replay with the contents that it had while tracing.

    Parameters
    ----------
    func : callable, optional
        A function or a method; a decorator is returned when it is omitted.
    func_name : str, optional
        Its name in disassemblies and reports.

    Returns
    -------
    callable
        To be called like `func`.

    Raises
    ------
    TypeError
        If `func` is not callable; at a call, if ``inputs`` or ``outputs`` hold anything but arrays.
    """
    if func is None:
        return lambda f: static_code(f, func_name=func_name)
    if not callable(func):
        raise TypeError(f"func: expected a function or a method, got {type(func).__name__}")
    name = func_name or getattr(func, "__qualname__", type(func).__name__)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or recorder.depth:
            return run_code(func, args, kwargs)
        return record_static_code(recorder, func, args, kwargs, f"static_code {name}")

    call._sdbr_static_code = func  # what its body reads is read anew in every run
    return call
