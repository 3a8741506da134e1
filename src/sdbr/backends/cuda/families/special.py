"""Functions of mathematics are launched as elementwise ops."""

from __future__ import annotations

from sdbr.backends.cuda.families.elementwise import prepare

__all__ = ["prepare"]
