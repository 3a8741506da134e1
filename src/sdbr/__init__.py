"""Static define-by-run: a compiled, replayable schedule for Chainer models."""

import sys

# The compatibility layer has to be in place before anything imports chainer.
from sdbr import compat
from sdbr.base import errors, settings
from sdbr.base.version import VERSION as __version__

compat.install()

settings.enter()

import sdbr.backends.cpu.executable  # noqa: E402, F401
from sdbr.base.errors import (  # noqa: E402
    BackendError,
    NotStaticError,
    SdbrError,
    SdbrWarning,
    StaleGraphError,
    TraceError,
    ValidationError,
)
from sdbr.call import manager  # noqa: E402
from sdbr.compat import speed  # noqa: E402
from sdbr.inspection.explain import explain  # noqa: E402
from sdbr.inspection.profile import profile  # noqa: E402
from sdbr.static_code import static_code  # noqa: E402
from sdbr.static_graph import static_graph  # noqa: E402
from sdbr.static_optimizer import static_optimizer  # noqa: E402

speed.install()

# `errors` is where users look for them; pickles of links made by 0.1.0 name `manager`.
for _name, _module in (("errors", errors), ("manager", manager)):
    sys.modules[f"{__name__}.{_name}"] = _module

__all__ = [
    "BackendError",
    "NotStaticError",
    "SdbrError",
    "SdbrWarning",
    "StaleGraphError",
    "TraceError",
    "ValidationError",
    "__version__",
    "errors",
    "explain",
    "profile",
    "static_code",
    "static_graph",
    "static_optimizer",
]
