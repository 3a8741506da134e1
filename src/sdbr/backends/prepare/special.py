"""Functions of mathematics have the layouts of elementwise ops."""

from __future__ import annotations

from sdbr.backends.prepare.elementwise import prepare

__all__ = ["prepare"]
