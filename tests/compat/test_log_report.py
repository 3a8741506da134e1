"""The quick ``LogReport`` leaves what Chainer's own does."""

from __future__ import annotations

import json
import math
import os
import stat
import types

from sdbr.compat.speed import ORIGINALS, exchange
from sdbr.compat.speed.log_report import as_json

import chainer
import numpy as np
import pytest
from chainer.training.extensions import LogReport

LOGS = {
    "usual": [{"main/loss": 2.3 / 7, "epoch": 1, "elapsed_time": 0.1 + 0.2}, {"epoch": 2}],
    "nothing": [],
    "an empty entry": [{"a": 1}, {}],
    "floats": [{"a": -0.0, "b": 1e300, "c": 5e-324, "d": 1e16, "e": 123456789.123456789}],
    "no numbers": [{"a": math.nan, "b": math.inf}, {"c": -math.inf}],
    "ints": [{"a": -(10**30), "b": 0}],
    "other values": [{"a": True, "b": None, "c": "text\n", "d": [1, {"e": 2}]}],
    "numbers of NumPy": [{"a": np.float64(0.1)}],
    "names": [{'a"b\\': 1, "Verlust größer": 2.0, "\u2028": 3}],
    "keys": [{1: 2, "a": 1}],
    "no dict": [[1, 2], {"a": 1}],
    "a class": [types.SimpleNamespace, {"a": 1}],
}


@pytest.mark.parametrize("name", LOGS)
def test_text(name):
    try:
        wanted = json.dumps(LOGS[name], indent=4)
    except TypeError:
        with pytest.raises(TypeError):
            as_json(LOGS[name])
    else:
        assert as_json(LOGS[name]) == wanted


class _Trainer:
    """As much of one as the extension looks at."""

    is_before_training = False

    def __init__(self, out):
        self.out = str(out)
        self.updater = types.SimpleNamespace(
            iteration=0, epoch=0, is_new_epoch=False, epoch_detail=0.0, previous_epoch_detail=0.0
        )
        self.observation = {}
        self.elapsed_time = 0.0

    def go_on(self):
        updater = self.updater
        updater.iteration += 1
        updater.previous_epoch_detail = updater.epoch_detail
        updater.epoch_detail = updater.iteration / 3
        updater.epoch = int(updater.epoch_detail)
        updater.is_new_epoch = updater.epoch != int(updater.previous_epoch_detail)
        self.elapsed_time += 0.7
        self.observation = {
            "loss": np.float32(1 / updater.iteration), "pair": (np.array(0.5, "f"), 3),
            "variable": chainer.Variable(np.array(updater.iteration, "f")), "more": np.ones(3),
        }  # fmt: skip


def logged(call, out, steps=10, **options):
    """Run an extension; what is in the folder after it, and what it has."""
    out.mkdir()
    extension, trainer = LogReport(**options), _Trainer(out)
    for _ in range(steps):
        trainer.go_on()
        call(extension, trainer)
    files = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()}
    return files, modes, extension.log


def doubled(entry):
    entry["twice"] = 2 * entry["loss"]
    entry["list"] = [1, 2]


OPTIONS = {
    "usual": {},
    "keys": {"keys": ["loss", "missing"]},
    "each iteration": {"trigger": (2, "iteration")},
    "names": {"filename": "log_{epoch}_{iteration}.json"},
    "none": {"filename": None, "log_name": None},
    "postprocess": {"postprocess": doubled},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_files(tmp_path, name):
    assert LogReport.__call__ is not ORIGINALS["log"]
    before = os.umask(0o027)
    try:
        found = logged(LogReport.__call__, tmp_path / "ours", **OPTIONS[name])
        wanted = logged(ORIGINALS["log"], tmp_path / "theirs", **OPTIONS[name])
    finally:
        os.umask(before)
    assert found == wanted
    assert found[2] and (found[0] or name == "none")


def test_what_is_in_the_place_of_the_file(tmp_path):
    for name, call in (("ours", LogReport.__call__), ("theirs", ORIGINALS["log"])):
        out = tmp_path / name
        (out / "log").mkdir(parents=True)
        trainer = _Trainer(out)
        for _ in range(3):
            trainer.go_on()
        extension = LogReport(trigger=(1, "iteration"))
        call(extension, trainer)
        assert os.listdir(out) == ["log"] and os.listdir(out / "log") == ["log.json"]
        (out / "file").write_text("kept")
        os.symlink(out / "file", out / "link")
        call(LogReport(trigger=(1, "iteration"), filename="link"), trainer)
        assert (out / "file").read_text() == "kept"
        assert json.loads((out / "link").read_text())[0]["iteration"] == 3


def test_errors_are_chainers(tmp_path):
    def spoiled(entry):
        entry["a"] = object()

    for call in (LogReport.__call__, ORIGINALS["log"]):
        trainer = _Trainer(tmp_path / "missing")
        trainer.go_on()
        with pytest.raises(FileNotFoundError):
            call(LogReport(trigger=(1, "iteration")), trainer)
        trainer.out = str(tmp_path)
        extension = LogReport(trigger=(1, "iteration"), postprocess=spoiled)
        with pytest.raises(TypeError):
            call(extension, trainer)
        assert os.listdir(tmp_path) == [] and len(extension.log) == 1
        with pytest.raises(FileNotFoundError):
            call(LogReport(trigger=(1, "iteration"), filename="folder/log"), trainer)


# --- how the file gets into its place -----------------------------------------------------------
def put(tmp_path, text):
    (tmp_path / "new").write_text(text)
    exchange.put_in_place(str(tmp_path / "new"), str(tmp_path / "log"))
    assert sorted(os.listdir(tmp_path)) == ["log"]
    assert (tmp_path / "log").read_text() == text
    return (tmp_path / "log").stat().st_ino


def test_a_file_changes_places_with_the_one_before(tmp_path, monkeypatch):
    replaced, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda *args: (replaced.append(args), replace(*args)))
    first = put(tmp_path, "first")
    assert len(replaced) == 1  # there was none before
    with open(tmp_path / "log") as reader:
        assert put(tmp_path, "second") != first
        assert reader.read() == "first"
    assert len(replaced) == 1 or exchange._renameat2() is None


@pytest.mark.parametrize("rename", [None, lambda *args: -1], ids=["no such function", "refused"])
def test_systems_where_files_cannot_change_places(tmp_path, monkeypatch, rename):
    monkeypatch.setattr(exchange, "_renameat2", lambda: rename)
    put(tmp_path, "first")
    put(tmp_path, "second")


def test_a_link_is_replaced_and_not_followed(tmp_path):
    kept = tmp_path / "elsewhere" / "kept"
    kept.parent.mkdir()
    kept.write_text("kept")
    out = tmp_path / "out"
    out.mkdir()
    os.symlink(kept, out / "log")
    put(out, "new")
    assert kept.read_text() == "kept" and not (out / "log").is_symlink()
