"""A call looked at in full, once: its arguments, its key, the schedule that serves it."""

from __future__ import annotations

import dataclasses

from sdbr import backends
from sdbr.base.errors import BackendError, TraceError
from sdbr.base.logs import logger, tell
from sdbr.base.options import Options
from sdbr.base.settings import entry
from sdbr.call._conditions import active_hook
from sdbr.call._spec import signature
from sdbr.call.cache_key import (
    CallKey,
    call_key,
    flatten_arguments,
    layouts_of,
    unusual_array,
)
from sdbr.devices.arrays import ARRAYS, device_of
from sdbr.schedule.schedule import Schedule
from sdbr.trace.structure import numbers_in

import chainer
from chainer.backends import cuda

_log = logger("dynamic")


@dataclasses.dataclass(eq=False, slots=True)
class Lookup:
    """What is known of one call before it runs.

    Attributes
    ----------
    structure : tuple
        ``(args, kwargs)`` from `flatten_arguments`.
    leaves, floats : list
        The arrays and Variables among the arguments, and the numbers.
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
    turned : int
        How often it has gone another way than a replay.
    signature : tuple or None
        See `signature`.
    missed : tuple or None
        What `why_not_traced` has said of it, if it was asked.
    known : bool
        Whether a runner serves calls like it, and has left this one to others, for an audit.
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
    turned: int = 0
    signature: tuple | None = None
    missed: tuple | None = None
    known: bool = False

    def turns(self, answers: tuple[int, ...], differs: str, most: int) -> bool:
        """The call goes another way than a replay; False where it has done so more than `most`
        times, so that schedules whose guards hold send each other the call for ever."""
        self.answers, self.differs, self.known = answers, differs, False
        self.turned += 1
        return self.turned <= most


def look_up(manager, args: tuple, kwargs: dict, known: bool = False) -> Lookup:
    """Take a call apart and find its schedule.

    `known`: a runner has found it to be like one before, and has left it to others, for an audit.

    Raises
    ------
    TraceError
        For an argument that cannot be traced, with ``on_dynamic='raise'``; else the call is
        define-by-run.
    BackendError
        See `backend_for`.
    """
    reason = None if known else manager.missed.why_not_looked_up(manager, args, kwargs)
    if reason is not None:
        return Lookup(((), {}), [], reason=reason)
    leaves: list = []
    try:
        found = Lookup(flatten_arguments(args, kwargs, leaves), leaves, known=known)
    except TraceError as error:
        if manager.options.on_dynamic == "raise":
            raise
        told = f"{manager.name}: {error}. Such calls run define-by-run."
        return Lookup(((), {}), [], reason=str(error), warning=(f"argument {error}", told))
    if any(
        type(x).__module__.partition(".")[0] in ("chainerx", "ideep4py") for x in arrays_of(leaves)
    ):
        found.reason = "ChainerX or iDeep arrays"
        found.warning = "device", "ChainerX and iDeep arrays run define-by-run"
        return found
    owner = None if manager.owner is None else manager.owner()
    found.backend, device = backend_for(manager.options, leaves, owner, manager.missed.gpu)
    if found.backend == "off":
        found.reason = "backend off"
        return found
    found.reason = unusual = unusual_array(leaves)
    if unusual is not None:
        found.warning = unusual, f"{manager.name}: {unusual} run define-by-run"
        return found
    config = manager.config_keys.now()
    for name, text in manager.config_keys.unknown:
        manager.warn(f"setting {name}", text)
    found.key = call_key(found.structure, leaves, config, found.backend, device)
    if manager.asks_layout:
        found.key = found.key._replace(layouts=layouts_of(leaves))
    found.key = manager.missed.free.shortened(found.key)
    found.floats = numbers_in(found.structure)
    found.schedule = manager.find(found.key, found.floats)
    if found.schedule is None:
        found.signature = signature(args, kwargs, bool(manager.missed.free))
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


def note_define_by_run(manager, reason: str) -> None:
    """Count a call that runs define-by-run, and tell why; of hooks, once, by a warning."""
    manager.statistics.define_by_run_calls += 1
    manager.define_by_run_reasons[reason] += 1
    nth = manager.define_by_run_reasons[reason]
    tell(_log, nth, "%s: define-by-run (%s)", manager.name, reason)
    if nth == 1 and "hook is active" in reason:
        manager.warn("hook", f"{manager.name}: {reason}; until it is not, calls run define-by-run")


def backend_for(
    options: Options, leaves: list, owner=None, gpu: int | None = None
) -> tuple[str, int | None]:
    """The executor for these arrays, and the GPU that the call runs on: None for the host.

    Parameters
    ----------
    options : Options
    leaves : list
        The Variables and arrays among the arguments.
    owner : chainer.Link, optional
        Its device counts where none of them lies on a GPU.
    gpu : int, optional
        What counts where that is none either: where calls before met arrays of CuPy.

    Raises
    ------
    BackendError
        If the one asked for is unknown, not available or does not fit the arrays, or if these lie
        on several devices.
    """
    name = options.backend or entry("sdbr_backend")
    if name == "off":
        return "off", None
    device = _device(leaves, owner, gpu)
    if device is None and name == "auto":
        return backends.AUTO, None
    if device is not None:
        if name not in ("auto", backends.ON_GPU):
            raise BackendError(
                f"backend {name!r} takes arrays of NumPy, and those of the call lie on GPU "
                f"{device}; 'auto' and 'cuda' run there"
            )
        backends.require(backends.ON_GPU)
        return backends.ON_GPU, device
    if name == backends.ON_GPU:
        raise BackendError(
            "backend 'cuda' takes arrays of CuPy, and those of the call are NumPy's; available: "
            f"{', '.join(backends.available())}, off; to move a model: model.to_device('@cupy:0')"
        )
    return name, None


def _device(leaves: list, owner, gpu: int | None) -> int | None:
    """The GPU that a call runs on, which may be given arrays of the host as well.

    Raises
    ------
    BackendError
        If there are several.
    """
    arrays = arrays_of(leaves)
    foreign = [x for x in arrays if x is not None and not isinstance(x, ARRAYS)]
    if foreign and len(foreign) < len(leaves):
        raise BackendError(
            "the arguments mix NumPy arrays and arrays of "
            f"{type(foreign[0]).__module__}; move them to one device"
        )
    places = {device_of(x): i for i, x in reversed(list(enumerate(arrays)))}
    places.pop(None, None)
    if not places:
        device = getattr(owner, "device", None)
        return device.device.id if isinstance(device, cuda.GpuDevice) else gpu
    if len(places) > 1:
        where = ", ".join(
            f"array {i} lies on GPU {place}"
            for place, i in sorted(places.items(), key=lambda entry: entry[1])
        )
        raise BackendError(f"the arrays of the arguments lie apart: {where}; move them together")
    (device,) = places
    return device


def arrays_of(leaves: list) -> list:
    """The arrays of Variables and arrays."""
    return [x._data[0] if isinstance(x, chainer.Variable) else x for x in leaves]
