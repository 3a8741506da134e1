"""Executors of programs: ``cython`` (`sdbr.backends.cpu`, compiled), ``numpy`` (the reference)."""

from __future__ import annotations

import importlib

from sdbr.backends.cpu.passes import MACHINE as CPU
from sdbr.base.errors import BackendError
from sdbr.program.executors import provides
from sdbr.program.machine import Machine

#: Backend -> module and what makes its executables.
BACKENDS = {
    "cython": ("sdbr.backends.cpu.executable", "executable"),
    "numpy": ("sdbr.backends.numpy.executable", "NumpyExecutable"),
}
#: What ``'auto'`` stands for.
AUTO = "cython"
#: Backend -> what programs for it are shaped by; the reference takes them as they are.
MACHINES: dict[str, Machine] = {"cython": CPU, "numpy": Machine()}


def available() -> list[str]:
    """Names of the backends that can be used here."""
    names = []
    for name in BACKENDS:
        try:
            _load(name)
        except BackendError:
            continue
        names.append(name)
    return names


@provides("executable")
def make_executable(program, memory, backend: str = AUTO):
    """Prepare `program` to run on `memory`.

    Parameters
    ----------
    program : sdbr.program.program.Program
    memory : sdbr.program._memory.Memory
        Memory of the schedule; grown to the slots of the program.
    backend : str
        ``'cython'`` or ``'numpy'``.

    Returns
    -------
    Executable or NumpyExecutable
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
