"""Puts sdbr's decorators where scripts look for Chainer's.

For Chainer 7.8.1. Not needed once a script says ``sdbr.static_graph`` itself.
"""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

# Every public place from which a script can take the two names. The submodule
# chainer.graph_optimizations.static_graph keeps its name and gets the attribute.
STATIC_GRAPH_HOMES = ("chainer", "chainer.graph_optimizations.static_graph")
STATIC_CODE_HOMES = (
    "chainer",
    "chainer.graph_optimizations",
    "chainer.graph_optimizations.static_graph_utilities",
)


def replace_decorators(static_graph: Callable[..., Any], static_code: Callable[..., Any]) -> None:
    """Make ``chainer.static_graph`` and ``chainer.static_code`` the given decorators.

    Parameters
    ----------
    static_graph, static_code : callable
        What a script finds under Chainer's names from now on. Chainer's own functions, which
        took theirs when they were imported, keep them.
    """
    for name in STATIC_GRAPH_HOMES:
        importlib.import_module(name).static_graph = static_graph
    for name in STATIC_CODE_HOMES:
        importlib.import_module(name).static_code = static_code


@contextlib.contextmanager
def watched_setups(told: Callable[[Any, Any], None]) -> Iterator[None]:
    """Hear of optimizers that are set up.

    Parameters
    ----------
    told : callable
        ``told(optimizer, link)``, after ``optimizer.setup(link)``.
    """
    from chainer import Optimizer

    original = Optimizer.setup

    @functools.wraps(original)
    def setup(self, link):
        result = original(self, link)
        told(self, link)
        return result

    Optimizer.setup = setup
    try:
        yield
    finally:
        Optimizer.setup = original
