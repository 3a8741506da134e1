"""The decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from sdbr.base.options import Backend, MemoryUse, OnDynamic, Options, names_what_it_takes
from sdbr.call._entry import is_static, link_call, static_entry
from sdbr.call.manager import ScheduleManager
from sdbr.call.managers import (
    MANAGERS,
    Managers,
    has_mixin_call,
    is_owner,
    manager_of,
    name_of,
    one_of_many,
)
from sdbr.trace.effects.sides import plain_now
from sdbr.trace.recorder import traced_by_caller

import chainer

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
LinkT = TypeVar("LinkT", bound=chainer.Link)

_Managers = Managers  # as pickles name it that were made before it moved


class StaticFunction(Protocol[P, R_co]):
    """What type checkers know of a decorated function or method: to be called as before.

    Attributes
    ----------
    schedule_manager : ScheduleManager or None
        Of a function, from its first call on; methods have theirs at the link or object.
    """

    schedule_manager: ScheduleManager | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, owner: None, kind: type) -> StaticFunction[P, R_co]: ...

    @overload
    def __get__(
        self: StaticFunction[Concatenate[Any, Q], R_co], owner: object, kind: type | None = None
    ) -> Callable[Q, R_co]: ...


class Decorator(Protocol):
    """What ``static_graph(...)`` without a target gives."""

    @overload
    def __call__(self, target: LinkT, /) -> LinkT: ...

    @overload
    def __call__(self, target: Callable[P, R], /) -> StaticFunction[P, R]: ...


@overload
def static_graph(
    target: LinkT,
    *,
    force_test_define_by_run: bool = ...,
    minimize_cache_size: bool = ...,
    verbosity_level: int = ...,
    enable_double_backprop: bool = ...,
    backend: Backend | None = ...,
    on_dynamic: OnDynamic = ...,
    validate_every: int = ...,
    max_schedules: int = ...,
    memory: MemoryUse = ...,
) -> LinkT: ...


@overload
def static_graph(
    target: Callable[P, R],
    *,
    force_test_define_by_run: bool = ...,
    minimize_cache_size: bool = ...,
    verbosity_level: int = ...,
    enable_double_backprop: bool = ...,
    backend: Backend | None = ...,
    on_dynamic: OnDynamic = ...,
    validate_every: int = ...,
    max_schedules: int = ...,
    memory: MemoryUse = ...,
) -> StaticFunction[P, R]: ...


@overload
def static_graph(
    target: None = None,
    *,
    force_test_define_by_run: bool = ...,
    minimize_cache_size: bool = ...,
    verbosity_level: int = ...,
    enable_double_backprop: bool = ...,
    backend: Backend | None = ...,
    on_dynamic: OnDynamic = ...,
    validate_every: int = ...,
    max_schedules: int = ...,
    memory: MemoryUse = ...,
) -> Decorator: ...


@names_what_it_takes
def static_graph(
    target: Any = None,
    *,
    force_test_define_by_run: bool = False,
    minimize_cache_size: bool = True,
    verbosity_level: int = 0,
    enable_double_backprop: bool = False,
    backend: Backend | None = None,
    on_dynamic: OnDynamic = "fallback",
    validate_every: int = 0,
    max_schedules: int = 16,
    memory: MemoryUse = "default",
) -> Any:
    """Trace the first call and replay it from then on.

    Parameters
    ----------
    target : callable or chainer.Link, optional
        A method of a link or of any class whose objects have a ``__dict__``, a function of
        variables and arrays, or a link instance (which is returned, made static in place).
    force_test_define_by_run : bool, default False
        Run define-by-run while ``chainer.config.train`` is False.
    minimize_cache_size : bool, default True
        Keep at most `max_schedules` schedules, those that are used most; False keeps all.
    verbosity_level : int, default 0
        Above 0, log records go to standard error when the ``sdbr`` logger has no handler.
    enable_double_backprop : bool, default False
        Allow second derivatives through the chain, taken outside of it. Inside the call,
        ``chainer.grad(..., enable_double_backprop=True)`` needs no switch.
    backend : {'auto', 'cython', 'numpy', 'cuda', 'off'}, optional
        Wins over ``chainer.config.sdbr_backend``.
    on_dynamic : {'fallback', 'raise'}
        A call that cannot be static warns once and runs define-by-run, or is a `NotStaticError`.
    validate_every : int, default 0
        Compare every N-th replay with define-by-run; 0 never.
    max_schedules : int, default 16
    memory : {'default', 'low', 'no_reuse'}
        ``'low'`` computes cheap functions again in the backward (elementwise ones, normalization,
        dropout without a new draw): less memory, the same numbers, some more time. ``'no_reuse'``
        gives every buffer its own memory (for debugging).

    Returns
    -------
    callable or chainer.Link
        The decorated target, or a decorator when `target` is omitted.

    Raises
    ------
    TypeError
        If `target` is neither a function nor a link instance, or an argument is unknown.
    BackendError
        At a call, if the backend is not available or does not fit the arrays.
    """
    options = Options(
        force_test_define_by_run, minimize_cache_size, verbosity_level, enable_double_backprop,
        backend, on_dynamic, validate_every, max_schedules, memory,
    )  # fmt: skip
    if target is None:
        return lambda t: _decorate(t, options)
    return _decorate(target, options)


def _decorate(target, options: Options):
    if isinstance(target, chainer.Link):
        return _make_static(target, options)
    if not callable(target) or isinstance(target, type):
        got = f"the class {target.__name__}" if callable(target) else type(target).__name__
        raise TypeError(f"target: expected a function, a method or a link instance, got {got}")
    return _wrap(target, options)


def _wrap(function: Callable, options: Options) -> Callable:
    def slow(args, kwargs):
        if plain_now() or traced_by_caller():
            return function(*args, **kwargs)  # the outermost static chain wins
        is_owned = bool(args) and is_owner(args[0], call)
        if is_owned:
            owner = args[0]
            if not (owner.__dict__.get(MANAGERS) or chainer.config.use_static_graph):
                if isinstance(owner, chainer.Link):
                    # As in Chainer, it shows no manager until it is called as a static chain.
                    owner.__dict__[MANAGERS] = Managers(owner)
                return function(*args, **kwargs)
            manager = manager_of(owner, call)
            if manager is not None:
                return manager.call(args[1:], kwargs)
        if call.schedule_manager is None:
            call.schedule_manager = ScheduleManager(function, options, None, name_of(function))
        if is_owned:
            one_of_many(call, call.schedule_manager)
            return function(*args, **kwargs)
        return call.schedule_manager.call(args, kwargs)

    call = static_entry(function, MANAGERS, slow)
    call.schedule_manager = None
    call._sdbr_function = function
    call._sdbr_options = options
    return call


def _make_static(link: chainer.Link, options: Options) -> chainer.Link:
    """Give `link` a generated subclass of its class whose ``forward`` or ``__call__`` is static."""
    base = vars(type(link)).get("_sdbr_base")
    if base is not None:  # made static before: the new options take over
        for name in (MANAGERS, "schedule_manager", "static_schedule"):
            link.__dict__.pop(name, None)
    link.__class__ = _static_class(base or type(link), options)
    manager_of(link, link.__class__._sdbr_entry)
    return link


def _static_class(base: type, options: Options) -> type:
    own_call = "__call__" in vars_of_mro(base)
    name = "__call__" if own_call else "forward"
    original = getattr(base, name, None)
    if original is None:
        raise TypeError(f"{base.__name__} has neither forward nor __call__")
    if is_static(original):
        original = original._sdbr_function
    entry = _wrap(_present(base, name, original), options)
    namespace = {
        name: entry,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__reduce_ex__": _reduce_static,
        "_sdbr_base": base,
        "_sdbr_entry": entry,
        "_sdbr_class_options": options,
    }
    plain = base.__call__ is chainer.Link.__call__ and not has_mixin_call(base)
    if name == "forward" and plain:
        namespace["__call__"] = link_call(entry)
    if issubclass(base, chainer.Sequential):
        namespace["copy"] = _copy_sequential
    return _metaclass_of(type(base))(base.__name__, (base,), namespace)


@functools.cache
def _metaclass_of(kind: type) -> type:
    """The class of generated classes: ``type(self).n += 1`` writes to the user's class.

    Parameters
    ----------
    kind : type
        That of the user's class.
    """

    def owner(cls, name: str):
        special = name[:2] == name[-2:] == "__" or name.startswith(("_sdbr_", "_abc_"))
        return None if special else vars(cls).get("_sdbr_base")

    def set_attribute(cls, name, value):
        base = owner(cls, name)
        kind.__setattr__(cls, name, value) if base is None else setattr(base, name, value)

    def delete_attribute(cls, name):
        base = owner(cls, name)
        kind.__delattr__(cls, name) if base is None else delattr(base, name)

    namespace = {
        "__setattr__": set_attribute,
        "__delattr__": delete_attribute,
        "__module__": __name__,
    }
    return type(kind)(kind.__name__, (kind,), namespace)


def _present(base: type, name: str, original: Callable) -> Callable:
    """The method `name` of `base` as it is when called: in a notebook it may be defined anew."""

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        found = getattr(base, name)
        found = found._sdbr_function if is_static(found) else found
        return found(self, *args, **kwargs)

    method._sdbr_function = original
    method._sdbr_place = base, name
    return method


def vars_of_mro(base: type) -> set[str]:
    """Names defined by `base` or its parents below `chainer.Link`."""
    names: set[str] = set()
    for cls in base.__mro__:
        if cls in (chainer.Link, chainer.Chain, chainer.ChainList, chainer.Sequential):
            break
        names.update(vars(cls))
    return names


def _copy_sequential(self, mode="share"):
    """``Sequential.copy``, which makes a plain one whatever the class; the copy is static, too."""
    copy = self._sdbr_base.copy(self, mode)
    if type(copy) is self._sdbr_base:
        copy = _make_static(copy, self._sdbr_class_options)
    return copy


def _reduce_static(self, protocol):
    if isinstance(self, chainer.Sequential):
        self._sdbr_base.__reduce__(self)  # raises for layers that cannot be pickled
    state = dict(self.__dict__)
    for name in (MANAGERS, "schedule_manager", "static_schedule"):
        state.pop(name, None)
    options = {n: getattr(self._sdbr_class_options, n) for n in Options.__slots__}
    return _rebuild_static, (self._sdbr_base, options), state


def _rebuild_static(base, options):
    """An empty link of the generated class; copy and pickle fill in its state."""
    link = base.__new__(base)
    link.__class__ = _static_class(base, Options(**options))
    return link
