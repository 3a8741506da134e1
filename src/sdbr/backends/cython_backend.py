"""The compiled executor, under the name that the other backends use."""

from __future__ import annotations

from sdbr._executor import Executable, Memory

__all__ = ["Executable", "Memory"]
