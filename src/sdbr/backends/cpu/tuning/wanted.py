"""What the configuration wants of choices: ``sdbr_onednn`` and ``sdbr_tune``."""

from __future__ import annotations

from sdbr.base.settings import variable

import chainer

#: ``auto``: what is fastest; ``off``: own kernels; ``always``: oneDNN where it can; or a way.
ONEDNN = ("auto", "off", "always", "plain", "blocked", "last")


def onednn() -> str:
    """``chainer.config.sdbr_onednn``, by default what ``SDBR_ONEDNN`` says, else ``'auto'``.

    Raises
    ------
    ValueError
        If it is none of `ONEDNN`.
    """
    value = getattr(chainer.config, "sdbr_onednn", None)
    if value is None:
        value = variable("SDBR_ONEDNN")
    if value not in ONEDNN:
        raise ValueError(f"sdbr_onednn: expected one of {', '.join(ONEDNN)}, got {value!r}")
    return value


def tune() -> bool:
    """Whether kernels are timed.

    ``chainer.config.sdbr_tune``, by default what ``SDBR_TUNE`` says, else True.

    Raises
    ------
    ValueError
        If it is no bool.
    """
    value = getattr(chainer.config, "sdbr_tune", None)
    if value is None:
        value = variable("SDBR_TUNE") not in ("0", "off", "false", "no")
    if not isinstance(value, bool):
        raise ValueError(f"sdbr_tune: expected True or False, got {value!r}")
    return value
