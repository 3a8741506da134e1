"""Switches that take one mend away, to see what catches its cause then.

`OFF` has, by the number of the cause, a context manager inside which its mend does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

#: Not here:
#: 16, indices that another thread changes: the mend is in the kernels, and without it the process ends.
OFF: dict[int, Callable] = {}
OFF[4] = lambda: mock.patch("sdbr.trace.captured.captures", lambda: False)
OFF[2] = lambda: mock.patch("sdbr.plans.parts_of", lambda *args: [])
OFF[3] = lambda: mock.patch("sdbr.plans.parts_of", lambda *args: [])
