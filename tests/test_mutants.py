"""Mutants are modules with one mistake: the same ones from the same sources."""

from __future__ import annotations

import ast

import pytest

from tests.mutants import MISTAKES, ROOT, judges, mutants_of


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{m.kind} {m.folder}" for m in MISTAKES])
def test_one_place_differs(mistake):
    firsts = []
    for path in sorted((ROOT / mistake.folder).glob("*.py")):
        firsts += list(mutants_of(mistake, path))[:2]
    assert len({mutant.around for mutant in firsts}) >= mistake.count
    for mutant in firsts:
        raw = (ROOT / mutant.path).read_bytes()
        assert raw[mutant.start :].startswith(mutant.old.encode())
        changed = ast.dump(ast.parse(mutant.put_into(raw)))
        assert changed != ast.dump(ast.parse(raw)), mutant.key


def test_those_that_reach_the_place_judge():
    (mistake,) = [m for m in MISTAKES if m.kind == "wanted"]
    path = ROOT / "src/sdbr/functions/basic_math.py"
    mutant = next(m for m in mutants_of(mistake, path) if m.around == "Mul.backward")
    known = {
        f"{mutant.path} Mul.backward": ["operator"],
        f"{mutant.path} Mul.backward.part": ["prod"],
        f"{mutant.path} Mul.backwards": ["other"],
        "op multiply": ["another"],
    }
    assert sorted(judges(mutant, known)) == ["operator", "prod"]
