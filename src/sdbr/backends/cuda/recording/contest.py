"""Which form of a graph is the fastest: runs of the user's, in one form after the other, are timed.

Nothing runs for it that would not run anyway, and nobody waits: two events around each of some runs
say what it took, and are asked once the device is past the last of them.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

from sdbr.backends.cuda.recording.forms import GRAPH
from sdbr.base.errors import DriverError
from sdbr.devices.driver import Borrowed, Device, Event, Graph

#: Runs before anything else than `GRAPH` is tried: what runs a few times is not worth it.
WARM = 4
#: Runs of each form. The first does not count: a graph is brought to the device then.
ROUNDS = 6
#: So much less time another form has to take.
LEAST_GAIN = 0.02


class Contest:
    """The forms of one graph.

    Parameters
    ----------
    device : Device
    graph : Graph
        In the form `GRAPH`.

    Attributes
    ----------
    graphs : dict of str to Graph
        By the name of the form.
    refused : dict of str to str
        Forms that could not be recorded: why.
    medians : dict of str to float
        Seconds of a run, once the contest is over.
    """

    def __init__(self, device: Device, graph: Graph) -> None:
        self.device = device
        self.graphs = {GRAPH.name: graph}
        self.refused: dict[str, str] = {}
        self.medians: dict[str, float] = {}
        self._runs = 0
        self._queue: list[str] | None = None  # None: the others are not recorded yet
        self._timed: list[tuple[str, Event, Event]] = []

    @property
    def is_due(self) -> bool:
        """Whether the other forms are to be recorded now."""
        return self._queue is None and self._runs >= WARM

    def begin(self) -> None:
        """From now on all forms in `graphs` have their turns."""
        names = list(self.graphs)
        turns = [names[k % len(names) :] + names[: k % len(names)] for k in range(ROUNDS)]
        self._queue = [name for of_round in turns for name in of_round]

    @contextlib.contextmanager
    def run(self, stream: Borrowed) -> Iterator[Graph]:
        """The graph to launch next on a stream."""
        self._runs += 1
        if not self._queue:
            yield self.graphs[GRAPH.name]
            return
        name, begin = self._queue.pop(0), self._event(stream)
        yield self.graphs[name]
        end = begin and self._event(stream)
        if begin is None or end is None:
            self._give_up()
        else:
            self._timed.append((name, begin, end))

    def _event(self, stream: Borrowed) -> Event | None:
        """One behind what the stream has. The run counts for more than what it takes."""
        try:
            event = self.device.event()
            event.record(stream)
        except DriverError as error:
            self.refused["timing"] = str(error)
            return None
        return event

    def _give_up(self) -> None:
        self._queue, self.graphs = [], {GRAPH.name: self.graphs[GRAPH.name]}
        self._timed.clear()

    def winner(self) -> str | None:
        """The name of the fastest form; None as long as that is not known."""
        if self._queue is None or self._queue:
            return None
        if len(self.graphs) > 1 and not self.medians:
            try:
                if not all(end.is_reached() for _, _, end in reversed(self._timed)):
                    return None
                self._count()
            except DriverError as error:
                self.refused["timing"] = str(error)
                self._give_up()
        if not self.medians:
            return GRAPH.name
        best = min(self.medians, key=self.medians.__getitem__)
        least = self.medians[GRAPH.name] * (1 - LEAST_GAIN)
        return best if self.medians[best] < least else GRAPH.name

    def _count(self) -> None:
        times: dict[str, list[float]] = {name: [] for name in self.graphs}
        for name, begin, end in self._timed:
            times[name].append(end.seconds_since(begin))
        self.medians = {name: statistics.median(of_it[1:]) for name, of_it in times.items()}
        self._timed.clear()

    def result(self) -> str:
        """What came of it."""
        times = [f"{name} {1e6 * time:.1f} us" for name, time in self.medians.items()]
        refused = [f"{name}: {why}" for name, why in self.refused.items()]
        found = f"{self.winner()}, of {', '.join(times)}" if times else str(self.winner())
        return "; ".join([found, *refused])
