"""A fixed sample of the mutants of programs that `make sanitize ARGS=--fuzz` runs."""

from __future__ import annotations

import random

import pytest

from .mutants import ARRAYS, Mutants, mutant

SAMPLE = 800


@pytest.fixture(scope="module")
def mutants(tmp_path_factory):
    return Mutants(tmp_path_factory.mktemp("mutants"))


def test_mutants_are_refused_or_run_within_their_memory(mutants):
    for number in range(SAMPLE):
        mutants.check(number)
    counts = mutants.counts
    assert counts["mutants"] == SAMPLE and counts["refused"] > SAMPLE / 3, mutants.report()
    assert counts["ran"] > SAMPLE / 10, mutants.report()
    assert int(mutants.path.read_text()) == SAMPLE - 1


def test_programs_are_not_refused_as_they_are(mutants):
    for program in (*mutants.kinds[0], *mutants.kinds[1]):
        program.validate()


def test_each_kind_of_array_is_changed(mutants):
    program = next(p for p in mutants.kinds[0] if p.name == "step")
    changed = set()
    for seed in range(400):
        made = mutant(program, random.Random(seed))
        for name in ARRAYS:
            if name == "slots":
                old, new = ([s.nbytes for s in p.slots] for p in (program, made))
            else:
                old, new = (getattr(p, name).tolist() for p in (program, made))
            if old != new:
                changed.add(name)
    assert changed == set(ARRAYS)
