"""The CUDA driver, called by ctypes: what the path to a GPU needs of ``libcuda.so.1``.

All but launching a graph and a small kernel, and copying a few words, is done before replays.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator

from sdbr.base.errors import BackendError

import numpy as np

LIBRARY = "libcuda.so.1"

_COMPUTE_CAPABILITY = 75, 76  # attributes of a device: major, minor
_NON_BLOCKING = 1  # streams that do not wait for the default one
_THREAD_LOCAL = 1  # what other threads do meanwhile does not break a capture

# Of `cuLaunchKernel`: all parameters lie in one buffer.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0

_PLACE = ctypes.POINTER(ctypes.c_void_p)
_ADDRESS = ctypes.c_uint64
_SIGNATURES = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (_PLACE, ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (_PLACE,),
    "cuModuleLoadData": (_PLACE, ctypes.c_char_p),
    "cuModuleGetFunction": (_PLACE, ctypes.c_void_p, ctypes.c_char_p),
    "cuModuleUnload": (ctypes.c_void_p,),
    "cuMemAlloc_v2": (ctypes.POINTER(_ADDRESS), ctypes.c_size_t),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, _ADDRESS, ctypes.c_size_t, ctypes.c_void_p),
    "cuStreamCreate": (_PLACE, ctypes.c_uint),
    "cuStreamSynchronize": (ctypes.c_void_p,),
    "cuStreamDestroy_v2": (ctypes.c_void_p,),
    "cuStreamBeginCapture_v2": (ctypes.c_void_p, ctypes.c_int),
    "cuStreamEndCapture": (ctypes.c_void_p, _PLACE),
    "cuLaunchKernel": (
        (ctypes.c_void_p,)
        + (ctypes.c_uint,) * 7
        + (ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    ),
    "cuGraphInstantiateWithFlags": (_PLACE, ctypes.c_void_p, ctypes.c_ulonglong),
    "cuGraphLaunch": (ctypes.c_void_p, ctypes.c_void_p),
    "cuGraphDestroy": (ctypes.c_void_p,),
    "cuGraphExecDestroy": (ctypes.c_void_p,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}


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
            for name, signature in _SIGNATURES.items():
                getattr(self._library, name).argtypes = signature
        except OSError as error:
            raise BackendError(f"no CUDA driver: {error}") from error
        except AttributeError as error:
            raise BackendError(f"the CUDA driver {path} is too old: {error}") from error
        number = ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDriverGetVersion", ctypes.byref(number))
        self.version = (number.value // 1000, number.value % 1000 // 10)
        self.call("cuDeviceGetCount", ctypes.byref(number))
        self.count = number.value

    def call(self, name: str, *args) -> None:
        """Call a function.

        Raises
        ------
        BackendError
            With the name and the description of the driver's error.
        """
        status = getattr(self._library, name)(*args)
        if status:
            raise BackendError(
                f"{name}: {self._text('Name', status)}, {self._text('String', status)}"
            )

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
    name, architecture : str
        ``'NVIDIA H200'``, ``'sm_90'``.

    Raises
    ------
    BackendError
        If there is no such device.
    """

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        if not 0 <= ordinal < driver.count:
            raise BackendError(f"there is no device {ordinal}: the driver has {driver.count}")
        self.driver = driver
        handle, numbers = ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
        driver.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        name = ctypes.create_string_buffer(100)
        driver.call("cuDeviceGetName", name, len(name), handle)
        self.name = name.value.decode()
        for number, attribute in zip(numbers, _COMPUTE_CAPABILITY, strict=True):
            driver.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, handle)
        self.architecture = "sm_" + "".join(str(number.value) for number in numbers)
        self._context = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make this the device of the calling thread for a while: everything below needs it."""
        self.driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def load(self, code: bytes) -> Module:
        """Load machine code."""
        return Module(self, code)

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of the device, given back when the buffer is let go."""
        return Buffer(self, nbytes)

    def stream(self) -> Stream:
        """A stream of its own."""
        return Stream(self)


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
        handle = _ADDRESS()
        device.driver.call("cuMemAlloc_v2", ctypes.byref(handle), max(nbytes, 1))
        super().__init__(device, handle, "cuMemFree_v2")
        self.address, self.nbytes = handle.value, nbytes


class Stream(_Owned):
    """What runs one after the other."""

    def __init__(self, device: Device) -> None:
        handle = ctypes.c_void_p()
        device.driver.call("cuStreamCreate", ctypes.byref(handle), _NON_BLOCKING)
        super().__init__(device, handle, "cuStreamDestroy_v2")

    def launch(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        parameters: ctypes.Structure | ctypes.Array,
    ) -> None:
        """Launch a kernel that gets one struct by value."""
        size = ctypes.c_size_t(ctypes.sizeof(parameters))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.addressof(parameters),
            _BUFFER_SIZE,
            ctypes.addressof(size),
            _END,
        )
        self.driver.call(
            "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, self.handle, None, extra
        )

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

    def synchronize(self) -> None:
        """Wait till all is done."""
        self.driver.call("cuStreamSynchronize", self.handle)

    @contextlib.contextmanager
    def capture(self) -> Iterator[list[Graph]]:
        """Record what is launched instead of running it; the list has the graph afterwards."""
        made: list[Graph] = []
        graph = ctypes.c_void_p()
        self.driver.call("cuStreamBeginCapture_v2", self.handle, _THREAD_LOCAL)
        is_whole = False
        try:
            yield made
            is_whole = True
        finally:
            # Whatever happened: a stream that still records is of no use to anybody.
            self.driver.call("cuStreamEndCapture", self.handle, ctypes.byref(graph))
            try:
                if is_whole:
                    made.append(Graph(self.device, graph))
            finally:
                self.driver.call("cuGraphDestroy", graph)


class Graph(_Owned):
    """Launches that are launched as one."""

    def __init__(self, device: Device, graph: ctypes.c_void_p) -> None:
        handle = ctypes.c_void_p()
        device.driver.call("cuGraphInstantiateWithFlags", ctypes.byref(handle), graph, 0)
        super().__init__(device, handle, "cuGraphExecDestroy")

    def launch(self, stream: Stream) -> None:
        """Run it after what the stream has."""
        self.driver.call("cuGraphLaunch", self.handle, stream.handle)
