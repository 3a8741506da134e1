"""One word for a family of ops everywhere, and no kernel that no op can choose."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import sdbr
from sdbr.backends.cpu import _kernels, product
from sdbr.base.dtypes import DTYPE_CODES
from sdbr.ops.table import OPS

import pytest

from .generators import cases_of

ROOT = Path(sdbr.__file__).parent
FAMILIES = {op.family for op in OPS}
#: Put in the place of kernels that ops chose: by threads, by libraries.
STAND_INS = {"split", "foreign"}


def test_the_modules_of_the_table_are_the_families():
    whole = {"__init__", "op", "single", "table"}
    assert {path.stem for path in ROOT.glob("ops/*.py")} - whole == FAMILIES


def test_the_units_of_kernels_are_the_families():
    units = (ROOT / "kernels" / "frame" / "units.h").read_text()
    assert set(re.findall(r"X\((\w+)\)", units)) == FAMILIES
    assert {path.parent.name for path in ROOT.glob("kernels/*/unit.h")} == FAMILIES


def test_the_modules_of_the_cpu_are_the_families():
    whole = {"__init__", "executable", "machine"}  # of the backend, not of a family
    assert {path.stem for path in ROOT.glob("backends/cpu/*.py")} - whole == FAMILIES


def test_the_cases_are_by_family():
    found = {path.stem.removesuffix("_cases") for path in Path(__file__).parent.glob("*_cases.py")}
    assert found == FAMILIES


def chosen(op, dtype: str) -> set[str]:
    """The kernels that an op chooses for its cases."""
    prepare = importlib.import_module(f"sdbr.backends.cpu.{op.family}").prepare
    found = set()
    known = set()
    for case in cases_of(op.name, dtype):
        views = [x.view for x in (*case.ins, *case.outs)]
        operands = [(DTYPE_CODES[x.dtype], x.shape, x.strides) for x in views]
        key = (len(case.ins), *operands, *case.ints)
        if key not in known:
            known.add(key)
            n = len(case.ins)
            found.add(prepare(op.name, operands[:n], operands[n:], case.ints)[0])
    return found


def test_every_kernel_is_chosen_by_an_op(monkeypatch):
    control = {op.name for op in OPS if op.family == "control"}
    collectives = {"allreduce", "allreduce_begin", "allreduce_end"}
    control -= {"python", "question", *collectives}
    found = set(STAND_INS | control | {"question_b1", "question_i8"})
    found |= {f"{name}_{dtype}" for name in collectives for dtype in ("f4", "f8")}
    for op in OPS:
        if op.family != "control":
            for dtype in ("f4", "f8"):
                found |= chosen(op, dtype)
    monkeypatch.setattr(product, "_large", lambda n, m, k: True)
    for op in OPS:
        if op.family == "product":
            found |= chosen(op, "f4") | chosen(op, "f8")
    assert found == set(_kernels.kernel_names())


@pytest.mark.parametrize("name", sorted(STAND_INS))
def test_stand_ins_are_named_by_what_puts_them_in(name):
    sources = [*ROOT.glob("backends/cpu/prepare/*.py"), *ROOT.glob("backends/cpu/tuning/*.py")]
    assert any(f'"{name}"' in path.read_text() for path in sources)
