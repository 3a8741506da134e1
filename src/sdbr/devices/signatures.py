"""The functions of the CUDA driver that are called, with what they take."""

from __future__ import annotations

import ctypes


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute``, with a value that is an int."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


_EARLY = 6  # programmatic stream serialization


def early_launch(blocks: int, threads: int, stream: ctypes.c_void_p) -> LaunchConfig:
    """A launch of a kernel that may begin before the one in front of it has ended."""
    attribute = LaunchAttribute(id=_EARLY, value=1)
    grid, block = (blocks, 1, 1), (threads, 1, 1)
    return LaunchConfig(grid, block, 0, stream, ctypes.pointer(attribute), 1)


PLACE = ctypes.POINTER(ctypes.c_void_p)
ADDRESS = ctypes.c_uint64
SIGNATURES = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (PLACE, ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (PLACE,),
    "cuCtxSynchronize": (),
    "cuEventCreate": (PLACE, ctypes.c_uint),
    "cuEventRecord": (ctypes.c_void_p, ctypes.c_void_p),
    "cuEventDestroy_v2": (ctypes.c_void_p,),
    "cuStreamWaitEvent": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint),
    "cuModuleLoadData": (PLACE, ctypes.c_char_p),
    "cuModuleGetFunction": (PLACE, ctypes.c_void_p, ctypes.c_char_p),
    "cuModuleUnload": (ctypes.c_void_p,),
    "cuMemAlloc_v2": (ctypes.POINTER(ADDRESS), ctypes.c_size_t),
    "cuMemFree_v2": (ADDRESS,),
    "cuMemHostAlloc": (PLACE, ctypes.c_size_t, ctypes.c_uint),
    "cuMemFreeHost": (ctypes.c_void_p,),
    "cuMemcpyHtoDAsync_v2": (ADDRESS, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemsetD8Async": (ADDRESS, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, ADDRESS, ctypes.c_size_t, ctypes.c_void_p),
    "cuStreamCreate": (PLACE, ctypes.c_uint),
    "cuStreamSynchronize": (ctypes.c_void_p,),
    "cuStreamDestroy_v2": (ctypes.c_void_p,),
    "cuStreamBeginCapture_v2": (ctypes.c_void_p, ctypes.c_int),
    "cuStreamEndCapture": (ctypes.c_void_p, PLACE),
    "cuEventSynchronize": (ctypes.c_void_p,),
    "cuEventQuery": (ctypes.c_void_p,),
    "cuEventElapsedTime": (ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p),
    "cuLaunchKernel": (
        (ctypes.c_void_p,)
        + (ctypes.c_uint,) * 7
        + (ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    ),
    "cuGraphInstantiateWithFlags": (PLACE, ctypes.c_void_p, ctypes.c_ulonglong),
    "cuGraphGetNodes": (ctypes.c_void_p, PLACE, ctypes.POINTER(ctypes.c_size_t)),
    "cuGraphLaunch": (ctypes.c_void_p, ctypes.c_void_p),
    "cuGraphDestroy": (ctypes.c_void_p,),
    "cuGraphExecDestroy": (ctypes.c_void_p,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}
#: Functions that older drivers do not have.
NEWER = {
    "cuLaunchKernelEx": (
        ctypes.POINTER(LaunchConfig),
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_void_p),
    ),
}
