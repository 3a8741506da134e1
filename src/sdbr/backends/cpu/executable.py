"""The compiled executor, under the name that the other backends use."""

from __future__ import annotations

from sdbr import _executor
from sdbr._executor import Executable, Memory

# Loaded with the backend, not in the first call.
from sdbr.backends.cpu import (  # noqa: F401
    data,
    elementwise,
    loss,
    product,
    random,
    reduction,
    special,
    update,
)
from sdbr.base import limits
from sdbr.program import validate  # noqa: F401

limits.compare(_executor.limits())

__all__ = ["Executable", "Memory"]
