"""Patches that are in place only while somebody wants them."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sdbr.base.forks import reentrant_lock
from sdbr.compat._patching import Patch, install, remove


class PatchSet:
    """A set of attribute patches, installed by the first `with` and removed by the last.

    The patches are seen by every thread while any thread is inside the block, so a wrapper that
    is meant for one thread has to look for itself which thread it runs in.

    Examples
    --------
    >>> patches = PatchSet('recorder')
    >>> patches.register(FunctionNode, 'apply', lambda original: recording(original))
    >>> with patches:
    ...     model(x)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = reentrant_lock(self._after_fork)
        self._patches: list[Patch] = []
        self._of_modules: dict[Any, Patch] = {}  # by the function that the module has had
        self._kinds: set[type] = set()  # of these functions
        self._installed: list[tuple[Patch, Any, Any]] = []
        self._holders: dict[int, int] = {}  # thread -> how many blocks it is in

    @property
    def active(self) -> bool:
        """Whether the patches are in place now."""
        return bool(self._holders)

    def register(self, owner: Any, name: str, factory: Callable[[Any], Any]) -> None:
        """Add a patch.

        Parameters
        ----------
        owner : class or module
            The object whose attribute is patched.
        name : str
            The attribute.
        factory : callable
            Called at installation with the present value, which for a class is the raw
            entry of its ``__dict__`` (a property stays a property), or the inherited value if
            the class has none of its own. Returns what to put there; once for the value that is
            there now, anew where somebody has patched it meanwhile.

        Raises
        ------
        RuntimeError
            If the patches are in place.
        """
        with self._lock:
            if self._holders:
                raise RuntimeError(f"patch set {self.name!r} is in use: register {name!r} before")
            patch = Patch(owner, name, factory)
            self._patches.append(patch)
            if type(owner) is types.ModuleType and callable(patch.first):
                self._of_modules[patch.first] = patch
                self._kinds.add(type(patch.first))

    def instead_of(self, thing: Any) -> Any:
        """What is in the place of a function of a module: for code that has it by another name.

        Parameters
        ----------
        thing : object
            What is called: ``from numpy import asarray``.

        Returns
        -------
        callable or None
            None for what is not patched.
        """
        if type(thing) not in self._kinds:  # others may be compared by code of anybody's
            return None
        patch = self._of_modules.get(thing)
        return None if patch is None else patch.of(thing)

    def __enter__(self) -> PatchSet:
        me = threading.get_ident()
        before = self._holders.get(me, 0)
        try:
            with self._lock:
                if not self._holders:
                    remove(self._installed)  # what an interrupted exit may have left
                    install(self._patches, self._installed)
                self._holders[me] = before + 1
        except BaseException:
            # A signal may come at any point: an interrupted entry must leave nothing behind.
            self._hold(me, before)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        self._hold(me, self._holders.get(me, 1) - 1)

    def release_thread(self) -> None:
        """End every block of this thread: for one whose exit a signal prevented."""
        me = threading.get_ident()
        if me in self._holders:
            self._hold(me, 0)

    def _hold(self, thread: int, times: int) -> None:
        with self._lock:
            if times:
                self._holders[thread] = times
            else:
                self._holders.pop(thread, None)
            if not self._holders:
                remove(self._installed)

    def _after_fork(self, interrupted: bool) -> None:
        """In a forked child: the blocks of other threads will never end."""
        me = threading.get_ident()
        self._holders = {k: n for k, n in self._holders.items() if k == me}
        if not self._holders:
            remove(self._installed)
