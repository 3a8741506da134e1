"""What share of the time audits may take: ``chainer.config.sdbr_audit``."""

from __future__ import annotations

from sdbr.base.settings import check

import chainer

#: What audits may cost, as a share of the time in replays, where the setting is ``'auto'``.
SHARE = 0.05


def share_now() -> float:
    """The share of the time in replays that audits may take now; 0 for none at all.

    Raises
    ------
    SettingError
        If the setting is neither ``'auto'``, ``'off'`` nor a number of 0 or more.
    """
    local = chainer.config._local.__dict__
    setting = local.get("sdbr_audit", chainer.global_config.__dict__.get("sdbr_audit", "auto"))
    if setting == "auto":
        return SHARE
    if setting == "off":
        return 0.0
    check("sdbr_audit", setting)
    return float(setting)
