"""The log of ``LogReport``: the same file, without a folder for each writing."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

from sdbr.compat.speed.exchange import put_in_place


def as_json(log: list[dict[str, Any]]) -> str:
    """What ``json.dumps(log, indent=4)`` gives, which is slow where there is an indent.

    Raises
    ------
    TypeError
        As for `json.dumps`.
    """
    entries = []
    for entry in log:
        lines = _lines(entry)
        if lines is None:
            return json.dumps(log, indent=4)
        entries.append("    {\n" + ",\n".join(lines) + "\n    }")
    return "[\n" + ",\n".join(entries) + "\n]" if entries else "[]"


def _lines(entry: Any) -> list[str] | None:
    if type(entry) is not dict or not entry:
        return None
    lines = []
    for key, value in entry.items():
        kind = type(value)
        is_plain = kind is int or (kind is float and math.isfinite(value))
        if type(key) is not str or not is_plain:
            return None
        lines.append(f"        {encode_basestring_ascii(key)}: {value!r}")
    return lines


def write(text: str, folder: str, name: str) -> bool:
    """Let a text take the place of a file in one go; False where that is not as simple."""
    if os.path.basename(name) != name:
        return False
    path = os.path.join(folder, name)
    temporary = f"{path}{os.getpid()}.{secrets.token_hex(4)}"
    try:
        with open(temporary, "x") as file:
            file.write(text)
        # A folder of that name, into which Chainer would move the file, is an OSError.
        put_in_place(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            return False
        raise
    return True


def call_of(original: Callable) -> Callable:
    """What is to stand in the place of ``LogReport.__call__``."""

    @functools.wraps(original)
    def __call__(self, trainer):
        observation = trainer.observation
        if self._keys is not None:
            observation = {key: observation[key] for key in self._keys if key in observation}
        self._summary.add(observation)
        if not (trainer.is_before_training or self._trigger(trainer)):
            return
        entry = {name: float(mean) for name, mean in self._summary.compute_mean().items()}
        updater = trainer.updater
        entry["epoch"] = updater.epoch
        entry["iteration"] = updater.iteration
        entry["elapsed_time"] = trainer.elapsed_time
        if self._postprocess is not None:
            self._postprocess(entry)
        self._log.append(entry)
        if self._log_name is not None:
            name = self._log_name.format(**entry)
            if not write(as_json(self._log), trainer.out, name):
                _write_as_chainer(self._log, trainer.out, name)
        self._init_summary()

    return __call__


def _write_as_chainer(log: list, out: str, name: str) -> None:
    """Where it is less simple, or to say what is wrong."""
    from chainer import utils

    with utils.tempdir(prefix=name, dir=out) as folder:
        path = os.path.join(folder, "log.json")
        with open(path, "w") as file:
            json.dump(log, file, indent=4)
        shutil.move(path, os.path.join(out, name))
