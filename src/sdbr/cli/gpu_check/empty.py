"""Kernels that do nothing."""

from __future__ import annotations

import ctypes

from sdbr.backends.cuda.launch import Launch
from sdbr.backends.cuda.plan import source

# `sdbr_overlapping` lets the kernel behind it begin at once, and waits for the one before it.
_TEXT = """
typedef unsigned long long sdbr_nothing;
#if defined(__CUDACC__)
#define SDBR_EMPTY(name, body) extern "C" __global__ void name(sdbr_nothing nothing) { body }
#else
#define SDBR_EMPTY(name, body) \\
    void name(const sdbr_nothing *nothing, long size, long groups); \\
    void name(const sdbr_nothing *nothing, long size, long groups) { \\
        (void)nothing, (void)size, (void)groups; \\
    }
#endif
SDBR_EMPTY(sdbr_empty, )
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SDBR_OVERLAPS \\
    asm volatile("griddepcontrol.launch_dependents;"); \\
    asm volatile("griddepcontrol.wait;" ::: "memory");
#else
#define SDBR_OVERLAPS
#endif
SDBR_EMPTY(sdbr_overlapping, SDBR_OVERLAPS)
"""
EMPTY, OVERLAPPING = "sdbr_empty", "sdbr_overlapping"
#: The source and the headers that it includes.
SOURCE = source([Launch(EMPTY, _TEXT, ())])


class Nothing(ctypes.Structure):
    """What the kernels get."""

    _fields_ = (("nothing", ctypes.c_uint64),)
