"""A program as HTML: its ops, and how much memory they work in."""

from __future__ import annotations

import linecache
import os
import re

from sdbr.inspection.html.elements import Markup, element, escape, fragment, joined, search, table
from sdbr.inspection.memory import live_bytes
from sdbr.ops.table import OPS
from sdbr.program.executors import provides

import numpy as np

_WIDTH, _HEIGHT = 900, 140
_LINE = re.compile(r"(.*):(\d+) in ([^:]*)$")


def program_html(program, title: str = "") -> Markup:
    """What there is to see of a program.

    Parameters
    ----------
    program : Program
    title : str
        In front of its name.
    """
    n, python = len(program), program.python_ops
    text = f"{n - python} native ops, {python} Python ops; arena of {program.arena_bytes:,} bytes"
    return joined(
        [
            element("h3", f"{title} {program.name or 'program'}".strip()),
            element("p", text),
            _bar(n - python, python),
            memory_svg(program),
            ops_table(program),
        ]
    )


@provides("html")
def program_fragment(program) -> str:
    """What a notebook shows of a program."""
    return str(fragment(program_html(program)))


@provides("schedule html")
def schedule_fragment(schedule) -> str:
    """What a notebook shows of a schedule: its programs."""
    if schedule.dynamic is not None:
        text, remedy, line = schedule.dynamic
        text = f"runs define-by-run: {text} at {line}. {remedy.value}"
        return str(fragment(element("p", repr(schedule)), element("p", text)))
    programs = schedule.programs
    flat = [programs["forward"], *programs["backward"]]
    flat += [programs["step"]] if "step" in programs else []
    return str(fragment(element("p", repr(schedule)), *map(program_html, flat)))


def _bar(native: int, python: int) -> Markup:
    parts = [
        Markup(f'<div class="{name}" style="flex:{n}" title="{n} {name} ops"></div>')
        for name, n in (("native", native), ("python", python))
        if n
    ]
    return element("div", *parts, class_="bar")


def ops_table(program) -> Markup:
    """One row per op; those that are Python ops are marked."""
    here = os.getcwd() + os.sep
    rows, classes = [], []
    for i, code in enumerate(program.opcodes.tolist()):
        ins, outs = program.operands_of(i)
        operands = (
            f"{', '.join(map(program.describe_row, ins))} \u2192 "
            f"{', '.join(map(program.describe_row, outs))}"
        )
        label, link, line = program.origin(i)
        rows.append((i, OPS[code].name, operands, label, link, _source(line, here)))
        classes.append("python" if code == 0 else "")
    return table(("op", "name", "operands", "function", "link", "line"), rows, classes, of="ops")


def _source(line: str, here: str) -> Markup:
    """A user's line, with its text where the file is there."""
    found = _LINE.match(line)
    shown = escape(line[len(here) :] if line.startswith(here) else line)
    text = linecache.getline(found[1], int(found[2])).strip() if found else ""
    return joined([shown, Markup("<br>"), element("code", text)]) if text else shown


def memory_svg(program) -> Markup:
    """Bytes of the arena that are in use, over the index of the op; nothing without an arena."""
    used = live_bytes(program)
    if not used.any():
        return Markup("")
    most = int(used.max())
    x = np.linspace(0, _WIDTH, len(used) + 1)
    y = _HEIGHT - used / most * (_HEIGHT - 20)
    points = [f"M0 {_HEIGHT}"]
    points += [f"V{b:.1f}H{a:.1f}" for a, b in zip(x[1:], y, strict=True)]
    at = int(used.argmax())
    title = f"most at op {at}: {most:,} of {program.arena_bytes:,} bytes"
    return Markup(
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img">'
        f'<title>{escape(title)}</title><path d="{"".join(points)}V{_HEIGHT}Z" fill="#9ecae1" '
        f'stroke="#2f81b7"/><text x="4" y="14" font-size="12">memory over ops; {escape(title)}'
        "</text></svg>"
    )


def programs_html(programs: list[tuple[str, object]]) -> Markup:
    """Several programs, with a field that looks through all of their ops."""
    made = [program_html(program, title) for title, program in programs]
    return joined([element("h2", "Programs"), search(), *made]) if made else Markup("")
