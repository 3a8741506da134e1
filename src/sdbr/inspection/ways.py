"""The ways through calls that ask: which questions, and how often each answer came."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sdbr.trace.questions import questions


def ways_of(schedules: Iterable) -> list[dict]:
    """A tree of questions for each key whose calls ask.

    Returns
    -------
    list of dict
        ``line``, ``kind`` (``'bool'`` or ``'int'``) and ``answers``: per answer ``answer``,
        ``calls``, and ``then``, the next question or None.
    """
    trees: dict = {}
    for schedule in schedules:
        asked = questions(schedule.trace)
        if not asked:
            continue
        at = trees.setdefault(schedule.key, {})
        served = int(schedule.usage.served)
        for question in asked:
            place = (question.line, question.kind.__name__)
            entry = at.setdefault(place, {}).setdefault(question.answer, [0, {}])
            entry[0] += served
            at = entry[1]
    return [tree for root in trees.values() for tree in _plain(root)]


def _plain(questions_here: dict) -> list[dict]:
    return [
        {
            "line": line,
            "kind": kind,
            "answers": [
                {"answer": answer, "calls": calls, "then": next(iter(_plain(then)), None)}
                for answer, (calls, then) in sorted(answers.items())
            ],
        }
        for (line, kind), answers in questions_here.items()
    ]


def drawn(tree: dict, where: Callable[[str], str], most: int) -> list[str]:
    """A tree as lines of text, at most `most`: each answer below the one before it."""
    lines = _drawn(tree, where, "    ")
    if len(lines) > most:
        lines = [*lines[: most - 1], f"    and {len(lines) - most + 1} more lines: see to_dict()"]
    return lines


def _drawn(tree: dict | None, where: Callable[[str], str], indent: str) -> list[str]:
    if tree is None:
        return []
    lines = []
    for way in tree["answers"]:
        answer = way["answer"]
        text = ("no", "yes")[answer] if tree["kind"] == "bool" else str(answer)
        times = "once" if way["calls"] == 1 else f"{way['calls']} times"
        lines.append(f"{indent}{where(tree['line'])}: {text} ({times})")
        lines += _drawn(way["then"], where, indent + "  ")
    return lines
