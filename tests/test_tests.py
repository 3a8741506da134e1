"""What all test files keep to: where tolerances are, what is imported, what is listed."""

from __future__ import annotations

import argparse
import ast
import functools
import os
import pathlib
import re
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

from tests import conftest
from tests.conftest import from_one, from_zero, pytest_collection_modifyitems

TESTS = pathlib.Path(__file__).parent
#: Programs of users, which know nothing of the tests; and what is a script, or goes into one.
APART = (
    TESTS / "leaks" / "programs",
    TESTS / "compat" / "compat_probes.py",
    TESTS / "property" / "runner.py",
)
FILES = [
    path
    for path in sorted(TESTS.rglob("*.py"))
    if not any(part in (path, *path.parents) for part in APART)
]
#: Where tolerances are positional: the first argument that may be one.
COMPARISONS = {
    "allclose": 2,
    "approx": 1,
    "assert_all_near": 2,
    "assert_allclose": 2,
    "assert_close": 2,
    "assert_near": 2,
    "close": 2,
    "isclose": 2,
    "near": 2,
}
KEYWORDS = {"atol", "rel", "rtol", "tolerance"}


@functools.cache
def _tree(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _small_numbers(node: ast.AST) -> Iterator[int]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, float) and part.value:
            yield part.lineno


def _tolerances(tree: ast.AST) -> Iterator[int]:
    """Lines of numbers that say how far apart others may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            for argument in node.args[COMPARISONS.get(name, len(node.args)) :]:
                yield from _small_numbers(argument)
            for keyword in node.keywords:
                if keyword.arg in KEYWORDS:
                    yield from _small_numbers(keyword.value)
        elif isinstance(node, ast.Assign):
            names = [t.id for t in ast.walk(node) if isinstance(t, ast.Name)]
            if any("tolerance" in name.lower() for name in names):
                yield from _small_numbers(node.value)
        elif isinstance(node, ast.arguments):
            pairs = list(zip(node.args[::-1], node.defaults[::-1], strict=False))
            pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            for argument, default in pairs:
                if argument.arg in KEYWORDS and default is not None:
                    yield from _small_numbers(default)


def test_tolerances_have_one_place():
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in FILES
        if path.name != "tolerances.py"
        for line in _tolerances(_tree(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "np.testing.assert_allclose(a, b, 1e-5)",
        "assert_near(a, b, 1e-5 * n, 'output')",
        "f(a, rtol=1e-5)",
        "tolerance = {'f': 1e-5}[dtype]",
        "def f(a, tolerance=1e-5): pass",
        "def f(*, rtol=1e-5): pass",
    ],
)
def test_numbers_of_tolerances_are_found(code):
    assert list(_tolerances(ast.parse(code))) == [1]
    assert not list(_tolerances(ast.parse(code.replace("1e-5", "RESULTS"))))


def test_no_test_file_imports_from_another():
    """What two of them need is in a module that holds no tests."""
    modules = {path.stem for path in FILES if path.name.startswith("test_")}
    found = []
    for path in FILES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [part for alias in node.names for part in alias.name.split(".")]
            else:
                continue
            found += [f"{path.relative_to(TESTS)}:{node.lineno}" for n in names if n in modules]
    assert found == []


def test_the_contract_names_every_file_of_the_semantics():
    page = (TESTS.parent / "docs" / "contract.md").read_text(encoding="utf-8")
    missing = [
        path.name
        for path in sorted((TESTS / "semantics").glob("test_*.py"))
        if f"`tests/semantics/{path.name}`" not in page
    ]
    assert missing == []


class _Item:
    def __init__(self, name: str, alone: bool = False):
        self.nodeid = name
        self.marks = {"alone": alone}

    def get_closest_marker(self, name):
        return self.marks[name] or None


def _chosen(every_item, **given):
    """What is left under these options, and what is left out."""
    items, left_out = list(every_item), []
    options = {"sample": 1, "alone": None, "at_most": None, "seconds": None, **given}
    config = types.SimpleNamespace(
        getoption=options.__getitem__,
        hook=types.SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)),
    )
    pytest_collection_modifyitems(config, items)
    return items, left_out


@pytest.mark.parametrize("every", [1, 4])
def test_a_sample_leaves_out_cases_of_long_tables_alone(every):
    short = [_Item(f"{k}[{i}]") for k in range(20) for i in range(conftest.LONG - 1)]
    every_item = [*short, *map(_Item, "abc"), *(_Item(f"long[{i}]") for i in range(200))]
    items, left_out = _chosen(every_item, sample=every)
    assert all(item.nodeid.startswith("long") for item in left_out)
    assert sorted(x.nodeid for x in items + left_out) == sorted(x.nodeid for x in every_item)
    assert len(left_out) == 0 if every == 1 else 120 < len(left_out) < 180


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("count", [1, 3, 4, 23])
def test_all_shares_of_a_list_together_are_the_list(count, every):
    names = [str(k) for k in range(count)]
    shares = [conftest.share_of(names, every, number) for number in range(2 * every)]
    assert set().union(*shares) == set(names) and all(shares)
    assert all(len(share) <= -(-count // every) for share in shares)


def test_what_is_alone_is_in_one_part_and_the_rest_in_the_other():
    every_item = [_Item(f"a[{i}]", alone=i % 3 == 0) for i in range(30)]
    together, left_out = _chosen(every_item, alone="leave-out")
    assert left_out == every_item[::3] == _chosen(every_item, alone="only")[0]
    assert sorted(together + left_out, key=every_item.index) == every_item
    assert _chosen(every_item) == (every_item, [])


DRAWS = """
import random
import numpy as np
import pytest

