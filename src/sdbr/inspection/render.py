"""A report as text that fits on a screen."""

from __future__ import annotations

import collections
import os

SCHEDULES, BACKWARDS, PYTHON_NODES, MISSES, NAMES = 4, 2, 8, 3, 8


def render(facts: dict) -> str:
    """The facts of :func:`sdbr.explain` as text."""
    head = f"{facts['name']}: backend {facts['backend']}, SIMD {facts['simd']}"
    lines = [head]
    if not facts["managers"]:
        lines.append("  " + _nothing(facts))
    for manager in facts["managers"]:
        lines += _manager(manager)
    for optimizer in facts["optimizers"]:
        lines += _optimizer(optimizer)
    return "\n".join(lines)


def _nothing(facts: dict) -> str:
    if facts["static"]:
        return "not traced yet: no static call was made"
    if facts["kind"] == "optimizer":
        return "no static loss function is known yet"
    return "nothing static here: decorate a method with sdbr.static_graph, or wrap the link"


def _manager(m: dict) -> list[str]:
    s = m["statistics"]
    lines = [m["name"] + (f" (backend={m['backend']!r})" if m["backend"] else "")]
    if m["off"]:
        lines.append(f"  a call now would run define-by-run: {m['off']}")
    lines += [
        f"  calls {s['calls']}: replays {s['replays']} (whole steps {s['steps']}), "
        f"traces {s['traces']} (second {s['second_traces']}), "
        + f"define-by-run {s['define_by_run_calls']}",
        f"  native calls {s['native_calls']}, Python ops in them {s['python_ops']}",
    ]
    if s["second_backwards"]:
        lines.append(f"  second derivatives {s['second_backwards']}, through Chainer's own code")
    for reason, n in m["define_by_run_reasons"].items():
        lines.append(f"  define-by-run x {n}: {reason}")
    shown = m["schedules"][-SCHEDULES:]
    if not shown:
        lines.append(
            "  no schedule: not traced yet" if not s["traces"] else "  no schedule is kept"
        )
    if len(shown) < len(m["schedules"]):
        lines.append(f"  {len(m['schedules'])} schedules, the last {len(shown)}:")
    for schedule in shown:
        lines += _schedule(schedule)
    lines += _step(m["whole_step"])
    if m["misses"]:
        lines.append(f"  traced anew {len(m['misses'])} times, because of")
        lines += [
            f"    {_short(x['differs'], 100)} at {_where(x['line'])}" for x in m["misses"][-MISSES:]
        ]
    return lines


def _step(step: dict) -> list[str]:
    if step["native"]:
        return ["  whole step: native (forward, backward and update in one call)"]
    if step["reason"]:
        return [f"  whole step: no, {step['reason']}"]
    return [
        "  whole step: none so far; optimizer.update(loss, ...) of a static optimizer makes one"
    ]


def _schedule(s: dict) -> list[str]:
    arguments = ", ".join(_argument(a) for a in s["arguments"]) or "no arrays"
    mode = "train" if s["train"] else "test"
    backprop = "backprop" if s["enable_backprop"] else "no backprop"
    lines = [
        f"  schedule ({arguments}; {mode}, {backprop}), {_age(s['age_seconds'])} old, "
        f"{s['nodes']} nodes, traced at {_where(s['line'])}"
    ]
    if s["dynamic"] is not None:
        where = f" at {_where(s['dynamic']['line'])}" if s["dynamic"]["line"] else ""
        return [*lines, f"    runs define-by-run: {s['dynamic']['reason']}{where}"]
    if s["unconfirmed"]:
        return [
            *lines,
            "    waits for a second trace, which tells constants from values that change",
        ]
    if s["error"] is not None:
        return [*lines, f"    cannot be built: {s['error']}"]
    lines += _programs(s["programs"])
    return lines + _python_nodes(s["python_nodes"])


def _programs(programs: list[dict]) -> list[str]:
    backwards = [p for p in programs if p["name"] == "backward"]
    hidden = backwards[BACKWARDS:]
    lines = [_program(p) for p in programs if not any(p is h for h in hidden)]
    if hidden:
        lines.append(f"    and {len(hidden)} more backward programs, for other gradient patterns")
    return lines


def _program(p: dict) -> str:
    names = list(p["ops_by_name"].items())
    text = ", ".join(f"{name} x {n}" if n > 1 else name for name, n in names[:NAMES])
    if len(names) > NAMES:
        text += f", {len(names) - NAMES} more kinds"
    return (
        f"    {p['name']}: {p['native_ops']} native, {p['python_ops']} Python ops ({text}); "
        f"arena {_bytes(p['arena_bytes'])}, without reuse {_bytes(p['bytes_without_reuse'])}"
    )


def _python_nodes(nodes: list[dict]) -> list[str]:
    groups: dict = collections.Counter((n["label"], n["reason"], n["line"]) for n in nodes)
    lines = [
        f"    Python op {label}" + (f" x {n}" if n > 1 else "") + f": {reason}; at {_where(line)}"
        for (label, reason, line), n in list(groups.items())[:PYTHON_NODES]
    ]
    if len(groups) > PYTHON_NODES:
        lines.append(f"    and {len(groups) - PYTHON_NODES} more Python ops")
    return lines


def _optimizer(o: dict) -> list[str]:
    if not o["static"]:
        text = "a plain optimizer, Chainer updates; sdbr.static_optimizer makes it native"
        return [f"{o['name']}: {text}"]
    if o["plan"] is None:
        return [f"{o['name']}: static, no update was made yet"]
    lines = [f"{o['name']}: update", *[f"  {line}" for line in o["plan"].splitlines()]]
    if o["program"]:
        lines.append("  " + _program(o["program"]).strip())
    if o["declined"]:
        lines.append(f"  the last update that was Chainer's as a whole: {o['declined']}")
    return lines


def _argument(a: dict) -> str:
    text = f"{a['dtype']}[{','.join(map(str, a['shape']))}]"
    return text + (" with gradient" if a["requires_grad"] else "")


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bytes(n: int) -> str:
    if n < 10_000:
        return f"{n} B"
    return f"{n / 1024:.0f} KiB" if n < 10 * 1024**2 else f"{n / 1024**2:.1f} MiB"


def _where(line: str) -> str:
    """A source line, its file relative to the working directory where it lies below."""
    here = os.getcwd() + os.sep
    return line[len(here) :] if line.startswith(here) else line or "?"


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
