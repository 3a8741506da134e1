"""How native ops run: on how many threads, and what denormals count as."""

from __future__ import annotations

import functools

from sdbr.base import limits
from sdbr.base.settings import entry

#: More would have to share the workers (kernels/runtime/threads.c).
MOST = limits.THREADS


#: What `flushed_denormals` gives: nothing, results of gradients and updates, whatever native ops
#: read and write.
KEPT, OF_GRADIENTS, ALL = range(3)


def flushed_denormals() -> int:
    """``chainer.config.sdbr_flush_denormals``: which denormals of native ops become zero.

    ``'auto'``, the default, stands for the results of gradients and updates; the environment
    variable ``SDBR_FLUSH_DENORMALS`` may say 0 (False) or 1 (True).

    Raises
    ------
    SettingError
        If the setting is neither a bool nor ``'auto'``.
    """
    return {False: KEPT, True: ALL, "auto": OF_GRADIENTS}[entry("sdbr_flush_denormals")]


def num_threads() -> int:
    """Threads of an op that is large enough.

    ``chainer.config.sdbr_num_threads``, whose default is the environment variable
    ``SDBR_NUM_THREADS``; without either, as many as BLAS uses.

    Raises
    ------
    SettingError
        If the setting is no number of threads.
    """
    setting = entry("sdbr_num_threads")
    return min(max(blas_threads(), 1), MOST) if setting is None else int(setting)


def blas_threads() -> int:
    """Threads of SciPy's BLAS; of any BLAS when SciPy's cannot be told apart."""
    libraries = _libraries()
    own = [lib for lib in libraries if "scipy" in (lib.filepath or "")]
    return max((lib.num_threads or 1 for lib in own or libraries), default=1)


@functools.cache
def _libraries() -> list:
    import scipy.linalg.cython_blas  # noqa: F401  (loads its BLAS)
    import threadpoolctl

    controller = threadpoolctl.ThreadpoolController()
    return controller.select(user_api="blas").lib_controllers
