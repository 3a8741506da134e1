"""What is brought along to a machine without a network, and the script that runs there."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is missing: not a source checkout"
)

MAIN = """
import os, sys
print("arguments:", sys.argv[1:])
print("where:", os.getcwd(), sys.modules["sdbr"].__file__)
sys.exit(7)
"""


def wheel(folder: Path, name: str, **modules: str) -> None:
    """A wheel of a package, as small as can be."""
    about = f"{name}-1.0.dist-info"
    files = {
        **{f"{name}/{module}.py": text for module, text in modules.items()},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in files)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as made:
        for path, text in files.items():
            made.writestr(path, text)


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    """The module, with wheels that are none in the place of those of pip."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import gpu_bundle

    def made(python, package):
        if os.sep in package:  # a copy of the sources, and of nothing that was made of them
            found = [path for path in Path(package).rglob("*") if path.is_file()]
            names = {path.relative_to(package).as_posix() for path in found}
            assert Path(package) != ROOT and "src/sdbr/_executor.pyx" in names
            assert not any(name.startswith("build/") or name.endswith(".so") for name in names)
            package = "sdbr"
        (gpu_bundle.FOLDER / f"{package}.whl").write_bytes(b"x" * 1000)

    monkeypatch.setattr(gpu_bundle, "FOLDER", tmp_path / "gpu-bundle")
    monkeypatch.setattr(gpu_bundle, "_wheel", made)
    return gpu_bundle


def test_what_is_made(bundle, capsys):
    (bundle.FOLDER / "old").mkdir(parents=True)
    assert bundle.main(["--python", sys.executable, "--with", "six", "h5py"]) == 0
    names = sorted(path.name for path in bundle.FOLDER.iterdir())
    assert names == sorted(["sdbr.whl", "chainer==7.8.1.whl", "h5py.whl", "run", "six.whl"])
    assert os.access(bundle.FOLDER / "run", os.X_OK)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("MiB")[1].strip() for line in lines[-2:]] == ["sources", "in all"]


def test_what_weighs_too_much_is_refused(bundle, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "MOST", 5 << 20)  # the sources alone are more
    assert bundle.main(["--python", sys.executable]) == 1
    error = capsys.readouterr().err
    assert "MiB are more than 5; " in error and "sources" in error and error.count("\n") == 1


def test_a_python_that_is_not_there(bundle, capsys):
    assert bundle.main(["--python", "python9.99"]) == 1
    assert "gpu-bundle: --python python9.99: no such program" in capsys.readouterr().err


def test_pip_that_fails(bundle, monkeypatch, capsys, tmp_path):
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(bundle, "FOLDER", tmp_path / "gpu-bundle")
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setattr(bundle, "ROOT", root)
    assert bundle.main(["--python", sys.executable]) == 1
    assert "gpu-bundle: fatal: not a git repository" in capsys.readouterr().err
    subprocess.run(
        ["git", "init", "--quiet", str(root)], check=True, timeout=900
    )  # nothing to be built in it
    assert bundle.main(["--python", sys.executable]) == 1
    assert "gpu-bundle: pip wheel of sdbr failed with exit code" in capsys.readouterr().err


def run(folder: Path, *words) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        ["bash", str(folder / "run"), *words],
        cwd=folder.parent, env={**environment, "PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


@pytest.fixture
def brought(bundle, tmp_path):
    """A bundle with packages that only say how they were called."""
    folder = tmp_path / "brought"
    folder.mkdir()
    (folder / "run").write_text(bundle.SCRIPT.read_text())
    wheel(folder, "sdbr", __init__="__version__ = '1.0'", __main__=MAIN)
    wheel(folder, "chainer", __init__="__version__ = '1.0'")
    return folder


def test_the_script_installs_and_runs_without_a_network(brought, tmp_path):
    done = run(brought, "out folder", "--minutes", "8")
    assert done.returncode == 7, done.stderr  # that of gpu-check
    lines = done.stdout.splitlines()
    assert lines[0] == "sdbr 1.0 chainer 1.0"
    assert lines[1] == "arguments: ['gpu-check', '--out', 'out folder', '--minutes', '8']"
    assert lines[2].startswith(f"where: {tmp_path}")
    assert not Path(lines[2].split()[-1]).exists()  # nothing is left behind


def test_the_script_says_what_it_wants(brought):
    done = run(brought)
    assert done.returncode == 2
    assert "build/gpu-bundle/run OUT [ARGUMENTS OF gpu-check]" in done.stderr


def test_the_script_says_that_something_is_missing(brought):
    (brought / "chainer-1.0-py3-none-any.whl").unlink()
    wheel(brought, "chainer", __init__="import no_such_package")
    done = run(brought, "out")
    assert done.returncode == 3
    assert "No module named 'no_such_package'" in done.stderr and "--with it" in done.stderr
    (brought / "chainer-1.0-py3-none-any.whl").write_text("no wheel")
    assert run(brought, "out").returncode == 3
