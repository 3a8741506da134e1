"""What the configuration wants of choices: ``sdbr_onednn`` and ``sdbr_tune``."""

from __future__ import annotations

from sdbr.base.settings import entry


def onednn() -> str:
    """``chainer.config.sdbr_onednn``, by default what ``SDBR_ONEDNN`` says, else ``'auto'``.

    ``auto``: what is fastest; ``off``: own kernels; ``always``: oneDNN where it can; or a way.

    Raises
    ------
    SettingError
        If it is none of these.
    """
    return entry("sdbr_onednn")


def tune() -> bool:
    """Whether kernels are timed.

    ``chainer.config.sdbr_tune``, by default what ``SDBR_TUNE`` says, else True.

    Raises
    ------
    SettingError
        If it is no bool.
    """
    return entry("sdbr_tune")
