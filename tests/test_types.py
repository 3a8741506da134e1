"""Type checkers see what the public face is, in an environment where sdbr is installed."""

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import sdbr
from sdbr.base.options import Options

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "harness" / "typed_program.py"
LINES = enumerate(PROGRAM.read_text().splitlines(), 1)
WRONG = {number for number, line in LINES if line.endswith("# wrong")}


def mypy(cache):
    # The cache is new: what mypy has kept of other runs has other settings.
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--no-error-summary"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=900
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.M)
    return {(str(ROOT / path), int(line)): text for path, line, text in found}


def pyright(cache):
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=900
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {(d["file"], d["range"]["start"]["line"] + 1): d["message"] for d in found}


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def errors(request, tmp_path_factory):
    """(file, line) -> what a checker finds in `PROGRAM` and the examples."""
    name = request.param.__name__
    extra = {"mypy": "test", "pyright": "types"}[name]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install '.[{extra}]'")
    return request.param(tmp_path_factory.mktemp(name))


def test_every_mistake_of_the_program_is_found_and_nothing_else(errors):
    found = {line: text for (path, line), text in errors.items() if path == str(PROGRAM)}
    assert WRONG
    assert {line: text for line, text in found.items() if line not in WRONG} == {}
    assert set(found) == WRONG


def test_examples_are_clean(errors):
    assert {where: text for where, text in errors.items() if where[0] != str(PROGRAM)} == {}


def test_the_package_says_that_it_is_typed():
    assert resources.files("sdbr").joinpath("py.typed").is_file()


def test_static_graph_has_the_keywords_of_its_options():
    _, *keywords = inspect.signature(sdbr.static_graph).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in keywords)
    options = inspect.signature(Options).parameters.values()
    assert [str(p) for p in keywords] == [str(p) for p in options]


@pytest.mark.parametrize("name", sdbr.__all__)
def test_public_functions_are_typed(name):
    thing = getattr(sdbr, name)
    if not inspect.isfunction(thing):
        return
    signature = inspect.signature(thing)
    assert signature.return_annotation is not signature.empty
    empty = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert empty == []


@pytest.mark.parametrize(
    ("function", "known"), [(sdbr.static_graph, "max_schedules"), (sdbr.static_code, "func_name")]
)
def test_an_unknown_keyword_is_answered_by_those_that_there_are(function, known):
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an .* 'size'; .*\b{known}"):
        function(size=3)
