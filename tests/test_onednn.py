"""oneDNN: finding the library, and what is said where there is none."""

import ctypes
import os
import subprocess
import sys

from sdbr.backends.cpu import _kernels
from sdbr.backends.cpu.onednn import library
from sdbr.cli import doctor

import pytest


@pytest.fixture
def lookup(monkeypatch):
    """`library.find` as in a new process, with a library where the test says."""

    def find(path):
        monkeypatch.setenv("SDBR_ONEDNN_LIBRARY", str(path))
        return library.find.__wrapped__()

    return find


def test_a_file_that_is_not_there(lookup, tmp_path):
    found, text = lookup(tmp_path / "libdnnl.so.3")
    assert found is None
    assert "libdnnl.so.3 cannot be loaded" in text


def test_a_file_that_is_no_library(lookup, tmp_path):
    (tmp_path / "libdnnl.so.3").write_text("not a library")
    found, text = lookup(tmp_path / "libdnnl.so.3")
    assert found is None
    assert "cannot be loaded" in text


def test_another_library(lookup):
    found, text = lookup(_kernels.__file__)
    assert found is None
    assert text.endswith("has no function dnnl_version")


@pytest.mark.parametrize(
    ("version", "runtime", "why"),
    [
        ((2, 7, 0), 2, "is oneDNN 2.7.0; 3.2 or later is needed"),
        ((3, 1, 9), 2, "is oneDNN 3.1.9; 3.2 or later is needed"),
        ((4, 0, 0), 2, "is oneDNN 4.0.0; 3.2 or later is needed"),
        ((3, 2, 0), 512, "is built for a run time that is not used here (number 512"),
    ],
)
def test_builds_that_cannot_be_used(lookup, monkeypatch, version, runtime, why):
    def function(self, name, argtypes=(), restype=ctypes.c_int):
        contents = library._Version(*version, None, runtime)
        return lambda: type("Pointer", (), {"contents": contents})

    monkeypatch.setattr(library.OneDNN, "_function", function)
    found, text = lookup(_kernels.__file__)
    assert found is None
    assert why in text


def test_none_at_all(monkeypatch):
    monkeypatch.setattr(library, "candidates", lambda: ["libdnnl-of-nobody.so.3"])
    found, text = library.find.__wrapped__()
    assert found is None
    assert text.startswith("not found (pip install")


def test_doctor_names_a_broken_one(monkeypatch):
    monkeypatch.setattr(library, "find", lambda: (None, "/x/libdnnl.so.3 cannot be loaded"))
    section = {finding.name: finding for finding in doctor.examine()["oneDNN"]}
    assert "onednn-cpu-gomp" in section["library"].mend
    monkeypatch.setattr(library, "find", lambda: (None, "not found"))
    assert not any(finding.mend for finding in doctor.examine()["oneDNN"])


def test_the_environment_comes_before_the_system(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdnnl.so.3").write_text("")
    monkeypatch.delenv("SDBR_ONEDNN_LIBRARY", raising=False)
    monkeypatch.setattr(library.sys, "prefix", str(tmp_path))
    found = library.candidates()
    assert found[0] == str(tmp_path / "lib" / "libdnnl.so.3")
    assert found[-2:] == list(library.NAMES)


@pytest.mark.parametrize("wish", [None, "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_the_environment_is_changed_while_the_library_loads_at_most(lookup, monkeypatch, wish):
    for name in ("OMP_WAIT_POLICY", *library._WAITS):
        monkeypatch.delenv(name, raising=False)
    if wish:
        monkeypatch.setenv(wish, "active")
    before, seen = dict(os.environ), []

    def load(path):
        seen.append({name: os.environ.get(name) for name in library._WAITS})
        raise OSError("no")

    monkeypatch.setattr(library.ctypes, "CDLL", load)
    assert lookup("libdnnl.so.3")[0] is None
    assert seen[0]["KMP_BLOCKTIME"] == (None if wish else "0")
    del os.environ["SDBR_ONEDNN_LIBRARY"]
    assert dict(os.environ) == before


def test_nothing_is_loaded_where_it_is_off(tmp_path):
    code = (
        "import sdbr, chainer, numpy as np, chainer.functions as F\n"
        "f = sdbr.static_graph(lambda x, w: F.convolution_2d(x, w))\n"
        "x = np.ones((1, 2, 5, 5), 'f')\n"
        "[f(x, x) for _ in range(3)]\n"
        "assert 'libdnnl' not in open('/proc/self/maps').read()\n"
    )
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc")
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ}, timeout=300)
