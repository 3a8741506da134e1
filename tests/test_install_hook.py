"""``sdbr install-hook``: Chainer is imported first, and works; and the hook goes again."""

import subprocess
import sys

from sdbr.cli import install_hook

import pytest

BEGUN = "import site, sys; site.addsitedir({folder!r}); "
CHAINER = (
    "import chainer; from chainer.functions import relu; import importlib; "
    "assert chainer is sys.modules['chainer'] is importlib.import_module('chainer'); "
    "assert chainer.__spec__.name == 'chainer' and chainer.__spec__.origin == chainer.__file__; "
    "print('sdbr' in sys.modules, relu.__module__, len(sys.meta_path))"
)


def python(folder, code):
    command = [sys.executable, "-c", BEGUN.format(folder=str(folder)) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def folder(tmp_path, capsys):
    assert install_hook.main([], str(tmp_path)) == 0
    assert str(tmp_path) in capsys.readouterr().out
    return tmp_path


def test_chainer_is_imported_first(folder):
    done = python(folder, CHAINER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True chainer.functions.activation.relu ")


@pytest.mark.parametrize("first", ["import chainer.links as L", "import sdbr, chainer"])
def test_other_ways_to_import_it(folder, first):
    done = python(folder, f"{first}; print('sdbr' in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_nothing_is_imported_before(folder):
    done = python(folder, "print('numpy' in sys.modules, 'sdbr' in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "False False\n"), done.stderr


def test_without_the_hook_it_fails_on_this_numpy(tmp_path):
    """Where it does not, nobody needs the hook."""
    done = python(tmp_path, CHAINER)
    assert done.returncode == 1


def test_sdbr_is_gone(folder):
    """Chainer is then imported as without the hook."""
    done = python(folder, "sys.modules['sdbr'] = None; del sys.modules['sdbr']; " + GONE)
    assert done.returncode == 1
    assert "No module named 'sdbr'" not in done.stderr.splitlines()[-1]


GONE = (
    "import importlib.abc\n"
    "class Gone(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name == 'sdbr':\n"
    "            raise ModuleNotFoundError(\"No module named 'sdbr'\", name='sdbr')\n"
    "sys.meta_path.insert(0, Gone())\n"
    "import chainer\n"
)


def test_removed(folder, capsys):
    assert install_hook.main(["--remove"], str(folder)) == 0
    assert list(folder.iterdir()) == []
    assert "took the hook out of" in capsys.readouterr().out
    assert install_hook.main(["--remove"], str(folder)) == 0
    assert capsys.readouterr().out == f"there is no hook in {folder}\n"


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    assert install_hook.main([], str(tmp_path / "missing")) == 1
    assert "missing" in capsys.readouterr().err
