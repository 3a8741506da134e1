"""How a user writes a step that is not whole, and the lines that make it whole."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from sdbr.call.step.whole import STATE, unsuitable
from sdbr.schedule.sighted import LossFunction, Sighting
from sdbr.schedule.sightings import sighting_of
from sdbr.trace.values import ATTRIBUTE

COLUMNS = 120


class Advice(NamedTuple):
    """What is said of a way to write a step.

    Attributes
    ----------
    way : str
    instead : list of str
        Lines to write; empty where none make the step whole.
    why : str or None
        Why none do.
    """

    way: str
    instead: list[str]
    why: str | None = None


def way_of_step(manager, schedules: list) -> dict | None:
    """How the steps through a manager are written, where they are not whole and were seen.

    Returns
    -------
    dict or None
        ``way``, ``line``, ``times``, ``instead`` (lines of code; empty without any), ``why``
        (there is no whole step, or None), and ``saves``, None or the seconds of a step that a
        profile has found outside of ops: as much as there is to save.
    """
    seen = sighting_of(manager)
    advice = None if seen is None else _advice(manager, seen, schedules)
    if seen is None or advice is None:
        return None
    measured = getattr(manager, "measured", None)
    saves = None
    if advice.instead and measured is not None and not measured["whole"]:
        saves = {
            "seconds": measured["wrapping"] + measured["outside"],
            "of": measured["total"],
        }
    return {
        "way": advice.way,
        "line": seen.line,
        "times": seen.times,
        "instead": advice.instead,
        "why": advice.why,
        "saves": saves,
    }


def _advice(manager, seen: Sighting, schedules: list) -> Advice | None:
    lossfun = seen.lossfun
    if seen.by_others or (lossfun is not None and lossfun.kind == "static"):
        return None  # a whole step was asked for: why there is none is said elsewhere
    if not (seen.optimizers or seen.updated):
        return None  # gradients of something else than a step
    way = _way(seen)
    cut_inside = _cut_inside(manager, seen, schedules)
    if cut_inside:
        return Advice(way, [*cut_inside, *_instead(manager, seen)])
    why = _why_not_static(manager, seen, schedules) or _why_not(seen)
    if why is not None:
        return Advice(way, [], why)
    return Advice(way, _instead(manager, seen))


def _way(seen: Sighting) -> str:
    """How the step is written, in words."""
    backwards = seen.backwards
    if len(backwards) > 1:
        return f"{len(backwards)} backwards to an update"
    if len(seen.optimizers) > 1:
        how = f"one backward, {len(seen.optimizers)} optimizers"
    elif seen.lossfun is not None:
        kind = {"lambda": "a lambda", "link": "a link that is not static"}
        how = f"update with {kind.get(seen.lossfun.kind, 'a function that is not static')}"
    elif backwards[0].by_chainer:
        how = "update of a plain optimizer"
    else:
        clearing = "zerograds" if "zerograds" in seen.clears else "cleargrads"
        how = f"by hand ({clearing}, backward, {'unchain_backward, ' * seen.cut}update)"
    if len(backwards[0].calls) > 1:
        return f"{how}, a loss of {len(backwards[0].calls)} static calls"
    return how if backwards[0].alone else f"{how}, the loss outside of the static call"


def _why_not(seen: Sighting) -> str | None:
    """Why no other lines make this step whole, as far as these lines tell."""
    backward = seen.backwards[0]
    if len(seen.backwards) > 1:
        return "a whole step has one backward; these are compiled one by one"
    if backward.retains:
        return "gradients in between are retained"
    if backward.seeded:
        return "the gradient of the loss is set before the backward"
    if seen.changed:
        return (
            "gradients are changed between backward and update (what a hook of the optimizer does, "
            "such as GradientClipping, is part of a whole step)"
        )
    if seen.shared:
        return (
            "several losses go back through one call; a static loss for each network, which makes "
            "that call itself, makes whole steps"
        )
    if seen.held:
        return (
            "the program holds the graphs of its steps, as by losses.append(loss); keep "
            "float(loss.array) where nothing goes back through them"
        )
    if backward.stateful:
        return "a link keeps state with a gradient from step to step"
    if seen.lossfun is not None and seen.lossfun.brings_graph:
        return "the loss function gets Variables that calls before it have made"
    if not seen.alike:
        return "a whole step has one optimizer"
    return None


def _why_not_static(manager, seen: Sighting, schedules: list) -> str | None:
    """Why the call that gives the loss makes no whole step."""
    if not seen.backwards[0].alone:
        return None
    if manager.step_reason is not None:
        return manager.step_reason
    targets = [target for reference in seen.targets if (target := reference()) is not None]
    params = [p for target in targets for p in target.params() if p.array is not None]
    static = [s for s in schedules if s.dynamic is None and s.keep_graph]
    if not (targets and static):
        return None
    return unsuitable(max(static, key=_last), targets[0], seen.clearing, params)


def _last(schedule) -> int:
    return schedule.usage.last_call


def _cut_inside(manager, seen: Sighting, schedules: list) -> list[str]:
    """Lines that cut the history of state in the call, where that alone is in the way."""
    backward = seen.backwards[0]
    owner = None if manager.owner is None else manager.owner()
    if owner is None or not (seen.cut and backward.alone and backward.stateful):
        return []
    without = dataclasses.replace(backward, stateful=False)
    if _why_not(dataclasses.replace(seen, backwards=[without, *seen.backwards[1:]])) is not None:
        return []
    if _why_not_static(manager, seen, schedules) not in (None, *STATE):
        return []
    paths = {id(link): path.replace("/", ".") for path, link in owner.namedlinks()}
    names = {
        f"self{paths[id(value.source[0])].rstrip('.')}.{value.source[1]}"
        for schedule in schedules
        for value in schedule.trace.values
        if value.kind == ATTRIBUTE and value.requires_grad and id(value.source[0]) in paths
    }
    if not names:
        return []
    where = getattr(type(owner), "_sdbr_base", type(owner)).__name__
    return [
        f"# first in {where}.{manager.function.__name__}, in place of unchain_backward():",
        f"if {min(names)} is not None:",
        *[f"    {name} = chainer.Variable({name}.array)" for name in sorted(names)],
    ]


def _instead(manager, seen: Sighting) -> list[str]:
    """The lines that make the step whole."""
    backward = seen.backwards[0]
    name = seen.names[0] if seen.names else "optimizer"
    lines = [] if seen.optimizers else [f"{name} = sdbr.static_optimizer({name})"]
    if len(seen.optimizers) > 1:
        known = len(set(seen.names)) == len(seen.names)
        targets = ", ".join(f"{each}.target" for each in seen.names) if known else "..."
        lines.append(f"{name}.setup(chainer.ChainList({targets}))  # one for all of them")
    if backward.alone:
        if not backward.by_chainer:
            lines.append(f"{name}.update({_callee(manager, seen)}, ...)")
        return lines
    if seen.lossfun is None:
        what = "the static calls, and the loss of them"
        return [
            *lines,
            "@sdbr.static_graph",
            f"def loss_of(...): ...  # {what}",
            f"{name}.update(loss_of, ...)",
        ]
    return [*lines, *_static_loss(seen.lossfun, name)]


def _static_loss(lossfun: LossFunction, name: str) -> list[str]:
    """The lines that make a loss function static."""
    if lossfun.kind in ("lambda", "bound"):
        what = "the lambda" if lossfun.kind == "lambda" else lossfun.name
        return [
            "@sdbr.static_graph",
            f"def loss_of(...): ...  # what {what} does",
            f"{name}.update(loss_of, ...)",
        ]
    if lossfun.kind == "method":
        return [f"@sdbr.static_graph  # on {lossfun.name}"]
    if lossfun.kind == "link":
        return [f"{lossfun.name} = sdbr.static_graph({lossfun.name})"]
    return [f"{lossfun.name} = sdbr.static_graph({lossfun.name})  # or the decorator"]


def _callee(manager, seen: Sighting) -> str:
    """What to hand to ``update``."""
    function = manager.function.__name__
    if manager.owner is None:
        return function
    owner = seen.callee or "model"
    return owner if function in ("forward", "__call__") else f"{owner}.{function}"


def lines_of(step: dict, where: Callable[[str], str]) -> list[str]:
    """What the text of a report says."""
    times = f", {step['times']} in a row" if step["times"] > 1 else ""
    lines = filled(f"  step: {step['way']}; seen at {where(step['line'])}{times}")
    if not step["instead"]:
        return [*lines, *filled(f"    no whole step: {step['why']}")]
    lines.append(f"    a whole step instead: {step['instead'][0]}")
    lines += [f"{' ' * 26}{line}" for line in step["instead"][1:]]
    saves = step["saves"]
    if saves is None:
        lines.append("    what it saves was not measured: sdbr.explain(model, run, instead) does")
    else:
        lines.append(
            f"    it saves at most the {saves['seconds'] * 1e6:.1f} us of {saves['of'] * 1e6:.1f} "
            "that were measured outside of ops"
        )
    return lines


def filled(text: str) -> list[str]:
    """`text` in lines that fit, those after the first further in."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(text, COLUMNS, subsequent_indent=indent) or [""]