AT_IMPORT = np.random.rand()


@pytest.fixture(scope="module")
def shared():
    return np.random.rand()


@pytest.fixture
def own():
    return np.random.rand()


@pytest.mark.parametrize("i", range(3))
def test_draws(own, shared, i):
    with open("drawn", "a") as file:
        print(i, AT_IMPORT, shared, own, np.random.rand(), random.random(), file=file)
"""


def test_draws_follow_from_the_seed_and_the_name_and_from_nothing_else(tmp_path):
    """Not from which tests ran before, in which process, nor from who asked first for a fixture."""
    (tmp_path / "test_draws.py").write_text(DRAWS)
    (tmp_path / "pytest.ini").write_text("[pytest]")

    def drawn(*options):
        (tmp_path / "drawn").unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "tests.conftest", *options]
        environment = os.environ | {"PYTHONPATH": str(TESTS.parent)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted((tmp_path / "drawn").read_text().splitlines())

    whole = drawn()
    assert len(whole) == 3
    numbers = [line.split()[1:] for line in whole]
    assert len({tuple(line[:2]) for line in numbers}) == 1  # at import, and shared
    assert len({x for line in numbers for x in line}) == 2 + 3 * 3
    assert drawn("-k", "2 or 1") == whole[1:] and drawn("-k", "2") == whole[2:]
    assert drawn("-n", "2") == whole
    other = drawn("--seed", "1")
    assert not {x for line in other for x in line.split()[1:]} & {x for y in numbers for x in y}


@pytest.mark.parametrize("number, text", [(from_zero, "x"), (from_zero, "-1"), (from_one, "0")])
def test_options_that_are_no_such_numbers_are_refused(number, text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"a whole number from [01] on.* '{text}'"):
        number(text)


def test_some_tests_are_from_all_over(monkeypatch):
    monkeypatch.setattr(conftest, "tree", str)  # the same tests each time
    every_item = [_Item(f"{part}[{i}]") for part in "ab" for i in range(200)]
    items, left_out = _chosen(every_item, at_most=40)
    assert len(items) == 40 and len(left_out) == 360
    assert items == [x for x in every_item if x in items]
    assert 8 < sum(x.nodeid[0] == "a" for x in items) < 32
    assert _chosen(every_item, at_most=500) == (every_item, [])


def test_what_runs_until_a_time_is_in_any_order_and_then_skipped(tmp_path):
    every_item = [_Item(f"a[{i}]") for i in range(200)]
    items, left_out = _chosen(every_item, seconds=5.0)
    assert left_out == [] and set(items) == set(every_item)
    assert items != every_item and items == _chosen(every_item, seconds=9.0)[0]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--seconds", "0"]
    done = subprocess.run(
        [*command, "tests/test_layout.py", "-k", "circle"],
        cwd=TESTS.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 skipped" in done.stdout and "--seconds gives was over" in done.stdout


def test_in_the_long_run_every_case_runs(monkeypatch):
    every_item = [_Item(f"a[{i}]") for i in range(200)]
    left = set(every_item)
    for name in map(str, range(40)):
        monkeypatch.setattr(conftest, "tree", lambda name=name: name)
        items, _ = _chosen(every_item, sample=4)
        assert 25 < len(items) < 75
        left -= set(items)
    assert not left


def test_ci_runs_the_test_command_of_readme():
    lines = (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    (command,) = [line for line in lines if line.startswith("make test ")]
    assert "\nmake test " in (TESTS.parent / "README.md").read_text(encoding="utf-8")
    # Where it is made, and how much is told of it; neither what runs nor what is drawn.
    assert set(re.findall(r" ([A-Z]+)=", command)) == {"VENV", "ARGS"}
    assert 'ARGS="--durations=10 --durations-min=1"' in command
