"""``explain``: what was traced, what is native, what is not and why."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

from sdbr.backends.cpu import _kernels
from sdbr.inspection.facts import manager_facts, optimizer_facts
from sdbr.inspection.profile import profile
from sdbr.inspection.render import render
from sdbr.inspection.targets import Target, is_static

import chainer

#: Iterations that ``explain(obj, run)`` makes.
RUNS = 10


def explain(obj: Any, run: Callable[[], Any] | None = None) -> Report:
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

    Returns
    -------
    Report
        ``str()`` gives one screen of text, :meth:`Report.to_dict` plain data.

    Raises
    ------
    TypeError
        If `obj` is none of these.
    """
    target = Target(obj)
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
    }
    return Report(facts)


def _any_static(obj) -> bool:
    link = obj if isinstance(obj, chainer.Link) else getattr(obj, "target", None)
    return link is not None and is_static(link)


class Report:
    """What :func:`explain` found; a snapshot."""

    def __init__(self, facts: dict):
        self._facts = facts

    def to_dict(self) -> dict:
        """The facts as dicts, lists, strings, numbers and None."""
        return copy.deepcopy(self._facts)

    def __str__(self) -> str:
        return render(self._facts)

    def __repr__(self) -> str:
        return f"<Report on {self._facts['name']}>"
