"""A fixed sample of the random programs that `make fuzz` runs."""

from __future__ import annotations

from tests.leaks.mends import OFF

from . import program_cases
from .hazards import FAMILIES
from .program_cases import Programs
from .programs import Program

SEEDS = 40


def test_programs_are_right_or_say_that_they_are_not_static(tmp_path):
    programs = Programs(tmp_path)
    assert [wrong for seed in range(SEEDS) if (wrong := programs.check(seed))] == []
    # What is dynamic is compared with itself.
    assert programs.counts["right"] >= 0.4 * SEEDS * len(program_cases.AUDITS), programs.report()


def test_every_hazard_is_source():
    """Each is put into a program that compiles, whatever the seeds draw."""
    hazards = [hazard for family in FAMILIES.values() for hazard in family]
    for seed, hazard in enumerate(dict.fromkeys(hazards)):
        compile(Program(seed, [hazard, hazard]).source, hazard.name, "exec")


def test_a_seed_is_a_program():
    assert Program(5).source == Program(5).source != Program(6).source


def test_a_difference_is_found_and_its_program_kept(tmp_path, monkeypatch):
    (hazard,) = (h for h in FAMILIES["store"] if h.name == "Variable in class")
    monkeypatch.setattr(program_cases, "Program", lambda seed: Program(seed, [hazard]))
    monkeypatch.setattr(program_cases, "AUDITS", ("off",))
    programs = Programs(tmp_path)
    assert programs.check(3) == ""
    assert list(tmp_path.glob("*.py")) == programs.failures == []
    with OFF[14]():
        assert "silent" in programs.check(3)
    assert list(tmp_path.glob("*.py")) == programs.failures
    assert "C0.last = " in programs.failures[0].read_text()
