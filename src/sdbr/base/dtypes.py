"""The dtypes of buffers, and their codes in the flat arrays and in the kernels."""

import numpy as np

#: Native dtypes by code.
DTYPES = tuple(
    np.dtype(t)
    for t in ("f4", "f8", "f2", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16")
)
#: dtype -> code.
DTYPE_CODES = {d: i for i, d in enumerate(DTYPES)}
