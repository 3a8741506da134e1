"""A machine with a GPU, for whole processes: driver, compiler and CuPy's look-alike on the host."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.device import HERE, library

ROOT = Path(__file__).parents[2]

_TOOL = """#!/bin/sh
# {name}, as far as the check reads it: runs the command, and prints what stands below.
while [ "$#" -gt 0 ] && [ "$1" != "{python}" ]; do shift; done
"$@"
code=$?
cat <<'END'
{text}
END
exit $code
"""


@contextmanager
def machine(folder: Path, with_cupy: bool = True) -> Iterator[dict[str, str]]:
    """Variables of an environment with a GPU, and the look-alike of CuPy.

    Parameters
    ----------
    folder : pathlib.Path
        Where the libraries lie, and what is compiled.
    with_cupy : bool
    """
    compiler = folder / "site" / "nvidia" / "cu13" / "lib"  # before any that is installed
    for made in (folder / "lib", folder / "made", compiler):
        made.mkdir(parents=True)
    driver = library((HERE / "fake_cuda.c").read_text(), {}, HERE)
    shutil.copy(driver, folder / "lib" / "libcuda.so.1")
    shutil.copy(library((HERE / "fake_nvrtc.c").read_text(), {}), compiler / "libnvrtc.so.13")
    path = [str(folder / "site"), *([str(HERE / "host_cupy")] if with_cupy else [])]
    path += [x for x in (str(ROOT / "src"), os.environ.get("PYTHONPATH")) if x]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "SDBR_"))}
    yield {
        **kept,
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "PYTHONPATH": os.pathsep.join(path),
        "FAKE_NVRTC": str(HERE),
        "FAKE_CUDA_DEVICES": "2",  # as many as the look-alike has
        "TMPDIR": str(folder / "made"),
        "SDBR_CACHE": "",
        "SDBR_TUNE": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def tool(folder: Path, name: str, python: str, text: str) -> None:
    """A tool of CUDA's that runs the command that it is given, and then prints a text."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_TOOL.format(name=name, python=python, text=text))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
