"""The managers of a link or another object, one for each of its decorated methods."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

from sdbr.base.errors import NotStaticError
from sdbr.call._entry import IN_VAIN, is_static
from sdbr.call.find import note_define_by_run
from sdbr.call.manager import ScheduleManager
from sdbr.compat import first_look
from sdbr.trace.code.reading import get
from sdbr.trace.structure import SCALARS
from sdbr.trace.watch._looks import is_a

import chainer
import numpy as np

#: The attribute that holds them.
MANAGERS = "_sdbr_managers"

_ATTRIBUTES = ("schedule_manager", "static_schedule")
_ARGUMENTS = (chainer.Variable, np.ndarray, dict, list, tuple, *SCALARS)
_WRAPPED = 100  # decorators around one method; ``__wrapped__`` may go in a circle


def is_owner(thing: object, call: Callable) -> bool:
    """Whether calls of `call` with this first argument are its own, with schedules of its own.

    That is a link, and the object of a method, however it is wrapped. What a call takes as an
    argument is none, whatever methods its class has.
    """
    if is_a(thing, (chainer.Link,)):
        return True
    if is_a(thing, _ARGUMENTS) or type(get(thing, "__dict__")) is not dict:
        return False
    found = (each for cls in type(thing).__mro__ for each in vars(cls).values())
    return any(_leads_to(each, call) for each in found)


def _leads_to(found: object, call: Callable) -> bool:
    """Whether what lies in a class goes to `call`, by a property or by ``functools.wraps``."""
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, functools.cached_property):
        found = found.func
    for _ in range(_WRAPPED):
        if found is call or not isinstance(found, types.FunctionType):
            break
        found = vars(found).get("__wrapped__")
    return found is call


def manager_of(owner: object, call: Callable) -> ScheduleManager | None:
    """The manager of a decorated method for one link or object; made when first needed.

    None for an object where those before it were gone or left alone before one call was replayed.
    """
    function, serves = call._sdbr_function, call._sdbr_serves
    fields = get(owner, "__dict__")
    is_link = is_a(owner, (chainer.Link,))
    managers = fields.get(MANAGERS)
    own = managers is not None and managers.are_of(owner)
    manager = managers.get(function) if own else None
    if manager is not None:
        return manager
    if not (is_link or serves.takes_another()):
        return None
    if not own:
        managers = fields[MANAGERS] = Managers(owner)
        for name in _ATTRIBUTES if is_link else ():
            fields.pop(name, None)
    name = f"{type(owner).__name__}.{name_of(function).rpartition('.')[2]}"
    place = (function, owner) if is_link else (types.MethodType(function, owner), None)
    manager = managers[function] = ScheduleManager(place[0], call._sdbr_options, place[1], name)
    serves.given[id(manager)] = manager
    if not is_link:
        serves.last = manager.statistics
        return manager
    main = _main_of(owner)
    if main is call:
        fields["schedule_manager"] = manager
    elif "schedule_manager" not in fields:
        fields["schedule_manager"] = manager if main is None else manager_of(owner, main)
    return manager


def one_of_many(call: Callable, manager: ScheduleManager) -> None:
    """Count, for the `manager` of a function, a call that has none of its own, and tell why.

    Raises
    ------
    NotStaticError
        With ``on_dynamic='raise'``.
    """
    text = (
        f"{manager.name}: its objects are called too seldom: each has schedules of its own, and "
        f"none of the last {IN_VAIN} came to a replay. Most others run define-by-run; call a "
        "method of one object, or a static function, with what differs as arguments"
    )
    if call._sdbr_options.on_dynamic == "raise":
        raise NotStaticError(text)
    manager.statistics.calls += 1
    note_define_by_run(manager, "many objects, each called seldom")
    manager.warn("objects", text)


def of_function(call: Callable) -> list[ScheduleManager]:
    """The managers that links and objects have for a decorated function."""
    found = [reference() for reference in call._sdbr_serves.given.valuerefs()]  # in one go
    return [m for m in found if m is not None and (m.owner is None or m.owner() is not None)]


def has_mixin_call(cls: type) -> bool:
    """Whether `chainer.Link.__call__` goes to the ``__call__`` of a class behind it, a mixin's.

    Chainer prefers that to ``forward``, which is then called by the mixin or not at all.
    """
    mro = cls.__mro__
    return any("__call__" in vars(c) for c in mro[mro.index(chainer.Link) + 1 :])


def _main_of(owner: chainer.Link) -> Callable | None:
    """The decorated method that calling `owner` runs, or None."""
    found = [getattr(type(owner), name, None) for name in ("__call__", "forward")]
    return next((call for call in found if is_static(call)), None)


def _first_manager(link: chainer.Link, manager):
    """What ``link.schedule_manager`` shows; made for a static link that was not called yet."""
    managers = link.__dict__.get(MANAGERS)
    shared = isinstance(manager, ScheduleManager) and (
        managers is None or not managers.are_of(link)  # a copy has one of its own
    )
    if manager is not None and not shared:
        return manager
    called = managers is not None and managers.are_of(link)
    if called or not getattr(chainer.config, "use_static_graph", True):
        return NotImplemented
    others = [name for cls in type(link).__mro__ for name in vars(cls)]
    for name in dict.fromkeys(["__call__", "forward", *others]):
        call = None if name in _ATTRIBUTES else getattr(type(link), name, None)
        if hasattr(call, "_sdbr_function"):
            return manager_of(link, call)
    return NotImplemented


def _first_schedule(link: chainer.Link, schedule):
    """What ``link.static_schedule`` shows: None before the first call."""
    manager = _first_manager(link, link.__dict__.get("schedule_manager"))
    if isinstance(manager, ScheduleManager):
        return manager.static_schedule
    return NotImplemented if schedule is None else schedule


first_look.install("schedule_manager", _first_manager)
first_look.install("static_schedule", _first_schedule)


def name_of(function: Callable) -> str:
    """How reports call a function; partial objects and callable objects by their class."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class Managers(dict):
    """The managers of one link or object by function; a copy of it starts without.

    Replays write to the dictionary of its attributes: in another one they are not its own.
    """

    def __init__(self, owner: object = None):
        super().__init__()
        self.owner_id, self.fields_id = id(owner), id(get(owner, "__dict__"))

    def are_of(self, owner: object) -> bool:
        """Whether they are its own, and not those of what it was copied from."""
        return (self.owner_id, self.fields_id) == (id(owner), id(get(owner, "__dict__")))

    def __deepcopy__(self, memo):
        return Managers()

    def __copy__(self):
        return Managers()

    def __reduce__(self):
        return Managers, ()
