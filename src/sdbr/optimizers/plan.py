"""What of an update runs natively, and its ops.

The plan follows Chainer's order: 'pre' hooks of the optimizer, then for each parameter the
division by the loss scale, the rule's own 'pre' hooks, the rule, its 'post' hooks; at last the
'post' hooks of the optimizer. What has no op stays Chainer's own code, between native calls.
"""

from __future__ import annotations

import collections

from sdbr.optimizers._groups import Group
from sdbr.optimizers._update import Update
from sdbr.optimizers.flow import CLEARING, FLOW, code_of, flow_problem
from sdbr.optimizers.problems import (
    only_parent,
    options_of,
    param_problem,
    rule_problem,
)
from sdbr.optimizers.rows import HookRow, RuleRow
from sdbr.optimizers.table import row_of_hook, row_of_rule
from sdbr.optimizers.tree import watch
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder, ControlSlot

import chainer
import numpy as np
from chainer.optimizer import GradientMethod, Hyperparameter


class UpdatePlan(Update):
    """How the parameters of an optimizer's target are updated.

    Parameters
    ----------
    optimizer : chainer.GradientMethod
        Set up. States that are missing are initialised by their rules, as Chainer does at the
        first update.

    Attributes
    ----------
    reason : str or None
        None when the whole update is native; else what is not, and why.
    python_parts : list of str
        The parts that stay Chainer's own code.
    native : bool
        Whether anything is native.
    params : list of chainer.Parameter
        Operands of the native ops, in the order of ``target.params()``.
    names : list of str
        Their paths.
    python_params : list of chainer.Parameter
        Updated by ``param.update()`` after the native part.
    python_pre_hooks, python_post_hooks : bool
        Whether the hooks of that time run as Chainer's own code.
    writes_gradients : bool
        Whether a native op writes gradients.
    n_control : int
        Number of control values.
    """

    def __init__(self, optimizer: GradientMethod):
        self.native = True
        self.target = optimizer.target
        self.params: list[chainer.Parameter] = []
        self.names: list[str] = []
        self.python_params: list[chainer.Parameter] = []
        self.python_pre_hooks = self.python_post_hooks = False
        self.n_control = 0
        self._fresh: list[tuple] = []
        self._reasons: collections.Counter[str] = collections.Counter()
        self._pre: list[tuple] = []
        self._post: list[tuple] = []
        # By parameter of `params`: (group or None, rule hooks before, rule hooks after, state).
        self._operands: list[tuple] = []
        self._controls: dict = {}
        self._scalar_hooks: list[tuple] = []
        self._looked_at: set[type] = set()
        self._options: dict[tuple, tuple[bool, ...]] = {}  # of rules that share all they have

        named = list(optimizer.target.namedparams())
        everything = [param for _, param in named]
        # Once: another thread may set the optimizer up meanwhile.
        rules = [param.update_rule for param in everything]
        problem = flow_problem(optimizer, everything)
        if problem is not None:
            self._reasons[problem] += 1
            self.native = False
        chosen = [None] * len(named)
        if self.native:
            chosen = [self._choose(p, rule) for p, rule in zip(everything, rules, strict=True)]
            self._choose_hooks(optimizer, everything)
        groups: dict = {}
        details = [
            self._add(param, path, rule, found, groups)
            for (path, param), rule, found in zip(named, rules, chosen, strict=True)
        ]
        self._finish(optimizer, everything, rules, details, groups)

    # --- what others ask ---------------------------------------------------------------------
    @property
    def python_parts(self) -> list[str]:
        return [f"{text} ({n} times)" if n > 1 else text for text, n in self._reasons.items()]

    @property
    def reason(self) -> str | None:
        return "; ".join(self.python_parts) or None

    def states(self, i: int) -> list[tuple[str, np.ndarray]]:
        """Names and arrays of the state of ``params[i]``, in the order of the op's operands."""
        return list(self._operands[i][3])

    def release(self) -> None:
        """Take back the states that were initialised for this plan, if no step was made."""
        for rule, t, state in self._fresh:
            if rule.t == t and rule._state is state:
                rule._state = None

    @property
    def updated_params(self) -> list[chainer.Parameter]:
        """Those of `params` whose rules run natively."""
        return [p for p, o in zip(self.params, self._operands, strict=True) if o[0] is not None]

    def set_slots(self, param_slots: list[int], grad_slots: list[int]) -> None:
        """Say where `bind_parameters` and `bind_gradients` bind; in the order of `params`."""
        for i, p, g in zip(self._entries, param_slots, grad_slots, strict=True):
            self._set_slots(i, p, g)

    def describe(self) -> str:
        """One line for what is native, one for each part that is not."""
        counts = collections.Counter(o[0].rule_row.op for o in self._operands if o[0] is not None)
        hooks = [hook_row.op for _, hook_row in (*self._pre, *self._post)]
        native = [f"{op} x {n}" for op, n in counts.items()] + hooks
        lines = [f"native: {', '.join(native) or 'nothing'}"]
        return "\n".join(lines + [f"Chainer: {text}" for text in self.python_parts])

    def emit(
        self,
        b: Builder,
        param_rows: list[Row],
        grad_rows: list[Row],
        state_rows: list[list[Row]],
        control_base: int = 0,
    ) -> None:
        """Emit the native part: hooks and rules, in Chainer's order.

        Parameters
        ----------
        b : Builder
        param_rows, grad_rows : list of Row
            Of each parameter in `params`; C-contiguous. Gradients are written when
            `writes_gradients`.
        state_rows : list of list of Row
            In the order of :meth:`states`.
        control_base : int
            Where the `n_control` values of this plan begin in the control block.
        """
        self._base = control_base
        b.are_gradients(grad_rows)
        label = b.label
        self._emit_hooks(b, self._pre, param_rows, grad_rows)
        for p, g, s, (group, before, after, _) in zip(
            param_rows, grad_rows, state_rows, self._operands, strict=True
        ):
            if group is None:
                continue
            if self.loss_scale is not None:
                b.label = "loss scale"
                b.emit("div_constant", [g], [g], floats=[self._control("loss scale")])
            for hook, hook_row in before:
                self._emit_hook(b, hook, hook_row, [p], [g])
            b.label = type(self.optimizer).__name__
            floats = [
                ControlSlot(control_base + group.offset + k, 0.0, name)
                for k, name in enumerate(_float_names(group.rule_row))
            ]
            b.emit(group.rule_row.op, [g, p, *s], [p, *s], floats=floats)
            for hook, hook_row in after:
                self._emit_hook(b, hook, hook_row, [p], [g])
        self._emit_hooks(b, self._post, param_rows, grad_rows)
        b.label = label

    # --- emitting ----------------------------------------------------------------------------
    def _emit_hooks(self, b, hooks, param_rows, grad_rows) -> None:
        for hook, hook_row in hooks:
            self._emit_hook(b, hook, hook_row, param_rows, grad_rows)

    def _emit_hook(self, b, hook, hook_row: HookRow, param_rows, grad_rows) -> None:
        b.label = type(hook).__name__
        floats = [self._control((id(hook), hook_row.times_loss_scale))]
        if hook_row.for_each_param:
            for p, g in zip(param_rows, grad_rows, strict=True):
                b.emit(hook_row.op, [g, p], [g], floats=floats)
        else:
            norm = b.new((), np.float64, "norm")
            b.emit(hook_row.op, grad_rows, [norm], floats=floats)

    def _control(self, key) -> ControlSlot:
        return ControlSlot(self._base + self._controls[key], 0.0, str(key))

    # --- choosing ----------------------------------------------------------------------------
    def _python(self, reason: str) -> None:
        self._reasons[reason] += 1

    def _choose(self, param, rule) -> tuple[RuleRow, dict, tuple[bool, ...]] | None:
        """Rule row, state and options of a parameter; None, with the reason noted, without one."""
        if rule is None or not rule.enabled:
            return None
        problem = param_problem(param)
        found = row_of_rule(rule, self._looked_at) if problem is None else problem
        if isinstance(found, RuleRow):
            if rule.state is None:
                rule._init_states(param)
                self._fresh.append((rule, rule.t, rule.state))
            state, options = rule.state, self._options_of(rule, found)
            problem = "its state was taken by another thread"
            if state is not None:
                problem = rule_problem(rule, found, param, state, options)
            if problem is None:
                return found, state, options
            found = problem
        self._python(found)
        self.python_params.append(param)
        return None

    def _options_of(self, rule, row: RuleRow) -> tuple[bool, ...] | None:
        """The options of a rule; None where a hyperparameter is missing."""
        parent = only_parent(rule.hyperparam)
        if parent is None:
            return options_of(rule, row)
        found = self._options.get((row.op, id(parent)))
        if found is None:
            found = options_of(rule, row)
            if found is not None:
                self._options[row.op, id(parent)] = found
        return found

    def _choose_hooks(self, optimizer, params) -> None:
        pre, why = _hook_rows(optimizer._hookable._pre_update_hooks, params)
        self.python_pre_hooks = pre is None
        self._pre = pre or []
        post, why_post = _hook_rows(optimizer._hookable._post_update_hooks, params)
        if post and self.python_params:
            # They must see what Chainer's own code made of the other parameters.
            post, why_post = None, "post hooks come after parameters that Chainer updates"
        self.python_post_hooks = post is None
        self._post = post or []
        for text in (why, why_post):
            if text is not None:
                self._python(text)
        if optimizer._loss_scaling_is_dynamic:
            self._python("dynamic loss scaling looks for NaN in gradients")

    def _add(self, param, path, rule, found, groups) -> tuple:
        """Note a parameter as operand; what the plan compares of it."""
        hooked = bool(self._pre or self._post) and self.native and param.array is not None
        if found is None:
            if hooked:
                self.params.append(param)
                self.names.append(path)
                self._operands.append((None, (), (), ()))
            return (-1, hooked, None, (), ())
        rule_row, state, options = found
        group = _group(rule, rule_row, param, options, groups)
        names = rule_row.state(group.options)
        arrays = tuple(state[name] for name in names)
        hookable = rule._hookable
        before = [(h, row_of_hook(h, True)) for h in hookable._pre_update_hooks.values()]
        after = [(h, row_of_hook(h, True)) for h in hookable._post_update_hooks.values()]
        self.params.append(param)
        self.names.append(path)
        self._operands.append((group, before, after, tuple(zip(names, arrays, strict=True))))
        return (group.number, True, state, names, arrays)

    def _finish(self, optimizer, everything, rules, details, groups) -> None:
        for group in groups.values():
            self.n_control = max(self.n_control, group.offset + group.rule_row.n_scalars)
        hooks = [*self._pre, *self._post]
        for group, before, after, _ in self._operands:
            if group is not None:
                hooks += [*before, *after]
        for hook, hook_row in hooks:
            key = (id(hook), hook_row.times_loss_scale)
            if key not in self._controls:
                self._controls[key] = self.n_control
                entry = (hook, hook_row.attribute, hook_row.times_loss_scale, self.n_control)
                self._scalar_hooks.append(entry)
                self.n_control += 1
        scales = [param._loss_scale for param in self.params]
        scale = scales[0] if scales else None
        scale_index = -1
        if any((s is None) != (scale is None) or s != scale for s in scales):
            self._python("parameters have different loss scales")
            self.native = False
            self.always_rebuild = True
        elif scale is not None:
            scale_index = self._controls["loss scale"] = self.n_control
            self.n_control += 1
        self.writes_gradients = bool(hooks) or scale is not None
        self.native = self.native and bool(self.params)
        self._entries = [i for i, detail in enumerate(details) if detail[1]]
        self._watch_parameters(everything, rules, details)
        self._set_groups(list(groups.values()))
        self._watch_optimizer(
            optimizer, watch(optimizer.target), self._scalar_hooks, scale, scale_index
        )
        hookable = optimizer._hookable
        every = [hookable, *[rule._hookable for rule in rules if rule is not None]]
        code = code_of(optimizer, rules, [hook for h in every for hook in _hooks_of(h)])
        self._watch_code(code, optimizer.target.__dict__, FLOW, (CLEARING,))


