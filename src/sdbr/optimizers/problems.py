"""Why an update cannot be native, of optimizers, parameters and rules one by one."""

from __future__ import annotations

from sdbr.devices.arrays import ARRAYS, PLAIN, device_of
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
        if type(array) not in PLAIN:
            return f"parameter array is a {type(array).__module__}.{type(array).__name__}"
        if dtype not in (np.float32, np.float64):
            return f"parameter dtype {dtype}"
        return "parameter array is not C-contiguous and writeable"
    return None


def is_halved(param, rule) -> bool:
    """Whether a rule updates a copy of the parameter in float32: ``use_fp32_update``."""
    array = param._data[0]
    return (
        bool(getattr(rule, "_use_fp32_update", False))
        and getattr(array, "dtype", None) == np.float16
    )


def halved_problem(param, rule) -> str | None:
    """Why such a parameter cannot be updated natively; its copy may not have been made yet."""
    array, copy = param._data[0], rule._fp32_param
    if type(param) is not chainer.Parameter:
        return f"parameter class {type(param).__name__}"
    if param._layout is not None:
        return "parameter has a non-standard layout"
    if type(array) is not np.ndarray or (copy is None and not array.flags.c_contiguous):
        return param_problem(param)
    if copy is None:
        return None
    problem = param_problem(copy)
    if problem is None and copy.array.shape != array.shape:
        problem = f"parameter is {list(array.shape)}, and {list(copy.array.shape)}"
    return problem and f"in float32: {problem}"


def rule_problem(rule, rule_row: RuleRow, param, state: dict, options) -> str | None:
    """Why the rule of a parameter cannot, with its state and options."""
    hookable = rule._hookable
    for hook in (*hookable._pre_update_hooks.values(), *hookable._post_update_hooks.values()):
        found = row_of_hook(hook, True)
        if not isinstance(found, HookRow):
            return f"update rule has a hook: {found}"
    if options is None:
        return "update rule lacks a hyperparameter"
    if isinstance(options, str):
        return options
    array = param._data[0]
    for name in rule_row.state(options):
        found = state.get(name)
        fits = is_plain(found) and found.dtype == array.dtype and found.shape == array.shape
        if not fits:
            return f"state {name} does not fit the parameter"
    return None


def hook_row_for(hook, params) -> HookRow | str:
    """The row of a hook of the optimizer, or why it has none."""
    found = row_of_hook(hook, False)
    if not isinstance(found, HookRow):
        return found
    there = [param for param in params if param._data[0] is not None]  # others have no gradient
    for param in there:
        problem = param_problem(param)
        if problem is not None:
            return f"hook {type(hook).__name__}: {problem}"
    if found.draw is not None and any(p.update_rule is None for p in params):
        return f"hook {type(hook).__name__}: a parameter has no update rule"
    if not found.for_each_param and len({p.dtype for p in there}) != 1:
        return f"hook {type(hook).__name__}: parameters have no dtype in common"
    return found


def lies_elsewhere(state: dict, param) -> bool:
    """Whether a state is on another device than its parameter."""
    device = device_of(param._data[0])
    return any(isinstance(x, ARRAYS) and device_of(x) != device for x in state.values())


def options_of(rule, rule_row: RuleRow) -> tuple[bool, ...] | str | None:
    """The options of a rule, as its row names them; None where one is missing, or why there are
    none.
    """
    function = rule_row.function
    names = rule_row.options if function is None else rule_row.hyperparameters
    try:
        values = tuple(getattr(rule.hyperparam, name) for name in names)
    except AttributeError:
        return None
    if function is None:
        return tuple(map(bool, values))
    try:
        return function.choose(values, rule.t + 1)
    except Exception as error:  # of the user's function: an update by it raises the same
        return str(error) or type(error).__name__


def only_parent(hyperparam) -> Hyperparameter | None:
    """From where hyperparameters take all they have; None where they have something themselves."""
    fields = hyperparam.__dict__
    if type(hyperparam) is not Hyperparameter or len(fields) != 1:
        return None
    return fields.get("_parent")


def is_idle(param, rule) -> bool:
    """Whether a parameter has no array yet, so that its rule, one of Chainer's, only counts."""
    if type(param) is not chainer.Parameter or param._data[0] is not None:
        return False
    if rule._use_fp32_update:
        return False  # it may make a copy without an array as well
    hookable = rule._hookable
    hooks = (*hookable._pre_update_hooks.values(), *hookable._post_update_hooks.values())
    return isinstance(row_of_rule(rule, set()), RuleRow) and all(
        isinstance(row_of_hook(hook, True), HookRow) for hook in hooks
    )


def may_ask(plan, params) -> bool:
    """Whether a program may ask for finite gradients before the update that a plan describes.

    A kernel sees all of them, and nothing else is before the answer: hooks of the optimizer are
    called whatever it is.
    """
    is_asking = plan.native and plan.reason is None and plan.checks_finite
    there = all(param._data[0] is not None for param in params)
    return is_asking and there and plan.device is None and not plan.is_hooked


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
        if is_idle(param, rule):
            continue
        problem = halved_problem if is_halved(param, rule) else None
        problem = param_problem(param) if problem is None else problem(param, rule)
        if param._loss_scale is not None or problem is not None:
            return False
        hookable = rule._hookable
        if hookable._pre_update_hooks or hookable._post_update_hooks:
            return False
        found = row_of_rule(rule, looked_at)
        if not isinstance(found, RuleRow):
            return False
        parent = only_parent(rule.hyperparam)
        if parent is None or (found.rule, id(parent)) not in parents:
            if not isinstance(options_of(rule, found), tuple):
                return False
            parents.add((found.rule, id(parent)))
    return True
