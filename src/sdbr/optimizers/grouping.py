"""Which rules make the same step, so that they share what their ops take."""

from __future__ import annotations

from sdbr.optimizers._groups import Group
from sdbr.optimizers.problems import only_parent
from sdbr.optimizers.rows import RuleRow

from chainer.optimizer import Hyperparameter


def group_of(rule, rule_row: RuleRow, param, options: tuple[bool, ...], groups: dict) -> Group:
    """The group of a rule: rules of one group share their scalars."""
    hyperparam = rule.hyperparam
    extra = None if rule_row.attribute is None else rule.__dict__.get(rule_row.attribute)
    array = param._data[0]
    dtype = None if array is None else array.dtype
    parent = only_parent(hyperparam)
    if parent is not None:
        found = groups.get((rule_row.rule, id(parent), int(rule.t), dtype, options, extra))
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
    key = (rule_row.rule, source, int(rule.t), dtype, options, extra)
    group = groups.get(key)
    if group is None:
        last = next(reversed(groups.values()), None)
        offset = 0 if last is None else last.offset + last.n_scalars
        dicts = None if chain is None else tuple(chain)
        group = Group(rule_row, dtype, hyperparam, options, dicts, len(groups), offset)
        groups[key] = group
    return group
