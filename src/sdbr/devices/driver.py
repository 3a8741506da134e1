"""The CUDA driver, called by ctypes: what the path to a GPU needs of ``libcuda.so.1``.

All but launching a graph and a small kernel, and copying a few words, is done before replays.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator
from typing import NoReturn

from sdbr.base.errors import BackendError, DriverError, OutOfMemoryError
from sdbr.base.forks import reentrant_lock
from sdbr.devices.recording import recorded
from sdbr.devices.signatures import ADDRESS, NEWER, SIGNATURES, early_launch
from sdbr.devices.statuses import NOT_READY, OUT_OF_MEMORY, hint

import numpy as np

LIBRARY = "libcuda.so.1"

_COMPUTE_CAPABILITY = 75, 76  # attributes of a device: major, minor
_NON_BLOCKING = 1  # streams that do not wait for the default one
_NO_TIMES = 2  # events that only order

_EARLY_IN_GRAPHS = 12, 3  # CUDA since which graphs have such launches, on GPUs of
_EARLY_ARCHITECTURE = 9  # this architecture and later ones

#: The handle of the default stream of each thread, where there are such.
PER_THREAD = 2

# Of `cuLaunchKernel`: all parameters lie in one buffer.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


class _NoMemoryError(DriverError, OutOfMemoryError):
    """The status for memory."""


class Driver:
    """One driver library.

    Parameters
    ----------
    path : str
        Its file.

    Attributes
    ----------
    version : tuple of int
        The newest CUDA that it can run: (13, 0).

    Raises
    ------
    BackendError
        If it cannot be loaded, is too old, or finds no GPU.
    """

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
            for name, signature in SIGNATURES.items():
                getattr(self._library, name).argtypes = signature
            for name, signature in NEWER.items():
                if hasattr(self._library, name):
                    getattr(self._library, name).argtypes = signature
        except OSError as error:
            raise BackendError(f"no CUDA driver: {error}") from error
        except AttributeError as error:
            raise BackendError(f"the CUDA driver {path} is too old: {error}") from error
        number = ctypes.c_int()
        self.version = (0, 0)
        self.call("cuInit", 0)
        self.call("cuDriverGetVersion", ctypes.byref(number))
        self.version = (number.value // 1000, number.value % 1000 // 10)
        self.call("cuDeviceGetCount", ctypes.byref(number))
        self.count = number.value

    def call(self, name: str, *args) -> None:
        """Call a function.

        Raises
        ------
        DriverError
            With the name and the description of the driver's error, and what helps.
        """
        status = getattr(self._library, name)(*args)
        if status:
            self.refuse(name, status)

    def refuse(self, what: str, status: int) -> NoReturn:
        """Raise the error for a status of the driver.

        Raises
        ------
        DriverError
            An `OutOfMemoryError` as well, where it is that.
        """
        said = f"{what}: {self._text('Name', status)}, {self._text('String', status)}"
        text = "; ".join(filter(None, [said, hint(status, self.version)]))
        raise _NoMemoryError(text, status) if status == OUT_OF_MEMORY else DriverError(text, status)

    def has(self, name: str) -> bool:
        """Whether there is a function."""
        return hasattr(self._library, name)

    def address(self, name: str) -> int:
        """Where a function lies, for compiled code."""
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value

    def _text(self, what: str, status: int) -> str:
        text = ctypes.c_char_p()
        getattr(self._library, f"cuGetError{what}")(status, ctypes.byref(text))
        return (text.value or b"error %d" % status).decode()


class Device:
    """One GPU, in the context that CuPy has on it as well.

    Parameters
    ----------
    driver : Driver
    ordinal : int
        Its number among those of the driver.

    Attributes
    ----------
    ordinal : int
    name, architecture : str
        ``'NVIDIA H200'``, ``'sm_90'``.
    context : ctypes.c_void_p
    launches_early : bool
        Whether kernels in graphs may begin before the one in front of them has ended.
    recording : threading.RLock
        Of who records, and of who waits for all that was launched.

    Raises
    ------
    BackendError
        If there is no such device.
    """

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        if not 0 <= ordinal < driver.count:
            raise BackendError(f"there is no device {ordinal}: the driver has {driver.count}")
        self.driver, self.ordinal = driver, ordinal
        handle, numbers = ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
        driver.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        name = ctypes.create_string_buffer(100)
        driver.call("cuDeviceGetName", name, len(name), handle)
        self.name = name.value.decode()
        for number, attribute in zip(numbers, _COMPUTE_CAPABILITY, strict=True):
            driver.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, handle)
        self.architecture = "sm_" + "".join(str(number.value) for number in numbers)
        self.launches_early = (
            numbers[0].value >= _EARLY_ARCHITECTURE
            and driver.version >= _EARLY_IN_GRAPHS
            and driver.has("cuLaunchKernelEx")
        )
        self.recording = reentrant_lock()
        self.context = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make this the device of the calling thread for a while: everything below needs it."""
        self.driver.call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            # What was done is done; where the context is lost, the next call says so.
            with contextlib.suppress(DriverError):
                self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def wait(self) -> None:
        """Wait for all that was launched."""
        try:
            with self.recording, self.current():
                self.driver.call("cuCtxSynchronize")
        except DriverError as error:
            error.args = (f"{error}; on GPU {self.ordinal} ({self.name})",)
            raise

    def wait_quietly(self) -> None:
        """The same where nobody can do anything about errors."""
        with contextlib.suppress(BackendError):
            self.wait()

    def order(self, first: int, then: int) -> None:
        """Let what is launched on a stream from now on wait for what another one has.

        Parameters
        ----------
        first, then : int
            Handles.
        """
        event = ctypes.c_void_p()
        with self.current():
            self.driver.call("cuEventCreate", ctypes.byref(event), _NO_TIMES)
            try:
                self.driver.call("cuEventRecord", event, first)
                self.driver.call("cuStreamWaitEvent", then, event, 0)
            finally:
                self.driver.call("cuEventDestroy_v2", event)  # once it has come

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy a C-contiguous array, and wait for it."""
        with self.current():
            stream = Borrowed(self, 0)
            stream.to_device(address, array)
            stream.synchronize()

    def load(self, code: bytes) -> Module:
        """Load machine code."""
        return Module(self, code)

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of the device, given back when the buffer is let go."""
        return Buffer(self, nbytes)

    def pin(self, nbytes: int) -> Pinned:
        """Memory of the host that copies go to without another one in between."""
        return Pinned(self, nbytes)

    def stream(self) -> Stream:
        """A stream of its own."""
        return Stream(self)

    def event(self, timed: bool = True) -> Event:
        """A place in a stream, of which it is known when it was reached, if it is `timed`."""
        return Event(self, timed)


