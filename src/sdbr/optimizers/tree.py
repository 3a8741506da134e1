"""Which dictionaries, sets and lists say what parameters a link has."""

from __future__ import annotations

from sdbr.compat.link_version import LINK_VERSION
from sdbr.optimizers._tree import Tree

import chainer

_KNOWN = tuple(cls.params for cls in (chainer.Link, chainer.Chain, chainer.ChainList))


def watch(target: chainer.Link) -> Tree:
    """A watch over the parameters of `target` and of all links below it."""
    lookups: list[tuple] = []
    sets: list[set] = []
    lists: list[list] = []
    opaque = False
    for link in target.links():
        d = link.__dict__
        # A link may give its parameters by code of its own; then only the result can be compared.
        opaque = opaque or type(link).params not in _KNOWN or "params" in d
        lookups.append((d, "_params", d["_params"]))
        sets.append(d["_params"])
        lookups += [(d, name, d[name]) for name in d["_params"]]
        children = d.get("_children")
        if children is None:
            continue
        lookups.append((d, "_children", children))
        if isinstance(children, list):
            lists.append(children)
        else:
            sets.append(children)
            lookups += [(d, name, d[name]) for name in children]
    return Tree(target, LINK_VERSION, lookups, sets, lists, opaque)
