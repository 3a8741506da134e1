"""Numbers that the kernels and the Python that prepares for them have to agree on.

They are those of ``kernels/frame/sdbr_limits.h``, which says what each one means, and are compared
with what was compiled when the backend is loaded: memory that is set aside for other numbers would
be overrun.
"""

from __future__ import annotations

from sdbr.base.errors import BackendError

MAX_DIM = 32
THREADS = 64
SPLIT_OPERANDS = 32
SPLIT_INTS = 512
BRANCHES = 4
REQUESTS = 64
FUSED_BYTES = 32768
FUSED_REGISTERS = 48
FUSED_AXES = 6
CONV_WIDTH = 32
CONV_STEP = 48
CONV_DEPTH = 256
CONV_ROWS = 64
CONV_PATCHES = 128
CONV_PATCH_STEP = 272
CONV_STRIP = 4


def compare(compiled: dict[str, int]) -> None:
    """Compare with the numbers of the kernels.

    Parameters
    ----------
    compiled : dict
        Name -> number, as the compiled kernels give them.

    Raises
    ------
    BackendError
        Naming what differs: the extension modules are of other sources.
    """
    here = {name: value for name, value in globals().items() if name.isupper()}
    wrong = [
        f"{name} is {here.get(name)} in Python, {compiled.get(name)} in the kernels"
        for name in sorted(here.keys() | compiled.keys())
        if here.get(name) != compiled.get(name)
    ]
    if wrong:
        raise BackendError(f"the compiled kernels are of other sources: {'; '.join(wrong)}")
