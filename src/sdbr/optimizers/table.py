"""The tables, of all rows in `rules` and `hooks`: class of a rule or hook -> its row, when its
behaviour is Chainer's own.
"""

from __future__ import annotations

import importlib
import pkgutil

from sdbr.optimizers import hooks, rules
from sdbr.optimizers.rows import HookRow, RuleRow

from chainer.optimizer import UpdateRule


def _rows(folder) -> list:
    """The rows of all modules of a folder, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    return [importlib.import_module(f"{folder.__name__}.{name}").ROW for name in names]


def _by_class(pairs: list[tuple[type, RuleRow | HookRow]]) -> dict:
    """Class -> row; a class has one row."""
    found: dict = {}
    for cls, row in pairs:
        if found.setdefault(cls, row) is not row:
            raise ValueError(f"two rows for {cls.__name__}: {found[cls].op} and {row.op}")
    return found


RULES: dict[type, RuleRow] = _by_class([(row.rule, row) for row in _rows(rules)])
HOOKS: dict[type, HookRow] = _by_class([(cls, row) for row in _rows(hooks) for cls in row.hooks])

# What a rule's step consists of. Remembered here, so that a class patched later is noticed.
METHODS = (
    "update",
    "_UpdateRule__update",
    "_init_states",
    "update_core",
    "update_core_cpu",
    "init_state",
)
_REPLACED = frozenset(METHODS)


def as_it_is(function) -> tuple:
    """A function and its code, both of which may be replaced."""
    return function, getattr(function, "__code__", None)


_OWN = {
    cls: tuple(as_it_is(getattr(cls, name)) for name in METHODS) for cls in (UpdateRule, *RULES)
}
#: Where a rule that is made of its arithmetic has its row, and its methods as they were then.
_ROW, _METHODS = "_sdbr_row", "_sdbr_methods"
CALLS = {cls: as_it_is(cls.__call__) for cls in HOOKS}


def add_row(row: RuleRow) -> None:
    """Give a class of rules its row: it goes when the class goes."""
    setattr(row.rule, _METHODS, tuple(as_it_is(getattr(row.rule, name)) for name in METHODS))
    setattr(row.rule, _ROW, row)


def row_of_class(cls: type) -> RuleRow | None:
    """The row of a class of rules itself, whatever was replaced in it since."""
    row = RULES.get(cls)
    return cls.__dict__.get(_ROW) if row is None else row


def row_of_rule(rule, looked_at: set[type]) -> RuleRow | str:
    """The row of an update rule, or why it has none.

    Parameters
    ----------
    rule : chainer.UpdateRule
    looked_at : set of type
        Classes in which no method was replaced, as far as they were looked at just now.
    """
    cls = type(rule)
    row = row_of_class(cls)
    if row is None:
        return f"update rule {cls.__name__} has no native code, see sdbr.update_rule"
    if cls in looked_at and _REPLACED.isdisjoint(rule.__dict__):
        return row
    own = _OWN[cls] if cls in _OWN else cls.__dict__[_METHODS]
    for name, method in zip(METHODS, own, strict=True):
        if name in rule.__dict__ or as_it_is(getattr(cls, name)) != method:
            return f"{name} of update rule {cls.__name__} was replaced"
    looked_at.add(cls)
    return row


def row_of_hook(hook, of_rule: bool) -> HookRow | str:
    """The row of a hook, or why it has none.

    Parameters
    ----------
    hook : callable
    of_rule : bool
        Whether it was added to an update rule rather than to the optimizer.
    """
    cls = type(hook)
    name = getattr(cls, "__name__", str(cls))
    row = HOOKS.get(cls)
    if row is None:
        if name == "function":
            name = getattr(hook, "__name__", name)
        return f"hook {name} has no native code"
    if as_it_is(cls.__call__) != CALLS[cls]:
        return f"hook {name} was replaced"
    for attribute, expected in row.fixed:
        if getattr(hook, attribute, None) is not expected:
            return f"hook {name} has another {attribute}"
    if bool(getattr(hook, "call_for_each_param", False)) is not row.for_each_param:
        return f"hook {name} has another call_for_each_param"
    if of_rule and not row.for_each_param:
        return f"hook {name} is not for update rules"
    return row
