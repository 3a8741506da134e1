"""Programs made ready for the loop: kernels by address, threads, BLAS."""

from __future__ import annotations

from sdbr._executor import Executable

# Loaded with the backend, not in the first call.
from sdbr.backends.cpu import (  # noqa: F401
    _kernels,
    data,
    elementwise,
    loss,
    product,
    random,
    reduction,
    special,
    update,
)
from sdbr.backends.cpu.prepare.program import prepare_program
from sdbr.base import limits
from sdbr.base.collector import collector_off
from sdbr.base.errors import BackendError
from sdbr.base.threads import num_threads
from sdbr.program import validate  # noqa: F401
from sdbr.program._memory import Memory
from sdbr.program._prepared import Prepared
from sdbr.program.program import Program

import numpy as np

limits.compare(_kernels.limits())


def executable(program: Program, memory: Memory) -> Executable:
    """`program` on `memory`, prepared at its first use.

    Raises
    ------
    ValidationError
        If the program is malformed.
    BackendError
        If an op has no native kernel.
    """
    prepared = getattr(program, "prepared", None)
    if prepared is None or not prepared.fits(program):
        with collector_off():
            prepared = program.prepared = _prepared(program)
    return Executable(program, memory, prepared)


def _prepared(program: Program) -> Prepared:
    """Check a program and choose the kernel of each op."""
    program.validate()
    threads = num_threads()
    plan = prepare_program(program, threads)
    found = {name: _kernels.kernel_address(name) for name in plan.names}
    missing = [name for name, address in found.items() if address is None]
    if missing:
        i = int(np.flatnonzero(plan.kernels == plan.names.index(missing[0]))[0])
        raise BackendError(
            f"no kernel {missing[0]!r} at SIMD level {_kernels.simd_level()}; "
            f"op {program.describe_op(i).strip()}"
        )
    addresses = np.array([*found.values(), 0], np.uintp)
    for position, kernel in plan.inner:
        plan.ints[position] = addresses[kernel]
    split = plan.names.index("split") if "split" in plan.names else len(plan.names)
    return Prepared(
        program,
        addresses[plan.kernels],
        plan.int_starts,
        plan.ints,
        plan.choices,
        _kernels.blas_addresses() if any("_blas_" in name for name in plan.names) else None,
        threads,
        int(np.count_nonzero(plan.kernels == split)),
    )
