"""Passes that shape a program for this processor; they run last."""

from __future__ import annotations

from sdbr.backends.cpu.passes.branches import branches
from sdbr.backends.cpu.passes.scratch import scratch
from sdbr.program.machine import Machine

#: What programs for this backend are shaped by.
MACHINE = Machine(requests=(("branches", branches), ("scratch", scratch)))
