"""What Chainer runs on here: the versions that decide which fixes are needed."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cached_property
from importlib import metadata

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """Return the leading numbers of a version: ``'2.4.0rc1'`` gives ``(2, 4, 0)``."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def installed_version(distribution: str) -> Version | None:
    """Return the version of an installed distribution, or None if it is not installed."""
    try:
        return parse_version(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return None


def is_importable(name: str) -> bool:
    """Tell whether a top-level module can be found, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # in sys.modules, without a spec: somebody's stand-in
        return True


class Stack:
    """The interpreter and the packages that Chainer meets; each looked up when first asked for."""

    @cached_property
    def python(self) -> Version:
        return tuple(sys.version_info[:3])

    @cached_property
    def numpy(self) -> Version:
        import numpy

        return parse_version(numpy.__version__)

    @cached_property
    def scipy(self) -> Version | None:
        return installed_version("scipy")

    @cached_property
    def h5py(self) -> Version | None:
        return installed_version("h5py")

    @cached_property
    def protobuf(self) -> Version | None:
        return installed_version("protobuf")

    @cached_property
    def setuptools(self) -> Version | None:
        return installed_version("setuptools")

    @cached_property
    def has_pkg_resources(self) -> bool:
        return is_importable("pkg_resources")

    @cached_property
    def has_cupy(self) -> bool:
        return is_importable("cupy")

    def __str__(self) -> str:
        names = ("python", "numpy", "scipy", "h5py", "protobuf", "setuptools")
        found = ((name, getattr(self, name)) for name in names)
        return ", ".join(
            f"{name} {'.'.join(map(str, version))}" if version else f"no {name}"
            for name, version in found
        )
