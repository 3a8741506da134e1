"""Optimizers of ChainerMN, which average gradients over processes before they update."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from sdbr.optimizers.ranks.agreement import agree, compare, describe
from sdbr.optimizers.ranks.averaging import AVERAGING, Averaging
from sdbr.optimizers.ranks.ending import ENDING
from sdbr.optimizers.ranks.pieces import Pieces, pieces
from sdbr.optimizers.tree import watch

from chainer.optimizer import GradientMethod


def is_multi_node(optimizer: Any) -> bool:
    """Whether ``chainermn.create_multi_node_optimizer`` has made it, without double buffering."""
    module = sys.modules.get("chainermn.optimizers")
    return module is not None and isinstance(optimizer, module._MultiNodeOptimizer)


def join(optimizer: Any) -> bool:
    """Make one static whose actual optimizer is; False where it is that already."""
    if isinstance(optimizer, StaticMultiNode) or not is_multi_node(optimizer):
        return False
    make_static(optimizer)
    return True


def make_static(optimizer: Any, validate_every: int = 0) -> None:
    """Average gradients between the program of forward and backward and that of the update.

    A process that is alone makes whole steps. Where there are several, one that fails ends all.

    Parameters
    ----------
    optimizer : chainermn.optimizers._MultiNodeOptimizer
        Its ``actual_optimizer`` is static.
    validate_every : int
        After how many updates ranks compare their parameters.
    """
    if not isinstance(optimizer, StaticMultiNode):
        # Attributes that are set are the actual optimizer's.
        object.__setattr__(optimizer, "__class__", _static_class(type(optimizer)))
        actual = optimizer.actual_optimizer
        if optimizer.communicator.size > 1:
            ENDING.install()
            # What is there of plans and steps has nothing between the backward and the update.
            _forget(actual)
            if actual._sdbr_base.update is GradientMethod.update:
                averaging = Averaging(optimizer.communicator, optimizer.zero_fill)
                actual.__dict__[AVERAGING] = averaging
    optimizer.__dict__["_sdbr_validate_every"] = validate_every


class StaticMultiNode:
    """Mixed in before the class of ChainerMN's."""

    def update(self, lossfun=None, *args, **kwds) -> None:
        """As ChainerMN's: gradients are averaged, then the update is made.

        Forward and backward are one native call, the average is taken in flat buffers, and the
        update is another native call. A process that is alone makes whole steps, as one call.
        """
        alone = self.communicator.size == 1
        changed = self._would_change()
        averaging = self.actual_optimizer.__dict__.get(AVERAGING)
        if not alone:
            ENDING.threads.add(threading.get_ident())
            presence = self.__dict__.get("_sdbr_presence")
            if presence is not None:
                presence.begun += 1
        if changed or (averaging is None and (lossfun is None or not alone)):
            super().update(lossfun, *args, **kwds)
        elif averaging is None:
            self.actual_optimizer.update(lossfun, *args, **kwds)
        else:
            averaging.active = True
            try:
                self.actual_optimizer.update(lossfun, *args, **kwds)
            finally:
                averaging.active = False
        self._validate()

    def _would_change(self) -> bool:
        """Whether parameters were added or made since the last step: these are sent first."""
        target = self.target
        seen = self.__dict__.get("_sdbr_seen")
        if seen is not None and seen.target is target and seen.check():
            return False
        self.__dict__.pop("_sdbr_seen", None)
        in_order = list(target.namedparams())
        named = sorted(in_order)
        made = all(p.array is not None for _, p in named)
        sent = pieces(self.communicator, in_order) if made else None
        self._agree(named, sent)
        now = [(name, p.array is not None) for name, p in named]
        if now != self.target_params or not made:
            return True
        averaging = self.actual_optimizer.__dict__.get(AVERAGING)
        if averaging is not None:
            how = None if sent is None else sent.describe()
            if self.__dict__.get("_sdbr_sends", how) != how:
                _forget(self.actual_optimizer)
            self.__dict__["_sdbr_sends"] = how
            presence = self.__dict__.get("_sdbr_presence")
            averaging.take(sent, presence and presence.comm)
        self.__dict__["_sdbr_seen"] = watch(target)
        return False

    def _agree(self, named: list, sent: Pieces | None) -> None:
        """Compare names, shapes and dtypes with those of other ranks, once for each of ours."""
        if self.communicator.size == 1:
            return
        mine = describe(named, self.communicator)
        if sent is not None:
            mine.append(("gradients, how they are sent", sent.describe()))
        if mine != self.__dict__.get("_sdbr_agreed"):
            agree(self.communicator, mine)
            self.__dict__["_sdbr_agreed"] = mine
            if hasattr(self.communicator, "mpi_comm"):
                self.__dict__["_sdbr_presence"] = ENDING.presence(self.communicator)

    def _validate(self) -> None:
        """Compare parameters over ranks, where that is due: by a count that ranks have alike."""
        every = self.__dict__["_sdbr_validate_every"]
        if not every or self.communicator.size == 1:
            return
        made = self.__dict__["_sdbr_made"] = self.__dict__.get("_sdbr_made", 0) + 1
        if made % every == 0:
            named = sorted(self.target.namedparams())
            compare(self.communicator, named, self.actual_optimizer.t)

    def __reduce_ex__(self, protocol):
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: its communicator belongs to "
            "this process"
        )


def _forget(actual: Any) -> None:
    """Let plans and steps of an optimizer go, which average in another way or not at all."""
    for name in [name for name in actual.__dict__ if name.startswith("_sdbr_")]:
        if name != AVERAGING:
            del actual.__dict__[name]


@functools.cache
def _static_class(base: type) -> type:
    return type(f"Static{base.__name__.strip('_')}", (StaticMultiNode, base), {})
