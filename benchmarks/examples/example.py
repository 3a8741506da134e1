"""An example, and what makes its parts static or leaves them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sdbr


class Static:
    """Puts the decorators where an example has them, or does nothing.

    Parameters
    ----------
    on : bool
    """

    def __init__(self, on: bool):
        self.on = on
        self._things: list = []
        self._links: list = []

    def __call__(self, thing: Any) -> Any:
        if not self.on:
            return thing
        thing = sdbr.static_graph(thing)
        self._things.append(thing)
        return thing

    def methods_of(self, link: Any) -> None:
        """Count what is called of a link whose methods were made static in its class."""
        if self.on:
            self._links.append(link)

    def optimizer(self, optimizer: Any) -> Any:
        """The optimizer, with a static update."""
        return sdbr.static_optimizer(optimizer) if self.on else optimizer

    def counts(self) -> dict[str, int]:
        """Sums over all that was made static."""
        names = ("traces", "replays", "define_by_run_calls", "python_ops")
        managers = [thing.schedule_manager for thing in self._things]
        managers += [m for link in self._links for m in link._sdbr_managers.values()]
        statistics = [m.statistics for m in managers if m is not None]
        return {name: sum(getattr(s, name) for s in statistics) for name in names}


class Example(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name : str
        As docs/examples.md calls it.
    added : str
        What is decorated.
    prepare : callable
        Gets a `Static` and gives a function of one iteration, and the links that it trains.
    """

    name: str
    added: str
    prepare: Callable[[Static], tuple[Callable[[], Any], list]]


BOTH = "model, optimizer"


def updates(static: Static, model: Any, optimizer: Any, batch: Callable) -> tuple:
    """The iteration with both lines: ``optimizer.update(model, *batch())``."""
    model = static(model)
    optimizer = static.optimizer(optimizer).setup(model)
    return (lambda: optimizer.update(model, *batch())), [model]
