"""A report as text that fits on a screen."""

from __future__ import annotations

import collections
import os
from typing import NamedTuple

from sdbr.inspection.steps import COLUMNS, filled, lines_of
from sdbr.inspection.ways import drawn
from sdbr.inspection.words import counted

LINES = 40


class Limits(NamedTuple):
    """How much of each thing is shown."""

    managers: int
    schedules: int
    programs: bool
    backwards: int
    python_ops: int
    misses: int
    reasons: int


# The most detailed of them that fits on a screen is taken.
_LEVELS = (
    Limits(8, 6, True, 2, 8, 5, 5),
    Limits(8, 4, True, 2, 6, 3, 4),
    Limits(6, 3, True, 1, 4, 3, 3),
    Limits(5, 3, True, 1, 3, 2, 2),
    Limits(4, 2, True, 1, 2, 1, 1),
    Limits(4, 2, False, 0, 1, 1, 1),
    Limits(4, 1, False, 0, 0, 0, 1),
    Limits(30, 0, False, 0, 0, 0, 0),
)


def render(facts: dict) -> str:
    """The facts of :func:`sdbr.explain` as text: at most 40 lines of at most 120 columns."""
    lines: list[str] = []
    for limits in _LEVELS:
        lines = [part for line in _lines(facts, limits) for part in filled(line)]
        if len(lines) <= LINES:
            break
    if len(lines) > LINES:
        hidden = len(lines) - LINES + 1
        lines = [*lines[: LINES - 1], f"... {counted(hidden, 'more line')}: see to_dict()"]
    return "\n".join(lines)


def _lines(facts: dict, limits: Limits) -> list[str]:
    lines = [f"{facts['name']}: backend {facts['backend']}, SIMD {facts['simd']}"]
    managers = facts["managers"]
    if not managers:
        lines.append("  " + _nothing(facts))
    # Those that did most are shown.
    order = sorted(range(len(managers)), key=lambda i: -managers[i]["statistics"]["calls"])
    for i in sorted(order[: limits.managers]):
        lines += _manager(managers[i], limits)
    if len(managers) > limits.managers:
        hidden = counted(len(managers) - limits.managers, "more static callable")
        lines.append(f"and {hidden}, called less")
    for optimizer in facts["optimizers"][: limits.managers]:
        lines += _optimizer(optimizer, limits)
    return lines + _compared(facts["compared"])


def _compared(compared: dict | None) -> list[str]:
    """What the lines that were tried instead save."""
    if compared is None:
        return []
    run, instead = compared["run"], compared["instead"]
    more = "less" if instead <= run else "more"
    return [
        f"an iteration {run * 1e6:.1f} us, instead {instead * 1e6:.1f} us: "
        f"{abs(run - instead) / run:.0%} {more} (median of {compared['times']} each, in turn)"
    ]


def _nothing(facts: dict) -> str:
    if facts["static"]:
        return "not traced yet: no static call was made"
    if facts["within"]:
        return f"nothing static here by itself: it runs inside of {', '.join(facts['within'])}"
    if facts["kind"] == "optimizer":
        return "no static loss function is known yet"
    return "nothing static here: decorate a method with sdbr.static_graph, or wrap the link"


