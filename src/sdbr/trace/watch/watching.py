"""A call that is watched: its result, and what it has read from outside."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

from sdbr.base.failures import is_of_ours
from sdbr.trace.watch._reads import Watch
from sdbr.trace.watch.reads import Reads

#: By thread; one that is left behind was kept from its end by a signal.
_UNDER_WAY: dict[int, watching] = {}


class watching:
    """Watch a call of a function, which is made inside of the block.

    Parameters
    ----------
    function : callable
    args : tuple
    kwargs : dict
    hooks : dict, optional
        ``meets`` is called with each random generator, Variable, NumPy scalar and link that the
        call reaches, and with what it hands out whole, each with its source; ``writes`` with what
        it is about to write to, each place once: see `Stores.note`. ``shows`` gives what the
        user's code gets of an array that lies outside, ``knows`` of one that the call has made and
        that comes from code which is not followed, ``stands`` what it calls in the place of a
        function; None for the thing itself. ``moves`` does so with numbers where ``moving``
        (texts of sources) says that others lay before, and is told whether it can be followed.
        ``holds_nodes`` is called when the code may get hold of function nodes past Variables.
    """

    def __init__(self, function: Callable, args: tuple, kwargs: dict, hooks: dict | None = None):
        self._call = function, args, kwargs
        self._watch = Watch()
        for name, hook in (hooks or {}).items():
            setattr(self._watch, name, hook)
        self._collects = False

    def __enter__(self) -> Watch:
        left = _UNDER_WAY.pop(threading.get_ident(), None)
        if left is not None:
            left.__exit__()
        _UNDER_WAY[threading.get_ident()] = self
        self._collects = gc.isenabled()
        gc.disable()
        try:
            self._watch.begin(*self._call)
            self._watch.reads.unseen = self._watch.start()
        except BaseException as failure:
            if not is_of_ours(failure):
                self.__exit__()
                raise
            self._watch.reads.dynamic.append((_told(failure), ""))
        return self._watch

    def __exit__(self, *error) -> None:
        watched, reason = self._watch, None
        try:
            reason = watched.stop()
            watched.look_back()
        except BaseException as failure:
            if not is_of_ours(failure):
                raise
            reason = _told(failure)
        finally:
            watched.end()
            if self._collects:
                gc.enable()
            _UNDER_WAY.pop(threading.get_ident(), None)
        if reason is not None:
            watched.reads.dynamic.append((reason, ""))


def _told(failure: Exception) -> str:
    return f"the watch has failed: {type(failure).__name__}: {failure}"


@contextlib.contextmanager
def beside(watched: Watch | None, node: Any = None, given: list = ()) -> Iterator[None]:
    """Code of the user's that runs in each replay as well: see `Notes.wrote_beside`.

    Parameters
    ----------
    node : FunctionNode or Function, optional
        Whose forward it is; of ``static_code`` none, which may write to links.
    given : list
        What each replay makes anew for it, besides containers of the node (`copy_node`).
    """
    fields = [*(() if node is None else node.__dict__.values()), *given]
    its_own = {id(x) for x in fields if type(x) in (dict, list, set)}
    other = None if watched is None else watched.inside(Watch, its_own)
    if other is None:
        yield
        return
    reason = other.start()
    try:
        yield
    finally:
        try:
            reason = reason or other.stop()
            watched.wrote_beside(other, node is None)
        except BaseException as failure:
            if not is_of_ours(failure):
                raise
            reason = _told(failure)
        if reason is not None:
            watched.mark_dynamic(f"runs code beside that cannot be watched ({reason})")


def obstacle() -> str | None:
    """Why nobody can watch this thread now; None where one can."""
    return Watch().obstacle()


def watch(function: Callable, args: tuple = (), kwargs: dict | None = None) -> tuple[Any, Reads]:
    """Call a function, and see what it reads from outside of its arguments.

    Parameters
    ----------
    function : callable
    args : tuple
    kwargs : dict, optional

    Returns
    -------
    object, Reads
        Its result; what was read, whose ``check(args, kwargs)`` says whether that still holds.
        The numbers in arrays may be others.
    """
    kwargs = {} if kwargs is None else kwargs
    with watching(function, args, kwargs) as watched:
        result = function(*args, **kwargs)
    watched.reads.let_move(lambda at: True)
    return result, watched.reads
