"""Programs of users on CuPy itself: traced, and replayed; what they give has the same looks.

Numbers are another matter: kernels of CuPy's write none here.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from unittest import mock

import pytest

from tests.on_cupy import programs

FOLDER = Path(programs.__file__).parent
TABLES = [
    getattr(importlib.import_module(f"tests.on_cupy.{path.stem}"), "PROGRAMS", ())
    for path in sorted(FOLDER.glob("test_*.py"))
    if ", PROGRAMS = programs()" in path.read_text(encoding="utf-8")
]
FFT = "cuFFT needs a GPU"
VALUES = "values decide, which define-by-run does not compute here"
APART = {"more_functions_of_cupy": FFT, "ways_by_values": VALUES}
PROGRAMS = [case for table in TABLES for case in table if case.id not in APART]


def assert_looks(got, want, tolerance, what):
    assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype), what


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_program(program, python):
    with mock.patch.object(programs, "assert_near", assert_looks):
        programs.assert_replayed(program, python)


def test_every_exception_is_a_program():
    names = {case.id for table in TABLES for case in table}
    assert set(APART) <= names
