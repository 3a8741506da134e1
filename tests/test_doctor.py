"""``python -m sdbr doctor``: the report, the exit code, and that nothing makes it fail."""

import os
import subprocess
import sys
import types

import sdbr  # noqa: F401
from sdbr.base.errors import BackendError
from sdbr.base.settings import SETTINGS
from sdbr.cli import doctor
from sdbr.cli.doctor import Finding
from sdbr.devices import cublaslt, driver
from sdbr.devices import nvrtc as compiler

import numpy
import pytest
import scipy

from tests.harness import device


def lines_of(section):
    return {finding.name: finding for finding in doctor.examine()[section]}


@pytest.fixture
def executor(monkeypatch):
    """A stand-in for the compiled module."""
    module = types.ModuleType(doctor.KERNELS)
    module.build_info = lambda: {"flags": "-O3", "levels": ["baseline", "avx2"]}
    module.simd_level = lambda: "avx2"
    monkeypatch.setitem(sys.modules, doctor.KERNELS, module)
    return module


def test_report_is_aligned_and_ends_with_what_to_mend():
    text = doctor.report(
        {
            "One": [Finding("a", "1"), Finding("longer", "2", "turn it off")],
            "Two": [Finding("b", "3")],
        }
    )
    assert text.splitlines() == [
        "One",
        "  a       1",
        "! longer  2",
        "",
        "Two",
        "  b       3",
        "",
        "To mend (1):",
        "! longer: 2",
        "    turn it off",
    ]


def test_report_without_a_mend_says_so():
    assert doctor.report({"One": [Finding("a", "1")]}).splitlines()[-1] == "Nothing is off."


@pytest.mark.parametrize(("mend", "code"), [(None, 0), ("do this", 1)])
def test_exit_code(monkeypatch, capsys, mend, code):
    monkeypatch.setattr(doctor, "examine", lambda: {"One": [Finding("a", "1", mend)]})
    assert doctor.main([]) == code
    assert capsys.readouterr().out.startswith("One")


def test_versions_are_those_in_use():
    found = lines_of("Versions")
    assert found["NumPy"] == Finding("NumPy", numpy.__version__)
    assert found["SciPy"] == Finding("SciPy", scipy.__version__)
    assert found["Chainer"] == Finding("Chainer", "7.8.1")
    assert found["Python"].mend is None


def test_an_old_numpy_gets_a_mend(monkeypatch):
    monkeypatch.setattr(numpy, "__version__", "1.25.2")
    assert lines_of("Versions")["NumPy"].mend == "pip install 'numpy>=1.26'"


def test_another_chainer_gets_a_mend(monkeypatch):
    import chainer

    monkeypatch.setattr(chainer, "__version__", "7.8.0")
    assert "chainer==7.8.1" in lines_of("Versions")["Chainer"].mend


def test_variables_that_are_settings_and_others(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SDBR_")]:
        monkeypatch.delenv(name)
    entries = {setting.entry for setting in SETTINGS if setting.what} - {None}
    assert set(lines_of("Settings")) == entries and "sdbr_audit" in entries
    monkeypatch.setenv("SDBR_AUDIT", "off")
    monkeypatch.setenv("SDBR_BAKEND", "numpy")
    monkeypatch.setenv("SDBR_X", "1")
    monkeypatch.setenv("SDBR_SIMD", "sse")
    found = lines_of("Settings")
    assert (found["SDBR_AUDIT"].value, found["SDBR_AUDIT"].mend) == ("'off'", None)
    assert found["SDBR_BAKEND"].mend == "no setting; did you mean SDBR_BACKEND?"
    assert found["SDBR_SIMD"].mend == (
        "SDBR_SIMD: expected one of baseline, avx2, avx512, got 'sse'"
    )
    assert found["SDBR_X"].mend.startswith("no setting; there are SDBR_AUDIT, SDBR_BACKEND, ")


def test_native_code_names_flags_and_simd_level(executor):
    assert lines_of("Native code") == {
        "flags": Finding("flags", "-O3"),
        "levels": Finding("levels", "baseline avx2"),
        "SIMD in use": Finding("SIMD in use", "avx2"),
    }


def test_missing_extension_module_gets_a_mend(monkeypatch):
    monkeypatch.setitem(sys.modules, doctor.KERNELS, None)
    found = lines_of("Native code")[doctor.KERNELS]
    assert found.value == "not built"
    assert "build_ext --inplace" in found.mend


def test_another_extension_module_is_missing(monkeypatch, executor):
    monkeypatch.setitem(sys.modules, "sdbr.training", None)
    found = lines_of("Native code")["sdbr.training"]
    assert found.value.startswith("cannot be imported: ")
    assert "build_ext --inplace" in found.mend


def asked(*command, **variables):
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=300,
    )


