"""Every setting: entries of ``chainer.config`` and variables of the environment.

Only here are variables read, apart from those that the code of a traced call reads. What an entry
may be is checked by whoever uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """One setting.

    Attributes
    ----------
    entry : str or None
        In ``chainer.config``; None where there is only the variable.
    variable : str or None
        In the environment; None where there is only the entry.
    default : object
        Where neither says anything.
    parse : callable or None
        Text of the variable -> what is entered into ``chainer.global_config`` when the package is
        imported. None where nothing is entered: entry and variable are looked up when asked for.
    in_key : bool
        Whether a schedule serves only calls that find the entry as it was when it was made.
    """

    entry: str | None
    variable: str | None
    default: Any
    parse: Callable[[str], Any] | None = None
    in_key: bool = True


def _given(text: str) -> str | None:
    return text or None


def _switch(text: str) -> bool | str:
    return {"0": False, "1": True, "": "auto"}.get(text, text)


SETTINGS = (
    Setting("sdbr_backend", "SDBR_BACKEND", "auto", str, in_key=False),  # a part by itself
    Setting("sdbr_audit", "SDBR_AUDIT", "auto", lambda text: text or "auto", in_key=False),
    Setting("sdbr_num_threads", "SDBR_NUM_THREADS", None, _given),
    Setting("sdbr_flush_denormals", "SDBR_FLUSH_DENORMALS", "auto", _switch),
    Setting("sdbr_disabled_passes", "SDBR_DISABLED_PASSES", ""),
    Setting("sdbr_onednn", "SDBR_ONEDNN", "auto"),
    Setting("sdbr_tune", "SDBR_TUNE", "1"),
    Setting("sdbr_keep_instructions", None, False),  # for tests of the memory plan
    Setting(None, "SDBR_ONEDNN_LIBRARY", None),
    Setting(None, "SDBR_SIMD", "avx512"),
    Setting(None, "SDBR_CACHE", None),  # empty: no files at all
    Setting(None, "XDG_CACHE_HOME", None),
    Setting(None, "CUDA_PATH", None),  # of a toolkit; NVRTC in wheels comes first
    Setting(None, "CUDA_HOME", None),
)
#: Entries that are not in the cache key.
OUTSIDE_KEY = tuple(setting.entry for setting in SETTINGS if not setting.in_key)
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS if setting.variable}


def variable(name: str) -> Any:
    """What the environment says, as text, else the default.

    Raises
    ------
    KeyError
        If there is no such setting.
    """
    setting = _BY_VARIABLE[name]
    return os.environ.get(name, setting.default)


def enter() -> None:
    """Give entries of ``chainer.global_config`` that are not there yet their first values."""
    import chainer  # not before the package has made it importable

    config = chainer.global_config
    for setting in SETTINGS:
        if setting.parse is None or setting.entry is None or hasattr(config, setting.entry):
            continue
        text = os.environ.get(setting.variable) if setting.variable else None
        setattr(config, setting.entry, setting.default if text is None else setting.parse(text))
