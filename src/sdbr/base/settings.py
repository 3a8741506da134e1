"""Every setting: entries of ``chainer.config`` and variables of the environment.

Only here are variables read, apart from those that the code of a traced call reads, and only here
is said what an entry may be: it is checked when it is set, and what came by a variable when it is
first used.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sdbr.base import limits, logs
from sdbr.base.errors import SettingError
from sdbr.base.options import BACKEND_NAMES


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
    allowed : str
        What it may be, for people.
    fits : callable
        Whether it may be this value.
    parse : callable
        Text of the variable, not empty -> what is entered into ``chainer.global_config`` when the
        package is imported. Without an entry, the variable is looked up when asked for.
    in_key : bool
        Whether a schedule serves only calls that find the entry as it was when it was made.
    what : str
        What it is for; empty for those that are not for users.
    """

    entry: str | None
    variable: str | None
    default: Any
    allowed: str
    fits: Callable[[Any], bool]
    parse: Callable[[str], Any] = str
    in_key: bool = True
    what: str = ""

    @property
    def name(self) -> str:
        """As messages name it."""
        if self.entry is None:
            return str(self.variable)
        also = f" (or {self.variable})" if self.variable else ""
        return f"chainer.config.{self.entry}{also}"

    def refusal(self, value: Any) -> str | None:
        """What is said of a value that does not fit; None where it does."""
        try:
            if self.fits(value):
                return None
        except (TypeError, ValueError):
            pass
        return f"{self.name}: expected {self.allowed}, got {value!r}"


_SWITCH = {"0": False, "off": False, "false": False, "no": False}
_SWITCH.update({"1": True, "on": True, "true": True, "yes": True})


def _switch(text: str) -> bool | str:
    return _SWITCH.get(text.lower(), text)


def _one_of(*names: str) -> tuple[str, Callable[[Any], bool]]:
    return f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return value in ("auto", "off") or (not isinstance(value, bool) and float(value) >= 0)


def _is_number_of_threads(value: Any) -> bool:
    if value is None:
        return True
    n = int(value)
    return not isinstance(value, bool) and n == float(value) and 1 <= n <= limits.THREADS


def _are_names(value: Any) -> bool:
    return all(isinstance(name, str) for name in value)


def _anything(_: Any) -> bool:
    return True


_BOOL = ("True or False", _is_bool)
_FOLDER = ("a folder", _anything)

SETTINGS = (
    Setting(
        "sdbr_backend", "SDBR_BACKEND", "auto", *_one_of(*BACKEND_NAMES), in_key=False,
        what="what runs schedules; `'off'`: plain define-by-run; `'numpy'`: the reference",
    ),
    Setting(
        "sdbr_audit", "SDBR_AUDIT", "auto",
        "'auto', 'off' or a share of the time in replays, 0 or more", _is_share, in_key=False,
        what="how much time replays are compared with define-by-run; `'auto'`: by count, and 5 %",
    ),
    Setting(
        "sdbr_num_threads", "SDBR_NUM_THREADS", None,
        f"None or a number of threads from 1 to {limits.THREADS}", _is_number_of_threads,
        what="threads that one op may use; None: as many as BLAS uses",
    ),
    Setting(
        "sdbr_flush_denormals", "SDBR_FLUSH_DENORMALS", "auto", "True, False or 'auto'",
        lambda value: value == "auto" or _is_bool(value), _switch,
        what="which denormal numbers count as zero; `'auto'`: those that updates give",
    ),
    Setting(
        "sdbr_onednn", "SDBR_ONEDNN", "auto",
        *_one_of("auto", "off", "always", "plain", "blocked", "last"),
        what="convolutions by oneDNN, where it is installed: whatever is fastest, never, wherever "
        "it can, or in one of its layouts",
    ),
    Setting(
        "sdbr_tune", "SDBR_TUNE", True, *_BOOL, _switch,
        what="whether kernels are timed on this machine; False: a fixed rule decides",
    ),
    Setting(
        "sdbr_overlap", "SDBR_OVERLAP", "auto", "True, False or 'auto'",
        lambda value: value == "auto" or _is_bool(value), _switch, in_key=False,
        what="whether gradients are sent to other ranks while the backward runs; `'auto'`: where "
        "ranks are on several nodes and gradients have 32 MiB",
    ),
    Setting(
        "sdbr_random", "SDBR_RANDOM", "define-by-run", *_one_of("define-by-run", "philox"),
        what="whose random numbers native dropouts on GPUs have",
    ),
    Setting(
        "sdbr_launch", "SDBR_LAUNCH", "auto",
        *_one_of("auto", "kernels", "graph", "branches", "programmatic", "programmatic branches"),
        what="how kernels are launched on GPUs",
    ),
    Setting(
        "sdbr_tf32", "CUPY_TF32", False, *_BOOL, _switch,  # CuPy's own variable
        what="whether products on GPUs may round their factors to TF32",
    ),
    Setting(
        "sdbr_disabled_passes", "SDBR_DISABLED_PASSES", "",
        "names of passes, with commas between them", _are_names,
        what="passes that programs are made without, to look for faults",
    ),
    Setting("sdbr_keep_instructions", None, False, *_BOOL),  # for tests of the memory plan
    Setting(
        None, "SDBR_LOG", "", f"some of {', '.join(logs.TOPICS)}, all, with commas between them",
        logs.are_topics, what="what is told on standard error as it happens",
    ),
    Setting(
        None, "SDBR_SIMD", "avx512", *_one_of("baseline", "avx2", "avx512"),
        what="the highest level of instructions that kernels may use",
    ),
    Setting(
        None, "SDBR_CACHE", None, "a folder, or nothing for no files at all", _anything,
        what="where measurements and compiled kernels are kept",
    ),
    Setting(
        None, "SDBR_ONEDNN_LIBRARY", None, "a file", _anything,
        what="which library of oneDNN is used",
    ),
    Setting(
        None, "SDBR_BUILD_CACHE", None, "a folder, or nothing for no files at all", _anything,
        what="where builds of the package keep what they have compiled",
    ),
    Setting(
        None, "SDBR_EXTENSIONS", "1", *_one_of("0", "1"),
        what="0: the package is installed without what has to be compiled",
    ),
    Setting(None, "XDG_CACHE_HOME", None, *_FOLDER),
    # Of the CUDA driver (none of them: no GPU), and of a toolkit; NVRTC in wheels comes first.
    Setting(None, "CUDA_VISIBLE_DEVICES", None, "numbers of devices", _anything),
    Setting(None, "CUDA_PATH", None, *_FOLDER),
    Setting(None, "CUDA_HOME", None, *_FOLDER),
)  # fmt: skip
#: Entries that are not in the cache key.
OUTSIDE_KEY = tuple(setting.entry for setting in SETTINGS if not setting.in_key)
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS if setting.variable}
_BY_ENTRY = {setting.entry: setting for setting in SETTINGS if setting.entry}
#: Looked up when they are asked for, so that nobody sees them who does not use them.
_HIDDEN = ("sdbr_keep_instructions",)


