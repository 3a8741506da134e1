"""CuPy itself where there is no GPU: arrays lie on the host, kernels are compiled and do nothing.

``install()`` comes before the first import of CuPy. CuPy's compiled modules get the functions of
CUDA from each other, by name (``__pyx_capi__``); those that need a GPU are replaced there. All
else is CuPy's own: classes, dtypes of results, sources of kernels, NVRTC.

Numbers are right as long as only copies are made of them; a kernel writes nothing, so what it makes
are zeros.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

_BACKENDS = "cupy_backends.cuda."
#: Whose functions are replaced: all of them, as far as a result of nothing will do.
_MODULES = ("api.runtime", "api.driver", "libs.cublas", "libs.curand", "libs.cusolver",
            "libs.cusparse")  # fmt: skip
_OWN = "int __pyx_skip_dispatch"
_MADE = f"intptr_t ({_OWN})"
#: What is not nothing: by name, the function in C and what CuPy says of it.
_FUNCTIONS = {
    "getDeviceCount": ("getDeviceCount", f"int ({_OWN})"),
    "getDevice": ("getDevice", f"int ({_OWN})"),
    "setDevice": ("setDevice", f"PyObject *(int, {_OWN})"),
    "driverGetVersion": ("version", f"int ({_OWN})"),
    "runtimeGetVersion": ("version", f"int ({_OWN})"),
    "deviceGetAttribute": ("deviceGetAttribute", f"int (int, int, {_OWN})"),
    "getDeviceProperties": ("getDeviceProperties", f"PyObject *(int, {_OWN})"),
    "memGetInfo": ("memGetInfo", f"PyObject *({_OWN})"),
    "malloc": ("malloc", f"intptr_t (size_t, {_OWN})"),
    "hostAlloc": ("hostAlloc", f"intptr_t (size_t, unsigned int, {_OWN})"),
    "free": ("free", f"PyObject *(intptr_t, {_OWN})"),
    "freeHost": ("free", f"PyObject *(intptr_t, {_OWN})"),
    "memcpy": ("memcpy", f"PyObject *(intptr_t, intptr_t, size_t, int, {_OWN})"),
    "memcpyAsync": (
        "memcpyAsync", f"PyObject *(intptr_t, intptr_t, size_t, int, intptr_t, {_OWN})"
    ),
    "memcpyPeer": ("memcpyPeer", f"PyObject *(intptr_t, int, intptr_t, int, size_t, {_OWN})"),
    "memcpyPeerAsync": (
        "memcpyPeerAsync", f"PyObject *(intptr_t, int, intptr_t, int, size_t, intptr_t, {_OWN})"
    ),
    "pointerGetAttributes": (
        "pointerGetAttributes",
        "struct __pyx_obj_13cupy_backends_4cuda_3api_7runtime_PointerAttributes *"
        f"(intptr_t, {_OWN})",
    ),
    "memset": ("memset", f"PyObject *(intptr_t, int, size_t, {_OWN})"),
    "memsetAsync": ("memsetAsync", f"PyObject *(intptr_t, int, size_t, intptr_t, {_OWN})"),
    "streamCreate": ("create", _MADE),
    "streamCreateWithFlags": ("createWithFlags", f"intptr_t (unsigned int, {_OWN})"),
    "streamCreateWithPriority": ("createWithPriority", f"intptr_t (unsigned int, int, {_OWN})"),
    "eventCreate": ("create", _MADE),
    "eventCreateWithFlags": ("createWithFlags", f"intptr_t (unsigned int, {_OWN})"),
    "ctxGetCurrent": ("create", _MADE),
    "moduleLoadData": ("moduleLoadData", f"intptr_t (PyObject *, {_OWN})"),
    "moduleGetFunction": ("moduleGetFunction", f"intptr_t (intptr_t, PyObject *, {_OWN})"),
    "launchKernel": (
        "launchKernel",
        f"PyObject *(intptr_t, {'unsigned int, ' * 7}intptr_t, intptr_t, intptr_t, {_OWN})",
    ),
    "occupancyMaxPotentialBlockSize": (
        "occupancyMaxPotentialBlockSize", f"PyObject *(intptr_t, size_t, int, {_OWN})"
    ),
    "funcGetAttribute": ("funcGetAttribute", f"int (int, intptr_t, {_OWN})"),
}  # fmt: skip
#: These are right as they are.
_KEPT = {
    "check_status", "get_build_version", "getVersion", "_getVersion", "_getCUDAMajorVersion",
    "_getLocalRuntimeVersion", "_get_cuda_build_version",
}  # fmt: skip
_NOTHING = {"PyObject *": "object", "float": "float"} | dict.fromkeys(
    ("int", "intptr_t", "size_t", "uintmax_t", "unsigned int"), "integer"
)
_OF_C = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "intptr_t": ctypes.c_ssize_t,
    "uintmax_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "PyObject *": ctypes.py_object,
}
_PROPERTIES = {
    "name": b"null", "major": 9, "minor": 0, "warpSize": 32, "multiProcessorCount": 132,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 49152,
    "maxGridSize": (2**31 - 1, 65535, 65535), "maxThreadsDim": (1024, 1024, 64),
    "regsPerBlock": 65536, "totalGlobalMem": 8 << 30,
}  # fmt: skip


@functools.cache
def _library() -> ctypes.PyDLL:
    """``null_gpu.c``, compiled."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_path("include")
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "null_gpu.so"
        options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
        command = [*compiler, *options, f"-I{include}", str(source), "-o", str(made)]
        subprocess.run(command, check=True, timeout=900)
        library = ctypes.PyDLL(str(made))
    runtime = importlib.import_module(_BACKENDS + "api.runtime")
    library.null_set.argtypes = [ctypes.py_object, ctypes.py_object]
    library.null_set.restype = None
    library.null_set(_PROPERTIES, runtime.PointerAttributes)
    library.null_launches.restype = ctypes.c_size_t
    return library


