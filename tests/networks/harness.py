"""Trains a network define-by-run and static, compares every iteration, and reads the schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import sdbr
from sdbr.inspection.targets import schedules_of

import chainer
import numpy as np

from tests.harness.comparison import assert_all_near, gradients_of, state_of
from tests.tolerances import GRADIENTS, RESULTS

ITERATIONS = 3

# Of docs/contract.md, for float32: relative to the largest magnitude in the array.


class Plain:
    """Chainer as it is."""

    def __init__(self):
        self.static: list[chainer.Link] = []

    def model(self, link: chainer.Link) -> chainer.Link:
        """Decorate a link."""
        return link

    def optimizer(self, optimizer: chainer.Optimizer) -> chainer.Optimizer:
        """Decorate an optimizer."""
        return optimizer

    def train(self, optimizer: chainer.Optimizer, model: chainer.Link, *args) -> np.ndarray:
        """One update; the loss, which the model keeps in its attribute ``loss``."""
        optimizer.target.cleargrads()
        model(*args).backward()
        optimizer.update()
        return model.loss.array


class Calls(Plain):
    """Static calls with a backward; Chainer's own update."""

    def model(self, link: chainer.Link) -> chainer.Link:
        self.static.append(sdbr.static_graph(link, on_dynamic="raise"))
        return self.static[-1]


class Steps(Calls):
    """Forward, backward and update in one program."""

    def optimizer(self, optimizer: chainer.Optimizer) -> chainer.Optimizer:
        return sdbr.static_optimizer(optimizer)

    def train(self, optimizer: chainer.Optimizer, model: chainer.Link, *args) -> np.ndarray:
        optimizer.update(model, *args)
        return model.loss.array


class Network:
    """A network and how it is trained.

    Attributes
    ----------
    traces : tuple of int
        Calls of each static link that are traced: those with another set of shapes, or with state
        that is None.
    python_ops : tuple of str
        Labels of the Python ops that are allowed.
    rate : float
        Of the optimizer.
    dtype : dtype
        Double where rounding in float32 is seen in the gradients: the network says why.
    styles : tuple of type
        What has a meaning here: a whole step needs one call per update.
    """

    traces: ClassVar[tuple[int, ...]] = (1,)
    rate: ClassVar[float] = 0.01
    dtype: ClassVar[type] = np.float32
    python_ops: ClassVar[tuple[str, ...]] = ()
    styles: ClassVar[tuple[type[Plain], ...]] = (Calls, Steps)
    iterations: ClassVar[int] = ITERATIONS

    def __init__(self, style: Plain):
        self.style = style
        self.random = np.random.RandomState(1)
        self.models: list[chainer.Link] = []
        self.build()

    def build(self) -> None:
        """Make links and optimizers; the default trains what `make` returns on `data`."""
        model = self.make()
        self.add(model)
        self.model = self.style.model(model)
        rule = chainer.optimizers.MomentumSGD(self.rate)
        self.optimizer = self.style.optimizer(rule).setup(model)

    def make(self) -> chainer.Chain:
        """Return a chain whose call gives the loss and keeps it in ``loss``."""
        raise NotImplementedError

    def data(self, i: int) -> tuple:
        """Return the arguments of iteration `i`; draws come from ``self.random``."""
        raise NotImplementedError

    def add(self, *links: chainer.Link) -> None:
        """Links whose parameters, gradients and attributes are compared."""
        self.models += links

    def iterate(self, i: int) -> list[np.ndarray]:
        """Train once; the losses."""
        return [self.style.train(self.optimizer, self.model, *self.data(i))]


def run(network: type[Network], style: Plain) -> tuple[list[dict], Network]:
    """Train from one seed; per iteration losses, gradients, and what the links hold."""
    np.random.seed(0)
    with chainer.using_config("dtype", network.dtype):
        trained = network(style)
    records = []
    for i in range(network.iterations):
        np.random.seed(i)
        losses = [np.array(loss) for loss in trained.iterate(i)]
        records.append(
            {
                "losses": dict(enumerate(losses)),
                "gradients": _of_all(trained.models, gradients_of),
                "state": _of_all(trained.models, state_of),
            }
        )
    return records, trained


def _of_all(links: list[chainer.Link], read: Callable) -> dict[str, np.ndarray]:
    return {f"{i}{name}": v for i, link in enumerate(links) for name, v in read(link).items()}


def check(network: type[Network]) -> None:
    """Static equals define-by-run in every iteration, by replays that hold no Python op."""
    want, _ = run(network, Plain())
    for style in network.styles:
        static = style()
        got, trained = run(network, static)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            where = f"{style.__name__}, iteration {i}:"
            assert_all_near(g["losses"], w["losses"], RESULTS, f"{where} loss")
            assert_all_near(g["gradients"], w["gradients"], GRADIENTS, f"{where} gradient")
            assert_all_near(g["state"], w["state"], GRADIENTS, f"{where} state")
        assert static.static
        names = set()
        assert trained.models  # the programs of a step live as long as its optimizer
        for model, traces in zip(static.static, network.traces, strict=True):
            assert_replayed(model, traces)
            names |= assert_native(model, network.python_ops)
        assert ("step" if style is Steps else "backward") in names


def assert_replayed(model: chainer.Link, traces: int) -> None:
    """All calls but those that had to be traced were replays."""
    found = model.schedule_manager.statistics
    assert found.define_by_run_calls == 0, found
    assert found.traces == traces, found
    assert found.replays == found.calls - found.traces > 0, found


def assert_native(model: chainer.Link, python_ops: tuple[str, ...] = ()) -> set[str]:
    """No program holds a Python op that is not allowed; the names of the programs."""
    found = programs_of(model)
    for program in found:
        # Each of them once, and only going forward.
        allowed = [] if program.name == "backward" else list(python_ops)
        ops = python_ops_of(program)
        assert ops == allowed, f"{program.name}: {ops}, allowed {allowed}"
    return {program.name for program in found}


def programs_of(model: chainer.Link) -> list:
    """Every program that was built for a static link."""
    found = []
    for schedule in schedules_of(model.schedule_manager):
        programs = schedule.programs
        found += [programs["forward"], *programs["backward"]]
        found += [programs["step"]] if "step" in programs else []
    return found


def python_ops_of(program) -> list[str]:
    """Labels of a program's Python ops, in their order."""
    assert len(program.labels) == len(program.opcodes)
    codes = program.opcodes.tolist()
    return [label for code, label in zip(codes, program.labels, strict=True) if code == 0]
