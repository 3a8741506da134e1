"""Runs a case define-by-run and static, and compares whatever a user could look at.

A :class:`Case` names what is exercised, :func:`check` runs it: the first calls are traced, the
next three are replays with fresh inputs, which the statistics have to confirm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
import warnings
from collections.abc import Callable, Mapping, Sequence

import sdbr

import chainer
import chainer.functions as F
import numpy as np

from tests.harness.comparison import copy_of, state_of, structure_of, variables_of
from tests.tolerances import EQUIVALENCE

# Of docs/contract.md: (outputs, gradients), relative to the largest magnitude in the array.
# In float16 Python ops compute what define-by-run computes, and only the order in which several
# gradients are added up may differ; native functions round at fewer places (tests/functions).
REPLAYS = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of the table.

    Attributes
    ----------
    id : str
        The public name, then what is special about the case: ``"relu 0-d"``.
    call : callable
        ``call(*inputs)`` for a function; ``call(link, *inputs)`` where there is a `link`.
    inputs : sequence of callable
        ``maker(rng, dtype) -> array``, one per argument, see `arguments`.
    link : callable, optional
        Makes a new link; draws of NumPy's global generator are seeded before.
    native : bool
        Whether the case claims that no Python op runs (float32 and float64).
    dynamic : str, optional
        For what cannot be static: a pattern that warning and error have to match.
    traces : int
        How many calls are traced before the replays start: one more for state that is None in the
        first call.
    dtypes : str
        Of the floating point inputs: characters of `EQUIVALENCE`.
    config : dict
        Entries of ``chainer.config`` during all calls.
    exact : bool
        Only data movement, comparison or random numbers: not the least difference.
    tolerances : dict, optional
        Own tolerances by dtype; the case says why.
    second : bool
        Whether Chainer offers a second derivative here.
    partial : bool
        Whether one output alone may carry a gradient; Chainer's ``transpose_sequence`` cannot.
    parameters : bool
        Whether float inputs may be handed over as parameters of a chain as well.
    loss : bool
        Whether an output is a floating point number: something to go backward from.
    batch : sequence of int
        Inputs whose first axis is twice as long in every other call; see `check_batches`.
    draws : int
        Python ops of each call that are allowed although the case is native: draws that are not
        uniform, samplers.
    """

    id: str
    call: Callable
    inputs: Sequence[Callable] = ()
    link: Callable[[], chainer.Link] | None = None
    native: bool = False
    dynamic: str | None = None
    traces: int = 1
    dtypes: str = "fd"
    config: Mapping = dataclasses.field(default_factory=dict)
    exact: bool = False
    tolerances: Mapping | None = None
    second: bool = True
    partial: bool = True
    parameters: bool = True
    batch: Sequence[int] = ()
    loss: bool = True
    draws: int = 0

    @property
    def name(self) -> str:
        """The public name that the case exercises."""
        return self.id.partition(" ")[0]

    def data(self, step: int, dtype: str) -> list:
        """Fresh inputs for call `step`."""
        rng = np.random.default_rng([7, step])
        arrays = [make(rng, dtype) for make in self.inputs]
        if step % 2:
            for i in self.batch:
                arrays[i] = np.concatenate([arrays[i], self.inputs[i](rng, dtype)])
        return arrays

    def tolerance(self, dtype: str) -> tuple[float, float]:
        """For outputs, for gradients."""
        if self.exact:
            return 0.0, EQUIVALENCE[dtype][1]
        return (self.tolerances or EQUIVALENCE).get(dtype, EQUIVALENCE[dtype])

    def assert_native(self, dtype: str, statistics) -> None:
        """No Python op ran where the case is native, apart from its normal draws."""
        if self.native and dtype in "fd":
            assert statistics.python_ops == self.draws * statistics.replays, statistics


def native(cases, **expectations) -> list[Case]:
    """Cases given as tuples that claim to be native."""
    return [Case(*case, native=True, **expectations) for case in cases]


# --- subjects: what is called ----------------------------------------------------------------


