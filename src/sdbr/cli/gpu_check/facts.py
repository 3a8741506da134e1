"""What this machine has."""

from __future__ import annotations

import importlib.metadata
import platform

from sdbr.base.version import VERSION
from sdbr.cli import doctor
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import TOOLS, find

PACKAGES = ("numpy", "scipy", "chainer", "cupy-cuda12x", "cupy-cuda13x", "torch", "triton", "jax",
            "jaxlib", "pytest", "pytest-xdist", "hypothesis")  # fmt: skip


def measure(job: Job) -> None:
    """Note versions, tools, and what ``doctor`` finds."""
    versions = {"sdbr": VERSION, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    job.note("versions", versions)
    job.note("machine", platform.machine())
    job.note("tools", {name: "missing" if find(name) is None else "found" for name in TOOLS})
    job.measure("doctor", lambda: doctor.report(doctor.examine()).splitlines())
