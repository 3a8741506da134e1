"""Row ops have the layout of reductions."""

from __future__ import annotations

from sdbr.backends.prepare.reduction import prepare

__all__ = ["prepare"]
