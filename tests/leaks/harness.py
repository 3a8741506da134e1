"""Small programs in the style of users, run plain and static: what they see is compared.

A program is a function ``p_...(run)`` of a module in `programs`. The module is loaded anew for
every run, so that its globals are those of a script that has just been started.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import random
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import sdbr
from sdbr.call.manager import ScheduleManager

import chainer
import numpy as np
from chainer import reporter

from tests.tolerances import ELEMENTS, LAST_BIT, PROGRAMS, ROUNDINGS

FOLDER = Path(__file__).parent / "programs"


class Verdict(NamedTuple):
    """What came of one program.

    Attributes
    ----------
    word : str
        ``'right'``: equal, and replayed; ``'dynamic'``: equal, and said to be define-by-run;
        ``'unplayed'``: equal, but neither replayed nor said; ``'told'``: not equal, but a warning
        said so; ``'silent'``: not equal, without a word; ``'error'``: only static raises.
    detail : str
    statistics : dict
        Sums over all managers that the program made.
    warnings : list of str
    raised : str
        What the plain run raised; most often nothing.
    """

    word: str
    detail: str
    statistics: dict
    warnings: list
    raised: str = ""


class Run:
    """What a program gets: decorators that are sdbr's or do nothing, and a note of what it sees."""

    def __init__(self, is_static: bool, options: dict | None = None):
        self.is_static = is_static
        self.options = options or {}
        self.seen: list[tuple[str, Any]] = []
        self.rng = np.random.RandomState(7)

    def static(self, target=None, **options):
        """``sdbr.static_graph`` in the static run, nothing in the plain one."""
        if not self.is_static:
            return (lambda t: t) if target is None else target
        return sdbr.static_graph(target, **{**self.options, **options})

    def optimizer(self, optimizer):
        """``sdbr.static_optimizer`` in the static run, nothing in the plain one."""
        return sdbr.static_optimizer(optimizer) if self.is_static else optimizer

    def array(self, *shape, dtype="f"):
        """Normal numbers, the same in both runs; not of NumPy's global generator."""
        return self.rng.randn(*shape).astype(dtype)

    def labels(self, n, classes, dtype="i"):
        """Labels, the same in both runs."""
        return self.rng.randint(0, classes, n).astype(dtype)

    def see(self, name: str, *things) -> None:
        """Note copies of `things`: Variables, arrays, numbers, containers, links with gradients."""
        self.seen += [(f"{len(self.seen)} {name}", copied(thing)) for thing in things]

    def observe(self, model, call, *args, **kwargs):
        """``call(*args)`` under a Reporter that knows `model`; notes what was reported."""
        reports = chainer.Reporter()
        reports.add_observer("main", model)
        reports.add_observers("main/", model.namedlinks(skipself=True))
        observation: dict = {}
        with reports.scope(observation):
            result = call(*args, **kwargs)
        self.see("reported", observation)
        return result