def variable(name: str) -> Any:
    """What the environment says, as text, else the default.

    Raises
    ------
    KeyError
        If there is no such setting.
    """
    setting = _BY_VARIABLE[name]
    return os.environ.get(name, setting.default)


def entry(name: str) -> Any:
    """What ``chainer.config`` says now.

    Raises
    ------
    SettingError
        If it is none of the allowed values.
    KeyError
        If there is no such setting.
    """
    import chainer  # not before the package has made it importable

    setting = _BY_ENTRY[name]
    value = getattr(chainer.config, name, setting.default)
    check(name, value)
    return value


def check(name: str, value: Any) -> None:
    """See to it that an entry of ``chainer.config`` may be `value`; others than ours may.

    Raises
    ------
    SettingError
    """
    setting = _BY_ENTRY.get(name)
    text = setting and setting.refusal(value)
    if text:
        raise SettingError(text)


def refused_variable(name: str) -> str | None:
    """What is wrong with a variable of the environment; None where nothing is."""
    text, setting = os.environ.get(name), _BY_VARIABLE.get(name)
    if not text or setting is None:
        return None
    value = text if setting.entry is None else setting.parse(text)
    return setting.refusal(value)


def unknown_entries(names: Iterable[str]) -> list[tuple[str, str]]:
    """Entries of ``chainer.config`` that look like settings and are none, each with a text."""
    return [
        (name, f"chainer.config.{name} is no setting{_nearest(name, list(_BY_ENTRY))}")
        for name in names
        if name.startswith("sdbr_") and name not in _BY_ENTRY
    ]


def unknown_variables() -> list[tuple[str, str]]:
    """Variables of the environment that look like settings and are none, each with a text."""
    known = [name for name in _BY_VARIABLE if name.startswith("SDBR_")]
    return [
        (name, f"no setting{_nearest(name, known)}")
        for name in sorted(os.environ)
        if name.startswith("SDBR_") and name not in known
    ]


def _nearest(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, 1, 0.8)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(sorted(known))}"


def enter() -> None:
    """Give entries of ``chainer.global_config`` that are not there yet their first values."""
    import chainer

    config = chainer.global_config
    for setting in SETTINGS:
        if setting.entry is None or setting.entry in _HIDDEN or hasattr(config, setting.entry):
            continue
        text = os.environ.get(setting.variable) if setting.variable else None
        vars(config)[setting.entry] = setting.parse(text) if text else setting.default
