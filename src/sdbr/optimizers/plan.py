"""What of an update runs natively, and its ops.

The plan follows Chainer's order: 'pre' hooks of the optimizer, then for each parameter the
division by the loss scale, the rule's own 'pre' hooks, the rule, its 'post' hooks; at last the
'post' hooks of the optimizer. What has no op stays code of Python, between native calls.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Mapping
from types import MappingProxyType

from sdbr.devices.arrays import device_of
from sdbr.lowering.names import link_of
from sdbr.optimizers import table
from sdbr.optimizers._masters import Master
from sdbr.optimizers._update import Update
from sdbr.optimizers.flow import CLEARING, FLOW, code_of, flow_problem
from sdbr.optimizers.grouping import group_of
from sdbr.optimizers.parts import POST, PRE, RULES, Move, Part, parts_of
from sdbr.optimizers.problems import (
    halved_problem,
    hook_row_for,
    is_halved,
    is_idle,
    lies_elsewhere,
    may_ask,
    only_parent,
    options_of,
    param_problem,
    rule_problem,
)
from sdbr.optimizers.rows import IDLE, HookRow, RuleRow
from sdbr.optimizers.tree import watch
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder, ControlSlot

import chainer
import numpy as np
from chainer.optimizer import GradientMethod


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
    masters : dict of int to Master
        Of those whose rules update a copy in float32, by place in `params`.
    python_params : list of chainer.Parameter
        Updated by ``param.update()``.
    parts : list of Part
        Of a step.
    whole : bool
        Whether it is one native part, and nothing else.
    in_step : bool
        Whether it can be a part of the program of a whole step: nothing comes before it, either.
    checks_finite : bool
        Whether the loss scale is dynamic: steps with an infinite gradient or NaN are left out.
    writes_gradients : bool
        By native ops.
    n_control : int
        Number of control values.
    device : int or None
        The GPU of `params`; None for the host.
    """

    def __init__(self, optimizer: GradientMethod):
        self.native = True
        self.target = optimizer.target
        self.params: list[chainer.Parameter] = []
        self.names: list[str] = []
        self.python_params: list[chainer.Parameter] = []
        self.masters: dict[int, Master] = {}
        self.n_control = 0
        self._fresh: list[tuple] = []
        self._before: dict[int, int] = {}  # `t` of rules whose copy in float32 is made here
        self._reasons: collections.Counter[str] = collections.Counter()
        self._pre: list[tuple] = []  # (hook, row or None)
        self._post: list[tuple] = []
        self._moves: list[Move] = []
        self.checks_finite = False
        # By parameter of `params`: (group or None, rule hooks before, rule hooks after, state).
        self._operands: list[tuple] = []
        self._rules: list = []  # update rules of `params`
        self._scaled: list[bool] = []  # whether these have a loss scale
        self._controls: dict = {}
        self._scalar_hooks: list[tuple] = []
        self._fixed: list[tuple] = []
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
        self.is_hooked = any(row is not None for _, row in (*self._pre, *self._post))
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

    def states(self, i: int) -> list[tuple[str, np.ndarray]]:
        """Names and arrays of the state of ``params[i]``, in the order of the operands."""
        return list(self._operands[i][3])

    def release(self) -> None:
        """Take back states and copies that were made for this plan, if no step was made."""
        for rule, t, name, made in self._fresh:
            if rule.t == t and getattr(rule, name) is made:
                setattr(rule, name, None)

    @functools.cached_property
    def updated_params(self) -> list[chainer.Parameter]:
        """Those of `params` whose rules run natively."""
        return [p for p, o in zip(self.params, self._operands, strict=True) if o[0] is not None]

    def operand(self, i: int) -> chainer.Parameter:
        """What the rule of ``params[i]`` updates: the parameter, or its copy in float32."""
        return self.masters[i].copy if i in self.masters else self.params[i]

    def new_halves(self, b: Builder, part: Part | None) -> dict[int, Row]:
        """Rows for what `emit` rounds; none without a part."""
        updated = {move.operand for move in part.moves} if part is not None else ()
        return {
            i: b.table.owned(master.parameter.shape, np.float16, f"{self.names[i]}, rounded")
            for i, master in self.masters.items()
            if i in updated
        }

    def set_slots(self, param_slots: list[int], grad_slots: list[int]) -> None:
        """Where `bind_parameters` and `bind_gradients` bind; in the order of `params`."""
        for i, p, g in zip(self._entries, param_slots, grad_slots, strict=True):
            self._set_slots(i, p, g)

    def describe(self) -> str:
        """One line for what is native, one for each part that is not."""
        counts = collections.Counter(o[0].rule_row.op for o in self._operands if o[0] is not None)
        hooks = [move.row.op for move in self._moves if move.row is not None]
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
        part: Part | None = None,
        halves: Mapping[int, Row] = MappingProxyType({}),
    ) -> None:
        """Emit what is native: hooks and rules, in Chainer's order.

        Parameters
        ----------
        b : Builder
        param_rows, grad_rows : list of Row
            Of each operand and of the gradient of each parameter in `params`; C-contiguous.
            Gradients are written when `writes_gradients`.
        state_rows : list of list of Row
            In the order of :meth:`states`.
        control_base : int
            Where the `n_control` values of this plan begin in the control block.
        part : Part or None
            A native one of `parts`; None: all of them.
        halves : dict of int to Row
            Where the parameters of `masters` that are updated go, rounded.
        """
        self._base = control_base
        b.are_gradients(grad_rows)
        label = b.label
        everything = [
            (p, g, self._rules[k], self._scaled[k], self._operands[k][0] is not None)
            for k, (p, g) in enumerate(zip(param_rows, grad_rows, strict=True))
        ]
        for move in self._moves if part is None else part.moves:
            if move.hook is not None:
                self._emit_hook(b, move.hook, move.row, everything, move.stage == POST)
            elif move.operand >= 0:
                k = move.operand
                b.link = link_of(self.names[k])
                self._emit_rule(b, everything[k], state_rows[k], self._operands[k], halves.get(k))
        b.label, b.link = label, ""

    # --- emitting ----------------------------------------------------------------------------
    def _emit_rule(self, b, of_one, state_rows, operand, half: Row | None) -> None:
        group, before, after, _ = operand
        p, g, rule, scaled, _ = of_one
        if half is not None:
            b.label = "use_fp32_update"
            g = b.cast(g, np.float32)
            of_one = (p, g, rule, False, True)  # the copy carries no loss scale
        if scaled:
            b.label = "loss scale"
            b.emit("div_constant", [g], [g], floats=[self._control("loss scale")])
        for hook, hook_row in before:
            self._emit_hook(b, hook, hook_row, [of_one], True)
        b.label = type(self.optimizer).__name__
        group.rule_row.emit(b, p, g, state_rows, self._base + group.offset, group.options)
        for hook, hook_row in after:
            self._emit_hook(b, hook, hook_row, [of_one], True)
        if half is not None:
            b.label = "use_fp32_update"
            b.emit("cast", [p], [half])

    def _emit_hook(self, b, hook, hook_row: HookRow, operands, counted: bool) -> None:
        b.label = type(hook).__name__
        if hook_row.for_each_param:
            for p, g, rule, scaled, is_native in operands:
                floats = self._floats(hook, hook_row, scaled)
                if hook_row.draw is not None:
                    plan = self if is_native else None  # others count for themselves
                    obj = hook_row.draw(hook, rule, int(counted and is_native), plan)
                    p = b.new(g.shape, g.dtype, "noise")
                    b.emit("python", [], [p], ints=(0, 0), obj=obj)
                b.emit(hook_row.op, [g, p], [g], floats=floats)
        else:
            norm = b.new((), np.float64, "norm")
            floats = self._floats(hook, hook_row, False)
            b.emit(hook_row.op, [of_one[1] for of_one in operands], [norm], floats=floats)

    def _floats(self, hook, hook_row: HookRow, scaled: bool) -> list[ControlSlot]:
        key = (id(hook), hook_row.times_loss_scale and scaled)
        return [self._control((*key, name)) for name in hook_row.attributes]

    def _control(self, key) -> ControlSlot:
        return ControlSlot(self._base + self._controls[key], 0.0, str(key))

    # --- choosing ----------------------------------------------------------------------------
    def _choose(self, param, rule) -> tuple[RuleRow, dict | None, tuple[bool, ...]] | None:
        """Rule row, state and options of a parameter; None, with the reason noted, without one.

        A parameter without an array has no state: its rule counts steps, and no more.
        """
        if rule is None or not rule.enabled:
            return None
        if is_idle(param, rule):
            return IDLE, None, ()
        halved = is_halved(param, rule)
        problem = halved_problem(param, rule) if halved else param_problem(param)
        found = table.row_of_rule(rule, self._looked_at) if problem is None else problem
        if isinstance(found, RuleRow):
            target = self._copy_of(param, rule) if halved else param
            if rule.state is None:
                rule._init_states(target)
                self._fresh.append((rule, rule.t, "_state", rule.state))
            elif lies_elsewhere(rule.state, target):
                rule._init_states(target)  # it follows the parameter, as in an update of Chainer's
            state, options = rule.state, self._options_of(rule)
            problem = "its state was taken by another thread"
            if state is not None:
                problem = rule_problem(rule, found, target, state, options)
            if problem is None:
                return found, state, options
            found = problem
        self._reasons[found] += 1
        self.python_params.append(param)
        return None

    def _copy_of(self, param, rule) -> chainer.Parameter:
        """What Chainer makes at the first update of such a parameter."""
        if rule._fp32_param is None:
            copy = rule._fp32_param = chainer.Parameter(param.array.astype("f"), name=param.name)
            self._fresh.append((rule, rule.t, "_fp32_param", copy))
            self._before[id(param)] = rule.t
        return rule._fp32_param

    def _options_of(self, rule) -> tuple[bool, ...] | str | None:
        """The options of a rule that has a row; see `options_of`."""
        row = table.row_of_class(type(rule))
        parent = only_parent(rule.hyperparam)
        if parent is None:
            return options_of(rule, row)
        key = row.rule, id(parent), rule.t if row.function is not None else 0
        found = self._options.get(key)
        if found is None:
            found = options_of(rule, row)
            if found is not None:
                self._options[key] = found
        return found

    def _choose_hooks(self, optimizer, params) -> None:
        """The hooks of the optimizer, each with its row; None, with the reason noted, without."""
        hookable = optimizer._hookable
        chosen = []
        for hooks in (hookable._pre_update_hooks, hookable._post_update_hooks):
            chosen.append([])
            for hook in hooks.values():
                found = hook_row_for(hook, params)
                if isinstance(found, str):
                    self._reasons[found] += 1
                    found = None
                chosen[-1].append((hook, found))
        self._pre, self._post = chosen
        self.checks_finite = bool(optimizer._loss_scaling_is_dynamic)

    def _add(self, param, path, rule, found, groups) -> tuple:
        """Note a parameter and what is done with it; what the plan compares of it."""
        if found is None:
            if rule is not None and rule.enabled:
                self._moves.append(Move(RULES, param=param))
            hooked = self.native and (self.is_hooked or self.checks_finite)
            if hooked and param_problem(param) is None:
                self._operand(param, path, rule, (None, (), (), ()))
                return (-1, True, None, (), ())
            return (-1, False, None, (), ())
        rule_row, state, options = found
        halved = is_halved(param, rule)
        of = rule._fp32_param if halved else param
        group = group_of(rule, rule_row, of, options, groups)
        if state is None:
            return (group.number, False, None, (), ())
        names = rule_row.state(group.options)
        arrays = tuple(state[name] for name in names)
        hookable = rule._hookable
        before = [(h, table.row_of_hook(h, True)) for h in hookable._pre_update_hooks.values()]
        after = [(h, table.row_of_hook(h, True)) for h in hookable._post_update_hooks.values()]
        self._moves.append(Move(RULES, param=param, operand=len(self.params)))
        states = tuple(zip(names, arrays, strict=True))
        if halved:
            self.masters[len(self.params)] = Master(param, rule, self._before.get(id(param)))
        self._operand(param, path, rule, (group, before, after, states))
        return (group.number, True, state, names, arrays)

    def _operand(self, param, path, rule, operand) -> None:
        self.params.append(param)
        self.names.append(path)
        self._rules.append(rule)
        self._scaled.append(param._loss_scale is not None)
        self._operands.append(operand)

    def _finish(self, optimizer, everything, rules, details, groups) -> None:
        self._moves = [
            *(Move(PRE, hook, row) for hook, row in self._pre),
            *self._moves,
            *(Move(POST, hook, row) for hook, row in self._post),
        ]
        self.parts = parts_of(self._moves)
        for group in groups.values():
            self.n_control = max(self.n_control, group.offset + group.n_scalars)
        hooks = self._native_hooks()
        self._choose_controls(hooks)
        scale, scale_index = self._choose_scale()
        self.writes_gradients = bool(hooks) or scale is not None
        self.native = self.native and bool(self.params)
        devices = {device_of(param._data[0]) for param in self.params}
        if len(devices) > 1:
            self._reasons["parameters lie on several devices"] += 1
            self.native, self.always_rebuild = False, True
        self.device = devices.pop() if devices else None
        self.reason = "; ".join(self.python_parts) or None
        self.whole = self.native and self.reason is None and not self.checks_finite
        self.in_step = self.whole or may_ask(self, everything)
        self.ahead = list(self.masters.values())
        self._entries = [i for i, detail in enumerate(details) if detail[1]]
        self._watch_parameters(everything, rules, details)
        self._set_groups(list(groups.values()))
        self._watch_optimizer(
            optimizer,
            watch(optimizer.target),
            self._scalar_hooks,
            self._fixed,
            scale,
            scale_index,
        )
        hookable = optimizer._hookable
        every = [hookable, *[rule._hookable for rule in rules if rule is not None]]
        code = code_of(optimizer, rules, [hook for h in every for hook in _hooks_of(h)])
        self._watch_code(code, optimizer.target.__dict__, FLOW, CLEARING)

    def _native_hooks(self) -> list[tuple]:
        found = [(move.hook, move.row) for move in self._moves if move.row is not None]
        for group, before, after, _ in self._operands:
            if group is not None:
                found += [*before, *after]
        return found

    def _choose_controls(self, hooks: list[tuple]) -> None:
        """Places in the control block for what hooks take."""
        for hook, hook_row in hooks:
            self._fixed += [(hook, name, expected) for name, expected in hook_row.fixed]
            scaled = {False, *(self._scaled if hook_row.times_loss_scale else ())}
            for times, name in itertools.product(scaled, hook_row.attributes):
                key = (id(hook), times, name)
                if key not in self._controls:
                    self._controls[key] = self.n_control
                    self._scalar_hooks.append((hook, name, times, self.n_control))
                    self.n_control += 1

    def _choose_scale(self) -> tuple:
        """The loss scale of the parameters that have one, and its place in the control block."""
        scales = [p._loss_scale for p in self.params if p._loss_scale is not None]
        if not scales:
            return None, -1
        if any(scale != scales[0] for scale in scales):
            self._reasons["parameters have different loss scales"] += 1
            self.native, self.always_rebuild = False, True
            return None, -1
        place = self._controls["loss scale"] = self.n_control
        self.n_control += 1
        return scales[0], place


def _hooks_of(hookable) -> list:
    return [*hookable._pre_update_hooks.values(), *hookable._post_update_hooks.values()]
