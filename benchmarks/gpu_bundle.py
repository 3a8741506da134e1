"""What a machine with a GPU and without a network needs: ``python -m benchmarks.gpu_bundle``.

Makes wheels of sdbr and of Chainer for its Python, and the script that installs them there and
runs ``gpu-check``, in ``build/gpu-bundle``. docs/gpu.md says how it is used. Needs that Python
here, with pip, and an index that pip knows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "gpu-bundle"
SCRIPT = Path(__file__).with_name("gpu_run.sh")
CHAINER = "chainer==7.8.1"
MOST = 64 << 20  # bytes that may be brought along, the sources included


class BundleError(Exception):
    """The bundle cannot be made; the message is one line."""


def main(argv: list[str] | None = None) -> int:
    """Make the bundle, and say what it weighs; the exit code is 1 where that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_bundle", description=__doc__)
    parser.add_argument("--python", default="python3.12", help="like the one that is there")
    parser.add_argument(
        "--with",
        nargs="+",
        default=[],
        metavar="PACKAGE",
        dest="more",
        help="that is missing there",
    )
    options = parser.parse_args(argv)
    try:
        make(options.python, options.more)
        print(weigh(FOLDER, ROOT))
    except BundleError as error:
        print(f"gpu-bundle: {error}", file=sys.stderr)
        return 1
    return 0


def make(python: str, more: list[str]) -> None:
    """Build the wheels anew, and put the script beside them.

    Parameters
    ----------
    python : str
        The interpreter that wheels are for.
    more : list of str
        Packages whose wheels are brought along as well.

    Raises
    ------
    BundleError
        If there is no such interpreter, or pip fails.
    """
    if shutil.which(python) is None:
        raise BundleError(f"--python {python}: no such program")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    # A build in place would leave what it makes, for another Python, to the next one there.
    with tempfile.TemporaryDirectory() as copy:
        for path in sources(ROOT):
            target = Path(copy, path.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
        _wheel(python, copy)
    for package in (CHAINER, *more):
        _wheel(python, package)
    target = FOLDER / "run"
    shutil.copy(SCRIPT, target)
    target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _wheel(python: str, package: str) -> None:
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(FOLDER)]
    constraints = str(ROOT / "build-constraints.txt")
    names = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
    environment = {**os.environ, **dict.fromkeys(names, constraints)}
    # Only the build of Chainer wants an old setuptools.
    given = environment if package == CHAINER else dict(os.environ)
    code = subprocess.run([*command, package], cwd=ROOT, env=given, check=False).returncode
    if code:
        name = "sdbr" if os.sep in package else package
        raise BundleError(f"pip wheel of {name} failed with exit code {code}")


def sources(root: Path) -> list[Path]:
    """The files of a checkout that git knows or would take.

    Raises
    ------
    BundleError
        If it is no checkout of git's.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise BundleError(" ".join(listed.stderr.split()))
    paths = {root / name for name in listed.stdout.split("\0") if name}
    return sorted(path for path in paths if path.is_symlink() or path.is_file())


def weigh(folder: Path, root: Path) -> str:
    """What the bundle and the sources weigh, in words.

    Raises
    ------
    BundleError
        If that is more than can be brought along.
    """
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    of_sources = sum(path.lstat().st_size for path in sources(root))
    total = sum(files.values()) + of_sources
    lines = [f"{size / 2**20:8.2f} MiB  {name}" for name, size in files.items()]
    lines += [f"{of_sources / 2**20:8.2f} MiB  sources", f"{total / 2**20:8.2f} MiB  in all"]
    if total > MOST:
        raise BundleError(
            f"{total / 2**20:.1f} MiB are more than {MOST >> 20}; " + "; ".join(lines)
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
