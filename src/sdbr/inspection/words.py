"""Words of reports."""

from __future__ import annotations


def counted(n: int, thing: str) -> str:
    """A number and what it counts: ``1 call``, ``2 calls``."""
    return f"{n} {thing}{'s' * (n != 1)}"
