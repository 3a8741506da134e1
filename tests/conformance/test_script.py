"""The script, on a checkout of two small files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import pytest

from tests.conformance import checkout, table

ROOT = pathlib.Path(__file__).parents[2]

FUNCTION_TEST = """
import mock
import numpy
from chainer import functions as F
from chainer import gradient_check


def test_tanh():
    assert mock.MagicMock and numpy.product((2, 2), dtype=numpy.bool)
    x = numpy.random.uniform(-1, 1, (3, 2)).astype('f')
    gradient_check.check_backward(F.tanh, x, x, atol=1e-2, rtol=1e-2)
"""

PLAIN_TEST = """
import sys


def test_patched():
    from chainer import configuration, static_graph
    ours = [static_graph.__module__, configuration._ConfigContext.__module__]
    assert any(name.startswith('sdbr') for name in ours) == ('sdbr.static_graph' in sys.modules)


def test_failing():
    assert False
"""


@pytest.fixture
def source(tmp_path):
    """A folder that looks like Chainer's sources."""
    tests = tmp_path / "chainer" / "tests" / "chainer_tests"
    folder = tests / "functions_tests" / "x_tests"
    folder.mkdir(parents=True)
    (tests.parent / "conftest.py").write_text("")
    (folder / "test_tanh.py").write_text(FUNCTION_TEST)
    (tests / "test_backprop.py").write_text(PLAIN_TEST)
    return tmp_path / "chainer"


def test_copy_replaces_what_numpy_removed(source, tmp_path):
    tests = checkout.copy(source, tmp_path / "copy")
    text = (tests / "chainer_tests/functions_tests/x_tests/test_tanh.py").read_text()
    assert "numpy.prod((2, 2), dtype=bool)" in text
    original = source / "tests/chainer_tests/functions_tests/x_tests/test_tanh.py"
    assert original.read_text() == FUNCTION_TEST


def test_a_folder_without_tests_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no tests/chainer_tests below"):
        checkout.copy(tmp_path, tmp_path / "copy")


def test_script(source, tmp_path):
    command = [sys.executable, "-m", "tests.conformance", str(source), "--more", "--only"]
    command += ["functions_tests/x_tests", "test_backprop.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stderr
    first, steps = (
        done.stdout.split(f"### {title}")[1] for title in ("First derivatives", "Whole steps")
    )
    for part in (first, steps):
        assert "| functions/x | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in part
    assert "| test_backprop.py | 1 | 1 | 1 | 1 |" in done.stdout


def test_repeated_checks_count_once(tmp_path):
    log = tmp_path / "log"
    check = '{"test": "a", "kind": "backward", "verdict": "wrong", "detail": "x"}'
    log.write_text(f'{check}\n{{"test": "a", "repeated": true}}\n{check}\n')
    checks, tests = table.read([log])
    assert (len(checks), tests) == (1, [])
    assert table.not_right(checks).startswith("wrong (backward)")
