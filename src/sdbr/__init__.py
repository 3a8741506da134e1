"""Static define-by-run: a compiled, replayable schedule for Chainer models."""

# The compatibility layer has to be in place before anything imports chainer.
from sdbr import compat
from sdbr.base import errors

compat.install()

import sdbr.backends.cython_backend  # noqa: E402
import sdbr.call.step  # noqa: E402, F401
from sdbr.base.errors import (  # noqa: E402
    BackendError,
    NotStaticError,
    SdbrError,
    SdbrWarning,
    StaleGraphError,
    TraceError,
    ValidationError,
)
from sdbr.compat import speed  # noqa: E402
from sdbr.inspection.explain import explain  # noqa: E402
from sdbr.inspection.profile import profile  # noqa: E402
from sdbr.static_code import static_code  # noqa: E402
from sdbr.static_graph import static_graph  # noqa: E402
from sdbr.static_optimizer import static_optimizer  # noqa: E402

speed.install()

__version__ = "0.1.0"

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