def _manager(m: dict, limits: Limits) -> list[str]:
    s = m["statistics"]
    if not limits.schedules:
        return [
            f"{m['name']}: calls {s['calls']}, replays {s['replays']}, traces {s['traces']}, "
            f"define-by-run {s['define_by_run_calls']}; {counted(len(m['schedules']), 'schedule')}"
        ]
    lines = [m["name"] + (f" (backend={m['backend']!r})" if m["backend"] else "")]
    if m["off"]:
        lines.append(f"  a call now would run define-by-run: {m['off']}")
    lines += [
        f"  calls {s['calls']}: replays {s['replays']} (whole steps {s['steps']}), "
        f"traces {s['traces']}, "
        + (f"built for new sizes {s['builds']}, " if s["builds"] else "")
        + f"define-by-run {s['define_by_run_calls']}",
        f"  native calls {s['native_calls']}, Python ops in them {s['python_ops']}" + _second(s),
    ]
    reasons = sorted(m["define_by_run_reasons"].items(), key=lambda item: -item[1])
    for reason, n in reasons[: limits.reasons]:
        lines.append(f"  define-by-run x {n}: {reason}")
    if len(reasons) > limits.reasons:
        hidden = counted(len(reasons) - limits.reasons, "more reason")
        lines.append(f"  and {hidden} for define-by-run")
    lines += _audits(m["audits"], limits)
    lines.append(_time(m["time"]))
    for tree in m["ways"][: limits.reasons]:
        lines.append("  ways through a call, by what it asks:")
        lines += drawn(tree, where, 3 * limits.reasons)
    lines += _schedules(m, limits)
    lines += _step(m) if m["step"] is None else lines_of(m["step"], where)
    lines += _back_off(m["back_off"])
    if m["misses"]:
        n, anew = len(m["misses"]), s["traces"] + s["builds"]
        head = f"traced anew {counted(n, 'time')}, because of"
        if n > anew:  # most were dynamic, or not worth a trace
            head = f"the last {n} calls without a schedule had none because of"
        lines.append(f"  {head}")
        for (text, line), n in _grouped(m["misses"])[: limits.misses]:
            times = f" ({n} times)" if n > 1 else ""
            lines.append(f"    {text}{times} at {where(line)}")
    return lines


def _back_off(b: dict) -> list[str]:
    if not b["declined"]:
        return []
    missed = counted(b["missed"], "call")
    lines = [f"  {missed} had no schedule, {b['declined']} of them ran define-by-run"]
    if b["active"]:
        lines.append(
            f"  in a row by now {b['in_a_row']}, traced next: the {b['next_trial']}th, or one that "
            "comes again; pad batches, pass arrays or floats"
        )
    return lines


def _audits(a: dict, limits: Limits) -> list[str]:
    if not (a["passed"] or a["failed"] or a["inconclusive"]):
        return ["  audits: no replay was compared with define-by-run yet"]
    beside = f" beside {a['replay_seconds'] * 1e3:.1f} ms of replays" if a["replay_seconds"] else ""
    more = [
        f"{a[name]} {text}"
        for name, text in (("inconclusive", "inconclusive"), ("noisy", "within rounding noise"))
        if a[name]
    ]
    lines = [
        f"  audits {a['passed'] + a['failed'] + a['inconclusive']}: passed {a['passed']}, failed "
        f"{a['failed']}{''.join(', ' + text for text in more)}; {a['seconds'] * 1e3:.1f} ms{beside}"
    ]
    for failure in a["failures"][: limits.reasons]:
        lines.append(f"    {failure['problem']}")
    return lines


def _second(s: dict) -> str:
    n, replayed = s["second_backwards"], s["second_replays"]
    if not n:
        return ""
    rest = n - replayed
    through = f", {rest} through Chainer's own code" if rest else ""
    return f"; second derivatives {n}: {replayed} replayed{through}"


def _grouped(misses: list[dict]) -> list:
    """Misses for one reason at one line together, the newest first."""
    counts = collections.Counter((x["differs"], x["line"]) for x in misses)
    order = {(x["differs"], x["line"]): i for i, x in enumerate(misses)}
    return sorted(counts.items(), key=lambda item: -order[item[0]])


def _time(t: dict | None) -> str:
    if t is None:
        return "  time: not measured; a block under sdbr.profile(...) does"
    unit, scale = ("us", 1e6) if t["total"] < 1e-2 else ("ms", 1e3)
    native, python, wrapping, outside, total = (
        f"{t[name] * scale:.1f}" for name in ("native", "python", "wrapping", "outside", "total")
    )
    return (
        f"  time a call {total} {unit}: native ops {native}, Python ops {python}, wrapping "
        f"{wrapping}, outside {outside} (median of {t['calls']}, {_age(t['age_seconds'])} ago)"
    )


def _step(m: dict) -> list[str]:
    step = m["whole_step"]
    if step["native"] and step["after"]:
        return [f"  whole step: forward and backward; then the update, for {step['after']}"]
    if step["native"]:
        return ["  whole step: native (forward, backward and update in one call)"]
    if step["reason"]:
        return [f"  whole step: no, {step['reason']}"]
    if made := m["statistics"]["steps"]:
        return [f"  whole step: {made} so far, by an optimizer or a schedule that is gone"]
    if m["asked_whole"]:
        return ["  whole step: none so far; the first call is traced, those after it may be whole"]
    if not m["trains"]:
        return []  # nobody goes back through these calls
    return [
        "  whole step: none so far; optimizer.update(loss, ...) of a static optimizer makes one"
    ]


