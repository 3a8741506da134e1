"""Runs the compatibility tests on every Python, NumPy and setuptools that Chainer may meet.

    python tests/stacks.py [--oldest-newest] [--python 3.12 ...] [--newest]

For each Python from 3.10 to 3.13 found on PATH or among pyenv's versions: sdbr is built from a
copy of this checkout and installed next to Chainer, with NumPy 1.26 (where there are wheels of
it) and with 2.x; tests/compat run with setuptools and without, and once tests/watch and some
hundred of tests/semantics, each commit others. Versions are those of locks/; ``--newest`` takes
the newest that there are, and so finds what a release of others has broken.
``--oldest-newest`` is two of these stacks: the oldest Python with the oldest NumPy, one of the
newest Pythons with NumPy 2.x.
Prints a table; the exit code is 1 if anything failed or no Python was found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
NUMPYS = {"1.26": "numpy==1.26.*", "2.x": "numpy>=2"}
LAST_PYTHON_WITH_NUMPY_1 = "3.12"
CHAINER = "chainer==7.8.1"
# Old enough to have pkg_resources, which is what building Chainer needs, too.
SETUPTOOLS = "setuptools<80"
#: What [build-system] of pyproject.toml names.
BUILD_PACKAGES = (SETUPTOOLS, "wheel", "Cython>=3.0", "numpy>=2.0")
TEST_PACKAGES = ("scipy", "h5py", "pytest", "hypothesis", "packaging", "threadpoolctl")
BUILD_FILES = ("pyproject.toml", "setup.py", "build_cache.py", "MANIFEST.in", "README.md")
BUILD_FILES += ("LICENSE", "src")


class StepError(Exception):
    """A command failed; the message is what it printed."""


@dataclass
class Row:
    """One line of the table."""

    python: str
    numpy: str
    setuptools: str
    outcome: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.python:<8}{self.numpy:<8}{self.setuptools:<12}{self.seconds:>7.1f} s  "
            f"{self.outcome}"
        )


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    options = _parse_options()
    found = {}
    for version in options.python or PYTHONS:
        interpreter = find_python(version)
        if interpreter is None:
            print(f"skipped: python{version} not found", flush=True)
        else:
            found[version] = interpreter
    if not found:
        print("no Python to test with")
        return 1
    chosen = {version: numpys_of(version) for version in found}
    if options.oldest_newest and len(chosen) > 1:
        oldest, *others = found
        newest = others[-2:][commits() % len(others[-2:])]
        chosen = {oldest: chosen[oldest][:1], newest: chosen[newest][-1:]}

    with tempfile.TemporaryDirectory(prefix="sdbr-stacks-") as folder:

        def check(version: str) -> list[Row]:
            rows = []
            arguments = (version, found[version], Path(folder), chosen[version], options.newest)
            for row in check_python(*arguments):
                print(row, flush=True)
                rows.append(row)
            return rows

        # Two at a time: while one waits for its packages or its tests, the other compiles.
        with ThreadPoolExecutor(2) as pool:
            rows = [row for part in pool.map(check, chosen) for row in part]
    print(f"\n{'Python':<8}{'NumPy':<8}{'setuptools':<12}{'time':>9}  outcome")
    for row in rows:
        print(row)
    return int(any(row.outcome == "FAILED" for row in rows))


def commits() -> int:
    """How many commits led to what is checked out; 0 where that is not known."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(done.stdout) if done.returncode == 0 else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the compatibility tests on many stacks.")
    parser.add_argument(
        "--oldest-newest",
        action="store_true",
        help="only the oldest Python found with the oldest NumPy, and one of the newest two with "
        "the newest: another for the next commit",
    )
    parser.add_argument(
        "--newest", action="store_true", help="the newest versions of packages, not those of locks/"
    )
    parser.add_argument(
        "--python", nargs="+", choices=PYTHONS, metavar="3.N", help="only these versions"
    )
    return parser.parse_args()


def numpys_of(version: str) -> tuple[str, ...]:
    """Those of `NUMPYS` that there are wheels of."""
    is_late = PYTHONS.index(version) > PYTHONS.index(LAST_PYTHON_WITH_NUMPY_1)
    return tuple(NUMPYS)[is_late:]