def test_what_cannot_be_imported_can_be_asked_about():
    """The package refuses to be imported; the doctor says why."""
    wrong = "SDBR_SIMD: expected one of baseline, avx2, avx512, got 'sse'"
    done = asked("-m", "sdbr", "doctor", SDBR_SIMD="sse")
    assert done.returncode == 1
    assert wrong in done.stdout and "Traceback" not in done.stderr
    for command in (["-c", "import sdbr"], ["-m", "sdbr", "bench"], ["-m", "sdbr"]):
        done = asked(*command, SDBR_SIMD="sse")
        assert done.returncode == 1
        assert wrong in done.stderr


def test_each_blas_library_with_its_threads():
    found = lines_of("BLAS")
    libraries = [name for name in found if name != "usable cores"]
    assert libraries
    if "BLAS" not in libraries:  # where threadpoolctl sees one, conftest.py holds it at one thread
        assert all(", 1 thread," in found[name].value for name in libraries)


def test_more_blas_threads_than_cores_gets_a_mend(monkeypatch):
    pool = {
        "user_api": "blas",
        "internal_api": "openblas",
        "num_threads": 64,
        "version": "0.3",
        "filepath": "/lib/scipy.libs/libopenblas.so",
    }
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: [pool])
    monkeypatch.setattr(doctor, "available_cores", lambda: 2)
    found = lines_of("BLAS")["SciPy's"]
    assert found.value == "openblas 0.3, 64 threads, libopenblas.so"
    assert "OPENBLAS_NUM_THREADS=2" in found.mend


@pytest.mark.parametrize(
    ("path", "user"),
    [
        ("/e/site-packages/numpy.libs/libscipy_openblas64_.so", "NumPy's"),
        ("/e/site-packages/scipy.libs/libscipy_openblas.so", "SciPy's"),
        ("/e/site-packages/scipy/.dylibs/libscipy_openblas.dylib", "SciPy's"),
        ("/home/numpy/env/lib/libopenblas.so.0", "shared"),
    ],
)
def test_blas_user(path, user):
    assert doctor.blas_user(path) == user


def test_without_cupy_the_report_is_cpu_only(monkeypatch):
    monkeypatch.setattr(doctor, "cupy_packages", list)
    found = lines_of("GPU")
    assert list(found)[-1] == "CuPy"
    assert found["CuPy"].value.startswith("not installed, CPU only")
    assert found["CuPy"].mend is None


def test_driver_and_devices(monkeypatch):
    monkeypatch.setattr(driver.Driver.__init__, "__defaults__", ("nothing.so",))
    assert lines_of("GPU")["CUDA driver"].value.startswith("none: nothing.so: cannot open")
    path = device.device().driver._library._name
    monkeypatch.setattr(driver.Driver.__init__, "__defaults__", (path,))
    found = lines_of("GPU")
    assert found["CUDA driver"].value == "up to CUDA 13.0"
    assert found["device 0"].value == "fake 0, sm_90"


def test_without_a_compiler_for_gpus(monkeypatch):
    def missing():
        raise BackendError("NVRTC was not found: pip install it; others: none")

    monkeypatch.setattr(compiler, "nvrtc", missing)
    found = lines_of("GPU")["NVRTC"]
    assert (found.value, found.mend) == ("none: NVRTC was not found: pip install it", None)


def test_the_library_for_large_products(monkeypatch):
    def missing():
        raise BackendError("cuBLASLt was not found: pip install it; others: none")

    monkeypatch.setattr(cublaslt, "cublaslt", missing)
    found = lines_of("GPU")["cuBLASLt"]
    assert found.value == "none, own kernels: cuBLASLt was not found: pip install it"
    assert found.mend is None
    monkeypatch.setattr(cublaslt, "cublaslt", device.cublaslt)
    found = lines_of("GPU")["cuBLASLt"]
    assert found.value == f"13.1.0, {device.cublaslt().path}"