class _Owned:
    """A handle of the driver's that is given back when its object is let go."""

    def __init__(self, device: Device, handle: ctypes._SimpleCData, release: str) -> None:
        self.device, self.driver = device, device.driver
        self.handle = handle
        self._release = weakref.finalize(self, _released, device, release, handle)
        self._release.atexit = False  # the process takes everything with it


def _released(device: Device, function: str, handle: ctypes._SimpleCData) -> None:
    with contextlib.suppress(BackendError), device.current():  # a lost context is nobody's to mend
        device.driver.call(function, handle)


class Module(_Owned):
    """Machine code on a device."""

    def __init__(self, device: Device, code: bytes) -> None:
        handle = ctypes.c_void_p()
        device.driver.call("cuModuleLoadData", ctypes.byref(handle), code)
        super().__init__(device, handle, "cuModuleUnload")

    def function(self, name: str) -> ctypes.c_void_p:
        """The kernel of this name."""
        handle = ctypes.c_void_p()
        self.driver.call("cuModuleGetFunction", ctypes.byref(handle), self.handle, name.encode())
        return handle


class Buffer(_Owned):
    """Memory of a device.

    Attributes
    ----------
    address, nbytes : int
    """

    def __init__(self, device: Device, nbytes: int) -> None:
        handle = ADDRESS()
        device.driver.call("cuMemAlloc_v2", ctypes.byref(handle), max(nbytes, 1))
        super().__init__(device, handle, "cuMemFree_v2")
        self.address, self.nbytes = handle.value, nbytes


class Pinned(_Owned):
    """Memory of the host that stays where it is; zeros at first.

    Attributes
    ----------
    address : int
    """

    def __init__(self, device: Device, nbytes: int) -> None:
        handle = ctypes.c_void_p()
        device.driver.call("cuMemHostAlloc", ctypes.byref(handle), nbytes, 0)
        super().__init__(device, handle, "cuMemFreeHost")
        self.address = handle.value
        ctypes.memset(self.address, 0, nbytes)


