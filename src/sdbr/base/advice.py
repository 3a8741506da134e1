"""Commands that install what is missing, and work where they are given."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

#: The folder of the checkout, if this is one.
ROOT = Path(__file__).resolve().parents[3]


def install(extra: str) -> str:
    """The command for what an extra of this package names.

    In a checkout it is the extra itself. Elsewhere it is the packages, one by one: the index that
    pip asks has them, and need not have this package.

    Parameters
    ----------
    extra : str
        As in ``pyproject.toml``.
    """
    if (ROOT / "pyproject.toml").is_file() and (ROOT / "src" / "sdbr").is_dir():
        return f"pip install '.[{extra}]'"
    packages = packages_of(extra)
    if not packages:  # not installed: found on the import path
        return f"pip install what the extra {extra} names in pyproject.toml"
    return "pip install " + " ".join(f"'{package}'" for package in packages)


def packages_of(extra: str) -> list[str]:
    """What an extra of the installed package names, with versions."""
    try:
        lines = metadata.requires("sdbr") or []
    except metadata.PackageNotFoundError:
        lines = []
    ours = re.compile(rf"\bextra == ['\"]{extra}['\"]")
    return [line.partition(";")[0].strip() for line in lines if ours.search(line)]
