"""A number that changes whenever an attribute of any link is written or deleted.

Guards read ``LINK_VERSION[0]`` and look closer only when it differs from what they saw last.
Every write stores a number that was never stored before, after the write has taken place, so an
equal number means that no write was finished in between. Compare with ``!=``, not with ``<``:
two threads may store their numbers in either order.

The methods wrapped are those of Chainer 7.8.1. Writes that go past the link, into its
``__dict__`` or into an array, are not noticed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

LINK_VERSION: list[int] = [0]

_next_version = itertools.count(1).__next__

# Methods that change a link's dictionary or its list of children without an attribute write.
_CHANGING = {
    "Link": (
        "__delattr__",
        "add_persistent",
        "register_persistent",
        "copyparams",
        "serialize",
        "device_resident_accept",
        "add_hook",
        "delete_hook",
    ),
    "ChainList": ("__setitem__", "__delitem__", "insert"),
    "Sequential": ("__setitem__", "__delitem__", "insert"),
}


def install() -> None:
    """Make every write to a link count; must be called once."""
    import chainer

    chainer.Link.__setattr__ = _counting_setattr(chainer.Link, chainer.Parameter)
    for class_name, method_names in _CHANGING.items():
        owner = getattr(chainer, class_name)
        for name in vars(owner).keys() & method_names:
            setattr(owner, name, _counting(vars(owner)[name]))


def _counting_setattr(link_class: type, parameter_class: type) -> Callable:
    original = link_class.__setattr__
    # Locals, because this runs at every attribute write of every link.
    version, advance = LINK_VERSION, _next_version

    @functools.wraps(original)
    def __setattr__(self, name, value):
        # Only parameters are registered; for all else the original comes to this, and going
        # there directly pays for the counting.
        if isinstance(value, parameter_class):
            original(self, name, value)
        else:
            super(link_class, self).__setattr__(name, value)
        version[0] = advance()

    return __setattr__


def _counting(original: Callable) -> Callable:
    version, advance = LINK_VERSION, _next_version

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        finally:
            version[0] = advance()

    return method


def bump() -> None:
    """Count a write that went past the link."""
    LINK_VERSION[0] = _next_version()
