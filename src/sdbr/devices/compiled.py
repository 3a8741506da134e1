"""Machine code of kernels, compiled once: kept on disk by what it was made of.

``<folder>/cuda/<digest>.cubin``, where the digest is that of source, headers, architecture, options
and version of the compiler. What cannot be written is compiled again in the next process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from sdbr.base.cache_folder import cache_folder
from sdbr.devices.nvrtc import nvrtc

#: Denormals, divisions and square roots as in IEEE; products and sums may become one operation, as
#: they do on the CPU; not those of update rules (``device/rounded.cuh``).
OPTIONS = ("--std=c++17", "--fmad=true", "--ftz=false")
_KERNELS = Path(__file__).parents[1] / "kernels"

# NVRTC has no files of its own. Its functions of mathematics are there without a header.
_STANDARD = {
    "stdint.h": """#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t;
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
""",
    "stddef.h": "#pragma once\n",
    "string.h": "#pragma once\n",
    "math.h": """#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
""",
}


@cache
def headers() -> Mapping[str, str]:
    """What kernels may include: the sources of the package, by their names there."""
    files = [path for path in sorted(_KERNELS.rglob("*")) if path.suffix in (".h", ".cuh")]
    own = {path.relative_to(_KERNELS).as_posix(): path.read_text() for path in files}
    return {**_STANDARD, **own}


def cubin(source: str, wanted: Mapping[str, str], architecture: str) -> bytes:
    """Machine code of a source.

    Parameters
    ----------
    source : str
        CUDA C++ in the terms of ``kernels/device``.
    wanted : mapping of str to str
        Further headers: name to text.
    architecture : str
        ``'sm_90'``.

    Raises
    ------
    BackendError
        If NVRTC is missing, or refuses the source.
    """
    compiler = nvrtc()
    every = {**headers(), **wanted}
    made_of = [source, every, architecture, OPTIONS, compiler.version]
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    base = cache_folder()
    path = None if base is None else base / "cuda" / f"{digest}.cubin"
    if path is not None:
        with contextlib.suppress(OSError):
            return path.read_bytes()
    code, _ = compiler.compile(source, every, architecture, OPTIONS)
    if path is not None:
        with contextlib.suppress(OSError):
            replace(path, code)
    return code


def replace(path: Path, code: bytes) -> None:
    """Write a file so that nobody ever reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
