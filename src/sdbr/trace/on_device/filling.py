"""Kernels that are given arrays to write into: recorded as calls that give these anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import contiguous, may_share_memory
from sdbr.trace.arrays._exports import address
from sdbr.trace.arrays.rewriting import take_over
from sdbr.trace.arrays.stripping import holds_traced, is_traced, strip, strip_nested
from sdbr.trace.arrays.telling import record
from sdbr.trace.arrays.writing import write
from sdbr.trace.current import current
from sdbr.trace.on_device.called import Called

from chainer.backends import cuda

#: Where something lies in ``(args, kwargs)``: the keys on the way there.
Path = tuple


class Filled:
    """A call that writes into arrays which it is given, as one that gives them anew.

    Parameters
    ----------
    call : Called
    outs : list of Path
        Where these arrays lie.
    same : dict of Path to int
        Where one of them is given once more, and which.
    is_flat : bool
        Whether the call takes memory for what it is, whatever strides arrays have.

    Attributes
    ----------
    gives : type or None
        What the call itself has given: a tuple of them, one (``object``), or nothing.
    """

    as_numpy = None

    def __init__(self, call: Called, outs: list[Path], same: dict[Path, int], is_flat: bool):
        self.call = call
        self.outs = outs
        self.same = same
        self.is_flat = is_flat
        self.gives: type | None = None
        self.__name__ = call.__name__
        self.label = call.label

    def __call__(self, *args: Any, **kwargs: Any) -> tuple:
        tree = (args, kwargs)
        if self.is_flat:
            tree = _changed(tree, (), lambda path, x: contiguous(x) if _is_array(x) else x)
        made = [_at(tree, path).copy() for path in self.outs]
        places = {path: made[i] for i, path in enumerate(self.outs)}
        places.update((path, made[i]) for path, i in self.same.items())
        args, kwargs = _changed(tree, (), lambda path, x: places.get(path, x))
        given = self.call(*args, **kwargs)
        self.gives = tuple if type(given) is tuple else None if given is None else object
        return tuple(made)


def fill_outputs(call: Called, n_in: int, args: tuple, kwargs: dict) -> Any:
    """Call a kernel with arrays behind its `n_in` inputs, or as ``out``, to write into."""
    beyond = {"out": kwargs.get("out")}
    outs = [path for path, _ in _arrays_in((args, beyond), ()) if path[0] or path[1] >= n_in]
    if not outs:
        return record(call, args, kwargs)
    return fill(call, outs, args, kwargs, False)


def launch(kernel: Callable, call: Called, args: tuple, kwargs: dict) -> Any:
    """Call a `RawKernel`, which writes through the pointers that it does not declare ``const``."""
    is_const = pointers(getattr(kernel, "code", None), getattr(kernel, "name", ""))
    given = args[2] if len(args) > 2 else kwargs.get("args", ())
    front: Path = (0, 2) if len(args) > 2 else (1, "args")
    outs = [
        (*front, i)
        for i, x in enumerate(given)
        if _is_array(x) and not (is_const and len(is_const) == len(given) and is_const[i])
    ]
    return fill(call, outs, args, kwargs, True)


def fill(call: Called, outs: list[Path], args: tuple, kwargs: dict, is_flat: bool) -> Any:
    """Call what writes into the arrays at `outs` of its arguments.

    Returns
    -------
    object
        What the call gives: these arrays.
    """
    recorder = current()
    tree = (args, kwargs)
    if recorder is None or recorder.depth or recorder.trace.dynamic is not None:
        return call(*strip_nested(args), **strip_nested(kwargs))
    text = f"an array was written in place by {call.label}"
    arrays = [_at(tree, path) for path in outs]
    same = _given_again(tree, outs)
    unclear = same is None or not all(map(is_traced, arrays))
    if is_flat:
        unclear |= any(not strip(x).flags.c_contiguous for _, x in _arrays_in(tree, ()))
    if unclear:
        if holds_traced(tree):
            recorder.mark_dynamic(text, Remedy.NEW_ARRAY)
        return call(*strip_nested(args), **strip_nested(kwargs))
    filled = Filled(call, outs, same or {}, is_flat)
    made = record(filled, args, kwargs)
    for array, new in zip(arrays, made, strict=True):

        def perform(array=array, new=new):
            take_over(strip(array), strip(new))

        write(array, take_over, (new,), {}, call.__name__, text, perform)
    if filled.gives is None:
        return None
    return tuple(arrays) if filled.gives is tuple else arrays[0]


def _given_again(tree: tuple, outs: list[Path]) -> dict[Path, int] | None:
    """Where arrays at `outs` are given once more; None where one lies in a part of another."""
    found = {}
    known = [(i, strip(_at(tree, path))) for i, path in enumerate(outs)]
    for path, x in _arrays_in(tree, ()):
        for i, out in known:
            if path == outs[i] or not may_share_memory(strip(x), out):
                continue
            if path in outs or not _is_one(strip(x), out):
                return None
            found[path] = i
    return found


def _is_one(a, b) -> bool:
    """Whether two arrays show the same."""
    return (address(a), a.shape, a.strides, a.dtype) == (address(b), b.shape, b.strides, b.dtype)


# --- the declaration of a kernel --------------------------------------------------------------
def pointers(code: str | None, name: str) -> list[bool] | None:
    """Of each parameter of a kernel, whether it is a pointer to what it does not write to.

    None where its declaration is not found.
    """
    if not code:
        return None
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)
    found = re.search(rf"\b{re.escape(name)}\s*\(([^()]*)\)\s*\{{", text)
    if found is None:
        return None
    parts = [part.strip() for part in found.group(1).split(",") if part.strip()]
    return [_is_const(part) for part in parts]


def _is_const(parameter: str) -> bool:
    """``const float *x``, ``float const *x``; not ``float *const x``."""
    pointed, star, _ = parameter.partition("*")
    return bool(star) and parameter.count("*") == 1 and "const" in pointed.split()


# --- arguments --------------------------------------------------------------------------------
def _is_array(thing: Any) -> bool:
    return isinstance(thing, cuda.ndarray)


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _changed(tree: Any, path: Path, change: Callable) -> Any:
    """`tree` with what `change` makes of what lies in its tuples, lists and dicts."""
    if type(tree) in (tuple, list):
        return type(tree)([_changed(x, (*path, i), change) for i, x in enumerate(tree)])
    if type(tree) is dict:
        return {key: _changed(x, (*path, key), change) for key, x in tree.items()}
    return change(path, tree)


def _arrays_in(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The arrays of CuPy in a structure, with where they lie."""
    if type(tree) in (tuple, list):
        for i, x in enumerate(tree):
            yield from _arrays_in(x, (*path, i))
    elif type(tree) is dict:
        for key, x in tree.items():
            yield from _arrays_in(x, (*path, key))
    elif _is_array(tree):
        yield path, tree
