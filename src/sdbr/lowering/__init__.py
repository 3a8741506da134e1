"""A trace to ops: forward, gradients, and what has no row of the function table."""

from __future__ import annotations

from sdbr import functions

# All rows are there before the first node is looked at.
functions.load_all()
