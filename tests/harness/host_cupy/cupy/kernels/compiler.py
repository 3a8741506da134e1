"""C sources to functions: compiled once for each source, kept in the user's temporary folder."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import scipy.special.cython_special as _special

# No contraction into fused operations: results are those of the CPU's code, rounding by rounding.
FLAGS = ["-std=gnu11", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w"]
MOST_AXES = 32
#: Of the prelude's functions, SciPy's name for them: of fused functions, the one of doubles,
#: which comes before that of floats, but after that of complex numbers.
_FUNCTIONS = {
    "host_erfcinv": "erfcinv",
    "host_erfcx": "__pyx_fuse_1erfcx",
    "host_erfinv": "__pyx_fuse_0erfinv",
    "host_ndtr": "__pyx_fuse_1ndtr",
    "host_ndtri": "ndtri",
    "host_psi": "__pyx_fuse_1psi",
}


class CompileException(Exception):
    """The compiler did not take a kernel."""


class Argument(ctypes.Structure):
    """The prelude's ``struct argument``."""

    _fields_ = [
        ("base", ctypes.c_void_p),
        ("size", ctypes.c_ssize_t),
        ("ndim", ctypes.c_ssize_t),
        ("shape", ctypes.c_ssize_t * MOST_AXES),
        ("strides", ctypes.c_ssize_t * MOST_AXES),
    ]


def argument(host) -> Argument:
    made = Argument(host.ctypes.data, host.size, host.ndim)
    made.shape[: host.ndim] = host.shape
    made.strides[: host.ndim] = host.strides
    return made


def arguments(hosts):
    return (Argument * len(hosts))(*map(argument, hosts))


def _folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    path = Path(tempfile.gettempdir()) / f"host-cupy-{user}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _command() -> list[str]:
    return shlex.split(sysconfig.get_config_var("CC") or "cc")


def _address(capsule) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    assert signature == b"double (double, int __pyx_skip_dispatch)", signature
    return api.PyCapsule_GetPointer(capsule, signature)


@functools.cache
def run_of(source: str):
    """The function ``run`` of a source; it holds the GIL, as its arrays are static."""
    key = hashlib.sha256("\0".join([source, *_command(), *FLAGS]).encode()).hexdigest()[:32]
    library = _folder() / f"{key}.so"
    if not library.exists():
        _compile(source, library)
    loaded = ctypes.PyDLL(str(library))
    for name, of_scipy in _FUNCTIONS.items():
        with contextlib.suppress(KeyError):
            capsule = _special.__pyx_capi__[of_scipy]
            ctypes.c_void_p.in_dll(loaded, name).value = _address(capsule)
    loaded.run.restype = None
    return loaded.run


def _compile(source: str, library: Path) -> None:
    # Under a name of its own until it is whole: others may compile the same just now.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        path = Path(folder) / "kernel.c"
        path.write_text(source, encoding="utf-8")
        made = path.with_suffix(".so")
        command = [*_command(), *FLAGS, "-o", str(made), str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CompileException(f"{done.stderr}\n--- source ---\n{source}")
        made.replace(library)
