"""What is seen of a step that is not whole."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Backward:
    """One backward of a step.

    Attributes
    ----------
    managers : list of weakref
        Of the replayed calls behind the loss, one for each call.
    calls : list of weakref
        Their nodes.
    alone : bool
        Whether the loss is what the one call gave.
    retains, seeded : bool
        Whether gradients in between are kept; whether the user has set that of the loss.
    line : str
    by_chainer : bool
        Whether a plain optimizer has called it.
    stateful : bool
        Whether a call goes on from a Variable that a link keeps from the step before.
    steps : list of int
        Whole steps of the managers by then.
    """

    managers: list
    calls: list
    alone: bool
    retains: bool
    seeded: bool
    line: str
    by_chainer: bool
    stateful: bool
    steps: list


@dataclasses.dataclass
class LossFunction:
    """What ``optimizer.update`` was given.

    Attributes
    ----------
    kind : str
        ``'static'``, ``'link'``, ``'method'`` (of a link), ``'bound'`` (of something else),
        ``'lambda'`` or ``'function'``.
    name : str
        By which the caller knows it.
    brings_graph : bool
        Whether it was given Variables of a graph that was there before.
    """

    kind: str
    name: str
    brings_graph: bool


@dataclasses.dataclass
class Sighting:
    """One step as it was seen.

    Attributes
    ----------
    backwards : list of Backward
    clears : list of str
        ``'cleargrads'`` or ``'zerograds'``, in order.
    optimizers : list of weakref
        Static ones that have updated: they may be gone before anybody asks.
    targets : list of weakref
        Their targets.
    clearing : str
        How the first of them clears gradients.
    alike : bool
        Whether one optimizer could do what these do together.
    names : list of str
        By which the caller knows them.
    lossfun : LossFunction or None
    line : str
        Of the last update, else of the backward.
    callee : str
        By which the caller knows the static thing; empty where it does not.
    cut : bool
        Whether ``unchain_backward`` has cut a history.
    changed : bool
        Whether gradients were changed between backward and update.
    updated : bool
        Whether parameters were updated since the step before, by whatever optimizer.
    shared : bool
        Whether another step goes back through the same calls.
    held : bool
        Whether the graph of the step before the last is still there.
    by_others : bool
        Whether ChainerMN makes the update.
    counts : list of (int, int)
        Of each optimizer ``t`` and how many of its updates were no whole steps, by then.
    calls : int
        Calls of the manager by then.
    rule : (weakref, int) or None
        A parameter, and how often it was updated by then.
    steps : int
        Whole steps of the manager by then.
    times : int
        Steps in a row that were written so.
    """

    backwards: list[Backward] = dataclasses.field(default_factory=list)
    clears: list[str] = dataclasses.field(default_factory=list)
    optimizers: list = dataclasses.field(default_factory=list)
    targets: list = dataclasses.field(default_factory=list)
    clearing: str = "cleargrads"
    alike: bool = True
    names: list[str] = dataclasses.field(default_factory=list)
    lossfun: LossFunction | None = None
    line: str = ""
    callee: str = ""
    cut: bool = False
    changed: bool = False
    updated: bool = False
    shared: bool = False
    held: bool = False
    by_others: bool = False
    counts: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    calls: int = 0
    rule: tuple | None = None
    steps: int = 0
    times: int = 1

    def is_written_as(self, other: Sighting) -> bool:
        """Whether another step was written in the same lines."""
        mine, others = (
            (x.line, x.clears, [b.line for b in x.backwards], x.lossfun) for x in (self, other)
        )
        return mine == others
