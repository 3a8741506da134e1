"""The picture of a run: one panel per timed part, one bar per peer, on a logarithmic axis."""

from __future__ import annotations

import math
from typing import Any

from benchmarks import cases, targets
from benchmarks.measure import Outcome
from benchmarks.stats import seconds_as_text, threads_as_text

OWN, LIGHT, OTHER, INK = "#d1495b", "#2e7d5b", "#a8b1bb", "#1f2328"
_DECADES = 3  # an axis with more has labels at powers of ten alone


def draw(path: str, outcomes: list[Outcome], machine: str, threads: int = 1) -> None:
    """Write a picture of the medians.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [
        (outcome, part)
        for outcome in outcomes
        for part in cases.load(outcome.case).parts
        if any(of == part for of, _ in outcome.times)
    ]
    if not panels:
        return
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(6.4 * columns, 2.6 * rows + 0.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (outcome, part) in zip(grid, panels, strict=False):
        _panel(axes, outcome, part)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(f"median time, {threads_as_text(threads)}, {machine}", fontsize=10, color=INK)
    figure.savefig(path)


def _panel(axes: Any, outcome: Outcome, part: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    times = {peer: s for (of, peer), s in outcome.times.items() if of == part}
    order = sorted(times, key=lambda peer: -times[peer].median)
    medians = [1e6 * times[peer].median for peer in order]
    colors = [_color(peer) for peer in order]
    spreads = [
        [1e6 * (times[peer].median - times[peer].p10) for peer in order],
        [1e6 * (times[peer].p90 - times[peer].median) for peer in order],
    ]
    axes.barh(order, medians, color=colors, height=0.68)
    axes.errorbar(medians, order, xerr=spreads, fmt="none", ecolor=INK, elinewidth=0.8)
    for row, peer in enumerate(order):  # beyond the spread, not upon it
        text = seconds_as_text(times[peer].median)
        axes.text(1.12e6 * times[peer].p90, row, text, va="center", fontsize=8, color=INK)
    axes.set_xscale("log")
    lowest, highest = min(medians) / 2.5, max(medians) * 6
    # Labels between powers of ten lie upon each other where there are many.
    wide = math.log10(highest / lowest) > _DECADES
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(lowest, highest)
    case = cases.load(outcome.case)
    title = case.name if len(case.parts) == 1 else f"{case.name}: {part}"
    axes.set_title(
        f"{title} [{case.batch if part != 'act' else 1}]", fontsize=10, loc="left", color=INK
    )
    axes.set_xlabel("microseconds", fontsize=8, color="#6e7781")
    axes.tick_params(labelsize=8, colors="#6e7781", labelcolor=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _color(peer: str) -> str:
    if peer == targets.SDBR:
        return OWN
    return LIGHT if peer == "c" else OTHER