def launches() -> int:
    """How many kernels have been launched until now."""
    return _library().null_launches()


def _signature(capsule) -> str:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return name(capsule).decode()


def _replaced(capsule, address: int):
    """A capsule that says the same of another function."""
    make, name = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetName
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    # The name belongs to the module, which nobody unloads.
    name.restype, name.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return make(address, name(capsule), None)


def _for_python(signature: str, address: int):
    """The same function for those who look it up in the module."""
    result, _, arguments = signature.partition("(")
    types = [x.strip() for x in arguments.rstrip(")").split(",")]
    types = types[: types.index(_OWN)]
    prototype = ctypes.PYFUNCTYPE(
        _OF_C.get(result.strip(), ctypes.py_object), *[_OF_C[x] for x in types], ctypes.c_int
    )
    function = prototype(address)
    return lambda *args: function(*args, 0)


def _doing_nothing(result):
    return lambda *args, **kwargs: result


def _replace(module) -> None:
    library, functions = _library(), getattr(module, "__pyx_capi__", None)
    if functions is None:  # nobody gets compiled functions of it
        for name, thing in list(vars(module).items()):
            if callable(thing) and not isinstance(thing, type) and name not in _KEPT:
                setattr(module, name, _doing_nothing(0))
        return
    for name, capsule in list(functions.items()):
        signature = _signature(capsule)
        if "(" not in signature or name in _KEPT:
            continue
        result = signature.partition("(")[0].strip()
        known = _FUNCTIONS.get(name) if ".api." in module.__name__ else None
        if known is not None:
            instead, expected = known
            assert signature == expected, (name, signature, expected)
        elif result in _NOTHING:
            instead = _NOTHING[result]
        else:
            continue  # fails, as it does without a GPU
        address = ctypes.cast(getattr(library, f"null_{instead}"), ctypes.c_void_p).value
        functions[name] = _replaced(capsule, address)
        if known is not None:
            setattr(module, name, _for_python(signature, address))
        elif hasattr(module, name):
            setattr(module, name, _doing_nothing(None if result == "PyObject *" else 0))


def install() -> None:
    """Have CuPy find a GPU that runs nothing.

    Raises
    ------
    ImportError
        Where CuPy, or a library of CUDA that it is linked with, is missing.
    """
    os.environ.setdefault("CUPY_ACCELERATORS", "")  # CUB's kernels are not compiled by CuPy
    for name in _MODULES:
        _preload(name.partition(".")[2])
        _replace(importlib.import_module(_BACKENDS + name))
    import cupy

    # Sorting is compiled with CuPy.
    _replace(importlib.import_module("cupy.cuda.thrust"))
    # No pool: what CuPy asks for is new, and zeros.
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)


def _preload(name: str) -> None:
    """What CuPy 14 does when it is asked for a module: libraries of CUDA may lie in wheels."""
    try:
        from cuda import pathfinder
    except ImportError:
        return
    if name.startswith("cu"):
        try:
            pathfinder.load_nvidia_dynamic_lib(name)
        except RuntimeError as error:
            raise ImportError(str(error)) from error


@functools.cache
def why_not() -> str | None:
    """What is missing for it here; None where kernels are compiled."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    code = (
        f"import importlib.util; spec = importlib.util.spec_from_file_location('n', {__file__!r})\n"
        "n = importlib.util.module_from_spec(spec); spec.loader.exec_module(n); n.install()\n"
        "import cupy; (cupy.zeros(2, 'e') + 1).sum(); print('compiled', flush=True)\n"
        "import os; os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
    if done.stdout == "compiled\n":
        return None
    last = (done.stderr.strip() or "it crashes").splitlines()[-1]
    return f"CuPy is here, and cannot be used without a GPU: {last}"