class Subject:
    """What a case calls: a plain function, or a method of a chain with parameters.

    Attributes
    ----------
    model : chainer.Link or None
    parameters : dict
        Index of an input -> name of the parameter that takes its place.
    shift : bool
        Whether a parameter of zeros is added to the first input: the only one.
    """

    model: chainer.Link | None = None
    parameters: Mapping[int, str] = types.MappingProxyType({})

    def __init__(self, case: Case, dtype: str, options: dict | None):
        def function(*xs):
            return case.call(*xs)

        self.target = function if options is None else sdbr.static_graph(function, **options)

    @property
    def statistics(self):
        return self.target.schedule_manager.statistics

    def load(self, arrays: list, step: int) -> list:
        """Put those inputs that are parameters in their places; returns the others."""
        return arrays


class ChainSubject(Subject):
    """The inputs but the first as parameters; or a parameter of zeros added to the only one."""

    def __init__(self, case: Case, dtype: str, options: dict | None):
        arrays = case.data(0, dtype)
        floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        self.parameters = {i: f"p{i}" for i in floats[1:]}
        names = self.parameters
        shift = floats[0] if len(floats) == 1 else None

        def forward(self, *xs):
            xs = list(xs)
            for i in names:
                xs.insert(i, getattr(self, names[i]))
            if shift is not None:
                xs[shift] = xs[shift] + self.shift
            return case.call(*xs)

        self.model = _chain(forward, options)
        with self.model.init_scope():
            for i, name in names.items():
                setattr(self.model, name, chainer.Parameter(arrays[i].copy()))
            if shift is not None:
                self.model.shift = chainer.Parameter(np.zeros_like(arrays[shift]))
        self.target = self.model

    def load(self, arrays, step):
        for i, name in self.parameters.items():
            parameter = getattr(self.model, name)
            if step % 2:
                parameter.array = arrays[i].copy()
            else:
                parameter.array[...] = arrays[i]
        return [a for i, a in enumerate(arrays) if i not in self.parameters]


class LinkSubject(Subject):
    """A link inside a chain whose method is static."""

    def __init__(self, case: Case, dtype: str, options: dict | None):
        np.random.seed(3)
        link = case.link()

        def forward(self, *xs):
            return case.call(self.link, *xs)

        self.model = _chain(forward, options)
        with self.model.init_scope():
            self.model.link = link
        self.target = self.model


class InstanceSubject(Subject):
    """A link that was wrapped itself; only for cases whose call is the link's own."""

    def __init__(self, case: Case, dtype: str, options: dict | None):
        np.random.seed(3)
        link = case.link()
        self.model = link if options is None else sdbr.static_graph(link, **options)
        self.target = self.model


def _chain(forward, options: dict | None) -> chainer.Chain:
    if options is not None:
        forward = sdbr.static_graph(**options)(forward)
    return type("Holder", (chainer.Chain,), {"forward": forward})()


SUBJECTS = {
    "function": Subject,
    "chain": ChainSubject,
    "link": LinkSubject,
    "instance": InstanceSubject,
}


# --- one call and what it leaves behind --------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mode:
    """How the calls are made.

    Attributes
    ----------
    inputs : str
        What becomes of the floats: ``"variables"``, ``"constants"`` (Variables that want no
        gradient), ``"arrays"``, ``"first"`` (a Variable; the others are arrays), ``"layouts"``
        (Variables on arrays that are not contiguous in every other call).
    """

    train: bool = True
    backprop: bool = True
    inputs: str = "variables"


TRAINING = Mode()
TEST = Mode(train=False, backprop=False, inputs="constants")


def as_inputs(arrays, how: str) -> list:
    """Floats as Variables that want a gradient, as `how` says; integers as arrays."""
    xs, n = [], 0
    for a in arrays:
        a = scattered(a) if how == "scattered" else a.copy()
        wanted = how in ("variables", "constants", "scattered") or (how == "first" and n == 0)
        if a.dtype.kind == "f" and wanted:
            xs.append(chainer.Variable(a, requires_grad=how != "constants"))
            n += 1
        else:
            xs.append(a)
    return xs


