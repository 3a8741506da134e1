"""The decorators that can be judged, and what their statistics say."""

from __future__ import annotations

import sdbr


class Decorator:
    """A decorator without statistics: every call counts as a replay."""

    def __init__(self, decorate):
        self.decorate = decorate
        self._calls = 0

    def replays(self, chain) -> int:
        self._calls += 1
        return self._calls

    def python_ops(self, chain) -> int:
        return 0

    def steps(self, chain) -> int:
        """Replays that were whole steps."""
        return 0

    def optimizer(self, optimizer):
        """The optimizer that goes with the decorator."""
        return optimizer

    def declared(self, chain, caught) -> str | None:
        return None

    def facts(self, chain) -> str:
        return ""


class Static(Decorator):
    """``sdbr.static_graph``."""

    def __init__(self, **options):
        super().__init__(lambda function: sdbr.static_graph(function, **options))

    def replays(self, chain) -> int:
        manager = chain.__dict__.get("schedule_manager")
        return 0 if manager is None else manager.statistics.replays

    def python_ops(self, chain) -> int:
        manager = chain.__dict__.get("schedule_manager")
        return 0 if manager is None else manager.statistics.python_ops

    def steps(self, chain) -> int:
        manager = chain.__dict__.get("schedule_manager")
        return 0 if manager is None else manager.statistics.steps

    def optimizer(self, optimizer):
        return sdbr.static_optimizer(optimizer)

    def declared(self, chain, caught) -> str | None:
        """The warning that said why calls are not replayed, or None."""
        for warning in caught:
            if issubclass(warning.category, sdbr.SdbrWarning):
                return str(warning.message)
        return None

    def facts(self, chain) -> str:
        s = chain.schedule_manager.statistics
        reasons = dict(chain.schedule_manager.define_by_run_reasons)
        return (
            f"{s.traces} traces, {s.replays} replays, {s.define_by_run_calls} define-by-run "
            f"{reasons}, missed {chain.schedule_manager.misses[-1:]}"
        )


def by_name(name: str, **options) -> Decorator:
    """``'sdbr'``, ``'identity'`` or ``'chainer'`` (its own static_graph)."""
    if name == "sdbr":
        return Static(**options)
    if name == "identity":
        return Decorator(lambda function: function)
    if name == "chainer":
        from chainer.graph_optimizations.static_graph import static_graph

        return Decorator(static_graph)
    raise ValueError(f"decorator: expected sdbr, identity or chainer, got {name!r}")
