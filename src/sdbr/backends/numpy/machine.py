"""The reference takes programs as they are."""

from __future__ import annotations

from sdbr.program.machine import Machine

MACHINE = Machine()
