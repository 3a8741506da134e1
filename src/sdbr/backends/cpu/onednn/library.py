"""Finds ``libdnnl.so.3`` and its functions; nothing is linked to it.

Looked up in this order: ``SDBR_ONEDNN_LIBRARY``, the folders of the environment (the wheel of
onednn-cpu-gomp installs it under ``lib``), the system's loader.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sdbr.base.advice import install
from sdbr.base.errors import BackendError
from sdbr.base.settings import variable

#: The major version whose C interface is used, and the first minor version that was tried.
MAJOR, MINOR = 3, 2
NAMES = ("libdnnl.so.3", "libdnnl.3.dylib")
CPU = 1
#: Run times of a build that run in the thread that calls and let it set the number of threads: a
#: sequential one and OpenMP. Others (TBB, SYCL, thread pools of the application) do not.
RUNTIMES = (1, 2)

# Status, then the pointer that receives the object, then the arguments.
_P, _I, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_SIGNATURES = {
    "engine_create": (_I, _SIZE),
    "memory_desc_create_with_strides": (_I, _P, _I, _P),
    "memory_desc_create_with_tag": (_I, _P, _I, _I),
    "memory_desc_clone": (_P,),
    "primitive_attr_create": (),
    "reorder_primitive_desc_create": (_P, _P, _P, _P, _P),
    "convolution_forward_primitive_desc_create": (_P, _I, _I, *[_P] * 9),
    "convolution_backward_data_primitive_desc_create": (_P, _I, *[_P] * 9),
    "convolution_backward_weights_primitive_desc_create": (_P, _I, *[_P] * 10),
    "primitive_create": (_P,),
}
_DESTROYERS = {
    "engine": "engine_destroy",
    "memory_desc": "memory_desc_destroy",
    "primitive_attr": "primitive_attr_destroy",
    "primitive_desc": "primitive_desc_destroy",
    "primitive": "primitive_destroy",
}
# What a run calls; see kernels/runtime/onednn.h.
_RUN = (
    "stream_create",
    "stream_destroy",
    "stream_wait",
    "memory_create",
    "memory_destroy",
    "memory_set_data_handle",
    "primitive_execute",
)


# OpenMP's threads look for new work for a while before they sleep. Ours is not the next work, and
# there may be fewer cores than threads: with GNU's default a convolution of 50 us took 30 ms on a
# machine that was busy. The run times read these once, while they are loaded.
_WAITS = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


@contextlib.contextmanager
def _short_waits() -> Iterator[None]:
    """Have an OpenMP that is loaded inside wait for a short time, unless the user has a wish."""
    wishes = ("OMP_WAIT_POLICY", *_WAITS)
    if any(name in os.environ for name in wishes):
        yield
        return
    os.environ.update(_WAITS)
    try:
        yield
    finally:
        for name in _WAITS:
            del os.environ[name]


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class OneDNN:
    """The loaded library.

    Attributes
    ----------
    path : str
    version : tuple of int
    engine : sdbr.backends.cpu.onednn._onednn.Handle

    Raises
    ------
    BackendError
        If the file is not the library, or its version is none that is known here.
    """

    def __init__(self, path: str):
        from sdbr.backends.cpu.onednn import _onednn

        self.path = path
        try:
            with _short_waits():
                self._library = ctypes.CDLL(path)
        except OSError as error:
            raise BackendError(f"{path} cannot be loaded: {error}") from error
        self._handle = _onednn.Handle
        version = self._function("version", restype=ctypes.POINTER(_Version))().contents
        self.version = (version.major, version.minor, version.patch)
        if version.major != MAJOR or version.minor < MINOR:
            text = ".".join(map(str, self.version))
            raise BackendError(f"{path} is oneDNN {text}; {MAJOR}.{MINOR} or later is needed")
        if version.cpu_runtime not in RUNTIMES:
            raise BackendError(
                f"{path} is built for a run time that is not used here (number "
                f"{version.cpu_runtime} in dnnl_config.h); OpenMP's is"
            )
        self._functions = {
            name: self._function(name, [_P, *types]) for name, types in _SIGNATURES.items()
        }
        self._destroyers = {
            kind: self._address(f"dnnl_{name}") for kind, name in _DESTROYERS.items()
        }
        self._size = self._function("memory_desc_get_size", [_P], _SIZE)
        self._equal = self._function("memory_desc_equal", [_P, _P])
        self._query = self._function("primitive_desc_query_md", [_P, _I, _I], _P)
        self._query_any = self._function("primitive_desc_query", [_P, _I, _I, _P])
        self._set_scratchpad = self._function("primitive_attr_set_scratchpad_mode", [_P, _I])
        self._set_fpmath = self._function("primitive_attr_set_fpmath_mode", [_P, _I])
        threads = [self._address(f"omp_{n}", 0) for n in ("get_max_threads", "set_num_threads")]
        if not all(threads):
            threads = [0, 0]
        self.has_threads = bool(threads[0])
        self._get_threads = self._set_threads = None
        if self.has_threads:
            self._get_threads = ctypes.CFUNCTYPE(_I)(threads[0])
            self._set_threads = ctypes.CFUNCTYPE(None, _I)(threads[1])
        self.engine = self.create("engine", "engine_create", CPU, 0)
        # Its cache would keep up to 1,024 primitives that nobody uses any more: tens of megabytes.
        # What programs share is found in sdbr.backends.cpu.tuning.convolution.
        self._function("set_primitive_cache_capacity", [_I])(0)
        functions = {name: self._address(f"dnnl_{name}") for name in _RUN}
        functions["get_max_threads"], functions["set_num_threads"] = threads
        _onednn.connect(self.engine, functions)
        os.register_at_fork(after_in_child=_onednn.forked)

    def _function(self, name: str, argtypes=(), restype=ctypes.c_int):
        try:
            function = getattr(self._library, f"dnnl_{name}")
        except AttributeError as error:
            raise BackendError(f"{self.path} has no function dnnl_{name}") from error
        function.argtypes = list(argtypes)
        function.restype = restype
        return function

    def _address(self, name: str, default: int | None = None) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            if default is None:
                raise BackendError(f"{self.path} has no function {name}") from error
            return default
        return ctypes.cast(function, _P).value or 0

    def create(self, kind: str, function: str, *arguments):
        """An object of the library, as a Handle that frees it.

        Raises
        ------
        BackendError
            If the library refuses; for it, that is how it says that it has no such thing.
        """
        made = _P()
        status = self._functions[function](ctypes.byref(made), *arguments)
        if status or not made.value:
            raise BackendError(f"oneDNN: {function} gave status {status}")
        return self._handle(made.value, self._destroyers[kind])

    def size(self, layout) -> int:
        """Bytes that memory in this layout takes."""
        return self._size(layout.address)

    def equal(self, a, b) -> bool:
        """Whether two layouts are the same."""
        return bool(self._equal(a.address, b.address))

    def layout_of(self, descriptor, what: int):
        """A layout that a primitive descriptor chose; a copy that lives by itself."""
        found = self._query(descriptor.address, what, 0)
        if not found:
            raise BackendError("oneDNN: a primitive has no such operand")
        return self.create("memory_desc", "memory_desc_clone", found)

    def name_of(self, descriptor) -> str:
        """The library's name of an implementation, such as ``jit:avx512_core``."""
        found = ctypes.c_char_p()
        if self._query_any(descriptor.address, 8, 0, ctypes.byref(found)):
            return "unknown"
        return (found.value or b"unknown").decode()

    @functools.cached_property
    def attributes(self):
        """Scratch memory from the caller; float32 stays float32 on its way through."""
        attributes = self.create("primitive_attr", "primitive_attr_create")
        for status in (
            self._set_scratchpad(attributes.address, 1),
            self._set_fpmath(attributes.address, 0),
        ):
            if status:
                raise BackendError(f"oneDNN: an attribute gave status {status}")
        return attributes

    def with_threads(self, threads: int, function):
        """``function()`` while the library sees this number of threads."""
        if self._get_threads is None:
            return function()
        before = self._get_threads()
        self._set_threads(threads)
        try:
            return function()
        finally:
            self._set_threads(before)


def candidates() -> list[str]:
    """Where the library may lie: paths that exist, then names for the system's loader."""
    given = variable("SDBR_ONEDNN_LIBRARY")
    if given:
        return [given]
    folders = [Path(sys.prefix, "lib"), Path(sys.prefix, "lib64")]
    purelib = Path(sysconfig.get_path("purelib"))
    folders += [purelib.parents[1], purelib / "onednn" / "lib", Path(sys.base_prefix, "lib")]
    found = [str(folder / name) for folder in folders for name in NAMES]
    return [*dict.fromkeys(path for path in found if os.path.exists(path)), *NAMES]


@functools.cache
def find() -> tuple[OneDNN | None, str]:
    """The library, and a line that says which it is or why there is none; looked up once."""
    if sys.byteorder != "little":
        return None, "oneDNN is used on little-endian machines alone"
    reasons = []
    for path in candidates():
        try:
            library = OneDNN(path)
        except BackendError as error:
            if os.path.sep in path:
                reasons.append(str(error))
            continue
        version = ".".join(map(str, library.version))
        return library, f"oneDNN {version}, {library.path}"
    if reasons:
        return None, "; ".join(reasons)
    return None, f"not found ({install('onednn')} brings it on x86-64 Linux)"
