"""Parts of Chainer 7.8.1 that cost more than the network in a small static call.

They do what the originals do; a test compares them, and tells when they are no quicker.
"""

from __future__ import annotations

import inspect

VERSIONS = ("7.8.1",)
#: The class that was replaced, for the test that compares both.
REPLACED: list[type] = []


def install() -> bool:
    """Put the compiled ``chainer.using_config`` in place; False where it does not fit."""
    from sdbr.compat._config import ConfigContext

    import chainer
    from chainer import configuration

    original = configuration._ConfigContext
    if chainer.__version__ not in VERSIONS or not inspect.isclass(original):
        return False
    if original is not ConfigContext:
        REPLACED.append(original)
        configuration._ConfigContext = ConfigContext
    return True
