"""The floors of the package: who may import whom; no exceptions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from sdbr.base.settings import SETTINGS

import pytest

ROOT = Path(__file__).parents[1] / "src" / "sdbr"

#: From below: what stands on one line shares a floor. A folder, or a file at the root.
FLOORS = (
    ("base",),
    ("compat", "devices"),
    ("ops",),
    ("program", "trace"),
    ("audit",),
    ("functions",),
    ("lowering",),
    ("_executor",),
    ("backends",),
    ("optimizers",),
    ("schedule",),
    ("call",),
    ("inspection",),
    ("static_code", "static_graph", "static_optimizer", "training", "update_rule"),
    ("looks",),
    ("__init__",),
    ("__main__", "cli"),
)
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}

CIMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(sdbr[\w.]*)[ \t]+c?import\b([^\n]*)|c?import[ \t]+(sdbr[\w.]*))", re.M
)


def modules() -> dict[str, list[Path]]:
    """Dotted name below sdbr -> its files (a compiled module has two)."""
    found: dict[str, list[Path]] = {}
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if len(parts) > 1 and parts[-1] == "__init__":
                parts = parts[:-1]
            found.setdefault(".".join(parts), []).append(path)
    return found


MODULES = modules()


def imported(path: Path) -> set[str]:
    """Dotted names of what a file imports of the package, wherever in the file."""
    text = path.read_text()
    names: set[str] = set()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: relative import"
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
    else:
        for module, what, whole in CIMPORT.findall(text):
            names.add(whole or module)
            names.update(f"{module}.{name}" for name in re.findall(r"\w+", what) if module)
    found = {_module(name) for name in names if name.split(".")[0] == "sdbr"}
    return {name for name in found if name is not None}


def _module(name: str) -> str | None:
    """The module that a dotted name is, or is in."""
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts) if parts else "__init__"


EDGES = {name: set().union(*map(imported, paths)) - {name} for name, paths in MODULES.items()}


def place(name: str) -> str:
    """The folder of a module, or the module itself where it lies at the root."""
    return name.split(".")[0]


def test_everything_has_a_floor():
    assert {place(name) for name in MODULES} == set(FLOOR)


@pytest.mark.parametrize("name", sorted(FLOOR))
def test_imports_go_down(name):
    wrong = [
        f"{module} imports {other}"
        for module, others in sorted(EDGES.items())
        for other in sorted(others)
        if place(module) == name and place(other) != name and FLOOR[place(other)] >= FLOOR[name]
    ]
    assert wrong == []


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Sets of names that lead to each other, found by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            i = stack.index(name)
            if len(stack) - i > 1:
                found.append(sorted(stack[i:]))
            del stack[i:]

    for name in edges:
        if name not in index:
            visit(name)
    return found


def test_there_is_no_circle():
    assert circles(EDGES) == []


def folded(folder: str) -> dict[str, set[str]]:
    """What leads to what in a folder whose sub-packages count as one each."""
    start = f"{folder}."
    edges: dict[str, set[str]] = {}
    for module, others in EDGES.items():
        if module.startswith(start):
            part = module[len(start) :].split(".")[0]
            inside = {o[len(start) :].split(".")[0] for o in others if o.startswith(start)}
            edges.setdefault(part, set()).update(inside - {part})
    return edges


FOLDERS = sorted({m.rpartition(".")[0] for m in MODULES if "." in m})


@pytest.mark.parametrize("folder", FOLDERS)
def test_sub_packages_are_floors_of_their_folder(folder):
    assert circles(folded(folder)) == []


# --- size ----------------------------------------------------------------------------------------
MOST_FILES_AT_THE_ROOT = 10
MOST_MODULES = 20
MOST_LINES = 450
MOST_LINES_OF_A_FUNCTION = 60

#: A function of a compiled module. A class is none, and a declaration ends where it begins.
HEAD = re.compile(r"([ \t]*)(?:def|cpdef|cdef(?! class)(?! extern)(?! struct)(?! enum))\b.*\(")


def test_few_files_at_the_root():
    files = [path for path in ROOT.iterdir() if path.suffix in (".py", ".pyx")]
    assert len(files) <= MOST_FILES_AT_THE_ROOT


@pytest.mark.parametrize("folder", FOLDERS)
def test_few_modules_in_a_folder(folder):
    """But for `functions`, which has the modules of `chainer.functions`."""
    inside = [m for m in MODULES if m.rpartition(".")[0] == folder and m not in FOLDERS]
    assert len(inside) <= MOST_MODULES or folder == "functions"


def test_files_are_short():
    kinds = (".py", ".pyx", ".pxd", ".c", ".h", ".cuh")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in ROOT.rglob("*")
        if path.suffix in kinds
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def functions_of(path: Path) -> dict[str, int]:
    """How many lines each function of a file has."""
    text = path.read_text()
    if path.suffix == ".py":
        return {
            f"{node.name}, line {node.lineno}": node.end_lineno - node.lineno + 1
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    lines = text.splitlines()
    found = {}
    for i, line in enumerate(lines):
        if head := HEAD.match(line):
            last = i
            for k in range(i + 1, len(lines)):
                stripped = lines[k].strip()
                if stripped and not stripped.startswith((")", "#")):
                    if len(lines[k]) - len(lines[k].lstrip()) <= len(head[1]):
                        break
                    last = k
            found[f"{line.strip()}, line {i + 1}"] = last - i + 1
    return found


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_functions_are_short(folder):
    assert {
        f"{path.relative_to(ROOT)}: {name}": n
        for path in (ROOT / folder.replace(".", "/")).iterdir()
        if path.suffix in (".py", ".pyx")
        for name, n in functions_of(path).items()
        if n > MOST_LINES_OF_A_FUNCTION
    } == {}


#: A class and its bases.
BASES = re.compile(r"^(?:cdef )?class (\w+)\(([^()]*)\):", re.MULTILINE)


def test_no_class_is_put_together_from_others():
    """Parts are objects with names of their own. An error is of several kinds to who catches it."""
    bases = {
        name: re.findall(r"[\w.]+", text)
        for paths in MODULES.values()
        for path in paths
        for name, text in BASES.findall(path.read_text())
    }
    several = {
        name: ours for name, of in bases.items() if len(ours := [b for b in of if b in bases]) > 1
    }
    assert {name for name in several if not name.endswith("Error")} == set()


def test_only_the_settings_read_variables_of_the_environment():
    """What the code of a call asks for is no setting; OpenMP's are set, and set back."""
    reads = re.compile(r"os\.environ(?:\.get\(|\[)[\"'](\w+)|os\.getenv\(")
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for paths in MODULES.values()
        for path in paths
        for match in reads.finditer(path.read_text())
        if path != ROOT / "base" / "settings.py"
    }
    assert found == set()


def test_every_setting_is_explained():
    pages = (ROOT.parents[1] / "docs").glob("*.md")
    page = "".join(p.read_text() for p in pages if p.name != "settings.md")  # the table of them
    ours = [name for s in SETTINGS for name in (s.entry, s.variable) if name]
    unknown = [
        n for n in ours if n not in page and n not in ("XDG_CACHE_HOME", "sdbr_keep_instructions")
    ]
    assert unknown == []


#: Cython asks for these without a call that may raise.
BUILTINS = {"bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}
SEVERAL = re.compile(r"isinstance\(\s*[^(),]+,\s*\(([^()]*)\)")


def test_compiled_code_asks_for_one_class_at_a_time():
    """Where several are asked for at once, Cython goes on as if yes when the question raises.

    What is asked may be an array whose ``__class__`` is code of ours: a signal comes there as well.
    """
    found = [
        f"{path.relative_to(ROOT)}: {names}"
        for path in sorted(ROOT.rglob("*.pyx"))
        for names in SEVERAL.findall(path.read_text())
        if not {name.strip() for name in names.split(",") if name.strip()} <= BUILTINS
    ]
    assert not found
