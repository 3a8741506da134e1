"""What all test files keep to: where tolerances are, what is imported, what is listed."""

from __future__ import annotations

import ast
import functools
import pathlib
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

from tests.conftest import pytest_collection_modifyitems

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
    def __init__(self, name: str, long: bool, case: bool):
        self.nodeid, self.long = name, long
        if case:
            self.callspec = name

    def get_closest_marker(self, name):
        return self.long or None


def _chosen(every_item, **given):
    """What is left under these options, and what is left out."""
    items, left_out = list(every_item), []
    options = {"sample": 1, "at_most": None, "seconds": None, **given}
    config = types.SimpleNamespace(
        getoption=options.__getitem__,
        hook=types.SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)),
    )
    pytest_collection_modifyitems(config, items)
    return items, left_out


@pytest.mark.parametrize("every", [1, 4])
def test_a_sample_leaves_out_cases_of_long_tables_alone(every):
    kinds = [(long, case) for long in (True, False) for case in (True, False)]
    every_item = [_Item(f"{kind}[{i}]", *kind) for kind in kinds for i in range(200)]
    items, left_out = _chosen(every_item, sample=every)
    assert all(item.long and hasattr(item, "callspec") for item in left_out)
    assert sorted(x.nodeid for x in items + left_out) == sorted(x.nodeid for x in every_item)
    assert len(left_out) == 0 if every == 1 else 120 < len(left_out) < 180


def test_some_tests_are_from_all_over():
    every_item = [_Item(f"{part}[{i}]", True, True) for part in "ab" for i in range(200)]
    items, left_out = _chosen(every_item, at_most=40)
    assert len(items) == 40 and len(left_out) == 360
    assert items == [x for x in every_item if x in items]
    assert 8 < sum(x.nodeid[0] == "a" for x in items) < 32
    assert _chosen(every_item, at_most=500) == (every_item, [])


def test_what_runs_until_a_time_is_in_any_order_and_then_skipped(tmp_path):
    every_item = [_Item(f"a[{i}]", True, True) for i in range(200)]
    items, left_out = _chosen(every_item, seconds=5.0)
    assert left_out == [] and set(items) == set(every_item)
    assert items != every_item and items == _chosen(every_item, seconds=9.0)[0]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--seconds", "0"]
    done = subprocess.run(
        [*command, "tests/test_layout.py", "-k", "circle"],
        cwd=TESTS.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 skipped" in done.stdout and "--seconds gives was over" in done.stdout


def test_ci_runs_every_case():
    assert "SAMPLE=1" in (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8")
