"""The pages say what is there: their code runs, their names and files exist."""

import importlib
import inspect
import json
import operator
import os
import pathlib
import re
import subprocess
import sys

import sdbr
from sdbr.call.manager import Options
from sdbr.functions import FAMILIES
from sdbr.program import passes

import chainer
import pytest

from benchmarks.page import static_table

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page.name: page.read_text(encoding="utf-8") for page in PAGES}


def blocks(page):
    """The Python blocks of a page, each at its own lines, so that errors show them."""
    for found in re.finditer(r"^```python\n(.*?)^```", TEXT[page], re.M | re.S):
        before = TEXT[page].count("\n", 0, found.start(1))
        yield compile("\n" * before + found[1], str(ROOT / page), "exec")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Pages write files and set nothing for good."""
    monkeypatch.chdir(tmp_path)
    names = chainer.global_config.__dict__.copy()
    yield tmp_path
    assert chainer.global_config.__dict__ == names


def test_example_of_the_readme_runs_when_pasted(elsewhere):
    """Line by line, as the interactive interpreter takes it."""
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT["README.md"], re.M | re.S)
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=block, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths}, timeout=900,
    )  # fmt: skip
    assert "Error" not in done.stderr, done.stderr
    assert "replays 1 (whole steps 1), traces 1" in done.stdout


def test_readme_has_ten_lines_of_its_own():
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT["README.md"], re.M | re.S)
    ours = [line for line in block.splitlines() if "sdbr" in line or "optimizer" in line]
    assert len(ours) <= 10


#: What blocks of a page print or write, besides running through.
PROVES = {"inspection.md": ("whole step: native", "steps.json")}


def with_blocks():
    """Pages of docs/ whose blocks run anywhere; those of gpu.md want a GPU."""
    names = [page.name for page in PAGES[2:] if "```python\n" in TEXT[page.name]]
    return [name for name in names if name != "gpu.md"]


@pytest.mark.parametrize("page", with_blocks())
def test_blocks_of_pages_run(page, elsewhere):
    """In a process of its own, as a user runs it; lines are those of the page."""
    lines = [""] * TEXT[page].count("\n")
    for found in re.finditer(r"^```python\n(.*?)^```", TEXT[page], re.M | re.S):
        before = TEXT[page].count("\n", 0, found.start(1))
        block = found[1].splitlines()
        lines[before : before + len(block)] = block
    script = elsewhere / f"page_{page.replace('.md', '.py')}"  # there is a module `numbers`
    script.write_text("\n".join(lines), encoding="utf-8")
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed, written = PROVES.get(page, ("", "."))
    assert printed in done.stdout
    assert (elsewhere / written).exists()


def test_the_site_has_every_page():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = re.findall(r"^ +- (?:[^:\n]+: )?([\w-]+\.md)$", nav, re.M)
    assert sorted(named) == [page.name for page in PAGES[2:]]


def test_names_have_their_docstrings_on_the_site():
    """`:::` of mkdocstrings, with another heading where the path is not the public one."""
    entries = re.findall(
        r"^::: ([\w.]+)(?:\n    options:\n      heading: ([\w.]+))?", TEXT["api.md"], re.M
    )
    headings = {heading or path for path, heading in entries}
    wanted = {f"sdbr.{name}" for name in sdbr.__all__ if not inspect.ismodule(getattr(sdbr, name))}
    wanted |= {
        f"sdbr.training.{name}" for name in sdbr.training.__all__ if name not in sdbr.__all__
    }
    assert wanted - headings == {"sdbr.__version__"}
    for name in ("__version__", "errors", "training"):
        assert f"`sdbr.{name}`" in TEXT["api.md"]
    for path, heading in entries:
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert found.__doc__, path
        if heading and heading.startswith("sdbr."):
            assert found is operator.attrgetter(heading.removeprefix("sdbr."))(sdbr)


def test_errors_have_their_docstrings_on_the_site():
    for name, found in vars(sdbr.errors).items():
        if inspect.isclass(found) and issubclass(found, (sdbr.SdbrError, sdbr.SdbrWarning)):
            assert re.search(
                rf"^(::: sdbr|      heading: sdbr\.errors)\.{name}$", TEXT["api.md"], re.M
            ), name


def test_what_the_static_graph_of_chainer_takes_is_what_was_measured():
    results = json.loads((ROOT / "benchmarks" / "results" / "cpu.json").read_text())
    assert static_table(results) in TEXT["migration.md"]


def test_options_of_static_graph_are_all_explained():
    wanted = set(inspect.signature(Options.__init__).parameters) - {"self"}
    table = TEXT["options.md"].split("# Options of `static_graph`")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M))
    assert set(rows) == wanted
    for name, parameter in inspect.signature(Options.__init__).parameters.items():
        if name != "self":
            assert rows[name].strip().strip("`") == repr(parameter.default)


def test_public_names_are_all_explained():
    reference = ("api.md", "CONTRIBUTING.md")
    words = "".join(text for page, text in TEXT.items() if page not in reference)
    for name in sdbr.__all__:
        if name not in ("errors", "SdbrError", "__version__"):
            assert re.search(rf"\b{name}\b", words), name


@pytest.mark.parametrize("page", TEXT)
def test_names_exist(page):
    for name in re.findall(r"\bsdbr\.(\w+)(?=\()", TEXT[page]):
        assert hasattr(sdbr, name), name
    paths = r"(?<![\w/.])(?:src|tests|docs|benchmarks)/[\w./-]*\w(?![\w*<])"
    for path in re.findall(paths, TEXT[page]):
        assert (ROOT / path).exists(), path
    folder = ROOT if page in os.listdir(ROOT) else ROOT / "docs"
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT[page]):
        assert (folder / target).exists(), target


def headings(page):
    """What links to the headings of a page end with."""
    text = re.sub(r"^```.*?^```", "", TEXT[page], flags=re.M | re.S)
    words = [re.sub(r"[^\w\- ]", "", h.lower()) for h in re.findall(r"^#+ (.*)$", text, re.M)]
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", TEXT)
def test_links_end_at_headings(page):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", TEXT[page]):
        assert heading in headings(pathlib.Path(target).name or page), heading


def test_variables_of_the_environment_are_read():
    source = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py*") if p.suffix != ".pyc")
    source += (ROOT / "setup.py").read_text() + (ROOT / "Makefile").read_text()
    for name in set(re.findall(r"\bSDBR_[A-Z_]+\b", "".join(TEXT.values()))):
        assert name in source or name.startswith("SDBR_HAVE_"), name


def test_passes_are_named():
    for name in passes.PASSES:
        assert f"`{name}`" in TEXT["troubleshooting.md"], name
        assert f"`{name}`" in TEXT["architecture.md"], name


def test_architecture_names_every_part():
    inside = ROOT / "src" / "sdbr"
    for part in inside.iterdir():
        if part.is_dir() and list(part.glob("*.py")):
            assert f"`src/sdbr/{part.name}/`" in TEXT["architecture.md"], part.name
        elif part.suffix == ".pyx":
            assert f"`src/sdbr/{part.name}`" in TEXT["architecture.md"], part.name


def test_contributing_shows_a_function_row_as_it_is():
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT["CONTRIBUTING.md"], re.M | re.S)
    assert block in (ROOT / "src" / "sdbr" / "functions" / "activation.py").read_text()
    assert "activation" in FAMILIES
    for name in ("scalar", "array", "state", "function"):
        assert f"node.{name}" in TEXT["CONTRIBUTING.md"]
