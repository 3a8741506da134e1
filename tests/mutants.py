"""Small mistakes in function rows, ops, lowering and passes: does a case of the tables see each?

    python -m tests.mutants [--out FILE] [--compare FILE] [--jobs N] [--only TEXT]

About eighty mutants are made mechanically (`MISTAKES`): a sign, a number, a gradient that is
missing, a fact that is not so, a copy or a guard or an effect that is left out. Each is put into a
copy of the checkout, alone, and the tables of equivalence run for the functions that reach the code
around it: `reached` finds these. Which mutants are made follows from the sources, so that two sets
of tables can be compared: ``--compare`` takes what another run has written by ``--out``, and the
exit code is 1 if something that was seen there is not seen here.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: What judges them.
TABLES = ("tests/equivalence", "tests/functions/test_lowering.py")
#: Seconds for the tables of one mutant: one that runs for ever is seen, too.
LIMIT = 600
#: Functions at most whose cases judge one mutant, drawn by name.
MOST_NAMES = 8

# --- mutants ---------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """One mistake: what stands at `start` of the file is replaced."""

    path: str
    around: str
    kind: str
    start: int
    old: str
    new: str

    @property
    def key(self) -> str:
        """The same for the same mistake, wherever the line stands by now."""
        spelled = " ".join(self.old.split())
        return f"{self.path} {self.around}: {self.kind}: {spelled} -> {self.new}"

    @property
    def drawn(self) -> bytes:
        return hashlib.sha256(self.key.encode()).digest()

    def put_into(self, raw: bytes) -> bytes:
        """The module with the mistake."""
        end = self.start + len(self.old.encode())
        return raw[: self.start] + self.new.encode() + raw[end:]


SIGNS = {
    "add": "subtract",
    "subtract": "add",
    "multiply": "divide",
    "divide": "multiply",
    "maximum": "minimum",
    "minimum": "maximum",
    "mask_ge": "mask_gt",
    "mask_gt": "mask_ge",
    "mean": "sum",
    "max": "min",
    "add_constant": "rsub_constant",
    "mul_constant": "div_constant",
    "div_constant": "mul_constant",
}


def _sign(node: ast.AST) -> str | None:
    """Another op, or a minus less."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        first = node.args[0]
        if node.func.attr in ("elementwise", "reduce") and isinstance(first, ast.Constant):
            if first.value == "negative":
                return ast.unparse(node.args[1])
            if first.value in SIGNS:
                new = ast.Call(node.func, [ast.Constant(SIGNS[first.value]), *node.args[1:]], [])
                new.keywords = node.keywords
                return ast.unparse(new)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return None if isinstance(node.operand, ast.Constant) else ast.unparse(node.operand)
    return None


def _number(node: ast.AST) -> str | None:
    """An axis, a place or a factor is the next one."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return repr(node.value + 1)
    return None


def _kept(node: ast.AST) -> str | None:
    """An array is read as it is by then, not as the forward has seen it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("kept", "held") and node.args:
            return ast.unparse(node.args[-1])
        if node.func.attr in ("may_change", "may_be_written"):
            return "False"
    return None


def _wanted(node: ast.AST) -> str | None:
    """A gradient that is wanted is not computed."""
    asks = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In)
    return "False" if asks and ast.unparse(node.comparators[0]) == "wanted" else None


def _fact(node: ast.AST) -> str | None:
    """What a row or an op says of itself is not so, or not said."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple):
        name = ast.unparse(node.targets[0])
        if isinstance(node.value, ast.Tuple):
            one = isinstance(node.targets[0], ast.Name)
            return f"{name} = ()" if one and node.value.elts else None
        if isinstance(node.value.value, bool):
            return f"{name} = {not node.value.value}"
    return None


def _op_fact(node: ast.AST) -> str | None:
    if isinstance(node, ast.keyword) and node.arg in OP_FACTS:
        return f"{node.arg}={OP_FACTS[node.arg]}"
    return None


OP_FACTS = {
    "inplace": "(0, 1)", "effect": "False", "draws": "False", "moves": "False", "again": "'cheap'",
    "by_row": "()", "step": "False", "sharing": "None", "activation_grad": "0",
}  # fmt: skip


def _guard(node: ast.AST) -> str | None:
    """A condition under which something else is done never holds."""
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Continue):
        return "False"
    return None


def _effect(node: ast.AST) -> str | None:
    """A call for what it does is not made."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "None"
    return None


