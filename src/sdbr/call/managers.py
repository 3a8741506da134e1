"""The managers of a link, one for each of its decorated methods."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.call.manager import ScheduleManager
from sdbr.compat import first_look

import chainer

#: The attribute of a link that holds its managers.
MANAGERS = "_sdbr_managers"


def manager_of(owner: chainer.Link, call: Callable) -> ScheduleManager:
    """The manager of a decorated method for one link; made when first needed."""
    function = call._sdbr_function
    managers = owner.__dict__.get(MANAGERS)
    if managers is None or managers.owner_id != id(owner):
        managers = owner.__dict__[MANAGERS] = Managers(id(owner))
        for name in ("schedule_manager", "static_schedule"):
            owner.__dict__.pop(name, None)
    manager = managers.get(function)
    if manager is None:
        name = f"{type(owner).__name__}.{name_of(function).rpartition('.')[2]}"
        manager = managers[function] = ScheduleManager(function, call._sdbr_options, owner, name)
        call._sdbr_serves.of_links[id(manager)] = manager
        if "schedule_manager" not in owner.__dict__ or _is_main(owner, function):
            owner.__dict__["schedule_manager"] = manager
    return manager


def of_function(call: Callable) -> list[ScheduleManager]:
    """The managers that links have for a decorated function which was given them first."""
    found = [reference() for reference in call._sdbr_serves.of_links.valuerefs()]  # in one go
    return [manager for manager in found if manager is not None and manager.owner() is not None]


def has_mixin_call(cls: type) -> bool:
    """Whether `chainer.Link.__call__` goes to the ``__call__`` of a class behind it, a mixin's.

    Chainer prefers that to ``forward``, which is then called by the mixin or not at all.
    """
    mro = cls.__mro__
    return any("__call__" in vars(c) for c in mro[mro.index(chainer.Link) + 1 :])


def _is_main(owner: chainer.Link, function: Callable) -> bool:
    """Whether calling `owner` runs `function`, not the one of a base class."""
    names = ("__call__", "forward")
    return any(
        getattr(getattr(type(owner), n, None), "_sdbr_function", None) is function for n in names
    )


def _first_manager(link: chainer.Link, manager):
    """What ``link.schedule_manager`` shows; made for a static link that was not called yet."""
    managers = link.__dict__.get(MANAGERS)
    shared = isinstance(manager, ScheduleManager) and (
        managers is None or managers.owner_id != id(link)  # a copy has one of its own
    )
    if manager is not None and not shared:
        return manager
    called = managers is not None and managers.owner_id == id(link)
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


_ATTRIBUTES = ("schedule_manager", "static_schedule")
first_look.install("schedule_manager", _first_manager)
first_look.install("static_schedule", _first_schedule)


def name_of(function: Callable) -> str:
    """How reports call a function; partial objects and callable objects by their class."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class Managers(dict):
    """The managers of one link by function; a copy of the link starts without."""

    def __init__(self, owner_id: int):
        super().__init__()
        self.owner_id = owner_id

    def __deepcopy__(self, memo):
        return Managers(0)

    def __copy__(self):
        return Managers(0)

    def __reduce__(self):
        return Managers, (0,)