class Event(_Owned):
    """A place in a stream; with times, when it was reached."""

    def __init__(self, device: Device, timed: bool = True) -> None:
        handle = ctypes.c_void_p()
        flags = 0 if timed else _NO_TIMES
        device.driver.call("cuEventCreate", ctypes.byref(handle), flags)
        super().__init__(device, handle, "cuEventDestroy_v2")

    def record(self, stream: Borrowed) -> None:
        """Be the place behind what the stream has."""
        self.driver.call("cuEventRecord", self.handle, stream.handle)

    def is_reached(self) -> bool:
        """Whether all that the stream had in front of it is done."""
        try:
            self.driver.call("cuEventQuery", self.handle)
        except DriverError as error:
            if error.status != NOT_READY:
                raise
            return False
        return True

    def wait(self) -> None:
        """Wait till this place was reached."""
        self.driver.call("cuEventSynchronize", self.handle)

    def seconds_since(self, other: Event) -> float:
        """Wait till this place was reached; the time from the other one to it."""
        self.wait()
        milliseconds = ctypes.c_float()
        self.driver.call(
            "cuEventElapsedTime", ctypes.byref(milliseconds), other.handle, self.handle
        )
        return milliseconds.value / 1e3


class Borrowed:
    """What runs one after the other, on a stream of somebody else's.

    Parameters
    ----------
    device : Device
    handle : int
        0: the default one.
    """

    def __init__(self, device: Device, handle: int) -> None:
        self.device, self.driver = device, device.driver
        self.handle = ctypes.c_void_p(handle)

    def launch(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        parameters: ctypes.Structure | ctypes.Array,
        early: bool = False,
    ) -> None:
        """Launch a kernel that gets one struct by value.

        With `early` it may begin before the one in front of it has ended, and waits for that.
        """
        size = ctypes.c_size_t(ctypes.sizeof(parameters))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.addressof(parameters),
            _BUFFER_SIZE,
            ctypes.addressof(size),
            _END,
        )
        if early:
            config = early_launch(blocks, threads, self.handle)
            self.driver.call("cuLaunchKernelEx", ctypes.byref(config), function, None, extra)
            return
        self.driver.call(
            "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, self.handle, None, extra
        )

    def wait_for(self, event: Event) -> None:
        """Let what comes wait till a place in another stream is reached.

        While that records, this one records as well.
        """
        self.driver.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def to_device(self, address: int, array: np.ndarray) -> None:
        """Copy a C-contiguous array, which must stay as it is till the stream has done so."""
        self.driver.call(
            "cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, self.handle
        )

    def to_host(self, array: np.ndarray, address: int) -> None:
        """Copy to a C-contiguous array."""
        self.driver.call(
            "cuMemcpyDtoHAsync_v2", array.ctypes.data, address, array.nbytes, self.handle
        )

    def fill(self, address: int, nbytes: int, value: int) -> None:
        """Set all bytes."""
        self.driver.call("cuMemsetD8Async", address, value, nbytes, self.handle)

    def synchronize(self) -> None:
        """Wait till all is done."""
        self.driver.call("cuStreamSynchronize", self.handle)


class Stream(Borrowed, _Owned):
    """What runs one after the other."""

    def __init__(self, device: Device) -> None:
        handle = ctypes.c_void_p()
        device.driver.call("cuStreamCreate", ctypes.byref(handle), _NON_BLOCKING)
        _Owned.__init__(self, device, handle, "cuStreamDestroy_v2")

    @contextlib.contextmanager
    def capture(self) -> Iterator[list[Graph]]:
        """Record what is launched instead of running it; the list has the graph afterwards."""
        made: list[Graph] = []
        with recorded(self.driver.call, self.device.recording, self.handle) as graph:
            yield made
        try:
            made.append(Graph(self.device, graph))
        finally:
            with contextlib.suppress(DriverError):
                self.driver.call("cuGraphDestroy", graph)


class Graph(_Owned):
    """Launches that are launched as one.

    Attributes
    ----------
    nodes : int
    """

    def __init__(self, device: Device, graph: ctypes.c_void_p) -> None:
        handle, count = ctypes.c_void_p(), ctypes.c_size_t()
        device.driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        self.nodes = count.value
        device.driver.call("cuGraphInstantiateWithFlags", ctypes.byref(handle), graph, 0)
        super().__init__(device, handle, "cuGraphExecDestroy")

    def launch(self, stream: Borrowed) -> None:
        """Run it after what the stream has."""
        self.driver.call("cuGraphLaunch", self.handle, stream.handle)
