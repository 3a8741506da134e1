"""Attributes of links that are there before the first static call.

For Chainer 7.8.1: two descriptors on ``chainer.Link``, which behave like missing attributes on
every link that is not static.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainer


class FirstLook:
    """An attribute that `find` makes when it is first asked for, and that copies do not share.

    Parameters
    ----------
    name : str
    find : callable
        ``find(link, value)``: what a link shows whose own attribute is `value` (None without
        one); NotImplemented for no attribute.
    """

    def __init__(self, name: str, find: Callable[[Any, Any], Any]) -> None:
        self.name = name
        self.find = find

    def __get__(self, link: Any, cls: type | None = None) -> Any:
        found = NotImplemented if link is None else self.find(link, link.__dict__.get(self.name))
        if found is NotImplemented:
            owner = cls or type(link)
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        return found

    def __set__(self, link: Any, value: Any) -> None:
        link.__dict__[self.name] = value

    def __delete__(self, link: Any) -> None:
        if self.name not in link.__dict__:
            raise AttributeError(self.name)
        del link.__dict__[self.name]


def install(name: str, find: Callable[[Any, Any], Any]) -> None:
    """Give every link the attribute `name`."""
    setattr(chainer.Link, name, FirstLook(name, find))