FUNCTIONS, OPS = "src/sdbr/functions", "src/sdbr/ops"
LOWERING, PASSES = "src/sdbr/lowering", "src/sdbr/program/passes"


class Mistake(NamedTuple):
    """A kind of mutant: where, what, how many of them."""

    kind: str
    folder: str
    make: Callable[[ast.AST], str | None]
    count: int


MISTAKES = (
    Mistake("sign", FUNCTIONS, _sign, 12),
    Mistake("number", FUNCTIONS, _number, 10),
    Mistake("kept", FUNCTIONS, _kept, 12),
    Mistake("wanted", FUNCTIONS, _wanted, 8),
    Mistake("fact", FUNCTIONS, _fact, 10),
    Mistake("guard", FUNCTIONS, _guard, 6),
    Mistake("fact of an op", OPS, _op_fact, 8),
    Mistake("guard", LOWERING, _guard, 6),
    Mistake("effect", LOWERING, _effect, 6),
    Mistake("kept", LOWERING, _kept, 2),
    Mistake("guard", PASSES, _guard, 6),
    Mistake("effect", PASSES, _effect, 4),
)


def _inside(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the dotted name of the function or class around it."""
    for child in ast.iter_child_nodes(tree):
        here = names
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            here = (*names, child.name)
        elif isinstance(child, ast.Call) and not names and child.args:  # one(...) of the op table
            first = child.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                here = (first.value,)
        yield ".".join(here), child
        yield from _inside(child, here)


def mutants_of(mistake: Mistake, path: Path) -> Iterator[Mutant]:
    """All mutants of one kind in one module."""
    raw = path.read_bytes()
    starts = [0]
    for line in raw.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    tree = ast.parse(raw)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for around, node in _inside(tree):
        new = mistake.make(node)
        if new is None or not around or (mistake.make is _fact and around not in classes):
            continue
        at = node.test if isinstance(node, ast.If) else node
        start = starts[at.lineno - 1] + at.col_offset
        end = starts[at.end_lineno - 1] + at.end_col_offset
        old = raw[start:end].decode()
        if new != old:
            yield Mutant(str(path.relative_to(ROOT)), around, mistake.kind, start, old, new)


def chosen(known: dict[str, list[str]]) -> list[Mutant]:
    """Which are tried: drawn by name of those that a case reaches, one of a kind in one place."""
    found = []
    for mistake in MISTAKES:
        every = [m for p in (ROOT / mistake.folder).glob("*.py") for m in mutants_of(mistake, p)]
        every = [m for m in every if judges(m, known)]
        by_place = {(m.path, m.around): m for m in sorted(every, key=lambda m: m.drawn)}
        drawn = sorted(by_place.values(), key=lambda m: m.drawn)
        found += drawn[: mistake.count]
    return found


# --- which cases judge ---------------------------------------------------------------------------


def reached() -> dict[str, list[str]]:
    """Names of public functions by what their cases reach: ``path name`` of code, names of ops."""
    from sdbr.program.builder import Builder

    import chainer

    from tests.equivalence import harness, variations
    from tests.equivalence.tables import STATIC, dtype_of, some_of

    chainer.global_config.sdbr_keep_instructions = True
    folders = tuple(str(ROOT / mistake.folder) for mistake in MISTAKES)
    seen: set[str] = set()
    codes: dict = {}

    def note(frame, event, arg):  # by a trace function calls would not be watched
        code = frame.f_code
        if code not in codes:
            path = code.co_filename
            here = path.startswith(folders)
            names = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
            place = names.replace(".<locals>", "").split(".<lambda>")[0]
            codes[code] = f"{Path(path).relative_to(ROOT)} {place}" if here else None
        if codes[code] is not None:
            seen.add(codes[code])

    emit = Builder.emit

    def emitted(self, name, *args, **kwargs):
        seen.add(f"op {name}")
        return emit(self, name, *args, **kwargs)

    found: dict[str, set[str]] = {}
    some = {id(case) for case in some_of(STATIC, 2)}
    Builder.emit = emitted
    try:
        for case in STATIC:
            checks = [harness.check]
            if id(case) in some:
                checks += [harness.check_second]
                if case.parameters and case.loss:
                    checks += [variations.check_step]
            for check in checks:
                seen.clear()
                sys.setprofile(note)
                try:
                    check(case, dtype_of(case))
                except AssertionError:
                    pass  # the tables say what is wrong
                finally:
                    sys.setprofile(None)
                for place in seen:
                    found.setdefault(place, set()).add(case.name)
    finally:
        Builder.emit = emit
    return {place: sorted(names) for place, names in found.items()}


def judges(mutant: Mutant, known: dict[str, list[str]]) -> list[str]:
    """Names of the functions whose cases reach the place of a mutant: some, where they are many."""
    if mutant.kind == "fact of an op":
        names = set(known.get(f"op {mutant.around}", ()))
    else:
        place = f"{mutant.path} {mutant.around}"
        names = {
            n for p, ns in known.items() if p == place or p.startswith(place + ".") for n in ns
        }
    return sorted(names, key=lambda n: hashlib.sha256(n.encode()).digest())[:MOST_NAMES]


def pytest_addoption(parser):
    parser.addoption("--names", default="", help="only cases of these public functions")


def pytest_collection_modifyitems(config, items):
    names = set(config.getoption("names").split(","))
    if names != {""}:
        items[:] = [item for item in items if _name_of(item) in names]


def _name_of(item) -> str:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "case" in params:
        return params["case"].name
    return str(params.get("name", "")).partition(" ")[0]


# --- judging -------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came of one mutant: ``"seen"`` or ``"not seen"``, and by whom."""

    word: str
    names: list[str]
    cases: list[str]


def judge(mutant: Mutant, names: list[str], root: Path) -> Outcome:
    """Put it into the copy at `root`, run the cases of `names`, take it out again."""
    path = root / mutant.path
    raw, times = path.read_bytes(), path.stat()
    old = mutant.old.encode()
    assert raw[mutant.start : mutant.start + len(old)] == old
    path.write_bytes(raw[: mutant.start] + mutant.new.encode() + raw[mutant.start + len(old) :])
    command = (sys.executable, "-B", "-m", "pytest", "-q", "--tb=no", "-rfE", "--maxfail=2000")
    command += ("-p", "no:cacheprovider", "-p", "tests.mutants", "--names", ",".join(names))
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [*command, *TABLES], cwd=root, env=environment, timeout=LIMIT,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("seen", names, [f"longer than {LIMIT} s"])
    finally:
        path.write_bytes(raw)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if done.returncode == 0:
        return Outcome("not seen", names, [])
    lines = done.stdout.splitlines()
    cases = [line.split(" ", 1)[1].split(" - ")[0] for line in lines if line[:6] in _FAILED]
    return Outcome("seen", names, cases or [f"exit code {done.returncode}: {lines[-1:]}"])


_FAILED = ("FAILED", "ERROR ")


def copy_to(root: Path) -> None:
    """The checkout with what is built in it."""
    files = ("pyproject.toml", "setup.py", "build_cache.py", "README.md")
    for name in ("src", "tests", *files, "docs", "benchmarks"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name)
        else:
            shutil.copy2(source, root / name)


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build/mutants.json")
    parser.add_argument("--compare", type=Path, help="what another run wrote")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose line here has this text in it")
    options = parser.parse_args()
    known = reached()
    mutants = [m for m in chosen(known) if options.only in m.key]
    free: list[Path] = []
    lock = threading.Lock()
    outcomes: dict[str, Outcome] = {}

    def run(mutant: Mutant) -> None:
        with lock:
            root = free.pop()
        outcome = judge(mutant, judges(mutant, known), root)
        with lock:
            free.append(root)
            outcomes[mutant.key] = outcome
            print(f"{outcome.word:<12}{len(outcome.cases):>5}  {mutant.key}", flush=True)

    with tempfile.TemporaryDirectory(prefix="sdbr-mutants-") as folder:
        for i in range(options.jobs):
            free.append(Path(folder) / str(i))
            copy_to(free[-1])
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run, mutants))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({k: o._asdict() for k, o in outcomes.items()}, indent=1))
    print(", ".join(f"{n} {w}" for w, n in Counter(o.word for o in outcomes.values()).items()))
    if options.compare is None:
        return 0
    before = json.loads(options.compare.read_text())
    lost = [k for k, o in outcomes.items() if o.word != "seen" and before[k]["word"] == "seen"]
    for key in lost:
        print(f"was seen: {key}\n  by {before[key]['cases'][:5]}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
