"""The kernels for GPUs that are written in Chainer, as its sources have them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chainer
import numpy as np

ROOT = Path(chainer.__file__).parent
MAKERS = ("elementwise", "reduce", "raw")
#: Letters that are integers in Chainer's kernels; all others are floats.
INTEGERS = {"S": np.dtype(np.int32), "I": np.dtype(np.int32)}
#: Where a letter is something else than elsewhere.
_OF_KERNEL = {
    "pad_sequence_fwd": {"P": np.dtype(np.uint64)},
    "_memcpy_gather": {"T": np.dtype(np.uint64), "X": np.dtype(np.int8), "Y": np.dtype(np.int32)},
    "_memcpy_scatter": {"T": np.dtype(np.uint64), "X": np.dtype(np.int8), "Y": np.dtype(np.int32)},
}


@dataclass(frozen=True)
class Kernel:
    """A place where one is made.

    Attributes
    ----------
    path : Path
        Of the file, below the folder that Chainer lies in.
    lines : tuple of int
        The first and the last one.
    maker : str
        One of `MAKERS`.
    parts : tuple of str, optional
        The arguments, where all of them are literal.
    given : dict
        Keyword -> the expression.
    """

    path: Path
    lines: tuple[int, int]
    maker: str
    parts: tuple[str, ...] | None
    given: dict[str, str] = field(compare=False)

    def __str__(self) -> str:
        return f"{self.path.stem}:{self.lines[0]} {self.name}"

    @property
    def name(self) -> str:
        if self.parts is None:
            return "not literal"
        return self.parts[1 if self.maker == "raw" else -1]

    def options(self) -> dict[str, Any]:
        """The keywords with their values, which are literal or names of the module."""
        if not self.given:
            return {}
        module = importlib.import_module(".".join(self.path.with_suffix("").parts))
        return {name: eval(text, dict(vars(module))) for name, text in self.given.items()}

    def axes(self, parameter: str) -> int:
        """How many the kernel takes a raw array to have: it may index it by an array."""
        text = "".join(self.parts or ())
        lengths = {
            name: index.count(",") + 1
            for name, index in re.findall(r"\b(\w+)\[\] *= *\{([^}]*)\}", text)
        }
        found = re.findall(rf"\b{parameter}\[(\w+)\]", text)
        return max((lengths.get(name, 1) for name in found), default=1)

    def dtypes(self, letters: set[str], dtype: str) -> dict[str, np.dtype]:
        """What letters are where floats are of `dtype`."""
        found = {x: INTEGERS.get(x, np.dtype(dtype)) for x in letters}
        return found | {k: x for k, x in _OF_KERNEL.get(self.name, {}).items() if k in letters}


def kernels(package: str = "chainer") -> Iterator[Kernel]:
    """All places, in the order of the files."""
    root = ROOT.parent
    for path in sorted((root / package).rglob("*.py")):
        if path == ROOT / "backends" / "cuda.py":
            continue  # where the makers are
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "cuda" in text else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = ast.unparse(node.func).split(".")
            if called[-1] not in MAKERS or called[-2] != "cuda":
                continue
            parts = tuple(x.value for x in node.args if isinstance(x, ast.Constant))
            yield Kernel(
                path.relative_to(root),
                (node.lineno, node.end_lineno or node.lineno),
                called[-1],
                parts if len(parts) == len(node.args) else None,
                {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg},
            )


def compile_kernel(kernel: Kernel, dtype: str, cuda: Any) -> None:
    """Have CuPy compile one whose code is literal, where floats are of `dtype`.

    Parameters
    ----------
    cuda : module
        ``chainer.backends.cuda``, or one like it.
    """
    import cupy

    assert kernel.parts is not None
    made = getattr(cuda, kernel.maker)(*kernel.parts, **kernel.options())
    if kernel.maker == "raw":
        made.compile()
        return
    parameters = [*made.in_params, *made.out_params]
    letters = kernel.dtypes({p.ctype for p in parameters if p.dtype is None}, dtype)
    arrays = [
        cupy.ndarray(
            (2,) * (kernel.axes(p.name) if p.raw else 1),
            letters[p.ctype] if p.dtype is None else p.dtype,
        )
        for p in parameters
    ]
    if kernel.maker == "elementwise":
        raw = all(p.raw for p in parameters)
        made(*arrays, **({"size": 2} if raw else {}))
        return
    # What is done at the end sees numbers, and no arrays.
    for i, p in enumerate(made.in_params):
        if not p.raw and re.search(rf"\b{p.name}\b", kernel.parts[4]):
            arrays[i] = 1.0
    made(*arrays[: made.nin], cupy.ndarray((), arrays[made.nin].dtype))
