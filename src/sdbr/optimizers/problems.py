"""Why an update cannot be native, of optimizers, parameters and rules one by one."""

from __future__ import annotations

from sdbr.optimizers._basis import is_plain
from sdbr.optimizers.flow import flow_problem
from sdbr.optimizers.rows import HookRow, RuleRow
from sdbr.optimizers.table import row_of_hook, row_of_rule

import chainer
import numpy as np
from chainer.optimizer import GradientMethod, Hyperparameter


def param_problem(param) -> str | None:
    """Why a parameter cannot be updated natively."""
    if type(param) is not chainer.Parameter:
        return f"parameter class {type(param).__name__}"
    if param._data[0] is None:
        return "parameter is not initialized"
    if param._layout is not None:
        return "parameter has a non-standard layout"
    if not is_plain(param._data[0]):
        array = param._data[0]
        dtype = getattr(array, "dtype", None)
        if type(array) is not np.ndarray:
            return f"parameter array is a {type(array).__module__}.{type(array).__name__}"
        if dtype not in (np.float32, np.float64):
            return f"parameter dtype {dtype}"
        return "parameter array is not C-contiguous and writeable"
    return None


def rule_problem(rule, rule_row: RuleRow, param, state: dict, options) -> str | None:
    """Why the rule of a parameter cannot, with its state and options."""
    hookable = rule._hookable
    for hook in (*hookable._pre_update_hooks.values(), *hookable._post_update_hooks.values()):
        found = row_of_hook(hook, True)
        if not isinstance(found, HookRow):
            return f"update rule has a hook: {found}"
    if options is None:
        return "update rule lacks a hyperparameter"
    array = param._data[0]
    for name in rule_row.state(options):
        found = state.get(name)
        fits = is_plain(found) and found.dtype == array.dtype and found.shape == array.shape
        if not fits:
            return f"state {name} does not fit the parameter"
    return None


def options_of(rule, rule_row: RuleRow) -> tuple[bool, ...] | None:
    """The options of a rule, as its row names them; None where one is missing."""
    try:
        return tuple(bool(getattr(rule.hyperparam, name)) for name in rule_row.options)
    except AttributeError:
        return None


def only_parent(hyperparam) -> Hyperparameter | None:
    """From where hyperparameters take all they have; None where they have something themselves."""
    fields = hyperparam.__dict__
    if type(hyperparam) is not Hyperparameter or len(fields) != 1:
        return None
    return fields.get("_parent")


def is_native(optimizer: GradientMethod) -> bool:
    """Whether a plan would be native as a whole; no plan is made, and no state initialised.

    False where that cannot be told without one: there are hooks, states or scales, or a parameter
    is not updated.
    """
    hookable = optimizer._hookable
    if hookable is None or hookable._pre_update_hooks or hookable._post_update_hooks:
        return False
    params = list(optimizer.target.params())
    if not params or optimizer._loss_scaling_is_dynamic or flow_problem(optimizer, params):
        return False
    looked_at: set[type] = set()
    parents: set[tuple] = set()  # with options that are known
    for param in params:
        rule = param.update_rule
        if rule is None or not rule.enabled or rule.state is not None:
            return False
        if param._loss_scale is not None or param_problem(param) is not None:
            return False
        hookable = rule._hookable
        if hookable._pre_update_hooks or hookable._post_update_hooks:
            return False
        found = row_of_rule(rule, looked_at)
        if not isinstance(found, RuleRow):
            return False
        parent = only_parent(rule.hyperparam)
        if parent is None or (found.op, id(parent)) not in parents:
            if options_of(rule, found) is None:
                return False
            parents.add((found.op, id(parent)))
    return True