def _hooks_of(hookable) -> list:
    return [*hookable._pre_update_hooks.values(), *hookable._post_update_hooks.values()]


def _float_names(rule_row: RuleRow) -> tuple[str, ...]:
    from sdbr.ops.table import BY_NAME

    return BY_NAME[rule_row.op].floats


def _hook_rows(hooks, params) -> tuple[list[tuple] | None, str | None]:
    """Hooks with their rows, or None and the reason: then all of that time are Chainer's."""
    pairs = []
    for hook in hooks.values():
        found = row_of_hook(hook, False)
        if not isinstance(found, HookRow):
            return None, found
        for param in params:
            problem = param_problem(param)
            if problem is not None:
                return None, f"hook {type(hook).__name__}: {problem}"
        if not found.for_each_param and len({p.dtype for p in params}) != 1:
            return None, f"hook {type(hook).__name__}: parameters have no dtype in common"
        pairs.append((hook, found))
    return pairs, None


def _group(rule, rule_row: RuleRow, param, options: tuple[bool, ...], groups: dict) -> Group:
    """The group of a rule: rules of one group share their scalars."""
    hyperparam = rule.hyperparam
    extra = rule_row.extra(rule)
    dtype = param._data[0].dtype
    parent = only_parent(hyperparam)
    if parent is not None:
        found = groups.get((rule_row.op, id(parent), int(rule.t), dtype, options, extra))
        if found is not None:
            return found
    chain: list | None = []
    link = hyperparam
    while link is not None and chain is not None:
        # Code of a subclass may compute attributes; then the object itself is asked.
        chain = [*chain, link.__dict__] if type(link) is Hyperparameter else None
        link = link.__dict__.get("_parent")
    shared = chain is not None and len(hyperparam.__dict__) == 1 and hyperparam.parent is not None
    if shared:
        chain = chain[1:]
    source = id(hyperparam.parent) if shared else id(hyperparam)
    key = (rule_row.op, source, int(rule.t), dtype, options, extra)
    group = groups.get(key)
    if group is None:
        last = next(reversed(groups.values()), None)
        offset = 0 if last is None else last.offset + last.rule_row.n_scalars
        dicts = None if chain is None else tuple(chain)
        group = Group(rule_row, dtype, extra, hyperparam, options, dicts, len(groups), offset)
        groups[key] = group
    return group
