"""Functions of mathematics have the layouts of elementwise ops."""

from __future__ import annotations

from sdbr.backends.cpu.elementwise import prepare

__all__ = ["prepare"]
