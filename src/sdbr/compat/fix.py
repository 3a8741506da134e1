"""The kinds of entries in the table of fixes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sdbr.compat.stack import Stack


@dataclass(frozen=True)
class Fix:
    """One thing that Chainer needs on some stacks.

    Attributes
    ----------
    name
        Short, unique, used in reports and tests.
    module
        The module of Chainer that the fix changes.
    reason
        What breaks without it.
    stacks
        The stacks that need it, in words; `needed` says the same in code.
    needed
        Whether the given stack needs it; elsewhere the fix is not applied.
    chainer
        The version of Chainer that the fix was written for; others are left alone.
    """

    name: str
    module: str
    reason: str
    stacks: str
    needed: Callable[[Stack], bool]
    chainer: str = "7.8.1"


@dataclass(frozen=True, kw_only=True)
class SourceFix(Fix):
    """Text to be replaced in a module's source when the module is imported.

    Each replacement is ``(old, new, count)``: `old` must occur exactly `count` times, and `new`
    keeps the number of lines, so that tracebacks and `inspect` stay right.
    """

    replacements: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, kw_only=True)
class ModuleFix(Fix):
    """A module whose own code is not run: `fill` gives the new module its contents instead."""

    fill: Callable[[ModuleType], None]


@dataclass(frozen=True, kw_only=True)
class FunctionFix(Fix):
    """Functions or attributes replaced by `apply(module)` once the module is imported."""

    apply: Callable[[ModuleType], None]


def wrap(owner: Any, name: str, make: Callable[[Callable], Callable]) -> None:
    """Replace a function by ``make(function)``; the original stays as ``__wrapped__``.

    Parameters
    ----------
    owner : class or module
        Where the function is defined.
    name : str
        Its name there.
    make : callable
        Takes the original function, returns its replacement.
    """
    original = vars(owner)[name]
    setattr(owner, name, functools.wraps(original)(make(original)))
