"""The table is whole: each public function has a case, and each case a public function."""

from __future__ import annotations

import collections
import inspect

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer.functions as F

from .cases import CASES

# Cases that name no function: the operators of Variables, and several functions at once.
OTHERS = {"operator", "composite"}


def public_names() -> set[str]:
    return {
        name
        for name, thing in vars(F).items()
        if name[0] != "_" and callable(thing) and not inspect.ismodule(thing)
    }


def test_each_public_function_has_a_case():
    names = public_names()
    assert len(names) == 216
    assert not names - {case.name for case in CASES}


def test_each_case_names_a_public_function():
    assert not {case.name for case in CASES} - public_names() - OTHERS


def test_cases_differ_in_name():
    counts = collections.Counter(case.id for case in CASES)
    assert not [name for name, n in counts.items() if n > 1]