def test_two_cupy_packages_get_a_mend(monkeypatch):
    monkeypatch.setattr(doctor, "cupy_packages", lambda: ["cupy 14.0", "cupy-cuda12x 14.0"])
    monkeypatch.setattr(doctor, "cuda_available", lambda: (False, "CuPy finds none"))
    assert "keep one" in lines_of("GPU")["CuPy"].mend


@pytest.mark.parametrize(("driver", "off"), [(True, True), (False, False)])
def test_cupy_that_raises_is_reported(monkeypatch, driver, off):
    """CuPy 13 raises where 14 answers; only beside a driver is that something to mend."""

    def is_available():
        raise RuntimeError("cudaErrorInsufficientDriver: too old\nmore")

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(doctor, "cupy_packages", lambda: ["cupy-cuda12x 13.6"])
    monkeypatch.setattr(doctor.os.path, "exists", lambda path: driver and path == doctor.DRIVER)
    found = lines_of("GPU")["CUDA"]
    text = "no usable GPU (RuntimeError: cudaErrorInsufficientDriver: too old)"
    assert found.value == text
    assert bool(found.mend) is off


def test_gpu_with_its_versions(monkeypatch):
    runtime = types.SimpleNamespace(
        runtimeGetVersion=lambda: 12090,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda index: {"name": b"Test Card"},
    )
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(is_available=lambda: True, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(doctor, "cupy_packages", lambda: ["cupy-cuda12x 13.6"])
    monkeypatch.setattr("chainer.backends.cuda.available", False)
    found = lines_of("GPU")
    assert found["CUDA runtime"].value == "12.9"
    assert found["GPU 0"].value == "Test Card"
    assert "libcublas" in found["Chainer sees it"].mend
    assert found["cuRAND"].value.startswith("none: ")
    assert "'.[cuda13]'" in found["cuRAND"].mend
    assert found["cuDNN"].mend is None


def test_libraries_that_cupy_finds(monkeypatch):
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(driverGetVersion=lambda: 13010))
    for name, number in (("curand", 10400), ("cudnn", 8907)):
        module = types.ModuleType(f"cupy_backends.cuda.libs.{name}")
        module.getVersion = lambda number=number: number
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert list(doctor.libraries_of_cupy(cupy)) == [
        Finding("driver, as CuPy sees it", "up to CUDA 13.1"),
        Finding("cuRAND", "10400"),
        Finding("cuDNN", "8907"),
    ]


def test_mpi_with_its_ranks():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install '.[mpi]'")
    found = lines_of("Several processes")
    assert found["rank"].value == "0 of 1"
    assert found["thread level"].value in ("single", "funneled", "serialized", "multiple")
    assert "MPI" in found["MPI library"].value and found["MPI library"].mend is None


def test_without_mpi4py(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: None)
    (finding,) = lines_of("Several processes").values()
    assert "one process" in finding.value and finding.mend is None


def test_mpi4py_without_a_library(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: "4.1")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    found = lines_of("Several processes")
    assert found["MPI library"].value.startswith("cannot be loaded: ")
    assert found["MPI library"].mend is not None and "rank" not in found


def test_fixes_come_from_the_compatibility_layer(monkeypatch):
    applied = [("np.sctypes", "gone in NumPy 2"), ("resize_images", "7.8.1", "numpy.float is gone")]
    monkeypatch.setattr("sdbr.compat.applied_fixes", lambda: applied)
    found = lines_of("Fixes that Chainer needed")
    assert found["np.sctypes"].value == "gone in NumPy 2"
    assert found["resize_images"].value == "7.8.1; numpy.float is gone"


def test_a_section_that_fails_does_not_hide_the_others(monkeypatch):
    def broken():
        raise OSError("no such thing")

    monkeypatch.setattr("sdbr.compat.applied_fixes", broken)
    sections = doctor.examine()
    [finding] = sections["Fixes that Chainer needed"]
    assert finding.value == "cannot be examined: OSError: no such thing"
    assert finding.mend
    assert len(sections["Versions"]) > 3


def test_nothing_is_off_in_a_built_environment():
    command = [sys.executable, "-m", "sdbr", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("Nothing is off.")
    assert done.stderr == ""


def test_unknown_command_names_the_known_ones():
    command = [sys.executable, "-m", "sdbr", "cure"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "doctor" in done.stderr
    assert "'cure'" in done.stderr
