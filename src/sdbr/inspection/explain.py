"""``explain``: what was traced, what is native, what is not and why."""

from __future__ import annotations

import copy
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from sdbr.backends.cpu import _kernels
from sdbr.inspection.facts import manager_facts, optimizer_facts
from sdbr.inspection.html.elements import fragment, page
from sdbr.inspection.html.reports import report_html
from sdbr.inspection.profile import profile
from sdbr.inspection.render import render
from sdbr.inspection.targets import Target, is_static, programs_of, schedules_of
from sdbr.schedule.sightings import look, runs_through

import chainer

#: Iterations that ``explain(obj, run)`` makes.
RUNS = 10


#: Iterations of each of two that are compared; as many before them are not counted.
COMPARED = 20


def explain(
    obj: Any,
    run: Callable[[], Any] | None = None,
    instead: Callable[[], Any] | None = None,
) -> Report:
    """Tell what became of a static chain, function or optimizer.

    Nothing is traced or run for it; the forward program of a traced schedule is built where no
    replay has built it yet. How the time of a call splits into native ops, Python ops, wrapping
    and the rest is known from the last block under :func:`sdbr.profile`, or from `run`.

    Parameters
    ----------
    obj : chainer.Link, callable, ScheduleManager or chainer.Optimizer
        A static link or one with static links below, a decorated function or method, its
        ``schedule_manager``, or an optimizer.
    run : callable, optional
        One iteration, such as ``lambda: optimizer.update(model, x, t)``; it is run ten times under
        :func:`sdbr.profile`, and what it does is done.
    instead : callable, optional
        The same iteration, written otherwise: `run` and this are timed in turn, twenty times each
        after twenty that are not counted, and the report says what it saves.

    Returns
    -------
    Report
        ``str()`` gives one screen of text, :meth:`Report.to_dict` plain data,
        :meth:`Report.html` a page.

    Raises
    ------
    TypeError
        If `obj` is none of these, `run` or `instead` cannot be called, or `instead` is given
        without `run`.
    """
    target = Target(obj)
    _check(run, instead)
    compared = None if run is None or instead is None else _compared(run, instead)
    if run is not None:
        with profile(obj):
            for _ in range(RUNS):
                run()
    now = time.time()
    managers = target.managers()
    facts = {
        "name": target.name,
        "kind": target.kind,
        "static": bool(managers) or target.kind not in ("link", "optimizer") or _any_static(obj),
        "backend": getattr(chainer.config, "sdbr_backend", "auto"),
        "simd": _kernels.simd_level(),
        "managers": [manager_facts(manager, now) for manager in managers],
        "optimizers": [optimizer_facts(optimizer) for optimizer in target.optimizers()],
        "within": [m.name for m in _within(obj)] if not managers else [],
        "compared": compared,
    }
    look()
    return Report(facts, _programs(managers))


def _check(run: Any, instead: Any) -> None:
    if instead is not None and run is None:
        raise TypeError("instead: is timed against run, which is missing")
    for name, iteration in (("run", run), ("instead", instead)):
        if iteration is not None and not callable(iteration):
            raise TypeError(
                f"{name}: expected a function without arguments, got {type(iteration).__name__}"
            )


def _programs(managers: list) -> list[tuple[str, Any]]:
    """Every program that is built, with whose it is."""
    return [
        (f"{manager.name}, schedule {k + 1}:", program)
        for manager in managers
        for k, schedule in enumerate(schedules_of(manager))
        for program in programs_of(schedule)
    ]


def _compared(run: Callable[[], Any], instead: Callable[[], Any]) -> dict:
    """Seconds of two iterations that take turns."""
    found: dict[str, list[float]] = {"run": [], "instead": []}
    for _ in range(2 * COMPARED):
        for name, iteration in (("run", run), ("instead", instead)):
            start = time.perf_counter()
            iteration()
            found[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times[COMPARED:]) for name, times in found.items()}
    return {**medians, "times": COMPARED}


def _within(obj) -> list:
    """The managers whose static calls run a link that has none of its own."""
    return runs_through(obj) if isinstance(obj, chainer.Link) else []


def _any_static(obj) -> bool:
    link = obj if isinstance(obj, chainer.Link) else getattr(obj, "target", None)
    return link is not None and is_static(link)


class Report:
    """What :func:`explain` found; a snapshot."""

    def __init__(self, facts: dict, programs: list[tuple[str, Any]] = ()):
        self._facts = facts
        self._programs = list(programs)

    def to_dict(self) -> dict:
        """The facts as dicts, lists, strings, numbers and None."""
        return copy.deepcopy(self._facts)

    def html(self, path: str | os.PathLike) -> None:
        """Write all of it as one HTML file that needs nothing else, also no network.

        Beside the text: advice, what was traced anew and why, and of each program its ops, which
        can be searched, with links and source lines, and how much memory they work in.

        Parameters
        ----------
        path : str or path
            Overwritten.
        """
        text = page(f"sdbr: {self._facts['name']}", report_html(self._facts, self._programs))
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            file.write(text)

    def _repr_html_(self) -> str:
        return str(fragment(report_html(self._facts, [])))

    def __str__(self) -> str:
        return render(self._facts)

    def __repr__(self) -> str:
        return f"<Report on {self._facts['name']}>"
