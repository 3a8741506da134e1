"""The code that a step of an optimizer consists of, and whether it is Chainer's own."""

from __future__ import annotations

import types

from sdbr.optimizers.table import CALLS, METHODS, as_it_is
from sdbr.trace.code.reading import behind
from sdbr.trace.guards._definitions import Definitions

import chainer
from chainer.optimizer import GradientMethod

#: What `GradientMethod.update` consists of.
FLOW = (
    "update",
    "call_hooks",
    "call_hook",
    "reallocate_cleared_grads",
    "check_nan_in_grads",
    "is_safe_to_update",
    "update_loss_scale",
)
_OWN_FLOW = {name: as_it_is(getattr(GradientMethod, name)) for name in FLOW}
#: What it calls of its target before the backward.
CLEARING = ("cleargrads", "zerograds")
_OWN_CLEARING = {
    name: {as_it_is(getattr(cls, name)) for cls in (chainer.Link, chainer.Chain, chainer.ChainList)}
    for name in CLEARING
}


def flow_problem(optimizer, params) -> str | None:
    """Why the update of these parameters is not the one that native ops do, or None."""
    base = _class_of(optimizer)
    for name, own in _OWN_FLOW.items():
        if name in optimizer.__dict__ or as_it_is(getattr(base, name)) != own:
            return f"{base.__name__} has its own {name}"
    if len({id(p) for p in params}) != len(params):
        return "a parameter is registered twice, so each step updates it twice"
    return None


def clears_itself(target: chainer.Link, name: str) -> bool:
    """Whether a target has its own code for clearing gradients, or for filling them with zeros."""
    code = as_it_is(getattr(type(target), name))
    return name in target.__dict__ or code not in _OWN_CLEARING[name]


def code_of(optimizer, rules: list, hooks: list) -> Definitions:
    """Where the code of a step is looked up, as it is now.

    Parameters
    ----------
    optimizer : chainer.GradientMethod
    rules, hooks : list
        Update rules and hooks, those of the optimizer and those of rules.
    """
    classes: dict[type, tuple] = {
        _class_of(optimizer): FLOW,
        type(optimizer.target): CLEARING,
    }
    classes.update((type(rule), METHODS) for rule in rules if rule is not None)
    classes.update((type(hook), ("__call__",)) for hook in hooks if type(hook) in CALLS)
    items = [
        (behind(base.__dict__), name, base.__dict__.get(name))
        for cls, names in classes.items()
        for base in cls.__mro__[:-1]
        for name in names
    ]
    functions = [thing for _, _, thing in items if isinstance(thing, types.FunctionType)]
    return Definitions(items, functions, list(classes))


def _class_of(optimizer) -> type:
    cls = type(optimizer)
    return getattr(cls, "_sdbr_base", cls)
