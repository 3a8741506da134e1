"""Losses of what static calls give, written outside of them, are static calls of their own.

That is for functions whose gradient nobody can differentiate in Chainer either, so that one node
in the graph does as well as another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sdbr.base.options import Options
from sdbr.call._entry import static_entry
from sdbr.call.manager import ScheduleManager
from sdbr.call.managers import MANAGERS
from sdbr.compat.graph._apply import set_outside

from chainer import functions as F
from chainer.functions.loss.softmax_cross_entropy import SoftmaxCrossEntropy

#: Kinds of losses that are static at once.
KEPT = 64
#: Times that one comes before it is traced.
WAITS = 8


class _Here(threading.local):
    busy = False  # whether a loss of this thread is served here


_here = _Here()
#: By kind: the static function, or how often it has come so far.
_calls: dict[tuple, Any] = {}


def _served(function: SoftmaxCrossEntropy, inputs: tuple, arrays: tuple) -> tuple | None:
    """What ``function.apply(inputs)`` gives; None where Chainer's code has to do it."""
    x, t = arrays
    if function.class_weight is not None or _here.busy:
        return None
    key = (
        function.normalize, function.cache_score, function.ignore_label, function.reduce,
        function.soft_target_loss, x.shape[1:], x.dtype, t.dtype,
    )  # fmt: skip
    call = _calls.get(key, 0)
    if isinstance(call, int):
        call = _known(key, call)
        if call is None:
            return None
    _here.busy = True
    try:
        return (call(*inputs),)
    finally:
        _here.busy = False


def _known(key: tuple, seen: int) -> Any:
    """The static function of a kind that has been seen so often; None before its time."""
    if seen == 0 and len(_calls) >= KEPT:
        return None
    _calls[key] = seen + 1
    if seen < WAITS:
        return None
    call = _calls[key] = _static(*key[:5])
    return call


def _static(
    normalize: bool, cache_score: bool, ignore_label: int, reduce: str, soft_target_loss: str
) -> Callable:
    def softmax_cross_entropy(x, t):
        return F.softmax_cross_entropy(
            x,
            t,
            normalize,
            cache_score,
            ignore_label=ignore_label,
            reduce=reduce,
            soft_target_loss=soft_target_loss,
        )

    manager = ScheduleManager(softmax_cross_entropy, Options(), None, "softmax_cross_entropy")
    manager.is_outside = True
    call = static_entry(
        softmax_cross_entropy, MANAGERS, lambda args, kwargs: manager.call(args, kwargs)
    )
    call.schedule_manager = manager
    return call


def managers() -> list[ScheduleManager]:
    """Those of the losses that are static by now."""
    return [call.schedule_manager for call in list(_calls.values()) if not isinstance(call, int)]


def forget() -> None:
    """Let go of all of them; losses are seen anew."""
    _calls.clear()


def install() -> None:
    """Have them served here."""
    set_outside(SoftmaxCrossEntropy, _served)
