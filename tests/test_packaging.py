"""What the package says about itself in several places agrees, and what it refuses, it names."""

import importlib.metadata
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import sdbr
from sdbr import __main__
from sdbr.base import version
from sdbr.cli import doctor

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def project():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


def test_every_installer_gets_the_constraint_of_chainers_build():
    lines = (ROOT / "build-constraints.txt").read_text().splitlines()
    (constraint,) = [line for line in lines if not line.startswith("#")]
    uv = f'[tool.uv]\nbuild-constraint-dependencies = ["{constraint}"]'
    assert uv in (ROOT / "pyproject.toml").read_text()
    readme = (ROOT / "README.md").read_text()
    assert uv in readme and f"`{constraint}`" in readme
    script = (ROOT / ".ci" / "downstream").read_text()
    assert uv in script and f"echo '{constraint}' > " in script


@pytest.mark.parametrize("name", ["3.10", "3.11", "3.12", "3.13", "3.12-numpy1.26"])
def test_each_python_has_exact_versions_of_all_that_is_installed(project, name):
    lines = (ROOT / "locks" / f"python{name}.txt").read_text().splitlines()
    pins = {line.split("==")[0] for line in lines if re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line)}
    assert len(pins) == len(lines)
    extras = project["optional-dependencies"]
    if name.endswith("-numpy1.26"):  # the tests of tests/stacks.py alone
        wanted, inputs = ["test"], "numpy1.26.in"
    else:
        script = (ROOT / ".ci" / "lock").read_text()
        wanted, inputs = re.search("for extra in (.*); do", script)[1].split(), "tools.in"
        assert set(extras) - set(wanted) == {"bench", "cuda13"}
    needs = [*project["dependencies"], *(need for extra in wanted for need in extras[extra])]
    needs += (ROOT / "locks" / inputs).read_text().splitlines()
    names = {re.match(r"[\w.-]+", need)[0].lower() for need in needs if need[0] != "#"}
    assert names <= pins


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
    assert named == {"demo", "examples", "test", "bench", "cuda12", "cuda13", "mpi", "onednn"}
    assert named <= set(project["optional-dependencies"])


def test_the_version_stands_in_one_place(project):
    assert "version" not in project
    found = {sdbr.__version__, importlib.metadata.version("sdbr"), version.VERSION}
    assert found == {version.VERSION}
    literal = f'"{version.VERSION}"'
    places = [path for path in (ROOT / "src").rglob("*.py*") if path.suffix != ".pyc"]
    places += [ROOT / "pyproject.toml", ROOT / "setup.py"]
    where = [path.name for path in places if literal in path.read_text(encoding="utf-8")]
    assert where == ["version.py"]


@pytest.fixture(params=["script", "module"])
def run(request):
    """Starts ``sdbr``, or ``python -m sdbr``."""
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="sdbr")
    assert script.load() is __main__.main
    command = {
        # As pip writes it; the file itself lies where the installer puts such files.
        "script": ["-c", "import sys; from sdbr.__main__ import main; sys.exit(main())"],
        "module": ["-m", "sdbr"],
    }[request.param]

    def start(*arguments):
        words = [sys.executable, *command, *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    return start


def test_version_on_the_command_line(run):
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sdbr {sdbr.__version__}\n", "")


def test_the_bare_command_helps_and_is_an_error(run):
    done, helped = run(), run("--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert done.stderr == helped.stdout
    for name, (_, text) in __main__.COMMANDS.items():
        assert re.search(rf"^  {name} +{text}$", helped.stdout, re.M)


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


@pytest.mark.parametrize(
    ("cflags", "kernels", "modules"),
    [
        ("", {"-O3", "-g0"}, {"-O2", "-g0"}),
        ("-O1 -march=native", {"-O3", "-g0"}, {"-g0"}),
        ("-g -fno-gcse", {"-O3"}, {"-O2"}),
    ],
)
def test_how_much_is_optimized(monkeypatch, cflags, kernels, modules):
    """What the user asks for stands before ours, and the compiler takes the last."""
    setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
    monkeypatch.setattr(setuptools, "setup", lambda **options: None)
    monkeypatch.setenv("CFLAGS", cflags)
    monkeypatch.delenv("SDBR_SANITIZE", raising=False)
    monkeypatch.chdir(ROOT)
    made = runpy.run_path("setup.py")
    for name, wanted in (("KERNEL_FLAGS", kernels), ("MODULE_FLAGS", modules)):
        assert {flag for flag in made[name] if flag.startswith(("-O", "-g"))} == wanted


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
