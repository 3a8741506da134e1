"""What a native update rule and a native hook are: one row each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sdbr.ops.table import BY_NAME
from sdbr.program.instruction import ControlSlot

import numpy as np
from chainer.optimizer import UpdateRule

#: The largest number that float32 rounds to zero: half of its smallest denormal, ties to even.
FLOAT32_UNDERFLOW = 2.0**-150


class Declined(Exception):
    """The native update cannot do this step; Chainer's own code can, or raises its own error."""


def vanishes(eps: float, dtype) -> bool:
    """Whether an eps is zero in the dtype of the parameter only; Chainer refuses it."""
    return eps != 0 and abs(eps) <= FLOAT32_UNDERFLOW and dtype == np.float32


@dataclasses.dataclass(frozen=True)
class RuleRow:
    """An update rule that has an op.

    Attributes
    ----------
    rule : type
        The exact class of the rule.
    op : str
        Name of the op; operands ``g p *state -> p *state``.
    hyperparameters : tuple of str
        What `scalars` reads, in order.
    options : tuple of str
        Hyperparameters whose truth decides which operands the op has.
    state : callable
        ``state(options) -> names`` of the state arrays, in the order of the operands; `options`
        are booleans in the order of the field above.
    scalars : callable
        ``scalars(values, t, dtype, extra) -> tuple of float``: the float attributes of the op at
        step `t` (1 for the first) from the hyperparameters as the user set them, by the very
        expressions that Chainer has. Whatever it raises, and whatever it gives that is no number
        (an array), makes Chainer's own code run this step.
    n_scalars : int
        Length of that tuple.
    attribute : str or None
        An attribute of the rule itself whose value is the `extra` of `scalars`; None where the rule
        lacks it.
    carry : callable or None
        ``carry(values, extra)``: what that attribute is after the step.
    rounding : bool
        Whether a step may be nothing but rounding, by as much as the step itself: audits of updates
        compare the states, and not the parameter.
    function : object or None
        That of a rule which is made of its arithmetic (`sdbr.update_rule`): it chooses options,
        and gives scalars and ops. `op` is the name of the rule then.
    """

    rule: type
    op: str
    hyperparameters: tuple[str, ...]
    scalars: Callable
    n_scalars: int
    options: tuple[str, ...] = ()
    state: Callable[[tuple[bool, ...]], tuple[str, ...]] = lambda options: ()
    attribute: str | None = None
    carry: Callable | None = None
    rounding: bool = False
    function: Any = None

    def emit(self, b, p, g, states, at: int, options) -> None:
        """Emit a step of a parameter `p` by its gradient `g`: all of them rows.

        Its numbers begin at place `at` of the control block.
        """
        if self.function is not None:
            return self.function.emit(b, [p, g, *states], at, options)
        names = BY_NAME[self.op].floats
        floats = [ControlSlot(at + i, 0.0, name) for i, name in enumerate(names)]
        b.emit(self.op, [g, p, *states], [p, *states], floats=floats)


#: Of the rule of a parameter that has no array yet: it counts steps, and no more.
IDLE = RuleRow(UpdateRule, "", (), lambda values, t, dtype, extra: (), 0)


@dataclasses.dataclass(frozen=True)
class HookRow:
    """A hook that has an op.

    Attributes
    ----------
    hooks : tuple of type
        The exact classes of the hook.
    op : str
        Name of an op: operands ``g p -> g`` for a hook that is called for each parameter,
        ``g* -> norm`` for one that is called once.
    attributes : tuple of str
        Attributes of the hook that give the floats of the op; read at every step.
    for_each_param : bool
    times_loss_scale : bool
        Whether the floats are multiplied with the loss scale of the parameter, if it has one.
    fixed : tuple of (str, object)
        Attributes of the hook that are this very object, or the hook is Chainer's own code.
    draw : callable or None
        ``draw(hook, rule, ahead, plan) -> obj``: the Python op whose result the op takes instead of
        `p`; `ahead` is by how much `t` of the rule is more when the hook is called than before the
        step, which `plan`, if any, may have counted already.
    """

    hooks: tuple[type, ...]
    op: str
    attributes: tuple[str, ...]
    for_each_param: bool
    times_loss_scale: bool = False
    fixed: tuple[tuple[str, object], ...] = ()
    draw: Callable | None = None