def find_python(version: str) -> str | None:
    """Return a working interpreter of a version such as ``'3.12'``, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))[::-1]]
    check = (
        "import sys, venv, ensurepip; "
        f"sys.exit('.'.join(map(str, sys.version_info[:2])) != '{version}')"
    )
    for candidate in filter(None, candidates):
        # A launcher of pyenv may be on PATH for a version that is not selected.
        if subprocess.run([candidate, "-c", check], capture_output=True).returncode == 0:
            return candidate
    return None


def locked(version: str, numpy: str, newest: bool) -> tuple[str, ...]:
    """What tells pip the versions of locks/ for a Python and a NumPy."""
    if newest:
        return ()
    lock = ROOT / "locks" / f"python{version}{'-numpy1.26' if numpy == '1.26' else ''}.txt"
    return ("--constraint", str(lock))


def check_python(
    version: str, interpreter: str, folder: Path, numpys: tuple[str, ...], newest: bool = False
) -> Iterator[Row]:
    """Build sdbr for one Python and test it with these of `NUMPYS`, and each setuptools."""
    start = time.monotonic()
    wheels = folder / f"wheels-{version}"
    try:
        build_wheels(interpreter, folder, wheels, locked(version, "2.x", newest))
    except StepError as error:
        print(error)
        yield Row(version, "-", "-", "FAILED", time.monotonic() - start)
        return
    yield Row(version, "-", "-", "built", time.monotonic() - start)
    for numpy in numpys:
        environment = folder / f"env-{version}-{numpy}"
        wheels_only = ("install", "--only-binary=:all:", *locked(version, numpy, newest))
        start = time.monotonic()
        try:
            python = make_environment(interpreter, environment)
            pip(python, *wheels_only, NUMPYS[numpy], SETUPTOOLS, *TEST_PACKAGES)
            pip(python, "install", "--no-index", "--no-deps", *sorted(map(str, wheels.iterdir())))
            pip(python, *wheels_only, "--no-deps", *chainer_needs(python))
        except StepError as error:
            print(error)
            yield Row(version, numpy, "-", "FAILED", time.monotonic() - start)
            continue
        for setuptools in ("with", "without"):
            if setuptools == "without":
                pip(python, "uninstall", "--yes", "setuptools")
            try:
                outcome = run_tests(python, folder, users_programs=setuptools == "with")
            except StepError as error:
                print(error)
                outcome = "FAILED"
            yield Row(version, numpy, setuptools, outcome, time.monotonic() - start)
            start = time.monotonic()
        shutil.rmtree(environment)


def build_wheels(interpreter: str, folder: Path, wheels: Path, lock: tuple[str, ...]) -> None:
    """Build Chainer, and sdbr from a copy of the checkout, which stays as it is."""
    python = make_environment(interpreter, folder / f"build-{wheels.name}")
    sources = folder / f"sources-{wheels.name}"
    sources.mkdir()
    leave_out = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    for name in BUILD_FILES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=leave_out)
        elif path.exists():
            shutil.copy2(path, sources / name)
    # Without isolation old and new pip build in the same way, with these versions.
    pip(python, "install", *lock, *BUILD_PACKAGES)
    to_wheels = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels))
    # What these tests ask is the same however much is optimized.
    pip(python, *to_wheels, CHAINER, str(sources), CFLAGS="-O0")


def chainer_needs(python: str) -> list[str]:
    """Return the requirements of the installed Chainer, except setuptools and NumPy."""
    code = (
        "import re, importlib.metadata as m\n"
        "names = [re.match('[A-Za-z0-9._-]+', r).group() for r in m.requires('chainer')"
        " if 'extra ==' not in r]\n"
        "print(' '.join(n for n in names if n not in ('setuptools', 'numpy')))"
    )
    return call([python, "-c", code]).split()


def make_environment(interpreter: str, folder: Path) -> str:
    """Create a virtual environment and return its interpreter."""
    call([interpreter, "-m", "venv", str(folder)])
    return str(folder / "bin" / "python")


def run_tests(python: str, folder: Path, users_programs: bool) -> str:
    """Run what Pythons differ in against the installed sdbr; pytest's last lines.

    Byte code and NumPy are others: `users_programs` runs tests/watch and some hundred of what
    users may write.
    """
    names = ("compat", "semantics/test_contract.py", *(["watch"] if users_programs else []))
    tests = [str(ROOT / "tests" / name) for name in names]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # From elsewhere, so that the installed package is the one that is imported.
    runs = [tests]
    if users_programs:
        runs.append([str(ROOT / "tests" / "semantics"), "--at-most", "600"])
    return "; ".join(call([*command, *run], cwd=folder).splitlines()[-1] for run in runs)


def pip(python: str, *arguments: str, **variables: str) -> None:
    """Run an interpreter's pip; constraints are what ``locked`` says, not those of `make`."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_CONSTRAINT")}
    call([python, "-m", "pip", "--quiet", *arguments], env=environment | variables)


def call(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed; raise StepError with it on failure."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise StepError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