def scattered(array: np.ndarray) -> np.ndarray:
    """The same contents, every second element of a larger array, in Fortran's order."""
    if not array.ndim:
        return array.copy()
    larger = np.zeros([2 * n for n in array.shape[::-1]], array.dtype).T
    view = larger[(slice(None, None, 2),) * array.ndim]
    view[...] = array
    return view


def random_state() -> tuple:
    """The state of NumPy's global generator, in a form that can be compared."""
    name, key, *rest = np.random.get_state()
    return name, key.tobytes(), *rest


def run_once(subject: Subject, case: Case, dtype: str, mode: Mode, step: int, first_replay: int):
    """One call, and a backward where there is something to go backward from."""
    held = subject.load(case.data(step, dtype), step)
    how = mode.inputs
    if how == "layouts":
        how = "scattered" if step % 2 else "variables"
    xs = as_inputs(held, how)
    accumulate = step == first_replay + 1
    only_first = case.partial and step == first_replay + 2
    rng = np.random.default_rng([11, step])
    if accumulate:
        for x in xs:
            if isinstance(x, chainer.Variable):
                x.grad = _normal(rng, x)
    elif subject.model is not None:
        subject.model.cleargrads()
    np.random.seed(step + 1)
    result = subject.target(*xs)
    ys = variables_of(result)
    record = {
        "types": structure_of(result),
        "outputs": {f"{i}": copy_of(getattr(y, "array", y)) for i, y in enumerate(ys)},
        "requires_grad": [isinstance(y, chainer.Variable) and y.requires_grad for y in ys],
        "random": random_state(),
        "gradients": {},
    }
    if mode.backprop:
        record["gradients"] = backward(subject, xs, ys, rng, only_first)
    record["random after backward"] = random_state()
    if subject.model is not None:
        record["state"] = state_of(subject.model)
        _descend(subject.model)
    # An argument is written only where define-by-run does (running averages).
    record["arguments"] = {f"{i}": copy_of(getattr(x, "array", x)) for i, x in enumerate(xs)}
    return record, ys


def seeded(ys, rng, only_first: bool = False) -> list:
    """The outputs (or the first of them) that a gradient can go backward from, each with one."""
    ends = [y for y in ys if isinstance(y, chainer.Variable) and y.creator_node is not None]
    ends = [y for y in ends if y.dtype.kind == "f"]
    if only_first:
        ends = ends[:1]
    for y in ends:
        y.grad = _normal(rng, y)
    return ends


def backward(subject: Subject, xs, ys, rng, only_first: bool) -> dict:
    """Seed the outputs with random gradients, go backward, collect all gradients."""
    ends = seeded(ys, rng, only_first)
    if ends:
        chainer.backward(ends)
    grads = {
        f"input {i}": copy_of(x.grad) for i, x in enumerate(xs) if isinstance(x, chainer.Variable)
    }
    if subject.model is not None:
        grads.update({n: copy_of(p.grad) for n, p in sorted(subject.model.namedparams())})
    return grads


def _normal(rng, x):
    return np.asarray(rng.standard_normal(x.shape), x.dtype)


def _descend(model) -> None:
    """Change the parameters in place, as an optimizer does."""
    for p in model.params():
        if p.grad is not None and p.array.dtype.kind == "f" and np.isfinite(p.grad).all():
            p.array -= (0.01 * p.grad).astype(p.dtype)


# --- comparing -----------------------------------------------------------------------------------


def assert_near(got, want, tolerance: float, what: str) -> None:
    """Equal up to `tolerance` times the largest magnitude, and the same NaN and infinities."""
    assert type(got) is type(want), what
    if want is None:
        return
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    finite = np.isfinite(want) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
    np.testing.assert_array_equal(got[~finite], want[~finite], what)
    if not finite.any():
        return
    if tolerance and want.dtype == np.float16:
        tolerance = max(tolerance, EQUIVALENCE["e"][1])
    got, want = got[finite].astype("d"), want[finite].astype("d")
    scale = np.abs(want).max() or 1.0
    error = np.abs(got - want).max() / scale
    assert error <= tolerance, f"{what}: off by {error:.2g} of the largest magnitude"


