"""What is advised to install is there to be installed, in a checkout and elsewhere."""

import re
from importlib import metadata
from pathlib import Path

from sdbr.base import advice

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("onednn", "cuda13", "mpi", "demo")


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_checkout_installs_its_own_extra(extra):
    assert advice.install(extra) == f"pip install '.[{extra}]'"


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_wheel_advises_packages_by_name(extra, monkeypatch, tmp_path):
    monkeypatch.setattr(advice, "ROOT", tmp_path)
    words = re.findall(r"'([^']+)'", advice.install(extra))
    assert words and not any(word.startswith(("sdbr", ".")) for word in words)
    text = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(r'"([\w-]+)', re.search(rf"^{extra} = \[(.*)\]$", text, re.M)[1])
    assert [re.match(r"[\w-]+", word)[0] for word in words] == wanted


def test_without_metadata_nothing_is_named_that_may_be_another_package(monkeypatch, tmp_path):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(advice, "ROOT", tmp_path)
    monkeypatch.setattr(metadata, "requires", requires)
    assert advice.install("mpi") == "pip install what the extra mpi names in pyproject.toml"


def test_nothing_says_that_an_index_has_this_package():
    folders = [ROOT / name for name in ("src", "docs", "benchmarks", "examples", "tests", ".ci")]
    files = [path for folder in folders for path in folder.rglob("*")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    command = re.compile(r"pip install (?:-\S+ )*['\"]?" + "sdbr" + r"\b|'sdbr" + r"\[\w+\]'")
    wrong = {
        str(path.relative_to(ROOT)): found[0]
        for path in files
        if path.is_file()
        and (path.suffix in (".py", ".md", ".sh") or path.parent.name == ".ci")
        and (found := command.search(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}
