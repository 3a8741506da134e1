"""What launches, graphs, copies and waiting cost on a GPU: kernels that do nothing.

Barriers of clusters, and programs that one block runs, have their place here once there are such.
"""

from __future__ import annotations

import ctypes

from sdbr.backends.cuda.launch import THREADS
from sdbr.cli.gpu_check import job as jobs
from sdbr.cli.gpu_check.empty import EMPTY, OVERLAPPING, SOURCE, Nothing
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.timing import in_microseconds
from sdbr.devices.driver import Device, Module, Stream

NODES = (1, 4, 16, 64, 256)
BRANCHES = (1, 2, 4, 8)
IN_BRANCHES = 64  # kernels, however many branches there are
LAUNCHES = 200  # of each round
COPIED = 4096  # bytes of a small copy
DRAWN = 3200  # numbers: a dropout of [100, 32]


def measure(job: Job) -> None:
    """Measure what is the same for all programs."""
    device = jobs.open_device(job.ordinal)
    with device.current():
        module = device.load(jobs.machine_code(device, SOURCE))
        launches = Launches(device, module)
        job.measure("launch", launches.one)
        for nodes in NODES:
            job.measure(f"chain of {nodes}", lambda n=nodes: launches.chain(n))
        job.measure("events", launches.events)
        for n in BRANCHES:
            job.measure(f"{IN_BRANCHES} kernels in {n} branches", lambda n=n: launches.branches(n))
        job.measure("copy of pinned memory in a graph", launches.copy)
    job.measure("draw", lambda: draw(job.ordinal))


class Launches:
    """Empty kernels of one device, on a stream."""

    def __init__(self, device: Device, module: Module) -> None:
        self.device, self.module, self.stream = device, module, device.stream()
        self.empty, self.overlapping = (module.function(x) for x in (EMPTY, OVERLAPPING))

    def launch(self, stream: Stream | None = None) -> None:
        """Launch an empty kernel."""
        (stream or self.stream).launch(self.empty, 1, THREADS, Nothing())

    def _launch_early(self, function: ctypes.c_void_p) -> None:
        self.stream.launch(function, 1, THREADS, Nothing(), early=True)

    def one(self) -> dict[str, float]:
        """Kernels that are launched one by one."""
        return in_microseconds(self.launch, self.stream, LAUNCHES)

    def chain(self, nodes: int) -> dict[str, dict[str, float]]:
        """Graphs of kernels one after the other.

        ``programmatic``: each may begin before the one in front of it has ended, and nobody tells
        it when; ``overlapping``: each tells, and waits.
        """
        ways = {
            "plain": self.launch,
            "programmatic": lambda: self._launch_early(self.empty),
            "overlapping": lambda: self._launch_early(self.overlapping),
        }
        return {name: self._graph(lambda w=way: [w() for _ in range(nodes)])
                for name, way in ways.items()}  # fmt: skip

    def events(self) -> dict[str, dict[str, float]]:
        """One stream that waits for another one: alone, and around each of two kernels."""
        other = self.device.stream()

        def back_and_forth() -> None:
            self.launch()
            self.device.order(self.stream.handle.value, other.handle.value)
            self.launch(other)
            self.device.order(other.handle.value, self.stream.handle.value)

        def order() -> None:
            self.device.order(self.stream.handle.value, other.handle.value)

        event = ctypes.c_void_p()
        self.device.driver.call("cuEventCreate", ctypes.byref(event), 2)  # without times

        def wait() -> None:
            self.device.driver.call("cuEventRecord", event, self.stream.handle)
            self.device.driver.call("cuStreamWaitEvent", other.handle, event, 0)

        try:
            return {
                "record and wait": in_microseconds(wait, self.stream, LAUNCHES),
                "with a new event": in_microseconds(order, self.stream, LAUNCHES),
                "two kernels on two streams": in_microseconds(
                    back_and_forth, self.stream, LAUNCHES
                ),
            }
        finally:
            self.device.driver.call("cuEventDestroy_v2", event)

    def branches(self, n: int) -> dict[str, float]:
        """A graph of `IN_BRANCHES` kernels, as many in each of `n` branches."""
        others = [self.device.stream() for _ in range(n - 1)]
        streams = [self.stream, *others]

        def record() -> None:
            for other in others:
                self.device.order(self.stream.handle.value, other.handle.value)
            for k in range(IN_BRANCHES):
                self.launch(streams[k % n])
            for other in others:
                self.device.order(other.handle.value, self.stream.handle.value)

        return self._graph(record)

    def copy(self) -> dict[str, dict[str, float]]:
        """A kernel behind a copy from pinned memory, and the kernel alone."""
        pinned, buffer = self.device.pin(COPIED), self.device.allocate(COPIED)

        def record() -> None:
            self.device.driver.call(
                "cuMemcpyHtoDAsync_v2", buffer.address, pinned.address, COPIED, self.stream.handle
            )
            self.launch()

        return {"copy and kernel": self._graph(record), "kernel": self._graph(self.launch)}

    def _graph(self, record) -> dict[str, float]:
        with self.stream.capture() as made:
            record()
        (graph,) = made
        times = in_microseconds(lambda: graph.launch(self.stream), self.stream, LAUNCHES)
        return {"nodes": graph.nodes, **times}


def draw(ordinal: int) -> dict[str, float]:
    """A small draw of CuPy's generator, as a dropout makes it before its program is launched."""
    import cupy

    with cupy.cuda.Device(ordinal):
        stream = cupy.cuda.get_current_stream()
        return in_microseconds(lambda: cupy.random.rand(DRAWN, dtype="f"), stream, LAUNCHES)