def assert_same(got: dict, want: dict, tolerances, where: str) -> None:
    """Two records of :func:`run_once` agree."""
    tolerance, gradient_tolerance = tolerances
    for part in ("types", "requires_grad", "random", "random after backward"):
        assert got[part] == want[part], f"{where}: {part}"
    for part, allowed in (
        ("outputs", tolerance),
        ("gradients", gradient_tolerance),
        ("state", gradient_tolerance),
        ("arguments", tolerance),
    ):
        ours, theirs = got.get(part, {}), want.get(part, {})
        assert list(ours) == list(theirs), f"{where}: {part}"
        for name in theirs:
            assert_near(ours[name], theirs[name], allowed, f"{where}: {part} {name}")


# --- checks --------------------------------------------------------------------------------------


@contextlib.contextmanager
def configured(case: Case, dtype: str, mode: Mode):
    """The configuration of the case and the mode."""
    entries = {"train": mode.train, "enable_backprop": mode.backprop, "dtype": np.dtype(dtype)}
    with contextlib.ExitStack() as stack:
        for name, value in {**entries, **case.config}.items():
            stack.enter_context(chainer.using_config(name, value))
        stack.enter_context(np.errstate(all="ignore"))
        yield


def check(case: Case, dtype: str = "f", how: str = "function", mode: Mode = TRAINING, **options):
    """Traced, then replayed three times with fresh inputs: as define-by-run in each call.

    Parameters
    ----------
    case : Case
    dtype : str
    how : str
        Key of `SUBJECTS`.
    mode : Mode
    **options
        Of `sdbr.static_graph`.

    Returns
    -------
    Statistics
    """
    options.setdefault("on_dynamic", "raise")
    calls = case.traces + REPLAYS
    with configured(case, dtype, mode):
        subject = SUBJECTS[how](case, dtype, None)
        plain = [run_once(subject, case, dtype, mode, i, case.traces) for i in range(calls)]
        want = [got for got, _ in plain]
        subject = SUBJECTS[how](case, dtype, options)
        kept = []
        for i in range(calls):
            got, ys = run_once(subject, case, dtype, mode, i, case.traces)
            assert_same(got, want[i], case.tolerance(dtype), f"call {i}")
            kept.append((i, got, ys))
    for i, got, ys in kept:
        for name, (y, other) in enumerate(zip(ys, plain[i][1], strict=True)):
            held, theirs = getattr(y, "array", y), getattr(other, "array", other)
            then = want[i]["outputs"][str(name)]
            if np.array_equal(theirs, then, equal_nan=then.dtype.kind in "fc"):
                np.testing.assert_array_equal(held, got["outputs"][str(name)], f"call {i} later on")
            else:  # a view of a parameter, in define-by-run as well
                near = min(case.tolerance(dtype))
                np.testing.assert_allclose(held, theirs, near, near, err_msg=f"call {i} later on")
    statistics = subject.statistics
    assert statistics.define_by_run_calls == 0, statistics
    if mode.inputs == "arrays":  # an array from outside may have met no function node
        assert 1 <= statistics.traces <= case.traces
        assert statistics.replays == calls - statistics.traces
    else:
        assert (statistics.traces, statistics.replays) == (case.traces, REPLAYS), statistics
    # On bare arrays an operator or a method is a call of NumPy, not of Chainer.
    if mode.inputs != "arrays":
        case.assert_native(dtype, statistics)
    return statistics


class NoGradient(Exception):
    """Nothing has a gradient: nothing can have a second one."""


def check_batches(case: Case, dtype: str = "f", how: str = "function"):
    """Two batch sizes in turn: two traces, and replays of both schedules."""
    check(dataclasses.replace(case, traces=2 * case.traces), dtype, how)


