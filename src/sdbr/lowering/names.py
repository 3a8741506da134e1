"""Paths of links, parameters and captured state: those of ``namedlinks`` and ``namedparams``."""

from __future__ import annotations

import functools

from sdbr.trace import values as v
from sdbr.trace.code.places import Place

import chainer


class Names:
    """What the links of a trace are called; they are looked for once somebody asks.

    Paths begin at the link whose method was called, with a slash. Those of links that the call
    reached from outside of links begin with how the code names them: ``model/l1``.

    Parameters
    ----------
    trace : Trace
    """

    def __init__(self, trace: v.Trace):
        self._trace = trace

    @functools.cached_property
    def _links(self) -> dict[int, str]:
        """Id of a link -> its path; of those that lie in two places the first one."""
        found: dict[int, str] = {}
        for prefix, root in self._trace.roots:
            for path, link in root.namedlinks():
                found.setdefault(id(link), prefix + path if path != "/" else prefix or path)
        return found

    @functools.cached_property
    def _params(self) -> dict[int, tuple[str, str]]:
        """Id of a parameter -> the path of its link, its name."""
        found: dict[int, tuple[str, str]] = {}
        for prefix, root in self._trace.roots:
            for path, param in root.namedparams():
                link, _, name = path.rpartition("/")
                found.setdefault(id(param), (prefix + link or "/", name))
        return found

    def of_link(self, link: chainer.Link | None) -> str:
        """The path of a link; its class where it lies in no link that is known."""
        if link is None:
            return ""
        return self._links.get(id(link)) or f"({type(link).__name__})"

    def of_owner(self, param: chainer.Parameter) -> str:
        """The path of the link that a parameter belongs to; empty where that is not known."""
        return self._params.get(id(param), ("", ""))[0]

    def of_node(self, node: v.TracedNode) -> str:
        """The path of the link whose code a node ran in.

        What has parameters of one link belongs to that where it lies below: ``forward`` of a link
        may be called by hand, and links of old have a ``__call__`` of their own.
        """
        running = self.of_link(node.link)
        owners = {self.of_owner(x.source) for x in node.inputs if x.kind == v.PARAMETER}
        if len(owners) == 1:
            (owner,) = owners
            if owner.startswith(running.rstrip("/") + "/") or not running:
                return owner
        return running

    def of_leaf(self, value: v.Value) -> str:
        """What the disassembler and the memory plan call an argument, parameter or attribute."""
        source = value.source
        if value.kind == v.ARGUMENT:
            return f"argument {source}"
        if value.kind == v.PARAMETER:
            link, name = self._params.get(id(source), ("", source.name or str(value.index)))
            return f"parameter {_join(link, name)}"
        if isinstance(source[0], Place):
            return source[1]
        link = self._links.get(id(source[0]))
        if link is None:
            return f"{type(source[0]).__name__}.{source[1]}"
        return _join(link, source[1])


def _join(link: str, name: str) -> str:
    return f"{link.rstrip('/')}/{name}" if link else name


def link_of(path: str) -> str:
    """The path of the link that a parameter lies in: ``/l1`` of ``/l1/W``."""
    return path.rpartition("/")[0] or "/"
