"""``static_optimizer``: the same optimizer, its update a static schedule."""

from __future__ import annotations

import copyreg
import functools
from typing import TypeVar

from sdbr.backends import AUTO
from sdbr.call.step import MADE, STEPS, look_out, whole_step
from sdbr.optimizers.engine import UpdateEngine, UpdateStatistics

import chainer
from chainer.optimizer import GradientMethod

T = TypeVar("T", bound=GradientMethod)

_KEY = "_sdbr_engine"


def static_optimizer(optimizer: T) -> T:
    """Make the update of an optimizer part of the static schedule.

    The object stays the same; its class becomes a subclass of what it was. With a static loss
    function, ``optimizer.update(loss, *args)`` is one native call for forward, backward and
    update; ``optimizer.update()`` is one native call for all parameters. SGD, MomentumSGD,
    RMSprop and Adam with all its options, WeightDecay, Lasso and GradientClipping are native;
    other rules and hooks run Chainer's own code (``optimizer.update_plan.describe()`` says which).

    Parameters
    ----------
    optimizer : chainer.GradientMethod
        Set up or not.

    Returns
    -------
    chainer.GradientMethod
        `optimizer` itself.

    Raises
    ------
    TypeError
        If `optimizer` is no ``GradientMethod``.
    """
    if not isinstance(optimizer, GradientMethod):
        raise TypeError(
            "optimizer: expected an instance of chainer.GradientMethod such as "
            f"chainer.optimizers.Adam(), got {type(optimizer).__name__}"
            + (" (the class itself)" if isinstance(optimizer, type) else "")
        )
    if not isinstance(optimizer, StaticUpdate):
        optimizer.__class__ = _static_class(type(optimizer))
    return optimizer


class StaticUpdate:
    """Mixed in before the class of a static optimizer."""

    _sdbr_base: type

    def update(self, lossfun=None, *args, **kwds) -> None:
        """As ``GradientMethod.update``."""
        traced = False
        if lossfun is not None:
            if self._sdbr_base.update is not GradientMethod.update:
                return super().update(lossfun, *args, **kwds)
            # A step like one before, most often; else what makes one, where that can be.
            steps = self.__dict__.get(STEPS)
            if steps is not None and steps.make(self, lossfun, args, kwds):
                return None
            loss, traced, manager = whole_step(self, lossfun, args, kwds)
            if loss is MADE:
                return None
            if getattr(self, "_use_cleargrads", True):
                self.target.cleargrads()
            else:
                self.target.zerograds()
            loss.backward(loss_scale=self._loss_scale)
            if manager is not None:
                look_out(manager, loss, traced)
            del loss
        backend = _backend()
        if backend == "off" or self._hookable is None:
            return super().update()
        return _engine(self).update(backend, traced)

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