def _schedules(m: dict, limits: Limits) -> list[str]:
    schedules = m["schedules"]
    if not schedules:
        traced = m["statistics"]["traces"]
        return ["  no schedule is kept" if traced else "  no schedule: not traced yet"]
    shown = sorted(schedules, key=lambda s: s["calls_ago"])[: limits.schedules]
    lines = []
    if len(shown) < len(schedules) or m["memory_bytes"]:
        n = len(schedules)
        lines.append(
            f"  {counted(n, 'schedule')} in {_bytes(m['memory_bytes'])} of arenas"
            + (f"; used last ({len(shown)} shown):" if len(shown) < n else ":")
        )
    for schedule in shown:
        lines += _schedule(schedule, limits)
    return lines


def _reasons(dynamic: dict) -> list[str]:
    """Why a call runs define-by-run, what would mend it, and what would have to be mended, too."""
    lines = []
    for told, reason in [("runs define-by-run", dynamic), *(("and", x) for x in dynamic["others"])]:
        place = f" at {where(reason['line'])}" if reason["line"] else ""
        lines += [f"    {told}: {reason['reason']}{place}", f"      {reason['remedy']}"]
    return lines


def _schedule(s: dict, limits: Limits) -> list[str]:
    arguments = ", ".join(_argument(a) for a in s["arguments"]) or "no arrays"
    mode = "train" if s["train"] else "test"
    backprop = "backprop" if s["enable_backprop"] else "no backprop"
    device = f", {s['device']}" if s["device"] else ""
    last = "used last" if not s["calls_ago"] else f"used {counted(s['calls_ago'], 'call')} ago"
    how = "built for this size of what was traced" if s["built"] else "traced"
    sets = f", {s['instances']} sets of activations" if s["instances"] > 1 else ""
    lines = [
        f"  schedule ({arguments}; {mode}, {backprop}{device}), "
        f"{_age(s['age_seconds'])} old, {last}, served {s['served']}",
        f"    {counted(s['nodes'], 'node')}, {how} at {where(s['line'])}{sets}",
    ]
    if s["dynamic"] is not None:
        return lines + _reasons(s["dynamic"])
    if s["unwatched"]:
        lines.append("    not compared before replays: " + "; ".join(s["unwatched"]))
    if s["error"] is not None:
        return [*lines, f"    cannot be built: {s['error']}"]
    if limits.programs:
        lines += _programs(s["programs"], limits)
    else:
        native = sum(p["native_ops"] for p in s["programs"])
        python = sum(p["python_ops"] for p in s["programs"])
        programs = counted(len(s["programs"]), "program")
        lines.append(f"    {programs}: {native} native, {python} Python ops")
    return lines + _python_nodes(s["python_nodes"], limits)


def _programs(programs: list[dict], limits: Limits) -> list[str]:
    backwards = [p for p in programs if p["name"] == "backward"]
    hidden = backwards[limits.backwards :]
    lines = []
    for p in programs:
        if not any(p is h for h in hidden):
            lines += _program(p)
    if hidden:
        more = counted(len(hidden), "more backward program")
        lines.append(f"    and {more}, for other gradient patterns")
    return lines


#: Names of arrays that are others in each run; the others are counted.
MOST_MOVING = 8


def _program(p: dict) -> list[str]:
    head = f"    {p['name']}: {p['native_ops']} native, {p['python_ops']} Python ops"
    memory = (
        f"; arena {_bytes(p['arena_bytes'])} (no reuse {_bytes(p['bytes_without_reuse'])}), "
        f"with outputs {_bytes(p['peak_bytes'])}"
    )
    names = [f"{name} x {n}" if n > 1 else name for name, n in p["ops_by_name"].items()]
    room = COLUMNS - len(head) - len(memory) - 3
    text = ""
    for k, name in enumerate(names):
        more = f", {counted(len(names) - k, 'more kind')}"
        if len(text) + len(name) + 2 + len(more) > room:
            text += more if text else counted(len(names), "kind")
            break
        text += f", {name}" if text else name
    alone = [f"      launched one by one: {text}" for text in p["uncaptured"]]
    moving = _moving(p["moving"])
    lines = [f"{head} ({text}){memory}", *_choices(p["choices"]), *_graphs(p["graphs"])]
    return [*lines, *moving, *alone]


