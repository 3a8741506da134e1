"""``draw``: the graph of a schedule as SVG or DOT."""

from __future__ import annotations

import operator
import os
from typing import Any

from sdbr.inspection.graph import Box, graph_of
from sdbr.inspection.html.elements import escape
from sdbr.inspection.layout import GAP_Y, HEIGHT, Layout
from sdbr.inspection.targets import Target
from sdbr.program.program import Program
from sdbr.schedule.schedule import Schedule

#: Characters of a line in a box.
MOST = 44
_FILL = {"ops": "#dbeafe", "python": "#fed7aa", "data": "#f3f4f6"}


def draw(
    schedule: Any, path: str | os.PathLike, *, program: str = "forward", depth: int | None = None
) -> None:
    """Draw what a program does: boxes for links, lines for the data between them.

    Ops that follow each other and come from one link are one box; those with a Python op in them
    are orange. Parameters are not drawn.

    Parameters
    ----------
    schedule : Schedule, Program or what :func:`sdbr.explain` takes
        Of a static chain or function: the schedule that it has used last.
    path : str or path
        Overwritten. It ends in ``.svg``, or in ``.dot`` or ``.gv`` for Graphviz.
    program : str
        ``'forward'``, ``'backward'`` (the first one that was built) or ``'step'``.
    depth : int, optional
        How many parts of the paths of links are told apart: 1 makes one box of ``/res2/a`` and
        ``/res2/b``. 0 makes one of everything. None, the default: all.

    Raises
    ------
    TypeError
        If `schedule` is none of these, or `depth` is no whole number.
    ValueError
        If nothing was traced, there is no such program, `path` ends otherwise, or `depth` is below
        0.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in _DRAWN_BY:
        names = ", ".join(map(repr, _DRAWN_BY))
        raise ValueError(f"path: expected a name that ends in one of {names}, got {str(path)!r}")
    if depth is not None and operator.index(depth) < 0:
        raise ValueError(f"depth: expected 0 or more, or None for all, got {depth}")
    text = _DRAWN_BY[ending](*graph_of(_program(schedule, program), depth))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _program(thing: Any, name: str) -> Program:
    if isinstance(thing, Program):
        return thing
    if not isinstance(thing, Schedule):
        found = [m.static_schedule for m in Target(thing).managers()]
        used = [schedule for schedule in found if schedule is not None]
        if not used:
            raise ValueError(
                "schedule: expected one that was traced; there is none yet: no static call was made"
            )
        thing = used[0]
    if thing.dynamic is not None:
        raise ValueError(f"schedule: runs define-by-run, {thing.dynamic.text}")
    there = {key: x for key, x in thing.programs.items() if x != []}
    if name not in there:
        names = ", ".join(map(repr, there))
        raise ValueError(f"program: expected one of {names}, got {name!r}")
    found = there[name]
    return found[0] if isinstance(found, list) else found


def _lines(box: Box) -> list[str]:
    """What stands in a box: at most two lines."""
    second = f"{', '.join(box.names)} {box.shape}".strip()
    return [_short(box.title or "(no link)"), _short(second)]


def _short(text: str) -> str:
    return text if len(text) <= MOST else text[: MOST - 3] + "..."


def _kind(box: Box) -> str:
    return "data" if not box.ops else "python" if box.python else "ops"


def _svg(boxes: list[Box], edges: list[tuple[int, int]]) -> str:
    texts = [_lines(box) for box in boxes]
    widths = [max(map(len, lines)) * 6.6 + 16 for lines in texts]
    layout = Layout(widths, edges)
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:.0f} '
        f'{layout.height:.0f}" width="{layout.width:.0f}" height="{layout.height:.0f}" '
        'font-family="monospace" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        '<g fill="none" stroke="#6b7280">',
        *(f'<path d="{_curve(points)}"/>' for points in layout.lines),
        "</g>",
    ]
    for k, (box, lines) in enumerate(zip(boxes, texts, strict=True)):
        x, y, half = layout.x[k], layout.y[k], widths[k] / 2
        ops = f"ops {box.ops[0]} to {box.ops[-1]}: " if box.ops else ""
        made.append(
            f"<g><title>{escape(f'{box.title}; {ops}{box.names} {box.shape}')}</title>"
            f'<rect x="{x - half:.1f}" y="{y - HEIGHT / 2:.1f}" width="{2 * half:.1f}" '
            f'height="{HEIGHT:.0f}" rx="6" fill="{_FILL[_kind(box)]}" stroke="#374151"/>'
            f'<text text-anchor="middle" x="{x:.1f}" y="{y - 4:.1f}">{escape(lines[0])}</text>'
            f'<text text-anchor="middle" x="{x:.1f}" y="{y + 12:.1f}" fill="#4b5563">'
            f"{escape(lines[1])}</text></g>"
        )
    return "\n".join([*made, "</svg>", ""])


def _curve(points: list[tuple[float, float]]) -> str:
    """From the lower edge of a box to the upper one of another."""
    (x, y), *rest = points
    y += HEIGHT / 2
    text = f"M{x:.1f} {y:.1f}"
    for i, (to_x, to_y) in enumerate(rest):
        to_y -= HEIGHT / 2
        middle = y + GAP_Y / 2
        text += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
        if i < len(rest) - 1:
            y += HEIGHT
            text += f"V{y:.1f}"
    return text


def _dot(boxes: list[Box], edges: list[tuple[int, int]]) -> str:
    made = ["digraph schedule {", '  node [shape=box, style="rounded,filled", fontname=monospace];']
    for k, box in enumerate(boxes):
        label = "\\n".join(map(_quoted, _lines(box)))
        made.append(f'  n{k} [label="{label}", fillcolor="{_FILL[_kind(box)]}"];')
    made += [f"  n{a} -> n{b};" for a, b in edges]
    return "\n".join([*made, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


_DRAWN_BY = {".svg": _svg, ".dot": _dot, ".gv": _dot}