def second_once(subject: Subject, case: Case, dtype: str, step: int) -> dict:
    """First derivatives, and derivatives of a random combination of them."""
    xs = as_inputs(subject.load(case.data(step, dtype), step), "variables")
    wanted = [x for x in xs if isinstance(x, chainer.Variable)]
    if subject.model is not None:
        subject.model.cleargrads()
        wanted += [p for _, p in sorted(subject.model.namedparams())]
    rng = np.random.default_rng([13, step])
    np.random.seed(step + 1)
    ys = [y for y in variables_of(subject.target(*xs)) if isinstance(y, chainer.Variable)]
    ends = [y for y in ys if y.creator_node is not None and y.dtype.kind == "f"]
    gys = [chainer.Variable(_normal(rng, y)) for y in ends]
    gxs = chainer.grad(ends, wanted, gys, enable_double_backprop=True)
    # A gradient may be the very Variable that came in: no seeds of their own, then.
    combined = [F.sum(g * _normal(rng, g)) for g in gxs if g is not None]
    if not combined:
        raise NoGradient
    sum(combined[1:], combined[0]).backward()
    return {
        "first": {str(i): None if g is None else copy_of(g.array) for i, g in enumerate(gxs)},
        "second": {str(i): copy_of(x.grad) for i, x in enumerate([*wanted, *gys])},
    }


def _failure(call) -> Exception | None:
    """What `call` raises."""
    try:
        call()
    except Exception as e:
        return e
    return None


def check_second(case: Case, dtype: str = "f", how: str = "function", **options):
    """Second derivatives through replayed calls; where Chainer has none, this is asserted."""
    options.setdefault("on_dynamic", "raise")
    options["enable_double_backprop"] = True
    calls = case.traces + REPLAYS
    with configured(case, dtype, TRAINING):
        subject = SUBJECTS[how](case, dtype, None)
        if not case.second:
            theirs = _failure(lambda: second_once(subject, case, dtype, 0))
            assert theirs is not None, "Chainer has a second derivative here"
            subject = SUBJECTS[how](case, dtype, options)
            for i in range(case.traces + 1):
                ours = _failure(lambda i=i: second_once(subject, case, dtype, i))
                assert type(ours) is type(theirs), ours
            return subject.statistics
        want = [second_once(subject, case, dtype, i) for i in range(calls)]
        subject = SUBJECTS[how](case, dtype, options)
        for i in range(calls):
            got = second_once(subject, case, dtype, i)
            for part in want[i]:
                for name, array in want[i][part].items():
                    tolerance = case.tolerance(dtype)[1]
                    assert_near(got[part][name], array, tolerance, f"call {i}: {part} {name}")
    statistics = subject.statistics
    assert statistics.define_by_run_calls == 0, statistics
    assert (statistics.traces, statistics.replays) == (case.traces, REPLAYS), statistics
    return statistics


def check_dynamic(case: Case, dtype: str = "f", how: str = "function", mode: Mode = TRAINING):
    """One warning, define-by-run from then on; with ``on_dynamic='raise'`` the error."""
    calls = 1 + REPLAYS
    with configured(case, dtype, mode):
        subject = SUBJECTS[how](case, dtype, None)
        want = [run_once(subject, case, dtype, mode, i, 1)[0] for i in range(calls)]
        subject = SUBJECTS[how](case, dtype, {})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in range(calls):
                got, _ = run_once(subject, case, dtype, mode, i, 1)
                assert_same(got, want[i], (0.0, 0.0), f"call {i}")
        texts = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
        assert len(texts) == 1, texts
        assert case.dynamic in texts[0]
        statistics = subject.statistics
        assert (statistics.traces, statistics.define_by_run_calls) == (1, REPLAYS)
        subject = SUBJECTS[how](case, dtype, {"on_dynamic": "raise"})
        for i in range(2):
            try:
                run_once(subject, case, dtype, mode, i, 1)
            except sdbr.NotStaticError as e:
                assert case.dynamic in str(e)
            else:
                raise AssertionError("NotStaticError was not raised")
