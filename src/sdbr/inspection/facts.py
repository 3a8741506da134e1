"""The facts that a report holds, as plain data."""

from __future__ import annotations

import collections

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import SdbrError
from sdbr.base.reasons import Reason
from sdbr.call.find import off_reason
from sdbr.call.step.whole import last_runner
from sdbr.inspection.steps import way_of_step
from sdbr.inspection.targets import schedules_of
from sdbr.inspection.ways import ways_of
from sdbr.ops.table import OPS
from sdbr.program.buffers import ARENA, OWNED
from sdbr.program.memory import ALIGNMENT
from sdbr.schedule.sightings import is_wanted_whole
from sdbr.trace.values import PARAMETER

import numpy as np

_MODES = ("train", "enable_backprop")


def manager_facts(manager, now: float) -> dict:
    """One static callable: its schedules, statistics, misses, and the whole step."""
    schedules = schedules_of(manager)
    steps = [plan for schedule in schedules for plan in schedule.step_plans.values()]
    calls = manager.statistics.calls
    memory = [arenas(schedule, list(manager.runners)) for schedule in schedules]
    facts = [
        schedule_facts(schedule, now, calls, sum(own.values()))
        for schedule, own in zip(schedules, memory, strict=True)
    ]
    measured = getattr(manager, "measured", None)
    return {
        "name": manager.name,
        "backend": manager.options.backend,
        "off": off_reason(manager.options),
        "define_by_run_reasons": dict(getattr(manager, "define_by_run_reasons", {})),
        "statistics": manager.statistics.to_dict(),
        "audits": manager.audits.to_dict(),
        "schedules": facts,
        "ways": ways_of(schedules),
        "memory_bytes": sum({key: n for own in memory for key, n in own.items()}.values()),
        "time": None
        if measured is None
        else {
            "age_seconds": max(0.0, now - measured["when"]),
            **{k: v for k, v in measured.items() if k not in ("when", "whole")},
        },
        "misses": [{"differs": text, "line": line} for text, line in list(manager.misses)],
        "back_off": manager.back_off.to_dict(),
        "whole_step": {
            "native": bool(steps),
            "reason": None if steps else _no_step(manager, facts),
            "after": _after(steps),
        },
        "asked_whole": is_wanted_whole(manager),
        "trains": any(_trains(schedule) for schedule in schedules),
        "step": way_of_step(manager, schedules),
    }


def _trains(schedule) -> bool:
    """Whether calls leave a graph, and an optimizer updates parameters in it."""
    return schedule.keep_graph and any(
        value.source.update_rule is not None
        for value in schedule.trace.values
        if value.kind == PARAMETER
    )


def _after(steps: list) -> str | None:
    """Why the update comes after the program of a step, or None."""
    apart = [plan.update for plan in steps if not plan.in_step]
    if not apart:
        return None
    update = apart[-1]
    if update.in_step:
        return "gradients are averaged over ranks before it, and not by MPI_Allreduce of float32"
    return update.reason or "the loss scale is dynamic"


def _no_step(manager, facts: list[dict]) -> str | None:
    if facts and all(f["dynamic"] is not None for f in facts):
        return "the call is not static"
    return manager.step_reason


def schedule_facts(schedule, now: float, calls: int, nbytes: int) -> dict:
    """One schedule: its key, its programs, and why it is dynamic if it is.

    Parameters
    ----------
    schedule : Schedule
    now : float
        By the clock of `time.time`.
    calls : int
        How many calls its manager has had.
    nbytes : int
        Of the arenas that it works in.
    """
    facts = {
        **_key_facts(schedule.key),
        "backend": schedule.backend,
        "line": schedule.line,
        "built": schedule.family is not None,
        "age_seconds": max(0.0, now - schedule.created),
        "trace_seconds": schedule.trace_seconds,
        "served": int(schedule.usage.served),
        "calls_ago": int(calls - schedule.usage.last_call),
        "nodes": len(schedule.trace.nodes),
        "dynamic": None,
        "unwatched": list(dict.fromkeys(schedule.trace.unwatched)),
        "instances": len(schedule.instances),
        "programs": [],
        "python_nodes": [],
        "memory_bytes": nbytes,
        "error": None,
    }
    if schedule.dynamic is not None:
        facts["dynamic"] = _reason(schedule.dynamic)
        facts["dynamic"]["others"] = [_reason(other) for other in schedule.trace.others]
        return facts
    try:
        forward = schedule.forward
    except (SdbrError, ValueError, TypeError) as error:
        facts["error"] = f"{type(error).__name__}: {error}"
        return facts
    facts["python_nodes"] = _python_nodes(forward.lowered)
    facts["programs"] = [
        program_facts(program)
        for program in (
            forward.program,
            *[plan.program for plan in list(forward.backwards.values())],
            *[plan.program for plan in list(schedule.step_plans.values())],
        )
    ]
    return facts


def _python_nodes(lowered) -> list[dict]:
    return [
        {
            "label": node.traced.label,
            "link": lowered.names.of_node(node.traced),
            "line": node.traced.line,
            "reason": node.reason,
        }
        for node in lowered.nodes
        if node.reason
    ]


def _reason(reason: Reason) -> dict:
    text, remedy, line = reason
    return {"reason": text, "line": line, "remedy": remedy.value}


