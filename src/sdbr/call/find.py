"""A call looked at in full, once: its arguments, its key, the schedule that serves it."""

from __future__ import annotations

import dataclasses

from sdbr import backends
from sdbr.base.errors import BackendError
from sdbr.base.options import BACKEND_NAMES, Options
from sdbr.call._conditions import active_hook
from sdbr.call._spec import signature
from sdbr.call.cache_key import (
    CallKey,
    call_key,
    flatten_arguments,
    layouts_of,
    unusual_array,
)
from sdbr.schedule.schedule import Schedule
from sdbr.trace.structure import floats_in

import chainer
import numpy as np


@dataclasses.dataclass(eq=False, slots=True)
class Lookup:
    """What is known of one call before it runs.

    Attributes
    ----------
    structure : tuple
        ``(args, kwargs)`` from `flatten_arguments`.
    leaves, floats : list
        The arrays and Variables among the arguments, and the floats.
    reason : str or None
        Why it has to run define-by-run.
    warning : tuple of (str, str) or None
        Topic and message for the user.
    backend : str
    key : CallKey or None
    schedule : Schedule or None
        The one whose key this is and whose guards held.
    answers : tuple of int
        To the first questions of the call, as far as replays have met them.
    differs : str
        The last of these, and what it was on the way that a replay went.
    signature : tuple or None
        See `signature`.
    missed : tuple or None
        What `why_not_traced` has said of it, if it was asked.
    """

    structure: tuple
    leaves: list
    floats: list[float] = dataclasses.field(default_factory=list)
    reason: str | None = None
    warning: tuple[str, str] | None = None
    backend: str = "off"
    key: CallKey | None = None
    schedule: Schedule | None = None
    answers: tuple[int, ...] = ()
    differs: str = ""
    signature: tuple | None = None
    missed: tuple | None = None


def look_up(manager, args: tuple, kwargs: dict) -> Lookup:
    """Take a call apart and find its schedule.

    Raises
    ------
    TraceError
        For an argument that cannot be traced.
    BackendError
        See `backend_for`.
    """
    reason = manager.missed.why_not_looked_up(manager, args, kwargs)
    if reason is not None:
        return Lookup(((), {}), [], reason=reason)
    leaves: list = []
    found = Lookup(flatten_arguments(args, kwargs, leaves), leaves)
    if any(
        type(x).__module__.partition(".")[0] in ("chainerx", "ideep4py") for x in arrays_of(leaves)
    ):
        found.reason = "ChainerX or iDeep arrays"
        found.warning = "device", "ChainerX and iDeep arrays run define-by-run"
        return found
    found.backend = backend_for(manager.options, leaves)
    if found.backend == "off":
        found.reason = "backend off"
        return found
    found.reason = unusual = unusual_array(leaves)
    if unusual is not None:
        found.warning = unusual, f"{manager.name}: {unusual} run define-by-run"
        return found
    found.key = call_key(found.structure, leaves, manager.config_keys.now(), found.backend)
    if manager.asks_layout:
        found.key = found.key._replace(layouts=layouts_of(leaves))
    found.floats = floats_in(found.structure)
    found.schedule = manager.find(found.key, found.floats)
    if found.schedule is None:
        found.signature = signature(args, kwargs)
    return found


def off_reason(options: Options) -> str | None:
    """Why calls have to run define-by-run as things are now, whatever their arguments, or None."""
    config = chainer.config
    if not getattr(config, "use_static_graph", True):
        return "chainer.config.use_static_graph is False"
    if chainer.is_debug():
        return "debug mode"
    hook = active_hook()
    if hook is not None:
        return f"a {hook} hook is active"
    if options.force_test_define_by_run and not config.train:
        return "force_test_define_by_run"
    return None


def backend_for(options: Options, leaves: list) -> str:
    """The executor for these arrays.

    Raises
    ------
    BackendError
        If the one asked for is unknown, not available or does not fit the arrays.
    """
    name = options.backend or chainer.config.sdbr_backend
    if name not in BACKEND_NAMES:
        raise BackendError(f"backend: expected one of {', '.join(BACKEND_NAMES)}, got {name!r}")
    if name == "off":
        return "off"
    foreign = [x for x in arrays_of(leaves) if x is not None and not isinstance(x, np.ndarray)]
    if foreign and len(foreign) < len(leaves):
        raise BackendError(
            "the arguments mix NumPy arrays and arrays of "
            f"{type(foreign[0]).__module__}; move them to one device"
        )
    if name == "cuda" or foreign:
        raise BackendError(
            f"backend {'cuda' if name == 'cuda' else name!r} cannot run here; available: "
            f"{', '.join(backends.available())}, off"
        )
    return backends.AUTO if name == "auto" else name


def arrays_of(leaves: list) -> list:
    """The arrays of Variables and arrays."""
    return [x._data[0] if isinstance(x, chainer.Variable) else x for x in leaves]
