"""``python -m sdbr gpu-check``: its command line, and a run from the beginning to the end."""

import ctypes.util
import json
import subprocess
import sys
from pathlib import Path

from sdbr.base.errors import BackendError
from sdbr.cli import gpu_check
from sdbr.cli.gpu_check import child, parts

import pytest

from tests.harness import pretended

ROOT = Path(__file__).resolve().parents[2]
no_driver = pytest.mark.skipif(
    ctypes.util.find_library("cuda") is not None, reason="a CUDA driver is here"
)


@no_driver
def test_without_a_gpu_it_says_what_is_missing(monkeypatch, capsys):
    def missing():
        raise BackendError("NVRTC was not found: pip install it; a reason; another one")

    monkeypatch.setattr(gpu_check, "nvrtc", missing)
    assert gpu_check.main([]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("sdbr gpu-check: no CUDA driver: libcuda.so.1")
    assert lines[1:] == ["sdbr gpu-check: NVRTC was not found: pip install it"]


def test_a_gpu_that_is_not_there(tmp_path):
    with pretended.machine(tmp_path / "machine") as environment:
        done = run(environment, "--device", "5", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "sdbr gpu-check: --device 5: the driver has 2" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "invalid choice: 'nothing'"),
        (["--minutes", "0"], "expected minutes above 0, got 0"),
        (["--cpu-minutes", "nan"], "expected minutes above 0, got nan"),
    ],
)
def test_wrong_commands(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        gpu_check.main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_part_that_cannot_run_is_named(monkeypatch, capsys):
    assert gpu_check.main(["--only", "threads"]) == 2
    assert "--only threads: it needs --cpu-minutes" in capsys.readouterr().err
    monkeypatch.setattr(gpu_check, "find_checkout", lambda: None)
    assert gpu_check.main(["--only", "cases"]) == 2
    assert "--only cases: it needs a source checkout" in capsys.readouterr().err


def test_help_explains_every_part(capsys):
    with pytest.raises(SystemExit):
        gpu_check.main(["--help"])
    text = capsys.readouterr().out
    for part in parts.PARTS:
        assert f"\n  {part.name:<10}{part.text}\n" in text


def names(*arguments) -> list[str]:
    return [part.name for part in gpu_check.chosen(*arguments)]


def test_which_parts_run(monkeypatch):
    every = [part.name for part in parts.PARTS]
    assert names([], 0.0) == every[:-1] and names([], 1.0) == every
    assert every[-1] == "threads"
    assert names(["ncu", "rates"], 1.0) == ["rates", "ncu"]
    assert names(["threads"], 1.0) == ["threads"]
    monkeypatch.setattr(gpu_check, "find_checkout", lambda: None)
    assert names([], 1.0) == ["facts", "rates", "constants", "products", "large"]


def test_every_part_has_a_module_that_measures():
    import importlib

    for part in parts.PARTS:
        module = importlib.import_module(f"sdbr.cli.gpu_check.{part.module}")
        assert callable(module.measure)


def test_a_part_says_what_failed(tmp_path, monkeypatch, capsys):
    from sdbr.cli.gpu_check import facts

    def measure(job):
        assert (job.seconds, job.ordinal) == (5.0, 1)
        job.measure("one", lambda: 1)
        job.measure("two", lambda: 1 / 0)
        job.measure("three", lambda: 3)

    monkeypatch.setattr(facts, "measure", measure)
    path = tmp_path / "found.json"
    assert child.main(["facts", str(path), "5", "1"]) == 1
    found = json.loads(path.read_text())
    assert (found["part"], found["one"], found["three"]) == ("facts", 1, 3)
    assert found["two"]["error"][-1] == "ZeroDivisionError: division by zero"
    assert "failed: two" in capsys.readouterr().out


def run(environment, *words) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "sdbr", "gpu-check", *words],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


def test_from_the_beginning_to_the_end(tmp_path):
    """Two parts on a machine that only seems to have a GPU; one of them finds no cuBLASLt."""
    out = tmp_path / "new" / "folder"
    words = ["--only", "constants", "--only", "facts", "--minutes", "2"]
    with pretended.machine(tmp_path / "machine") as environment:
        done = run(environment, *words, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(x.name for x in out.iterdir()) == [
        "gpu-check.json", "gpu-check.log", "gpu-check.md",
    ]  # fmt: skip
    result = json.loads((out / "gpu-check.json").read_text())
    assert [part["state"] for part in result["parts"].values()] == ["done", "done"]
    assert (
        result["command"].endswith("--minutes 2 --out folder")
        and str(tmp_path) not in (result["command"])
    )
    found = result["parts"]["constants"]["found"]
    assert found["chain of 256"]["plain"]["nodes"] == 256
    assert found["draw"]["processor_us"] > 0
    assert any("fake 0" in line for line in result["parts"]["facts"]["found"]["doctor"])
    page = (out / "gpu-check.md").read_text()
    assert page in done.stdout and "| chain of 256, plain | 256 |" in page