def _graphs(graphs: list[dict] | None) -> list[str]:
    """How many graphs a GPU runs, and what lies between them."""
    if graphs is None:
        return []
    n, kernels = len(graphs), sum(graph["kernels"] for graph in graphs)
    text = f"{counted(n, 'graph')} with {counted(kernels, 'kernel')}"
    cuts = collections.Counter(graph["cut_by"] for graph in graphs if graph["cut_by"])
    names = ", ".join(name + (f" x {k}" if k > 1 else "") for name, k in cuts.most_common())
    forms = collections.Counter(graph["form"] for graph in graphs if graph["form"])
    formed = "; ".join(form + (f" x {k}" if k > 1 else "") for form, k in forms.most_common())
    text += f", cut by Python ops: {names}" if names else ""
    return [f"      {text}" + (f"; launched as {formed}" if formed else "")]


def _moving(names: list[str]) -> list[str]:
    """Which arrays are others in each run, so that a GPU reads from memory where they lie."""
    if not names:
        return []
    shown = ", ".join(dict.fromkeys(names[:MOST_MOVING]))
    more = f" and {len(names) - MOST_MOVING} more" if len(names) > MOST_MOVING else ""
    return [f"      other arrays in each run: {shown}{more}"]


def _choices(choices: list[dict]) -> list[str]:
    """One line: how often each kernel was chosen, and for which ops."""
    if not choices:
        return []
    counts = collections.Counter(choice["kernel"] for choice in choices)
    names = ", ".join(dict.fromkeys(choice["name"] for choice in choices))
    text = ", ".join(f"{kernel} x {n}" for kernel, n in counts.most_common())
    why = ", ".join(dict.fromkeys(choice["why"] for choice in choices))
    return [f"      chosen: {text} ({names}); {why}; times in to_dict()"]


def _python_nodes(nodes: list[dict], limits: Limits) -> list[str]:
    groups: dict = collections.Counter((n["label"], n["reason"], n["line"]) for n in nodes)
    links = {(n["label"], n["reason"], n["line"]): n["link"] for n in reversed(nodes)}
    lines = [
        f"    Python op {group[0]}"
        + (f" x {n}" if n > 1 else "")
        + f": {group[1]}; at {where(group[2])}"
        + _in(links[group], n)
        for group, n in groups.most_common(limits.python_ops)
    ]
    if len(groups) > limits.python_ops:
        rest = sum(groups.values()) - sum(n for _, n in groups.most_common(limits.python_ops))
        lines.append(f"    and {counted(rest, 'more Python op')}")
    return lines


def _in(link: str, n: int) -> str:
    """The link of the first of `n` ops."""
    return f" in {link}" + (" and others" if n > 1 else "") if link not in ("", "/") else ""


def _optimizer(o: dict, limits: Limits) -> list[str]:
    if not o["static"]:
        text = "a plain optimizer, Chainer updates; sdbr.static_optimizer makes it native"
        return [f"{o['name']}: {text}"]
    if o["plan"] is None:
        return [f"{o['name']}: static, no update was made yet"]
    plan = [f"  {line}" for line in o["plan"].splitlines()]
    if len(plan) > limits.reasons + 1:
        hidden = counted(len(plan) - limits.reasons, "more part")
        plan = [*plan[: limits.reasons], f"  and {hidden}"]
    lines = [f"{o['name']}: update", *plan]
    if o["program"]:
        lines += [f"  {line.strip()}" for line in _program(o["program"])]
    if o["audits"] and any(o["audits"].values()):
        counts = ", ".join(f"{name} {n}" for name, n in o["audits"].items() if n)
        lines.append(f"  beside Chainer's own: {counts}")
    if o["declined"]:
        lines.append(f"  the last update that was Chainer's as a whole: {o['declined']}")
    if o["feed"]:
        lines.append(f"  {o['feed']}")
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


def where(line: str) -> str:
    """A source line, its file relative to the working directory where it lies below."""
    here = os.getcwd() + os.sep
    return line[len(here) :] if line.startswith(here) else line or "?"
