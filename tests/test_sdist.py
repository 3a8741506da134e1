"""The source distribution is all of the tree, and says of itself what holds without the tree."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools", minversion="77", reason="setuptools is not installed: '.[dev]'")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The files that a commit would have, in a place of their own, and their names."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git: what belongs to the tree is not known")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=900
    )
    names = [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    folder = tmp_path_factory.mktemp("tree")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder, set(names)


def build(folder):
    """The contents of the source distribution, by name, and its metadata."""
    command = [sys.executable, "setup.py", "--quiet", "sdist"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, timeout=900
    )
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()]
        names = {member.name.partition("/")[2] for member in members}
        (info,) = (m for m in members if re.fullmatch(r"[^/]+/PKG-INFO", m.name))
        metadata = email.message_from_bytes(archive.extractfile(info).read())
    os.remove(path)
    return names, metadata


@pytest.fixture(scope="module")
def built(tree):
    return build(tree[0])


def test_every_file_is_in_it(tree, built):
    made = {"PKG-INFO", "setup.cfg"}
    found = {name for name in built[0] if not name.startswith("src/sdbr.egg-info/")} - made
    assert found == tree[1]
    assert any(name.startswith("examples/") for name in found)
    assert any(name.startswith("benchmarks/results/") for name in found)


def targets(metadata):
    return re.findall(r"\]\(([^)]+)\)", metadata.get_payload())


def test_metadata_links_to_nothing_that_is_not_there(built):
    metadata = built[1]
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert "docs/usage.md" in metadata.get_payload()
    found = targets(metadata)
    assert found
    assert [target for target in found if not target.startswith("https://")] == []


def test_files_are_links_where_the_source_has_an_address(tree, tmp_path):
    folder = tmp_path / "addressed"
    shutil.copytree(tree[0], folder, ignore=shutil.ignore_patterns("tests", "benchmarks", "*.egg*"))
    page = folder / "pyproject.toml"
    text = page.read_text().replace(
        "[project.scripts]",
        '[project.urls]\nSource = "https://example.org/files/"\n\n[project.scripts]',
    )
    page.write_text(text)
    _, metadata = build(folder)
    assert "https://example.org/files/docs/usage.md" in targets(metadata)
    assert metadata["Project-URL"] == "Source, https://example.org/files/"
