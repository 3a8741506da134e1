"""What users choose for GPUs: how exact products are, which random numbers."""

from __future__ import annotations

from sdbr.base.settings import entry


def tf32() -> bool:
    """Whether products may round their factors to TF32.

    ``chainer.config.sdbr_tf32``, by default what ``CUPY_TF32`` says, else False.

    Raises
    ------
    SettingError
        If it is no bool.
    """
    return entry("sdbr_tf32")


def is_philox() -> bool:
    """Whether kernels make random numbers: ``chainer.config.sdbr_random``.

    Raises
    ------
    SettingError
        If it is neither ``'define-by-run'`` nor ``'philox'``.
    """
    return entry("sdbr_random") == "philox"
