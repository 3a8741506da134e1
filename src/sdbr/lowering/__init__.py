"""A trace to ops: forward, gradients, and what has no function row."""

from __future__ import annotations

from sdbr import functions

# All function rows are there before the first node is looked at.
functions.load_all()
