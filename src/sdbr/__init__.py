"""Static define-by-run: a compiled, replayable schedule for Chainer models."""

import os
import sys
import warnings

from sdbr.base.version import VERSION as __version__

try:
    # The compatibility layer has to be in place before anything imports chainer.
    from sdbr import compat
    from sdbr.base import errors, logs, settings

    compat.install()
    settings.enter()
    logs.listen_to(settings.variable("SDBR_LOG"))
    if refusal := settings.refused_variable("SDBR_LOG"):
        warnings.warn(refusal, errors.SdbrWarning, stacklevel=2)

    import sdbr.backends.cpu.executable  # noqa: F401
    from sdbr import training
    from sdbr.backends import synchronize
    from sdbr.base.errors import (
        BackendError,
        NotStaticError,
        SdbrError,
        SdbrWarning,
        SettingError,
        SnapshotError,
        StaleGraphError,
        TraceError,
        ValidationError,
    )
    from sdbr.call import manager, outside
    from sdbr.compat import checked_config, speed
    from sdbr.inspection.backends import compare_backends
    from sdbr.inspection.debug import debug
    from sdbr.inspection.draw import draw
    from sdbr.inspection.explain import explain
    from sdbr.inspection.profile import profile
    from sdbr.looks import check_finite, print  # noqa: F401  (a star leaves the builtin alone)
    from sdbr.static_code import static_code
    from sdbr.static_graph import static_graph
    from sdbr.static_optimizer import static_optimizer
    from sdbr.training import load_snapshot, save_snapshot, warm_up
    from sdbr.update_rule import update_rule

    speed.install()
    checked_config.install()
    outside.install()
    # `errors` is where users look for them; pickles of links made by 0.1.0 name `manager`.
    for _name, _module in (("errors", errors), ("manager", manager)):
        sys.modules[f"{__name__}.{_name}"] = _module
except Exception:
    # The doctor is asked just because something is missing or refused; it is imported after this.
    _program = os.path.basename(sys.argv[0]) if sys.argv else ""
    if sys.argv[1:2] != ["doctor"] or _program not in ("-m", "sdbr", "sdbr.exe"):
        raise

__all__ = [
    "BackendError",
    "NotStaticError",
    "SdbrError",
    "SdbrWarning",
    "SettingError",
    "SnapshotError",
    "StaleGraphError",
    "TraceError",
    "ValidationError",
    "__version__",
    "check_finite",
    "compare_backends",
    "debug",
    "draw",
    "errors",
    "explain",
    "load_snapshot",
    "profile",
    "save_snapshot",
    "static_code",
    "static_graph",
    "static_optimizer",
    "synchronize",
    "training",
    "update_rule",
    "warm_up",
]
