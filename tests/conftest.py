"""One BLAS thread, so that results and timing of a test run do not depend on the machine."""

import os

# BLAS libraries read these once, when they are loaded: before anything imports NumPy.
for _name in ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

import sdbr  # noqa: E402, F401  (first: it makes Chainer importable)

import scipy.linalg  # noqa: E402, F401  (loads SciPy's own BLAS)
import threadpoolctl  # noqa: E402

# A plugin may have loaded NumPy before this file; held for the whole run.
_LIMIT = threadpoolctl.threadpool_limits(1)
