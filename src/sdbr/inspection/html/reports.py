"""A report or a profile as HTML."""

from __future__ import annotations

from sdbr.inspection.html.elements import Markup, element, joined, listed, table
from sdbr.inspection.html.programs import programs_html
from sdbr.inspection.render import render, where
from sdbr.inspection.steps import lines_of


def report_html(facts: dict, programs: list[tuple[str, object]]) -> Markup:
    """What :func:`sdbr.explain` has found.

    Parameters
    ----------
    facts : dict
        See `Report.to_dict`.
    programs : list of (str, Program)
        Whose they are, and the programs.
    """
    advice = [text for manager in facts["managers"] for text in advice_of(manager)]
    advice += [
        f"{o['name']}: a plain optimizer; sdbr.static_optimizer makes its update native"
        for o in facts["optimizers"]
        if not o["static"]
    ]
    return joined(
        [
            element("h1", facts["name"]),
            element("pre", render(facts)),
            element("h2", "Advice") if advice else "",
            element("div", listed(advice), class_="advice") if advice else "",
            *map(_manager, facts["managers"]),
            programs_html(programs),
        ]
    )


def advice_of(manager: dict) -> list[str]:
    """What could be written otherwise, and why."""
    found = []
    for schedule in manager["schedules"]:
        dynamic = schedule["dynamic"]
        if dynamic is not None:
            found.append(f"{dynamic['reason']} at {where(dynamic['line'])}: {dynamic['remedy']}")
        found += [
            f"{node['label']} {node['link']} runs in Python: {node['reason']}; at "
            f"{where(node['line'])}"
            for node in schedule["python_nodes"]
        ]
    if manager["step"] is not None:
        found.append(" ".join(text.strip() for text in lines_of(manager["step"], where)))
    return list(dict.fromkeys(found))


def _manager(manager: dict) -> Markup:
    statistics = [(name, n) for name, n in manager["statistics"].items() if n]
    misses = [(miss["differs"], where(miss["line"])) for miss in manager["misses"]]
    parts = [element("h2", manager["name"]), table(("statistics", ""), statistics)]
    if manager["time"] is not None:
        times = [
            (name, round(1e6 * manager["time"][name], 1))
            for name in ("native", "python", "wrapping", "outside", "total")
        ]
        parts += [element("h3", "Time of a call"), table(("part", "microseconds"), times)]
    if misses:
        parts += [element("h3", "Traced anew"), table(("because of", "line"), misses)]
    return joined(parts)


def profile_html(profile, limit: int = 200) -> Markup:
    """The slowest ops of a profile."""
    rows = profile.rows()
    total = profile.seconds or 1.0
    shown = [
        (
            row["program"], row["index"], row["op"], row["calls"],
            round(row["seconds"] * 1e6, 1), f"{row['seconds'] / total:.1%}",
            row["label"], row["link"], where(row["line"]) if row["line"] else "",
        )
        for row in rows[:limit]
    ]  # fmt: skip
    heads = "program", "op", "name", "calls", "total us", "share", "function", "link", "line"
    text = f"{profile.runs} runs, {profile.seconds * 1e6:,.1f} us in {len(rows)} ops"
    return joined([element("h1", "Profile"), element("p", text), table(heads, shown, of="ops")])