def program_facts(program) -> dict:
    """Ops by name and memory of one program."""
    counts = collections.Counter(OPS[code].name for code in program.opcodes.tolist())
    return {
        "name": program.name,
        "ops": len(program),
        "native_ops": len(program) - program.python_ops,
        "python_ops": program.python_ops,
        "ops_by_name": dict(counts.most_common()),
        "arena_bytes": int(program.arena_bytes),
        "bytes_without_reuse": bytes_without_reuse(program),
        "owned_bytes": sum(_slot_bytes(s) for s in program.slots if s.kind == OWNED),
        "peak_bytes": int(program.arena_bytes)
        + sum(_slot_bytes(s) for s in program.slots if s.kind == OWNED),
        "constant_bytes": sum(s.array.nbytes for s in program.slots if s.array is not None),
        "choices": choices(program),
        "graphs": graphs(program),
        "uncaptured": list(program.uncaptured.values()),
        "moving": list(program.moving),
    }


def graphs(program) -> list[dict] | None:
    """The stretches of ops that a GPU runs as one graph each, and the op that ends each.

    The nodes of a graph are those that its driver has recorded: None before, and where it does not.
    None for programs of the host, and before one is prepared.
    """
    if program.graphs is None:
        return None
    return [
        {
            "ops": [start, stop],
            "kernels": kernels,
            "nodes": program.nodes.get(start),
            "form": program.forms.get(start),
            "cut_by": _name(program, stop) if stop < len(program) else None,
        }
        for start, stop, kernels in program.graphs
    ]


def _name(program, i: int) -> str:
    """Of the node that an op was made from, else of the op."""
    label = program.labels[i] if program.labels else ""
    return label.split(" at ")[0] or OPS[int(program.opcodes[i])].name


def choices(program) -> list[dict]:
    """Which kernel was chosen for each op that had a choice; empty before a program is prepared."""
    prepared = getattr(program, "prepared", None)
    chosen = program.chosen if prepared is None else prepared.choices
    return [
        {
            "op": i,
            "name": OPS[program.opcodes[i]].name,
            "label": program.labels[i] if program.labels else "",
            "link": program.links[i] if program.links else "",
            "kernel": choice.name,
            "why": choice.why,
            "text": str(choice),
        }
        for i, choice in sorted(chosen.items())
    ]


def arenas(schedule, runners=()) -> dict[int, int]:
    """The arenas that a schedule works in: which, and their bytes; other schedules may as well."""
    programs = [(plan.program, plan.memory) for plan in list(schedule.step_plans.values())]
    instances = list(schedule.instances)
    executables = [instance.executable for instance in instances]
    executables += [runner.executable for runner in runners if runner.schedule is schedule]
    programs += [(x.program, x.memory) for x in executables if x is not None]
    found = []
    for program, memory in programs:
        slot = program.arena_slot()
        if slot is not None and memory is not None:
            found.append(memory.array(slot))
    # Backwards of all sets of activations share theirs.
    found += instances[0].plan.arenas if instances else []
    return {id(array): array.nbytes for array in found}


def _slot_bytes(slot) -> int:
    n = np.dtype(slot.dtype).itemsize
    for length in slot.shape:
        n *= length
    return n


def bytes_without_reuse(program) -> int:
    """What the arena would take if every buffer had memory of its own."""
    own = [s.kind == ARENA and s.name == f"{program.name} arena" for s in program.slots]
    total = 0
    roots = np.flatnonzero(program.rows["base"] == np.arange(len(program.rows)))
    for r in roots.tolist():
        if own[program.rows["slot"][r]]:
            n = DTYPES[program.rows["type"][r]].itemsize
            for length in program.row_shape(r):
                n *= length
            total += max(-(-n // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
    return total


def arguments_of(schedule) -> str:
    """Dtypes and shapes of the arrays that a schedule serves."""
    return ", ".join(
        f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"
        for shape, dtype, *_ in schedule.key.arrays
    )


def _key_facts(key) -> dict:
    """Arguments and modes out of the key of a call."""
    config = dict(key.config)
    return {
        "arguments": [_argument_facts(*spec) for spec in key.arrays],
        **{name: _plain(config.get(name)) for name in _MODES},
        "device": None if key.device is None else f"@cupy:{key.device}",
    }


def _argument_facts(shape, dtype, requires_grad, *_) -> dict:
    return {
        "shape": list(shape),
        "dtype": np.dtype(dtype).name,
        "variable": requires_grad is not None,
        "requires_grad": bool(requires_grad),
    }


def _plain(frozen):
    """A scalar out of its frozen form ``(type, value)``."""
    value = frozen[-1] if isinstance(frozen, tuple) and frozen else frozen
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def optimizer_facts(optimizer) -> dict:
    """What of an optimizer's update is native."""
    base = getattr(type(optimizer), "_sdbr_base", None)
    engine = optimizer.__dict__.get("_sdbr_engine")
    plan = getattr(engine, "plan", None)
    native = getattr(engine, "native", None)
    runner = last_runner(optimizer)
    if plan is None and runner is not None:
        plan = getattr(getattr(runner, "plan", None), "update", None)
    statistics = getattr(engine, "statistics", None)
    return {
        "name": (base or type(optimizer)).__name__,
        "static": base is not None,
        "plan": None if plan is None else plan.describe(),
        "reason": None if plan is None else plan.reason,
        "declined": getattr(engine, "declined", None),
        "feed": optimizer.__dict__.get("_sdbr_feed"),
        "audits": None if engine is None else engine.audits.to_dict(),
        "statistics": None
        if statistics is None
        else {name: getattr(statistics, name) for name in statistics.__dataclass_fields__},
        "program": None if native is None else program_facts(native.program),
    }
