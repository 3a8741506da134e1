"""Parts of Chainer 7.8.1 that cost more than the network in a small static call.

They do what the originals do; a test compares them, and tells when they are no quicker.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

VERSIONS = ("7.8.1",)
#: The class that was replaced, for the test that compares both.
REPLACED: list[type] = []
#: Functions that were replaced, by name.
ORIGINALS: dict[str, Callable] = {}


def install() -> bool:
    """Put them in place; False where they do not fit."""
    from sdbr.compat.speed._config import ConfigContext

    import chainer
    from chainer import configuration

    original = configuration._ConfigContext
    if chainer.__version__ not in VERSIONS or not inspect.isclass(original):
        return False
    if original is not ConfigContext:
        REPLACED.append(original)
        configuration._ConfigContext = ConfigContext
        _install_examples()
        _install_summary()
        _install_log()
        _install_serial()
    return True


def _install_examples() -> None:
    from sdbr.compat.speed._examples import joined

    from chainer.dataset import convert

    original = ORIGINALS["concat_examples"] = convert.concat_examples.base_callable

    @functools.wraps(original)
    def concat_examples_func(batch, device=None, padding=None):
        found = joined(batch) if padding is None else None
        if found is None:
            return original(batch, device, padding)
        if device is None:
            return found
        if type(found) is tuple:
            return tuple([convert.to_device(device, x) for x in found])
        return convert.to_device(device, found)

    convert.concat_examples.base_callable = concat_examples_func


def _install_summary() -> None:
    from sdbr.compat.speed.summary import add_of

    from chainer.reporter import Summary

    original = ORIGINALS["add"] = Summary.add
    Summary.add = add_of(original)


def _install_log() -> None:
    from sdbr.compat.speed.log_report import call_of

    from chainer.training.extensions import LogReport

    original = ORIGINALS["log"] = LogReport.__call__
    LogReport.__call__ = call_of(original)


def _install_serial() -> None:
    from sdbr.compat.speed.serial import next_of

    from chainer.iterators import SerialIterator

    original = ORIGINALS["next"] = SerialIterator.__next__
    SerialIterator.__next__ = SerialIterator.next = next_of(original)
