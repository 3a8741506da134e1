"""The functions of cuRAND that CuPy's generators call, on NumPy's Philox: numbers to an address.

A generator is what draws, and the names of the calls since it was seeded, so that tests can see
who drew what. Float32 and float64 are different calls.
"""

from __future__ import annotations

import ctypes

import numpy as np

CURAND_RNG_PSEUDO_DEFAULT = 100


class Generator:
    """In the place of a handle."""

    def __init__(self):
        self.calls: list[str] = []
        self.drawn = None


def _there(pointer, n, dtype):
    dtype = np.dtype(dtype)
    memory = (ctypes.c_char * max(n * dtype.itemsize, 1)).from_address(pointer or 1)
    return np.frombuffer(memory, dtype, n) if n else np.zeros(0, dtype)


def createGenerator(method):
    return Generator()


def destroyGenerator(generator):
    generator.drawn = None


def setPseudoRandomGeneratorSeed(generator, seed):
    generator.drawn = np.random.Generator(np.random.Philox(seed))
    generator.calls.clear()


def setGeneratorOffset(generator, offset):
    if offset:
        raise NotImplementedError


def getVersion():
    return 10400


def generate(generator, pointer, n):
    """Whole words."""
    generator.calls.append("generate")
    _there(pointer, n, np.uint32)[...] = generator.drawn.integers(0, 2**32, n, np.uint32)


def generateUniform(generator, pointer, n):
    generator.calls.append("uniform")
    _there(pointer, n, np.float32)[...] = generator.drawn.random(n, np.float32)


def generateUniformDouble(generator, pointer, n):
    generator.calls.append("uniform_double")
    _there(pointer, n, np.float64)[...] = generator.drawn.random(n, np.float64)


def _normals(generator, pointer, n, mean, std, dtype):
    if n % 2:
        raise ValueError("only an even number of them can be drawn")
    drawn = generator.drawn.standard_normal(n, dtype)
    _there(pointer, n, dtype)[...] = dtype(mean) + dtype(std) * drawn


def generateNormal(generator, pointer, n, mean, std):
    generator.calls.append("normal")
    _normals(generator, pointer, n, mean, std, np.float32)


def generateNormalDouble(generator, pointer, n, mean, std):
    generator.calls.append("normal_double")
    _normals(generator, pointer, n, mean, std, np.float64)
