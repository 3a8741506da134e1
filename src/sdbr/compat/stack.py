"""What Chainer runs on here: the versions that decide which fixes are needed."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import warnings
from functools import cached_property
from importlib import metadata
from pathlib import Path

from sdbr.base.settings import variable

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


def version_of(name: str) -> str | None:
    """Return the version of a package that may be imported already; its file is read otherwise.

    None without the package; an empty text where none is found.
    """
    if sys.modules.get(name) is not None:
        return getattr(sys.modules[name], "__version__", "")
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("_version.py")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    match = re.search(r"""^__version__\s*=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
    return match[1] if match else ""


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
    def has_mpi4py(self) -> bool:
        return is_importable("mpi4py")

    @cached_property
    def has_chainerx(self) -> bool:
        import chainerx

        return bool(chainerx.is_available())

    @cached_property
    def has_cupy(self) -> bool:
        return is_importable("cupy")

    @cached_property
    def cupy(self) -> Version | None:
        text = version_of("cupy")
        return None if text is None else parse_version(text)

    @cached_property
    def has_cublas(self) -> bool:
        """Whether CuPy finds cuBLAS, without which Chainer does not take it.

        CuPy is imported for it; before Chainer is, that would hide filters that it sets.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                from cupy.cuda import cublas  # noqa: F401  (made when asked for)
            except Exception:
                return False
        return True

    @cached_property
    def no_gpu(self) -> str | None:
        """Why there is no GPU; None where there may be one.

        Nothing of CUDA is begun for it: a process that is forked afterwards could not use it.
        """
        shown = variable("CUDA_VISIBLE_DEVICES")
        if shown is not None and shown.strip() in ("", "-1"):
            return "CUDA_VISIBLE_DEVICES hides every GPU"
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            return f"there is no CUDA driver ({error})"
        return None

    def __str__(self) -> str:
        names = ("python", "numpy", "scipy", "h5py", "protobuf", "setuptools", "cupy")
        found = ((name, getattr(self, name)) for name in names)
        return ", ".join(
            f"{name} {'.'.join(map(str, version))}" if version else f"no {name}"
            for name, version in found
        )
