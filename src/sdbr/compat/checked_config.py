"""Entries of ``chainer.config`` that are sdbr's are checked when they are set.

For Chainer 7.8.1, which lets any entry be anything. ``using_config`` checks by itself
(``sdbr.compat.speed._config``).
"""

from __future__ import annotations

from typing import Any

from sdbr.base.settings import check

from chainer.configuration import GlobalConfig, LocalConfig

#: What both classes had before, for the test that tells when this is no longer needed.
REPLACED: dict[type, Any] = {}


def install() -> None:
    """Put the checks in place."""
    for kind in (GlobalConfig, LocalConfig):
        if kind not in REPLACED:
            REPLACED[kind] = kind.__setattr__
            kind.__setattr__ = _checking(kind.__setattr__)


def _checking(original: Any) -> Any:
    def __setattr__(self, name, value):
        if name.startswith("sdbr_"):
            check(name, value)
        original(self, name, value)

    return __setattr__
