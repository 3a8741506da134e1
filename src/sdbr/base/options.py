"""The arguments of the decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from sdbr.base.errors import BackendError

Backend = Literal["auto", "cython", "numpy", "cuda", "off"]
OnDynamic = Literal["fallback", "raise"]
MemoryUse = Literal["default", "low", "no_reuse"]

MEMORY = get_args(MemoryUse)
BACKEND_NAMES = get_args(Backend)

F = TypeVar("F", bound=Callable[..., Any])


class Options:
    """The arguments of the decorator; see :func:`sdbr.static_graph`."""

    __slots__ = (
        'backend', 'enable_double_backprop', 'force_test_define_by_run', 'max_schedules', 'memory',
        'minimize_cache_size', 'on_dynamic', 'validate_every', 'verbosity_level',
    )  # fmt: skip

    def __init__(
        self,
        force_test_define_by_run: bool = False,
        minimize_cache_size: bool = True,
        verbosity_level: int = 0,
        enable_double_backprop: bool = False,
        backend: Backend | None = None,
        on_dynamic: OnDynamic = "fallback",
        validate_every: int = 0,
        max_schedules: int = 16,
        memory: MemoryUse = "default",
    ) -> None:
        if backend is not None and backend not in BACKEND_NAMES:
            raise BackendError(
                f"backend: expected one of {', '.join(BACKEND_NAMES)}, got {backend!r}"
            )
        if on_dynamic not in get_args(OnDynamic):
            raise ValueError(f"on_dynamic: expected 'fallback' or 'raise', got {on_dynamic!r}")
        if memory not in MEMORY:
            raise ValueError(f"memory: expected one of {', '.join(MEMORY)}, got {memory!r}")
        if not isinstance(max_schedules, int) or max_schedules < 1:
            raise ValueError(f"max_schedules: expected a positive int, got {max_schedules!r}")
        if not isinstance(validate_every, int) or validate_every < 0:
            raise ValueError(f"validate_every: expected a non-negative int, got {validate_every!r}")
        if not isinstance(verbosity_level, int):
            raise ValueError(f"verbosity_level: expected an int, got {verbosity_level!r}")
        self.force_test_define_by_run = force_test_define_by_run
        self.minimize_cache_size = minimize_cache_size
        self.verbosity_level = verbosity_level
        self.enable_double_backprop = enable_double_backprop
        self.backend = backend
        self.on_dynamic = on_dynamic
        self.validate_every = validate_every
        self.max_schedules = max_schedules
        self.memory = memory


def names_what_it_takes(function: F) -> F:
    """Errors for keywords that `function` does not take name those that it does.

    Raises
    ------
    TypeError
        When it is called with such a keyword.
    """
    parameters = inspect.signature(function).parameters.values()
    known = {p.name for p in parameters}
    options = sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}; it takes "
                    + ", ".join(options)
                )
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]
