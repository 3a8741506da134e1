"""The log of a run as a table by group."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.judge import UNUSABLE, VERDICTS


def read(logs: Iterable[Path]) -> tuple[list[dict], list[dict]]:
    """Checks and tests of several logs; of checks that a test repeats only the last counts."""
    checks: list[dict] = []
    tests: list[dict] = []
    for log in logs:
        for line in Path(log).read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry.get("repeated"):
                if checks and checks[-1]["test"] == entry["test"]:
                    checks.pop()
            elif "outcome" in entry:
                tests.append(entry)
            else:
                checks.append(entry)
    return checks, tests


def group_of(test: str) -> str:
    """``functions/array`` of ``chainer_tests/functions_tests/array_tests/test_x.py::...``."""
    parts = test.partition("::")[0].replace("chainer_tests/", "").split("/")
    return (
        "/".join(p.removesuffix("_tests") for p in parts[:2] if not p.endswith(".py")) or parts[0]
    )


def counts(checks: list[dict]) -> dict[tuple[str, str], collections.Counter]:
    """Verdicts by (kind of check, group)."""
    table: dict = collections.defaultdict(collections.Counter)
    for check in checks:
        table[check["kind"], group_of(check["test"])][check["verdict"]] += 1
    return dict(sorted(table.items()))


def verdict_table(checks: list[dict], kind: str) -> str:
    """Markdown: one row per group of one kind of check."""
    rows = [(g, c) for (k, g), c in counts(checks).items() if k == kind]
    total: collections.Counter = collections.Counter()
    for _, c in rows:
        total.update(c)
    lines = [
        "| group | usable checks | " + " | ".join(VERDICTS) + " | unusable |",
        "| --- " * (len(VERDICTS) + 3) + "|",
    ]
    for name, c in [*rows, ("**all**", total)]:
        usable = sum(c.values()) - c[UNUSABLE]
        cells = [f"{n:,}" for n in (usable, *(c[v] for v in VERDICTS), c[UNUSABLE])]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def outcome_table(tests: list[dict]) -> str:
    """Markdown: how Chainer's tests themselves ended."""
    table: dict = collections.defaultdict(collections.Counter)
    for test in tests:
        table[group_of(test["test"])][test["outcome"]] += 1
    lines = ["| group | passed | failed | skipped |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {g} | {c['passed']:,} | {c['failed']:,} | {c['skipped']:,} |"
        for g, c in sorted(table.items())
    ]
    return "\n".join(lines)


def not_right(checks: list[dict]) -> str:
    """What was not right, by verdict and file, with one detail each."""
    found: dict = collections.defaultdict(list)
    for check in checks:
        if check["verdict"] not in ("right", UNUSABLE):
            file = check["test"].partition("::")[0].rpartition("/")[2]
            found[check["verdict"], check["kind"], file].append(check)
    lines = []
    for (verdict, kind, file), those in sorted(found.items()):
        lines.append(f"{verdict} ({kind}) {file}: {len(those)}: {those[0]['detail'][:700]}")
    return "\n".join(lines)


def unusable(checks: list[dict]) -> str:
    """Markdown list of the checks that were left out, by file and reason."""
    found = collections.Counter(
        (c["test"].partition("::")[0].rpartition("/")[2], c["kind"], c["detail"].splitlines()[0])
        for c in checks
        if c["verdict"] == UNUSABLE
    )
    return "\n".join(f"- {n} ({kind}) in {file}: {why}" for (file, kind, why), n in found.items())


def comparison(outcomes: dict[str, list[dict]]) -> str:
    """Markdown: passed and failed by group and by how Chainer was run; then what fails anew."""
    groups = sorted({group_of(t["test"]) for tests in outcomes.values() for t in tests})
    lines = [
        "| group | " + " | ".join(f"{how}: passed | failed" for how in outcomes) + " |",
        "| --- " * (1 + 2 * len(outcomes)) + "|",
    ]
    for group in groups:
        cells = []
        for tests in outcomes.values():
            c = collections.Counter(t["outcome"] for t in tests if group_of(t["test"]) == group)
            cells += [f"{c['passed']:,}", f"{c['failed']:,}"] if c else ["", ""]
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    first, *others = outcomes
    ended = {t["test"]: t["outcome"] for t in outcomes[first]}
    for how in others:
        for t in outcomes[how]:
            if t["outcome"] == "failed" and ended.get(t["test"]) != "failed":
                lines.append(f"\n{how}: {t['test']} {t['outcome']}: {t['message'][-300:]}")
    return "\n".join(lines)
