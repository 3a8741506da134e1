"""What the package says about itself in several places agrees, and what it refuses, it names."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from sdbr.cli import doctor

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def project():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


@pytest.fixture
def check_python():
    path = ROOT / ".ci" / "check_python.py"
    spec = importlib.util.spec_from_file_location("check_python", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_doctor_asks_for_what_the_package_depends_on(project):
    wanted = {f"{name.lower()}>={a}.{b}" for name, (a, b) in doctor.OLDEST.items()}
    assert set(project["dependencies"]) == wanted | {f"chainer=={doctor.CHAINER}"}


def test_extras_are_those_that_readme_names(project):
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"'\.\[(\w+)\]'", text))
    assert named == {"demo", "test", "bench", "cuda12", "cuda13", "onednn"}
    assert named <= set(project["optional-dependencies"])


def test_no_upper_limit_on_python(project):
    assert project["requires-python"] == ">=3.10"


def test_windows_is_refused_by_name():
    # What setup.py imports is there before: the standard library looks at the platform, too.
    code = (
        "import sys, runpy, setuptools.command.build_ext; sys.platform = 'win32'; "
        "runpy.run_path('setup.py')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "does not support Windows" in done.stderr


def test_make_accepts_this_interpreter_or_names_what_it_lacks(check_python):
    problem = check_python.complaint()
    assert problem is None or "\n  " in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sys.version_info": (3, 9, 18)}, "too old"),
        ({"sys.platform": "win32"}, "WSL"),
        ({"shutil.which": lambda name: None}, "no C compiler"),
        ({"os.path.exists": lambda path: False}, "no C headers"),
    ],
)
def test_make_names_what_an_interpreter_lacks(check_python, monkeypatch, change, words):
    for name, value in change.items():
        monkeypatch.setattr(name, value)
    problem = check_python.complaint()
    monkeypatch.undo()
    assert words in problem


def test_make_names_the_package_that_debian_leaves_out(check_python, monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    assert "apt install python3-venv" in check_python.complaint()
