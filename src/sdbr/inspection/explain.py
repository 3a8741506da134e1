"""``explain``: what was traced, what is native, what is not and why."""

from __future__ import annotations

import copy
import time
from typing import Any

from sdbr import _executor
from sdbr.inspection.facts import manager_facts, optimizer_facts
from sdbr.inspection.render import render
from sdbr.inspection.targets import Target, is_static

import chainer


def explain(obj: Any) -> Report:
    """Tell what became of a static chain, function or optimizer.

    Nothing is traced or run for it; the forward program of a traced schedule is built where no
    replay has built it yet.

    Parameters
    ----------
    obj : chainer.Link, callable, ScheduleManager or chainer.Optimizer
        A static link or one with static links below, a decorated function or method, its
        ``schedule_manager``, or an optimizer.

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
    now = time.time()
    managers = target.managers()
    facts = {
        "name": target.name,
        "kind": target.kind,
        "static": bool(managers) or target.kind not in ("link", "optimizer") or _any_static(obj),
        "backend": getattr(chainer.config, "sdbr_backend", "auto"),
        "simd": _executor.simd_level(),
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
