"""Turns outcomes into tables and JSON."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from benchmarks import cases, targets
from benchmarks.measure import Outcome
from benchmarks.peers import OWN, REFERENCE
from benchmarks.stats import Spread, seconds_as_text


def table(outcome: Outcome) -> str:
    """Return the table of one case with its targets."""
    case = cases.load(outcome.case)
    lines = [f"{case.name} [{case.batch}]: {case.title}"]
    for part in case.parts:
        lines += _part(part, outcome)
    for name, facts in outcome.facts.items():
        lines += [f"  {name}: {_audits(one)}" for one in facts.get("audits", ())]
    for name, reason in outcome.wrong.items():
        lines.append(f"  WRONG RESULT, not timed: {name}: {reason}")
    for name, reason in outcome.left_out.items():
        lines.append(f"  left out: {name}: {reason}")
    if outcome.device == "cpu":  # those of GPUs need more than one case: benchmarks/gpu_targets.py
        for verdict in targets.judge(outcome.case, outcome.times):
            target = verdict.target
            lines.append(f"  target {target.part}: {target.text}: {_measured(verdict)}")
    return "\n".join(lines)


def _part(part: str, outcome: Outcome) -> list[str]:
    times = {peer: s for (of, peer), s in outcome.times.items() if of == part}
    own = times.get(OWN[outcome.device])
    base = times.get(REFERENCE)
    header = f"  {part:<22}{'median':>10}{'p10':>10}{'p90':>10}{'of chainer':>14}{'of sdbr':>12}"
    lines = [header]
    for peer, s in sorted(times.items(), key=lambda item: item[1].median):
        cells = "".join(f"{seconds_as_text(value):>10}" for value in (s.median, s.p10, s.p90))
        lines.append(f"    {peer:<20}{cells}{ratio(s, base):>14}{ratio(s, own):>12}")
    for what in dict.fromkeys(what for what, of, _ in outcome.more if of == part):
        found = {peer: s for (w, of, peer), s in outcome.more.items() if (w, of) == (what, part)}
        texts = (f"{peer} {seconds_as_text(s.median)}" for peer, s in found.items())
        lines.append(f"    {what}: {', '.join(texts)}")
    return lines


def _audits(audits: dict[str, Any]) -> str:
    """What audits found and what they took; the times above hold them."""
    found = f"audits passed {audits['passed']}, failed {audits['failed']}"
    if not audits["replay_seconds"]:
        return found
    return f"{found}, {audits['seconds'] / audits['replay_seconds']:.1%} of the time in replays"


def ratio(one: Spread, other: Spread | None) -> str:
    """Return how many times as long one takes, in words that read well on both sides of 1."""
    if other is None:
        return "-"
    value = one.median / other.median
    return f"{value:.2f}" if value > 0.1 else f"1/{1 / value:.1f}"


def _measured(verdict: targets.Verdict) -> str:
    if verdict.ratio is None:
        return "not measured"
    value = f"{verdict.ratio:.3f}" if verdict.ratio > 0.1 else f"1/{1 / verdict.ratio:.1f}"
    return f"{value}, {'met' if verdict.met else 'NOT MET'}"


def as_json(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return the outcomes as plain data; all times in microseconds."""
    return [_case_as_json(outcome) for outcome in outcomes]


def _case_as_json(outcome: Outcome) -> dict[str, Any]:
    case = cases.load(outcome.case)
    return {
        "case": case.name,
        "title": case.title,
        "batch": case.batch,
        "times_us": [
            {"part": part, "peer": peer, **spread_as_json(s)}
            for (part, peer), s in outcome.times.items()
        ],
        **{
            f"{what}_us": [
                {"part": part, "peer": peer, **spread_as_json(s)}
                for (of, part, peer), s in outcome.more.items()
                if of == what
            ]
            for what in dict.fromkeys(what for what, _, _ in outcome.more)
        },
        "targets": []
        if outcome.device != "cpu"
        else [
            {
                "part": verdict.target.part,
                "limit": verdict.target.limit,
                "against": list(verdict.target.against),
                "own": verdict.target.own,
                "ratio": verdict.ratio,
                "met": verdict.met,
            }
            for verdict in targets.judge(outcome.case, outcome.times)
        ],
        "left_out": outcome.left_out,
        "wrong": outcome.wrong,
        "versions": outcome.versions,
        "facts": outcome.facts,
    }


def spread_as_json(s: Spread) -> dict[str, Any]:
    """Return median, percentiles and samples in microseconds."""
    values = {"median": s.median, "p10": s.p10, "p90": s.p90}
    return {
        **{name: round(1e6 * value, 4) for name, value in values.items()},
        "samples": [round(1e6 * value, 4) for value in s.samples],
    }


def command(arguments: list[str]) -> str:
    """Return the command line without the directories of this machine."""
    return shlex.join(
        ["python", "-m", "sdbr", "bench"]
        + [Path(a).name if a.startswith(("/", "~", ".")) else a for a in arguments]
    )
