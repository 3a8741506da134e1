"""The arguments of the decorator."""

from __future__ import annotations

from sdbr.base.errors import BackendError

MEMORY = ("default", "low", "no_reuse")
BACKEND_NAMES = ("auto", "cython", "numpy", "cuda", "off")


class Options:
    """The arguments of the decorator; see :func:`sdbr.static_graph`."""

    __slots__ = (
        'backend', 'enable_double_backprop', 'force_test_define_by_run', 'max_schedules', 'memory',
        'minimize_cache_size', 'on_dynamic', 'validate_every', 'verbosity_level',
    )  # fmt: skip

    def __init__(
        self,
        force_test_define_by_run=False,
        minimize_cache_size=True,
        verbosity_level=0,
        enable_double_backprop=False,
        backend=None,
        on_dynamic="fallback",
        validate_every=0,
        max_schedules=16,
        memory="default",
    ):
        if backend is not None and backend not in BACKEND_NAMES:
            raise BackendError(
                f"backend: expected one of {', '.join(BACKEND_NAMES)}, got {backend!r}"
            )
        if on_dynamic not in ("fallback", "raise"):
            raise ValueError(f"on_dynamic: expected 'fallback' or 'raise', got {on_dynamic!r}")
        if memory not in MEMORY:
            raise ValueError(f"memory: expected one of {', '.join(MEMORY)}, got {memory!r}")
        if not isinstance(max_schedules, int) or max_schedules < 1:
            raise ValueError(f"max_schedules: expected a positive int, got {max_schedules!r}")
        if not isinstance(validate_every, int) or validate_every < 0:
            raise ValueError(f"validate_every: expected a non-negative int, got {validate_every!r}")
        self.force_test_define_by_run = force_test_define_by_run
        self.minimize_cache_size = minimize_cache_size
        self.verbosity_level = verbosity_level
        self.enable_double_backprop = enable_double_backprop
        self.backend = backend
        self.on_dynamic = on_dynamic
        self.validate_every = validate_every
        self.max_schedules = max_schedules
        self.memory = memory
