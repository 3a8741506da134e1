"""``python -m sdbr gpu-check``: on a driver that has no device, and without one."""

import ctypes.util
import json

from sdbr.cli import gpu_check
from sdbr.devices import driver

import pytest

from tests.harness import device


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="a CUDA driver is here")
def test_without_a_gpu_it_says_what_is_missing(capsys):
    assert gpu_check.main([]) == 2
    assert "sdbr gpu-check: no CUDA driver: libcuda.so.1" in capsys.readouterr().err


def test_what_it_writes(monkeypatch, tmp_path, capsys):
    path = device.device().driver._library._name
    monkeypatch.setattr(driver.Driver.__init__, "__defaults__", (path,))
    monkeypatch.setattr(gpu_check, "nvrtc", lambda: type("Compiler", (), {"name": "13.0"}))
    monkeypatch.setattr(
        gpu_check, "cubin", lambda text, headers, _: device.machine_code(text, headers)
    )
    monkeypatch.setattr(gpu_check, "tests", lambda: {"exit_code": 1, "output": ["1 failed"]})
    assert gpu_check.main(["--out", str(tmp_path / "new"), "--launches", "3"]) == 1
    facts = json.loads((tmp_path / "new" / "gpu-check.json").read_text())
    assert (facts["device"], facts["architecture"], facts["nvrtc"]) == ("fake 0", "sm_90", "13.0")
    assert len(facts["microseconds"]) == 2 + 2 * len(gpu_check.NODES)
    assert all(value > 0 for value in facts["microseconds"].values())
    assert facts["tests"] == {"exit_code": 1, "output": ["1 failed"]}
    assert "wrote" in capsys.readouterr().out


def test_the_tests_that_it_runs(monkeypatch):
    """Where there is no GPU they are skipped, and say why."""
    found = gpu_check.tests()
    assert found["exit_code"] in (0, 5)
    assert "skipped" in found["output"][-1] or "passed" in found["output"][-1]
    monkeypatch.setattr(gpu_check, "find_checkout", lambda: None)
    assert gpu_check.tests() is None
