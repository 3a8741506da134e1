"""An import finder that changes a few named modules of Chainer while they are loaded."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType

from sdbr.base.errors import SdbrWarning
from sdbr.compat.fix import Fix, FunctionFix, ModuleFix, SourceFix

Report = Callable[[Fix], None]


def substitute(fix: SourceFix, source: str) -> str | None:
    """Return the source with the fix's replacements made, or None after a warning.

    The source is left alone as a whole if one of the texts does not occur as often as expected:
    it is then not the file that the fix was written for.
    """
    for old, new, count in fix.replacements:
        found = source.count(old)
        if found != count:
            warnings.warn(
                f"fix {fix.name!r} does not fit: expected {count} times {old!r} in {fix.module}, "
                f"found {found}; the module is left as it is",
                SdbrWarning,
                stacklevel=2,
            )
            return None
        source = source.replace(old, new)
    return source


def compile_substituted(fix: SourceFix, loader: SourceFileLoader, path: str) -> CodeType | None:
    """Compile a module's source with the fix's replacements; None if they do not fit."""
    source = substitute(fix, loader.get_source(fix.module) or "")
    if source is None:
        return None
    return compile(source, path, "exec", dont_inherit=True)


class SubstitutingLoader(SourceFileLoader):
    """Loads a module from its file with some text replaced; writes no byte code cache."""

    def __init__(self, fix: SourceFix, path: str, report: Report) -> None:
        super().__init__(fix.module, path)
        self._fix = fix
        self._report = report

    def get_code(self, fullname: str) -> CodeType | None:
        code = compile_substituted(self._fix, self, self.path)
        if code is None:
            return super().get_code(fullname)
        self._report(self._fix)
        return code


class FillingLoader(Loader):
    """Makes a module from a function instead of from its file."""

    def __init__(self, fix: ModuleFix, report: Report) -> None:
        self._fix = fix
        self._report = report

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._fix.fill(module)
        self._report(self._fix)


class ApplyingLoader(SourceFileLoader):
    """Loads a module from its file, and then replaces functions of it."""

    def __init__(self, fixes: Sequence[FunctionFix], path: str, report: Report) -> None:
        super().__init__(fixes[0].module, path)
        self._fixes = fixes
        self._report = report

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for fix in self._fixes:
            fix.apply(module)
            self._report(fix)


class FixFinder(MetaPathFinder):
    """Hands out changed modules, each once, and leaves the search path after the last.

    Parameters
    ----------
    fixes : iterable of Fix
        For each module one `SourceFix` or `ModuleFix`, or any number of `FunctionFix`.
    report : callable
        Called with a fix when its module has been loaded with it.
    """

    def __init__(self, fixes: Iterable[Fix], report: Report) -> None:
        self._pending: dict[str, list[Fix]] = {}
        for fix in fixes:
            self._pending.setdefault(fix.module, []).append(fix)
        self._report = report
        self._lock = threading.Lock()

    def install(self) -> None:
        """Put the finder before all others, if it has anything to do."""
        if self._pending and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Take the finder off the search path; harmless if it is not there."""
        with self._lock:
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        fixes = self._pending.get(fullname)
        if fixes is None:
            return None
        fix = fixes[0]
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        if isinstance(fix, ModuleFix):
            spec.loader = FillingLoader(fix, self._done)
        elif not isinstance(spec.loader, SourceFileLoader):
            return None
        elif isinstance(fix, FunctionFix):
            spec.loader = ApplyingLoader(fixes, spec.origin, self._done)
        else:
            spec.loader = SubstitutingLoader(fix, spec.origin, self._done)
        return spec

    def _done(self, fix: Fix) -> None:
        self._pending.pop(fix.module, None)
        if not self._pending:
            self.remove()
        self._report(fix)


def substitute_loaded(fix: SourceFix, module: ModuleType) -> bool:
    """Give the functions of an already imported module the code of the substituted source.

    Functions and classes keep their identity, so whoever imported them earlier is served, too.

    Returns
    -------
    bool
        Whether the replacements fitted.
    """
    spec = module.__spec__
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return False
    code = compile_substituted(fix, spec.loader, spec.loader.path)
    if code is None:
        return False
    _give_code(vars(module), code)
    return True


def _give_code(namespace: dict, code: CodeType) -> None:
    """Walk functions and classes in step with the constants of a compiled module or class body."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        target = namespace.get(constant.co_name)
        if isinstance(target, FunctionType):
            if target.__code__.co_firstlineno == constant.co_firstlineno:
                target.__code__ = constant
        elif isinstance(target, type):
            _give_code(dict(vars(target)), constant)
