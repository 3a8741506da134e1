"""Which machine the figures are from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any


def describe(device: str = "cpu") -> dict[str, str]:
    """Return processor, system and compiler, and the GPU where figures are of one.

    Nothing that tells one user from another.
    """
    found = {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "compiler": compiler(),
    }
    return {**found, "gpu": gpu()} if device == "cuda" else found


def gpu() -> str:
    """Return what the driver says of the first GPU, or why there is none."""
    from sdbr.base.errors import BackendError
    from sdbr.devices.driver import Device, Driver

    try:
        device = Device(Driver())
    except BackendError as error:
        return f"none: {error}"
    version = ".".join(map(str, device.driver.version))
    return f"{device.name}, {device.architecture}, up to CUDA {version}"


def save(path: str, **results: Any) -> None:
    """Write results as JSON, with the machine that they are of."""
    with open(path, "w") as file:
        json.dump({"machine": describe(), **results}, file, indent=1)
        file.write("\n")


def processor() -> str:
    """Return the processor's name as the system gives it, with its vector units."""
    name = platform.processor() or platform.machine()
    try:
        if sys.platform == "darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
        else:
            fields = _cpuinfo()
            name = fields.get("model name", name)
            flags = fields.get("flags", "").split()
            units = [unit for unit in ("avx2", "fma", "avx512f") if unit in flags]
            name = f"{name} ({', '.join(units)})" if units else name
    except (OSError, subprocess.CalledProcessError):
        pass
    return name


def _cpuinfo() -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def compiler() -> str:
    """Return the first line that the C compiler says about itself."""
    command = [*os.environ.get("CC", "cc").split(), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return done.stdout.splitlines()[0]


def load() -> str:
    """Return the load average, or an empty string where there is none."""
    try:
        return "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg())
    except OSError:
        return ""


def last_cores(n: int) -> tuple[int, ...]:
    """Return the cores to stay on: the last `n` that this process may use; none is no limit."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0))[-n:])
    return ()


def stay_on_cores() -> None:
    """Keep this process on the cores that the driver names; as many as it has threads.

    All workers share them: only one is busy at a time, and no hidden helper thread gains.
    """
    named = os.environ.get("SDBR_BENCH_CPU")
    if named and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in named.split(",")})
