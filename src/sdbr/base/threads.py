"""How native ops run: on how many threads, and what denormals count as."""

from __future__ import annotations

import functools

from sdbr.base import limits
from sdbr.base.errors import BackendError

import chainer

#: More would have to share the workers (kernels/runtime/threads.c).
MOST = limits.THREADS


def flushes_denormals() -> bool:
    """``chainer.config.sdbr_flush_denormals``: native ops read and write denormals as zeros.

    Its default is False, or True where the environment variable ``SDBR_FLUSH_DENORMALS`` is 1.

    Raises
    ------
    BackendError
        If the setting is no bool.
    """
    setting = chainer.config.sdbr_flush_denormals
    if not isinstance(setting, bool):
        raise BackendError(
            f"chainer.config.sdbr_flush_denormals must be True or False; got {setting!r}"
        )
    return setting


def num_threads() -> int:
    """Threads of an op that is large enough.

    ``chainer.config.sdbr_num_threads``, whose default is the environment variable
    ``SDBR_NUM_THREADS``; without either, as many as BLAS uses.

    Raises
    ------
    BackendError
        If the setting is no number of threads.
    """
    setting = chainer.config.sdbr_num_threads
    if setting is None:
        return min(max(blas_threads(), 1), MOST)
    try:
        n = int(setting)
        if isinstance(setting, bool) or n != float(setting) or not 1 <= n <= MOST:
            raise ValueError
    except (TypeError, ValueError):
        raise BackendError(
            "chainer.config.sdbr_num_threads (or SDBR_NUM_THREADS) must be None or a number of "
            f"threads from 1 to {MOST}; got {setting!r}"
        ) from None
    return n


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
