"""All fixes, in the order in which they are applied."""

from __future__ import annotations

from sdbr.compat import (
    backwards,
    functions,
    importing,
    kernels,
    objects,
    processes,
    scalars,
    snapshots,
)
from sdbr.compat.fix import Fix

FIXES: tuple[Fix, ...] = (
    *importing.FIXES,
    *functions.FIXES,
    *backwards.FIXES,
    *scalars.FIXES,
    *kernels.FIXES,
    *objects.FIXES,
    *snapshots.FIXES,
    *processes.FIXES,
)
