"""``static_optimizer``: the same optimizer, its update a static schedule."""

from __future__ import annotations

import copyreg
import functools
import types
from typing import Any, Protocol, TypeVar

from sdbr.backends import AUTO
from sdbr.call._entry import is_static
from sdbr.call.step.whole import MADE, STEPS, look_out, resolve, whole_step
from sdbr.compat.splitting import onlookers
from sdbr.optimizers import multi_node
from sdbr.optimizers.engine import UpdateEngine, UpdateStatistics
from sdbr.optimizers.ranks.averaging import AVERAGING
from sdbr.schedule import sightings
from sdbr.trace.effects.sides import side

import chainer
from chainer.optimizer import GradientMethod


class Updating(Protocol):
    """What optimizers, and those of ChainerMN, which are no `chainer.Optimizer`, have in common."""

    def setup(self, link: Any) -> Any: ...

    def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> Any: ...


T = TypeVar("T", bound=Updating)

_KEY = "_sdbr_engine"
#: After so many updates, some steps are looked at again.
_LOOKED_AT = 1024


def static_optimizer(optimizer: T, *, validate_every: int = 0) -> T:
    """Make the update of an optimizer part of the static schedule.

    The object stays the same; its class becomes a subclass of what it was. With a static loss
    function, ``optimizer.update(loss, *args)`` is one native call for forward, backward and
    update; ``optimizer.update()`` is one native call for all parameters. All update rules and
    hooks of Chainer's are native; others run as they are around the native part
    (``optimizer.update_plan.describe()`` says which).

    Parameters
    ----------
    optimizer : chainer.GradientMethod or a multi-node optimizer of ChainerMN
        Set up or not.
    validate_every : int
        For those of ChainerMN: after so many updates ranks compare their parameters bit by bit, and
        ``ValidationError`` names ranks and parameter where they differ. 0: never.

    Returns
    -------
    the same type
        `optimizer` itself.

    Raises
    ------
    TypeError
        If `optimizer` is no ``GradientMethod``.
    ValueError
        If there are no ranks to compare.
    """
    if multi_node.is_multi_node(optimizer):
        static_optimizer(optimizer.actual_optimizer)  # type: ignore[attr-defined]
        multi_node.make_static(optimizer, validate_every)
        return optimizer
    if not isinstance(optimizer, GradientMethod):
        is_class = isinstance(optimizer, type)
        got = f"the class {optimizer.__name__}" if is_class else type(optimizer).__name__
        raise TypeError(
            "optimizer: expected an instance of chainer.GradientMethod such as "
            f"chainer.optimizers.Adam(), got {got}"
        )
    if validate_every:
        raise ValueError("validate_every: only optimizers of ChainerMN have ranks to compare")
    if not isinstance(optimizer, StaticUpdate):
        optimizer.__class__ = _static_class(type(optimizer))
    return optimizer


class StaticUpdate:
    """Mixed in before the class of a static optimizer."""

    _sdbr_base: type
    #: What ChainerMN's optimizer asks before its update, where it was made around this one.
    _sdbr_join = staticmethod(multi_node.join)

    def update(self, lossfun=None, *args, **kwds) -> None:
        """As ``GradientMethod.update``."""
        traced = False
        if lossfun is not None:
            if self._sdbr_base.update is not GradientMethod.update:
                return super().update(lossfun, *args, **kwds)
            if args and isinstance(args[0], chainer.Link) and is_static(lossfun):
                # A decorated function of a link is served as a method of it.
                lossfun, args = types.MethodType(lossfun, args[0]), args[1:]
            # A step like one before, most often; else what makes one, where that can be.
            steps = self.__dict__.get(STEPS)
            if steps is not None and steps.make(self, lossfun, args, kwds):
                return None
            loss, traced, manager = whole_step(self, lossfun, args, kwds)
            if loss is MADE:
                return None
            if onlookers:
                found = resolve(lossfun) is not None
                sightings.gave_loss(self, lossfun, found, args, kwds)
            if getattr(self, "_use_cleargrads", True):
                self.target.cleargrads()
            else:
                self.target.zerograds()
            loss.backward(loss_scale=self._loss_scale)
            if manager is not None:
                look_out(manager, loss, traced)
            del loss
        averaging = self.__dict__.get(AVERAGING)
        if averaging is not None and averaging.active:
            averaging.average(self.target)
            traced = False  # the update is never part of a step's program
        backend = _backend()
        if backend == "off" or self._hookable is None:
            return super().update()
        engine = _engine(self)
        if onlookers:
            sightings.updates(self)
        elif not engine.made % _LOOKED_AT:
            sightings.look()
        engine.made += 1
        return engine.update(backend, traced)

    def check_nan_in_grads(self) -> None:
        """As ``Optimizer.check_nan_in_grads``; warns nobody where an audit repeats a step."""
        now = side()
        if now is None or not now.is_quiet or not self._loss_scaling_is_dynamic:
            return super().check_nan_in_grads()
        finite = all(bool(p.xp.isfinite(p.grad).all()) for p in self.target.params())
        self._loss_scaling_isnan = not finite
        if not finite:
            self._loss_scaling_isnan_ever = True

    @property
    def update_statistics(self) -> UpdateStatistics:
        """Counts of native and Python updates."""
        return _engine(self).statistics

    @property
    def update_plan(self):
        """What of the update is native, and what is not and why; None before ``setup``."""
        return None if self._hookable is None else _engine(self).current_plan()

    @property
    def update_program(self):
        """The program of ``update()`` without a loss function; None before its first run."""
        native = _engine(self).native
        return None if native is None else native.program

    def __reduce_ex__(self, protocol):
        make, args, *rest = super().__reduce_ex__(max(protocol, 2))
        if make is copyreg.__newobj__:
            args = (self._sdbr_base, *args[1:])
        if rest and isinstance(rest[0], dict):
            # Plans, programs and their memory belong to one object and one process.
            rest[0] = {k: v for k, v in rest[0].items() if not k.startswith("_sdbr_")}
        return (_remake, (make, args), *rest)


def _remake(make, args):
    """Make a static optimizer when it is copied or unpickled; its state comes after."""
    return static_optimizer(make(*args))


@functools.cache
def _static_class(base: type) -> type:
    return type(
        f"Static{base.__name__}",
        (StaticUpdate, base),
        {"_sdbr_base": base, "__module__": __name__, "__doc__": base.__doc__},
    )


def _engine(optimizer) -> UpdateEngine:
    engine = optimizer.__dict__.get(_KEY)
    # A shallow copy of an optimizer shares its attributes; the engine belongs to one.
    if engine is None or engine.optimizer is not optimizer:
        update = functools.partial(optimizer._sdbr_base.update, optimizer)
        engine = optimizer.__dict__[_KEY] = UpdateEngine(optimizer, update)
    return engine


def _backend() -> str:
    """The backend of this call; ``'off'`` for Chainer's own code."""
    # The config object looks up attributes in Python; its dictionaries are quicker.
    shared = chainer.config._global.__dict__
    local = chainer.config._local.__dict__
    if not local.get("use_static_graph", shared.get("use_static_graph", True)):
        return "off"
    backend = local.get("sdbr_backend", shared.get("sdbr_backend", "auto"))
    return AUTO if backend == "auto" else backend
