"""What a script that is run makes: optimizers and static callables; made static without an edit."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sdbr.call.manager import ScheduleManager
from sdbr.call.step.whole import resolve
from sdbr.compat.drop_in import watched_setups
from sdbr.inspection.explain import explain
from sdbr.inspection.targets import Target, is_static
from sdbr.static_graph import static_graph
from sdbr.static_optimizer import StaticUpdate, static_optimizer
from sdbr.trace.code.foreign import is_users

import chainer

#: So many managers are kept for the report, the newest.
MOST = 64
_SETUP = re.compile(r"(?:([A-Za-z_]\w*)\s*=\s*)?([A-Za-z_][\w.]*)(?:\(.*\))?\.setup\(\s*([\w.]+)")


class Setup(NamedTuple):
    """An optimizer that was set up.

    Attributes
    ----------
    optimizer : chainer.Optimizer
    link : chainer.Link
    names : tuple of str
        What the script calls them, as far as its line shows it.
    line : str
    """

    optimizer: Any
    link: Any
    names: tuple[str, str]
    line: str


class Watched:
    """What a script makes, kept alive for the report.

    Parameters
    ----------
    auto : bool
        Whether optimizers and their loss functions are made static.

    Attributes
    ----------
    setups : list of Setup
    refused : list of (chainer.Link or None, str)
        What could not be made static.
    """

    def __init__(self, auto: bool) -> None:
        self.auto = auto
        self.setups: list[Setup] = []
        self.refused: list[tuple[Any, str]] = []
        self._managers: list[tuple[ScheduleManager, Any]] = []
        self._functions: dict[Any, Callable] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watched]:
        """Hear of everything that is made inside the block."""
        original, update = ScheduleManager.__init__, StaticUpdate.update

        @functools.wraps(original)
        def __init__(manager, function, options, owner=None, name=""):
            original(manager, function, options, owner, name)
            self._managers.append((manager, owner))
            del self._managers[:-MOST]

        ScheduleManager.__init__ = __init__
        if self.auto:
            StaticUpdate.update = self._updating(update)
        try:
            with watched_setups(self._set_up):
                yield self
        finally:
            ScheduleManager.__init__, StaticUpdate.update = original, update

    def _set_up(self, optimizer: Any, link: Any) -> None:
        names, line = _written()
        self.setups = [x for x in self.setups if x.optimizer is not optimizer]
        self.setups.append(Setup(optimizer, link, names, line))
        if self.auto:
            self._make_static(optimizer, link)

    # --- without an edit -------------------------------------------------------------------
    def _make_static(self, optimizer: Any, link: Any) -> None:
        if isinstance(optimizer, chainer.GradientMethod):
            static_optimizer(optimizer)
        else:
            self.refused.append((None, f"{type(optimizer).__name__} is no GradientMethod"))
        if resolve(link) is None:
            try:
                static_graph(link)
            except TypeError as error:
                self.refused.append((link, str(error)))

    def _updating(self, original: Callable[..., None]) -> Callable[..., None]:
        """An ``update`` that makes loss functions static, which links are by then."""

        @functools.wraps(original)
        def update(optimizer, lossfun=None, *args, **kwds):
            if type(lossfun) in (types.FunctionType, types.MethodType):
                lossfun = self._static(lossfun)
            return original(optimizer, lossfun, *args, **kwds)

        return update

    def _static(self, lossfun: Any) -> Any:
        """A loss function made static; a lambda of a moment calls what is static by itself."""
        if resolve(lossfun) is not None:
            return lossfun
        owner = getattr(lossfun, "__self__", None)
        function = getattr(lossfun, "__func__", lossfun)
        if not isinstance(function, types.FunctionType):
            return lossfun
        if owner is not None and not isinstance(owner, chainer.Link):
            return lossfun
        if function.__closure__ or function.__name__ == "<lambda>":
            return lossfun
        made = self._functions.get(function)
        if made is None:
            made = self._functions[function] = static_graph(function)
        return made if owner is None else types.MethodType(made, owner)

    # --- afterwards ------------------------------------------------------------------------
    @property
    def is_static(self) -> bool:
        """Whether anything static ran, or was to."""
        return bool(self._managers) or any(
            isinstance(x.optimizer, StaticUpdate) or is_static(x.link) for x in self.setups
        )

    def report(self) -> str:
        """What became of everything, or what to make static."""
        texts = [] if self.is_static else [self.nothing_static()]
        shown: list[ScheduleManager] = []
        for setup in self.setups:
            target = Target(setup.optimizer)
            if isinstance(setup.optimizer, StaticUpdate) or target.managers():
                optimizer, link = setup.names
                head = f"{optimizer} of {link}, set up at {setup.line}:"
                texts.append(f"{head}\n{explain(setup.optimizer)}")
                shown += target.managers()
        texts += [
            str(explain(manager))
            for manager, _ in self._managers
            if not any(manager is one for one in shown)
        ]
        texts += [
            f"not made static: {text}"
            for link, text in self.refused
            if link is None or not Target(link).managers()
        ]
        return "\n\n".join(texts)

    def nothing_static(self) -> str:
        """What to decorate in a script where nothing is static."""
        lines = ["nothing was decorated, so all of it ran define-by-run."]
        for _, _, (optimizer, link), line in self.setups[:4]:
            lines += [
                f"Below {line} write",
                f"    sdbr.static_graph({link})",
                f"    sdbr.static_optimizer({optimizer})",
            ]
        lines.append(
            "or run it with --auto, which does that."
            if self.setups
            else "No optimizer was set up, either: decorate the function or the method of a link "
            "that is called again and again with `@sdbr.static_graph`."
        )
        return "\n".join(lines)


def _written() -> tuple[tuple[str, str], str]:
    """The names in the user's line that sets an optimizer up, and the line."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None:
        return ("optimizer", "model"), "the setup of the optimizer"
    code = frame.f_code
    found = _SETUP.search(linecache.getline(code.co_filename, frame.f_lineno))
    where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    if found is None:
        return ("optimizer", "model"), where
    return (found[1] or found[2], found[3]), where
