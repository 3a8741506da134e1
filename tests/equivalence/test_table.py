"""The table is whole: each public function has a row, and each row a public function."""

from __future__ import annotations

import collections
import inspect

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer.functions as F

from .rows import ROWS

# Rows that name no function: the operators of Variables, and several functions at once.
OTHERS = {"operator", "composite"}


def public_names() -> set[str]:
    return {
        name
        for name, thing in vars(F).items()
        if name[0] != "_" and callable(thing) and not inspect.ismodule(thing)
    }


def test_each_public_function_has_a_row():
    names = public_names()
    assert len(names) == 216
    assert not names - {row.name for row in ROWS}


def test_each_row_names_a_public_function():
    assert not {row.name for row in ROWS} - public_names() - OTHERS


def test_rows_differ_in_name():
    counts = collections.Counter(row.id for row in ROWS)
    assert not [name for name, n in counts.items() if n > 1]
