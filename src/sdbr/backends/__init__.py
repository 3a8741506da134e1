"""Executors of programs: ``cython`` (`sdbr.backends.cpu`, compiled), ``cuda`` (GPUs), ``numpy``
(the reference)."""

from __future__ import annotations

import importlib
import sys

from sdbr.backends.cpu.passes import MACHINE as CPU
from sdbr.backends.cuda.machine import MACHINE as GPU
from sdbr.base.errors import BackendError
from sdbr.program.executors import provides
from sdbr.program.machine import Machine

#: Backend -> module and what makes its executables.
BACKENDS = {
    "cython": ("sdbr.backends.cpu.executable", "executable"),
    "numpy": ("sdbr.backends.numpy.executable", "NumpyExecutable"),
    "cuda": ("sdbr.backends.cuda.arrays", "executable"),
}
#: What ``'auto'`` stands for.
AUTO = "cython"
#: And where arrays lie on a GPU.
ON_GPU = "cuda"
#: Backend -> what programs for it are shaped by; the reference takes them as they are.
MACHINES: dict[str, Machine] = {"cython": CPU, "numpy": Machine(), "cuda": GPU}


def available() -> list[str]:
    """Names of the backends that can be used here."""
    names = []
    for name in BACKENDS:
        try:
            require(name)
        except BackendError:
            continue
        names.append(name)
    return names


def require(name: str) -> None:
    """See to it that a backend can be used here.

    Raises
    ------
    BackendError
        If it cannot; it says why.
    """
    _load(name)
    if name == "cuda":
        importlib.import_module("sdbr.backends.cuda.gpus").require()


def synchronize() -> None:
    """Wait for everything that runs on GPUs, and raise for what went wrong there.

    Calls and steps on arrays of CuPy are launched, not waited for. Whatever reads numbers of an
    array waits for them by itself; this is for measuring time, and to learn of errors here and not
    at the next call. On the host there is nothing to wait for.

    Raises
    ------
    IndexError
        For a label or an index that was out of range in a call or step: it names the op. What was
        launched after it has left parameters, moments, and arrays that were there before alone.
    BackendError
        For errors of the driver.
    """
    name = "sdbr.backends.cuda._in_flight"
    if name in sys.modules:  # nothing has run there, otherwise
        sys.modules[name].synchronize()


@provides("executable")
def make_executable(program, memory, backend: str = AUTO):
    """Prepare `program` to run on `memory`.

    Parameters
    ----------
    program : sdbr.program.program.Program
    memory : sdbr.program._memory.Memory
        Memory of the schedule; grown to the slots of the program.
    backend : str
        ``'cython'``, ``'numpy'`` or ``'cuda'``.

    Returns
    -------
    Executable, NumpyExecutable or CudaExecutable
        Objects with ``run()``, ``step()``, ``program`` and ``memory``.

    Raises
    ------
    BackendError
        If the backend is unknown or not available here, or cannot run an op.
    ValidationError
        If the program is malformed.
    """
    return _load(backend)(program, memory)


def _load(backend: str):
    entry = BACKENDS.get(backend)
    if entry is None:
        raise BackendError(f"unknown backend {backend!r}; there are {', '.join(BACKENDS)}")
    module, name = entry
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        others = ", ".join(b for b in BACKENDS if b != backend)
        raise BackendError(
            f"backend {backend!r} is not available ({error}); try {others}"
        ) from error
