"""Fixes for ChainerMN, which trains on several processes by MPI."""

from sdbr.compat.processes import arrays, extensions, resuming

FIXES = (*arrays.FIXES, *extensions.FIXES, *resuming.FIXES)
