"""Imports Chainer with the fixes that this stack needs."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sdbr.base.errors import SdbrError, SdbrWarning
from sdbr.compat import link_version, splitting
from sdbr.compat.fix import Fix, FunctionFix, ModuleFix, SourceFix
from sdbr.compat.import_hook import FixFinder, substitute_loaded
from sdbr.compat.stack import Stack, version_of
from sdbr.compat.table import FIXES

_INSTALL_LINE = "see sdbr's README for the line that installs it"

_AGE_WARNINGS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    SyntaxWarning,
    ImportWarning,
)

# Modules that `import chainer` does not load: their fixes wait until somebody imports them.
_LATER = ("chainer.testing.", "chainer.links.caffe.", "chainermn.")


class Installation:
    """What was done to Chainer in this process."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.applied: list[Fix] = []
        self.done = False
        # Re-entrant, because importing Chainer may import sdbr again.
        self._lock = threading.RLock()

    def install(self) -> None:
        """Do everything once; later calls return at once."""
        if self.done:
            return
        with self._lock:
            if self.done:
                return
            fixes = self._fitting()
            self._import_chainer(
                [
                    fix
                    for fix in fixes
                    if isinstance(fix, SourceFix | ModuleFix) and fix.needed(self.stack)
                ]
            )
            later = []
            for fix in fixes:
                # Asked now: who asks for CuPy imports it, which is Chainer's to do first.
                if not isinstance(fix, FunctionFix) or not fix.needed(self.stack):
                    continue
                if fix.module.startswith(_LATER) and fix.module not in sys.modules:
                    later.append(fix)
                    continue
                fix.apply(importlib.import_module(fix.module))
                self.applied.append(fix)
            FixFinder(later, self.applied.append).install()
            link_version.install()
            splitting.install()
            self.done = True

    def _fitting(self) -> list[Fix]:
        version = chainer_version()
        fitting = [fix for fix in FIXES if fix.chainer == version]
        if not fitting:
            known = ", ".join(sorted({fix.chainer for fix in FIXES}))
            warnings.warn(
                f"Chainer {version} found, but sdbr's fixes are for Chainer {known}: none applied",
                SdbrWarning,
                stacklevel=2,
            )
        return fitting

    def _import_chainer(self, changed: list[SourceFix | ModuleFix]) -> None:
        later = [fix for fix in changed if fix.module.startswith(_LATER)]
        first = [fix for fix in changed if fix not in later]
        if "chainer" in sys.modules:
            importlib.import_module("chainer")  # waits if another thread is still at it
            self._change_loaded(first)
        else:
            _forget_failed_import()
            self._import_changed(first)
        FixFinder(
            (fix for fix in later if fix.module not in sys.modules), self.applied.append
        ).install()

    def _change_loaded(self, fixes: list[Fix]) -> None:
        for fix in fixes:
            # What a ModuleFix stands in for has been imported already, so it did no harm.
            if isinstance(fix, SourceFix) and substitute_loaded(
                fix, importlib.import_module(fix.module)
            ):
                self.applied.append(fix)

    def _import_changed(self, fixes: list[Fix]) -> None:
        finder = FixFinder(fixes, self.applied.append)
        finder.install()
        try:
            with _silenced_import_warnings():
                importlib.import_module("chainer")
        except Exception as error:
            _forget_failed_import()
            raise SdbrError(
                f"Chainer {chainer_version()} cannot be imported here ({self.stack}): {error!r}"
            ) from error
        finally:
            finder.remove()


def chainer_version() -> str:
    """Return the version of the Chainer that an import would find, without importing it.

    Raises
    ------
    ModuleNotFoundError
        If there is no Chainer.
    """
    version = version_of("chainer")
    if version is None:
        raise ModuleNotFoundError(
            f"sdbr needs Chainer 7.8.1, which is not installed; {_INSTALL_LINE}", name="chainer"
        )
    return version or "of unknown version"


def _forget_failed_import() -> None:
    """Drop submodules that an earlier, failed import of Chainer left behind.

    They would be found half made by the next import, which then fails for another reason.
    """
    for name in list(sys.modules):
        if name.partition(".")[0] in ("chainer", "chainerx"):
            del sys.modules[name]


@contextmanager
def _silenced_import_warnings() -> Iterator[None]:
    """Silence what Chainer's age provokes; filters that imported packages set stay.

    None of it is about the user's code. With warnings made errors, one inside CuPy would make
    Chainer believe that there is no CuPy.
    """
    with warnings.catch_warnings():
        for category in _AGE_WARNINGS:
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", message="(?s).*(cudnn|nccl|ideep)")
        before = list(warnings.filters)
        yield
        added = [entry for entry in warnings.filters if entry not in before]
    # SciPy, for one, silences itself; an import outside this block would have kept that.
    for action, message, category, module, line in reversed(added):
        warnings.filterwarnings(
            action,
            message.pattern if message else "",
            category,
            module.pattern if module else "",
            line,
        )


_INSTALLATION = Installation(Stack())


def install() -> None:
    """Import Chainer and apply the fixes that this stack needs; idempotent and thread-safe.

    Raises
    ------
    ModuleNotFoundError
        If Chainer is not installed.
    SdbrError
        If Chainer cannot be imported in spite of the fixes.

    Warns
    -----
    SdbrWarning
        If the installed Chainer is not the version that the fixes are for.
    """
    _INSTALLATION.install()


def applied_fixes() -> list[tuple[str, str]]:
    """Return name and reason of each fix that took effect in this process.

    Fixes for ``chainer.testing``, ``chainer.links.caffe`` and ``chainermn`` appear once those are
    imported.
    """
    return [(fix.name, fix.reason) for fix in _INSTALLATION.applied]
