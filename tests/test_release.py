"""A release is what its tag says, with its section of the changelog."""

import importlib.util
import re
from pathlib import Path

import sdbr

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture
def release():
    spec = importlib.util.spec_from_file_location(
        "release_notes", ROOT / ".ci" / "release_notes.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notes_are_the_section_of_the_version(release):
    section = f"## {sdbr.__version__} - 2030-01-02\n\n- b\n\n"
    text = f"# Changes\n\n## Unreleased\n\n- a\n\n{section}## 0.0.1\n- c\n"
    assert release.notes(f"v{sdbr.__version__}", text) == "- b\n"


@pytest.mark.parametrize(
    ("tag", "head", "words"),
    [
        ("v99.0", "## {} - 2030-01-02\n\n- b\n", "the tag is v99.0"),
        ("v{}", "## Unreleased\n\n- b\n", "no section"),
        ("v{}", "## {} - 2030-01-02\n\n## 0.0.1\n", "says nothing"),
        ("v{}", "## {}1 - 2030-01-02\n\n- b\n", "no section"),
    ],
)
def test_a_release_without_notes_is_refused(release, tag, head, words):
    version = sdbr.__version__
    with pytest.raises(ValueError, match=words):
        release.notes(tag.format(version), "# Changes\n\n" + head.format(version))


def test_changes_stand_in_a_section_for_each_version():
    heads = re.findall(r"^## (.*)$", CHANGELOG, re.M)
    assert heads[0] == "Unreleased" or heads[0].startswith(sdbr.__version__)
    assert len(set(heads)) == len(heads)
    for head in heads:
        assert head == "Unreleased" or re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", head)


def test_wheels_are_built_for_every_platform_that_is_named():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    names = re.findall(r"name: (\w+-\w+), os:", text)
    assert names == ["linux-x86_64", "linux-aarch64", "macos-arm64"]
    assert "attest-build-provenance" in text and ".ci/release_notes.py" in text
