"""The scripts in ``examples``, in short: they run, they replay, and they train as plain Chainer."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.harness import ranks
from tests.tolerances import DOUBLE, ELEMENTS, HALF_SUMS

pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

ROOT = Path(__file__).parents[1]
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


class Expected(NamedTuple):
    """What a run has to come to.

    Attributes
    ----------
    whole : bool
        Whether steps are whole.
    parts : int
        How many steps may be none where steps are whole: those that are traced, and with Python in
        them those that are audited.
    python_ops : int
        Python ops of a replay.
    learns : bool
        Whether the loss falls within so few steps.
    tolerance : float
        How far losses may be from plain Chainer's, relative to each.
    """

    whole: bool = True
    parts: int = 4
    python_ops: int = 0
    learns: bool = True
    tolerance: float = ELEMENTS


EXAMPLES = {
    "accumulation": Expected(whole=False),  # several backwards
    "char_lstm": Expected(),
    "cnn_digits": Expected(),
    "data_parallel": Expected(),
    "dcgan_digits": Expected(whole=False, learns=False),  # both losses go back through one call
    "dqn": Expected(learns=False),  # its targets move
    "mixed_precision": Expected(tolerance=HALF_SUMS),
    "own_parts": Expected(parts=6, python_ops=4),
    "trainer_digits": Expected(),
    "vae_digits": Expected(python_ops=1),
    "wgan_gp_digits": Expected(learns=False),  # what is logged is no loss, it rises first
}


def script(name: str) -> Path:
    return ROOT / "examples" / f"{name}.py"


def run(name: str, *args: str) -> subprocess.CompletedProcess:
    """An example in a process of its own."""
    return python(script(name), *args)


def python(*args: str | Path) -> subprocess.CompletedProcess:
    """Python in a process of its own, which must not warn."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SDBR_BACKEND": "auto"}
    done = subprocess.run(
        [sys.executable, *args],
        capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done


def check(name: str, out: str, folder: Path) -> None:
    """Compare what an example says of itself with what is expected of it."""
    expected = EXAMPLES[name]
    found = json.loads(out.splitlines()[-1])
    losses, plain = np.array(found["losses"]), np.array(found["plain losses"])
    assert len(losses) == len(plain) >= 8
    np.testing.assert_allclose(losses, plain, rtol=expected.tolerance)
    if expected.learns:
        assert losses[-3:].mean() < losses[:3].mean()

    count = found["statistics"]
    assert count["define_by_run_calls"] == 0
    assert count["replays"] == count["calls"] - count["traces"]
    assert count["traces"] <= count["calls"] // 4
    assert count["python_ops"] == expected.python_ops * count["replays"]
    whole = count["steps"]
    assert whole >= len(losses) - expected.parts if expected.whole else whole == 0

    picture = folder / f"{name}.png"
    assert picture.exists() == HAS_MATPLOTLIB
    assert found["picture"] == (str(picture) if HAS_MATPLOTLIB else "")


def test_all_are_here():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert scripts == {*EXAMPLES, "common", "train_digits"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_quick(name, tmp_path):
    done = run(name, "--quick", "--json", "--out", str(tmp_path))
    check(name, done.stdout, tmp_path)


#: What is compared in double precision as well, and for how many steps: a test has to be short.
IN_DOUBLE = {"dcgan_digits": 25, "own_parts": 200}


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_losses_in_double_precision(name, tmp_path):
    """Many steps later they are still plain Chainer's, to the digits of the contract."""
    steps = IN_DOUBLE[name]
    argv = [f"{name}.py", "--steps", str(steps), "--json", "--out", str(tmp_path)]
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'examples')!r}); sys.argv = {argv!r}; "
        f"import sdbr, chainer, numpy as np; chainer.global_config.dtype = np.float64; "
        f"runpy.run_path({str(script(name))!r}, run_name='__main__')"
    )
    found = json.loads(python("-c", code).stdout.splitlines()[-1])
    losses, plain = np.array(found["losses"]), np.array(found["plain losses"])
    assert len(losses) == len(plain) == steps
    assert (losses != losses.astype(np.float32)).any()  # they are in double precision
    np.testing.assert_allclose(losses, plain, rtol=DOUBLE)


@ranks.with_mpi
def test_two_ranks(tmp_path):
    args = ("--quick", "--json", "--out", str(tmp_path))
    done = ranks.start(2, script("data_parallel"), *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 ranks") == 2  # the first rank alone speaks
    check("data_parallel", done.stdout, tmp_path)


def test_shortest():
    assert "test accuracy 0.9" in run("train_digits").stdout


def test_without_what_is_optional(tmp_path):
    """Without tqdm and matplotlib: lines instead of a bar, and no picture."""
    for name in ("tqdm", "matplotlib"):
        (tmp_path / f"{name}.py").write_text("raise ImportError\n")
    code = (
        f"import runpy, sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'examples')!r}]; "
        f"sys.argv = ['vae_digits.py', '--quick', '--explain', '--out', {str(tmp_path)!r}]; "
        f"runpy.run_path({str(script('vae_digits'))!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no picture: matplotlib is missing" in done.stdout
    assert "static: 20/20 steps" in done.stderr
    assert "whole step: native" in done.stdout  # of sdbr.explain
    assert not list(tmp_path.glob("*.png"))