def copied(thing):
    """A comparable copy."""
    if isinstance(thing, chainer.Link):
        state: dict[str, Any] = {}
        for path, link in thing.namedlinks():
            for name, x in sorted(link.__dict__.items()):
                if name.startswith("_") or name in ("schedule_manager", "static_schedule"):
                    continue
                if isinstance(x, (chainer.Variable, np.ndarray, int, float, str)):
                    state[f"{path}/{name}"] = copied(x)
                if isinstance(x, chainer.Variable):
                    state[f"{path}/{name}.grad"] = copied(x.grad)
        return state
    if isinstance(thing, chainer.Variable):
        return ("Variable", type(thing).__name__, thing.requires_grad, copied(thing.array))
    if isinstance(thing, (np.ndarray, np.generic)):
        return np.array(thing)
    if isinstance(thing, dict):
        return {k: copied(x) for k, x in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [copied(x) for x in thing]
    if isinstance(thing, (int, float, str, bytes, complex, type(None))):
        return thing
    return type(thing).__name__


def difference(got, want, where: str = "") -> str:
    """The first difference, in words; empty when there is none."""
    if isinstance(want, np.ndarray):
        return _array_difference(got, want, where)
    if isinstance(want, float) and isinstance(got, float):
        near = np.isclose(got, want, rtol=ELEMENTS, atol=LAST_BIT, equal_nan=True)
        return "" if near else f"{where}: {got!r}, define-by-run {want!r}"
    if type(got) is not type(want):
        return f"{where}: {type(got).__name__}, define-by-run {type(want).__name__}"
    if isinstance(want, dict):
        if list(got) != list(want):
            return f"{where}: keys {sorted(set(got) ^ set(want)) or 'in another order'}"
        parts = [(got[k], want[k], f"{where}[{k!r}]") for k in want]
    elif isinstance(want, (list, tuple)):
        if len(got) != len(want):
            return f"{where}: {len(got)} items, define-by-run {len(want)}"
        parts = [(g, w, f"{where}[{i}]") for i, (g, w) in enumerate(zip(got, want, strict=True))]
    else:
        return "" if got == want else f"{where}: {got!r}, define-by-run {want!r}"
    return next((d for d in (difference(*part) for part in parts) if d), "")


def _array_difference(got, want: np.ndarray, where: str) -> str:
    if not isinstance(got, np.ndarray):
        return f"{where}: {type(got).__name__}, define-by-run an array"
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{where}: {got.dtype}{got.shape}, define-by-run {want.dtype}{want.shape}"
    if want.dtype.kind not in "fc" or not want.size:
        return "" if np.array_equal(got, want) else f"{where}: other values"
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return f"{where}: not finite in other places"
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return f"{where}: other infinities"
    scale = np.max(np.abs(want[finite]), initial=0.0)
    error = np.max(np.abs(got[finite].astype("d") - want[finite]), initial=0.0)
    limit = PROGRAMS[want.dtype.itemsize] * max(scale, ROUNDINGS)
    return "" if error <= limit else f"{where}: off by {error:.3g}, largest magnitude {scale:.3g}"


def load(path: Path) -> ModuleType:
    """The module at `path`, executed anew."""
    name = f"user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names_in(path: Path) -> list[str]:
    """The programs of a module, in order."""
    return [name for name in vars(load(path)) if name.startswith("p_")]


@contextlib.contextmanager
def managers():
    """Collects the managers that are made inside."""
    made: list[ScheduleManager] = []
    original = ScheduleManager.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        made.append(self)

    ScheduleManager.__init__ = init  # type: ignore[method-assign]
    try:
        yield made
    finally:
        ScheduleManager.__init__ = original  # type: ignore[method-assign]


def execute(path: Path, name: str, run: Run) -> BaseException | None:
    """Run one program; what it raised."""
    np.random.seed(0)
    random.seed(0)
    module = load(path)
    reporters = len(reporter._get_reporters())
    configs = chainer.global_config.__dict__, chainer.config._local.__dict__
    before = [dict(config) for config in configs]
    try:
        getattr(module, name)(run)
    except Exception as e:
        del reporter._get_reporters()[reporters:]
        run.see("raised", type(e).__name__)
        return e
    finally:
        state = repr(np.random.get_state()[1:]) + repr(random.getstate())
        run.see("random state", hashlib.sha1(state.encode()).hexdigest())
        for config, entries in zip(configs, before, strict=True):
            config.clear()
            config.update(entries)
    return None


def judge(path: Path, name: str, audit="off", **options) -> Verdict:
    """Run a program plain and static, and compare.

    Parameters
    ----------
    audit : str or float
        ``chainer.config.sdbr_audit`` of the static run.
    options :
        Of ``static_graph``, where the program gives none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Run(False)
        raised = execute(path, name, plain)
    with managers() as made, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        static = Run(True, options)
        with chainer.using_config("sdbr_audit", audit):
            error = execute(path, name, static)
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    sums: dict[str, int] = {}
    for manager in made:
        for key, n in manager.statistics.to_dict().items():
            sums[key] = sums.get(key, 0) + n
    found = compare(static.seen, plain.seen)
    why = "" if raised is None else f"{type(raised).__name__}: {raised}"
    if found and error is not None and raised is None:
        return Verdict("error", f"{type(error).__name__}: {error} ({found})", sums, said)
    if found:
        return Verdict("told" if said else "silent", found, sums, said, why)
    if sums.get("replays"):
        return Verdict("right", "", sums, said, why)
    return Verdict("dynamic" if said else "unplayed", "", sums, said, why)


def compare(got: list, want: list) -> str:
    """The first difference between what two runs have seen."""
    for (name, g), (_, w) in zip(got, want, strict=False):
        found = difference(g, w, name)
        if found:
            return found
    return "" if len(got) == len(want) else f"{len(got)} things seen, define-by-run {len(want)}"
