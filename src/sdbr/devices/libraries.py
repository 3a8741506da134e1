"""Where libraries of CUDA lie: in wheels, a toolkit, the system."""

from __future__ import annotations

import ctypes.util
import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdbr.base.settings import variable


def candidates(name: str, wheels: Sequence[str]) -> Iterator[str]:
    """Files that may be a library, the newest of each place first.

    Parameters
    ----------
    name : str
        ``'nvrtc'``.
    wheels : sequence of str
        Where wheels put it, below a folder of ``sys.path``; patterns.
    """
    library = f"lib{name}.so*"
    for folder in sys.path:
        for pattern in wheels:
            yield from sorted(glob.glob(os.path.join(folder, pattern, library)), reverse=True)
    for root in (variable("CUDA_PATH"), variable("CUDA_HOME"), "/usr/local/cuda"):
        for lib in ("lib64", "lib") if root else ():
            yield from sorted(glob.glob(str(Path(str(root), lib, library))), reverse=True)
    found = ctypes.util.find_library(name)
    if found:
        yield found
