"""Parameters of kernels, and the types that arguments give to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import ndarrays

#: dtype -> how it lies in memory, and as what C computes with it: as in CUDA, halves are floats.
_C_NAMES = {
    "?": ("bool", "bool"),
    "b": ("int8_t", "int8_t"),
    "h": ("int16_t", "int16_t"),
    "i": ("int32_t", "int32_t"),
    "l": ("int64_t", "int64_t"),
    "q": ("int64_t", "int64_t"),
    "B": ("uint8_t", "uint8_t"),
    "H": ("uint16_t", "uint16_t"),
    "I": ("uint32_t", "uint32_t"),
    "L": ("uint64_t", "uint64_t"),
    "Q": ("uint64_t", "uint64_t"),
    "e": ("_Float16", "float"),
    "f": ("float", "float"),
    "d": ("double", "double"),
    "F": ("float _Complex", "float _Complex"),
    "D": ("double _Complex", "double _Complex"),
}


def stored(dtype) -> str:
    return _C_NAMES[np.dtype(dtype).char][0]


def computed(dtype) -> str:
    return _C_NAMES[np.dtype(dtype).char][1]


@dataclass(frozen=True)
class Parameter:
    """One of the comma-separated: `type` is a single letter where arguments decide."""

    name: str
    type: str
    dtype: np.dtype | None
    raw: bool


def parse(text: str) -> tuple[Parameter, ...]:
    """Parameters of a kernel, as ``raw T x, int32 n``."""
    found = []
    for part in text.strip().split(",") if text.strip() else ():
        words = part.split()
        if len(words) < 2 or any(word not in ("raw", "_non_const") for word in words[:-2]):
            raise Exception(f"Syntax error: {part}")
        kind, name = words[-2:]
        dtype = None if len(kind) == 1 else ndarrays.get_dtype(kind)
        found.append(Parameter(name, kind, dtype, "raw" in words))
    return tuple(found)


def decide(inputs, outputs, in_dtypes, out_dtypes) -> tuple[list, list, dict]:
    """The dtypes of all parameters, and those of the letters; scalars decide nothing."""
    letters: dict[str, np.dtype] = {}
    given = [*zip(outputs, out_dtypes, strict=False), *zip(inputs, in_dtypes, strict=True)]
    for parameter, dtype in given:
        if dtype is None:
            continue
        expected = parameter.dtype
        if expected is None:
            expected = letters.setdefault(parameter.type, dtype)
        if expected != dtype:
            raise TypeError(f"Type is mismatched. {parameter.name} {dtype} {expected}")
    ins, outs = (
        [letters[p.type] if p.dtype is None else p.dtype for p in parameters]
        for parameters in (inputs, outputs)
    )
    return ins, outs, letters
