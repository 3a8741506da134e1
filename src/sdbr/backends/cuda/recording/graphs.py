"""The graphs of a program; what the driver does not record is launched kernel by kernel."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence

from sdbr.backends.cuda.chains import Call
from sdbr.backends.cuda.failures import explain
from sdbr.backends.cuda.products import Recipe
from sdbr.backends.cuda.recording import costs, forms
from sdbr.backends.cuda.recording.contest import Contest
from sdbr.backends.cuda.recording.dependences import waits
from sdbr.backends.cuda.recording.forms import FORMS, GRAPH, Form
from sdbr.backends.cuda.recording.lanes import dealt_out, one_after_the_other
from sdbr.backends.cuda.recording.launching import Launching
from sdbr.base.errors import BackendError, DriverError, SdbrWarning
from sdbr.devices.driver import Borrowed, Device, Graph, Stream
from sdbr.devices.statuses import CAPTURE_INVALIDATED, LOST, OUT_OF_MEMORY
from sdbr.program.program import Program
from sdbr.trace.code.frames import stack_level

import numpy as np

#: What ends this recording and maybe not the next: no memory; somebody waited for the device.
_PASSING = frozenset({OUT_OF_MEMORY, CAPTURE_INVALIDATED})


class Graphs(dict[int, Graph]):
    """Graphs by the number of their part.

    Parameters
    ----------
    program : Program
    parts : list of range
        Ops that run together.
    calls : list of list of Call
        The kernels of each part.
    launching : Launching
    stream : Stream
        Which records.
    form : str
        See `forms.wanted`.

    Attributes
    ----------
    recorded : int
        How many were recorded so far, but for those that are tried beside others.
    refused : set of int
        Parts that the driver does not record.
    contests : dict of int to Contest
        Parts of which it is not known yet which form is the fastest.
    """

    def __init__(
        self,
        program: Program,
        parts: Sequence[range],
        calls: Sequence[Sequence[Call]],
        launching: Launching,
        stream: Stream,
        form: str,
    ) -> None:
        super().__init__()
        self.program, self.parts, self.calls = program, parts, calls
        self.launching, self.stream, self.form = launching, stream, form
        self.recorded = 0
        self.refused: set[int] = set()
        self.contests: dict[int, Contest] = {}
        self._won: dict[int, Form] = {}  # of parts whose contest is over
        self._recipes: dict[int, list[Recipe | None]] = {}  # with the addresses of now

    def forget(self) -> None:
        """Addresses are others than those that were recorded."""
        self.clear()
        self.contests.clear()
        self._recipes.clear()

    def recipes(self, k: int, rows: np.ndarray) -> list[Recipe | None]:
        """How the library does each call of a part; None: it does not.

        Parameters
        ----------
        k : int
            Number of the part.
        rows : numpy.ndarray
            The address of each row.
        """
        if k not in self._recipes:
            self._recipes[k] = self.launching.recipes(self.calls[k], rows, self.stream)
            if not self:
                self.launching.forget_rooms()
        return self._recipes[k]

    def record(self, k: int, rows: np.ndarray) -> bool:
        """Make a part one graph; False, and a warning, where the driver does not take that.

        Parameters
        ----------
        k, rows
            As in `recipes`.
        """
        if k in self.refused or self.form == forms.KERNELS:
            return False
        form = self._won.get(k) or FORMS.get(self.form, GRAPH)
        launch = self._recorder(k, rows, form)
        try:
            self[k] = self._made(launch)
        except DriverError as error:
            if error.status in LOST:
                raise
            if error.status not in _PASSING:
                self.refused.add(k)
            self._warn(self.parts[k], error, self.stream.device)
            return False
        self.recorded += 1
        self.program.nodes[self.parts[k].start] = self[k].nodes
        self.program.uncaptured.pop(self.parts[k].start, None)
        self.program.forms.setdefault(self.parts[k].start, form.name)
        if k not in self._won and self._others(k):
            self.contests[k] = Contest(self.stream.device, self[k])
        return True

    def _made(self, launch: Callable[[], None]) -> Graph:
        with self.stream.capture() as made:
            launch()
        return made[0]

    def _recorder(self, k: int, rows: np.ndarray, form: Form) -> Callable[[], None]:
        """What launches the kernels of a part in some form, on a stream that records."""
        calls, recipes = self.calls[k], self.recipes(k, rows)
        turns = one_after_the_other(len(calls))
        if form.branches:
            turns = dealt_out(self.waits(k, rows))
        self.launching.make_lanes(turns)
        self.launching.make_room(recipes, turns)
        return functools.partial(
            self.launching.record, calls, recipes, rows, self.stream, turns, form.early
        )

    def waits(self, k: int, rows: np.ndarray) -> list[list[int]]:
        """For each call of a part those before it that it has to wait for."""
        pairs = zip(self.calls[k], self.recipes(k, rows), strict=True)
        return waits([self.launching.uses(*pair) for pair in pairs])

    def _others(self, k: int) -> list[Form]:
        return forms.others(self.form, self.stream.device) if len(self.calls[k]) > 1 else []

    def is_due(self, k: int) -> bool:
        """Whether other forms of a part are to be recorded now."""
        return k in self.contests and self.contests[k].is_due

    def record_others(self, k: int, rows: np.ndarray) -> None:
        """Make a part a graph in all forms that could be faster."""
        contest = self.contests[k]
        could_gain = costs.could_gain(self.program, self.calls[k], self.waits(k, rows))
        for form in self._others(k):
            if form.branches and not could_gain:
                continue
            try:
                contest.graphs[form.name] = self._made(self._recorder(k, rows, form))
            except BackendError as error:
                if isinstance(error, DriverError) and error.status in LOST:
                    raise
                contest.refused[form.name] = str(error)
        contest.begin()

    @contextlib.contextmanager
    def turn(self, k: int, stream: Borrowed) -> Iterator[Graph]:
        """The graph to launch for a part, and whoever times it."""
        contest = self.contests.get(k)
        if contest is None:
            yield self[k]
            return
        with contest.run(stream) as graph:
            yield graph
        name = contest.winner()
        if name is None:
            return
        self[k], self._won[k] = contest.graphs[name], FORMS[name]
        self.program.forms[self.parts[k].start] = contest.result()
        del self.contests[k]
        is_past_all = bool(contest.medians)  # the device, of what was tried
        if is_past_all and not self.contests and not any(x.branches for x in self._won.values()):
            self.launching.forget_lanes()

    def _warn(self, part: range, error: DriverError, device: Device) -> None:
        uncaptured = self.program.uncaptured
        if part.start in uncaptured:
            return
        uncaptured[part.start] = f"ops {part.start} to {part.stop - 1}: {error}"
        explain(error, self.program, part, device)
        warnings.warn(
            "kernels are launched one by one, which takes longer, as no graph could be made of "
            f"them: {error}",
            SdbrWarning,
            stacklevel=stack_level(),
        )


def shown(parts: Sequence[range], calls: Sequence[Sequence]) -> list[tuple[int, int, int]]:
    """What ``explain`` says of graphs: the ops from and to, and how many kernels."""
    return [(part.start, part.stop, len(x)) for part, x in zip(parts, calls, strict=True) if x]
