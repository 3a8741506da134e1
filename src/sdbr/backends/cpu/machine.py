"""What programs for this processor are shaped by."""

from __future__ import annotations

from sdbr.backends.cpu.passes.branches import branches
from sdbr.program.machine import Machine

MACHINE = Machine(requests=(("branches", branches),))
