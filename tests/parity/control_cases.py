"""Ops of the executor itself have no cases: tests of the executors cover them."""

from __future__ import annotations

from collections.abc import Callable

BY_OP: dict[str, Callable] = {}
