"""The traced views that user code has been given, and what becomes of those that it keeps."""

from __future__ import annotations

import collections
import contextlib
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import Array
from sdbr.devices.contents import checksum
from sdbr.trace.arrays._exports import n_exports, was_exported
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import PURE, shown
from sdbr.trace.arrays.telling import note_export, unseen
from sdbr.trace.code.reading import slots_of
from sdbr.trace.code.referrers import referrers
from sdbr.trace.values import ALIAS


class Views:
    """The part of the recorder that knows the views it has handed out."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self._views: dict[tuple[int, int], weakref.ref] = {}
        self._exports = n_exports()
        self._on_device: dict[int, tuple] = {}  # id -> (an array of CuPy, its checksum, its Value)

    def _sum_of(self, array) -> int:
        return unseen(self.recorder, checksum, array)  # this is no part of the call

    def check_shown(self) -> None:
        """Whether compiled code has written into arrays of CuPy that user code was shown."""
        self._check_sums(list(self._on_device.values()))
        self._on_device = {}

    def _check_sums(self, shown: list[tuple]) -> None:
        for array, before, value in shown:
            behind = value.source if value.kind == ALIAS else value
            if self.trace.dynamic is not None or behind.held:  # a function may update it
                continue
            if self._sum_of(array) != before:
                self.recorder.mark_dynamic(
                    "an array was written in place by code that cannot be seen into",
                    Remedy.NEW_ARRAY,
                )

    def seen_writing(self, array, perform: Callable) -> Callable:
        """`perform`, which is about to write into `array` before our eyes.

        Of arrays of CuPy that user code was shown it is known what they hold.
        """
        if not isinstance(array, Array):
            return perform

        def write() -> Any:
            memory = array.data.mem
            shown = [key for key, (x, _, _) in self._on_device.items() if x.data.mem is memory]
            self._check_sums([self._on_device[key] for key in shown])
            result = unseen(self.recorder, perform)
            for key in shown:
                known, _, value = self._on_device[key]
                self._on_device[key] = known, self._sum_of(known), value
            return result

        return write

    def view_of(self, array, origin):
        """The view of `array` as `origin` that somebody holds; None when there is none."""
        known = self._views.get((id(array), id(origin)))
        view = None if known is None else known()
        return view if view is not None and view.plain is array else None

    def note_view(self, array, view) -> None:
        """Note a view that user code gets."""
        self.recorder.memory.note_on_memory(array, view)
        self.keep_view(array, view)
        if (
            isinstance(array, Array)
            and view.origin is not PURE
            and id(array) not in self._on_device
        ):
            self._on_device[id(array)] = array, self._sum_of(array), view.origin

    def forget_view(self, view) -> None:
        """A view is about to show something else."""
        self._views.pop((id(view.plain), id(view.origin)), None)

    def keep_view(self, array, view) -> None:
        """Find a view again by what it shows of which array."""
        key = (id(array), id(view.origin))
        views = self._views

        def forget(reference):
            if views.get(key) is reference:
                del views[key]

        views[key] = weakref.ref(view, forget)

    def live_views(self) -> list:
        """Those that somebody holds."""
        found = [reference() for reference in list(self._views.values())]
        return [view for view in found if view is not None]

    def check_exports(self) -> None:
        """Notice memory of views that was taken as a buffer, while they live."""
        count = n_exports()
        if count != self._exports and self.trace.dynamic is None:
            self._exports = count  # of somebody's views; mine have to be looked at
            for view in self.live_views():
                if type(view) is TracedArray and view.origin is not PURE and was_exported(view):
                    note_export(view)

    def take_back_views(self) -> None:
        """After the call: put plain arrays where user code has kept views."""
        views = self.live_views()
        if views:
            replace_everywhere({id(view): (view, shown(view)) for view in views})
        self._views.clear()


def replace_everywhere(new: dict[int, tuple[Any, Any]]) -> None:
    """Put ``new[id(x)][1]`` into every container and object that holds ``x``."""
    own = set()
    while new:
        tuples: dict[int, tuple[Any, Any]] = {}
        own.update([id(new), id(tuples), *map(id, new.values())])
        things = [thing for thing, _ in new.values()]
        for holder in referrers(things):
            if id(holder) in own:
                continue
            if isinstance(holder, tuple) and _can_be_made_again(type(holder)):
                tuples[id(holder)] = (holder, _changed(holder, new))
            else:
                _put(holder, new)
        new = tuples


def _changed(things: tuple, new: dict) -> tuple:
    changed = [new[id(x)][1] if id(x) in new else x for x in tuple.__iter__(things)]
    return tuple.__new__(type(things), changed)


def _can_be_made_again(kind: type) -> bool:
    """Whether a tuple of this class is its items alone, as a named one is."""
    return kind is tuple or (kind.__flags__ & _HEAP and kind.__dictoffset__ == 0)


_HEAP = 1 << 9


def _put(holder, new: dict) -> None:
    kind = type(holder)
    if kind is types.CellType:
        holder.cell_contents = new[id(holder.cell_contents)][1]
    elif issubclass(kind, dict):
        _put_into_dict(holder, new)
    elif issubclass(kind, (list, collections.deque)):
        for i, x in enumerate(list(holder)):
            if id(x) in new:
                holder[i] = new[id(x)][1]
    elif issubclass(kind, set):
        things = _changed(tuple(holder), new)
        holder.clear()
        holder.update(things)
    elif issubclass(kind, type):
        _put_into_class(holder, new)
    elif kind not in (types.FrameType, types.FunctionType, types.ModuleType):
        if issubclass(kind, BaseException) and id(holder.args) in new:
            holder.args = new[id(holder.args)][1]
        fields = getattr(holder, "__dict__", None)
        if type(fields) is dict:
            _put_into_dict(fields, new)
        for name, slot in slots_of(kind):
            x = getattr(holder, name, None)
            if id(x) in new:
                with contextlib.suppress(AttributeError):  # of a class that is compiled
                    slot.__set__(holder, new[id(x)][1])


def _put_into_dict(holder: dict, new: dict) -> None:
    if any(id(key) in new for key in list(holder)):
        keys, things = _changed(tuple(holder), new), list(holder.values())
        holder.clear()
        for key, thing in zip(keys, things, strict=True):
            holder[key] = thing
    found = [(key, new[id(x)][1]) for key, x in list(holder.items()) if id(x) in new]
    owners = [] if not found or "__module__" not in holder else _classes_of(holder)
    for key, thing in found:
        for owner in owners:
            type.__setattr__(owner, key, thing)  # which tells Python's caches
        if not owners:
            dict.__setitem__(holder, key, thing)


def _put_into_class(cls: type, new: dict) -> None:
    for key, x in list(vars(cls).items()):
        if id(x) in new:
            type.__setattr__(cls, key, new[id(x)][1])


def _classes_of(namespace: dict) -> list[type]:
    """The class whose attributes `namespace` holds, if it is such a one."""
    return [
        owner
        for owner in gc.get_referrers(namespace)
        if isinstance(owner, type) and set(vars(owner)) == set(namespace)
    ]
