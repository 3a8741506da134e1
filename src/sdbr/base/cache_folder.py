"""Where what is measured and compiled is kept from one process to the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sdbr.base.settings import variable


def cache_folder() -> Path | None:
    """Where the files lie: ``SDBR_CACHE`` (empty: nowhere), else the user's cache folder."""
    given = variable("SDBR_CACHE")
    if given is not None:
        return Path(given) if given else None
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = variable("XDG_CACHE_HOME") or "~/.cache"
    path = Path(os.path.expanduser(base))  # as it is where there is no home
    return path / "sdbr" if path.is_absolute() else None
