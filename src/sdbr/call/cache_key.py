"""Parts of the cache key, and how two keys differ."""

from __future__ import annotations

import operator
from typing import NamedTuple

from sdbr.base.dtypes import DTYPE_CODES
from sdbr.base.reasons import Reason, Remedy
from sdbr.base.settings import unknown_entries
from sdbr.devices.arrays import Array
from sdbr.trace.guards.layouts import aliasing, layout_of
from sdbr.trace.nodes import config_entries
from sdbr.trace.structure import (
    describe,
    differing_arguments,
    flatten,
    freeze,
    freeze_arguments,
    leaf_names,
)
from sdbr.trace.values import RESULT

import chainer
import numpy as np


class CallKey(NamedTuple):
    """What of a call decides, with its guards, whether a schedule serves it.

    Attributes
    ----------
    arguments : tuple
        Their structure, and those that are no arrays.
    arrays : tuple
        Shape, dtype, ``requires_grad`` (None for an array) and class of each array and Variable.
    same : tuple
        Which of these are the same object.
    config : tuple
        See `ConfigKeys`.
    backend : str
    device : int or None
        The GPU that the arrays lie on; None for the host.
    layouts : tuple
        How these arrays lie in memory, where a call may learn that; see `layouts_of`.
    on_host : tuple of int
        Which of them lie on the host, where the call runs on a GPU.
    """

    arguments: tuple
    arrays: tuple
    same: tuple
    config: tuple
    backend: str
    device: int | None = None
    layouts: tuple = ()
    on_host: tuple = ()


# What `freeze` looks into.
_CONTAINERS = (dict, list, tuple, set, frozenset)


#: How reports call the parts.
_PARTS = CallKey(
    "structure and non-array arguments",
    "shapes and dtypes of arguments",
    "which arguments are the same object",
    "chainer.config",
    "backend",
    "device",
    "how arguments lie in memory",
    "which arguments lie on the host",
)


def flatten_arguments(args, kwargs, leaves):
    """Take the arguments apart; errors name them."""
    flat_args = tuple(flatten(a, f"argument {i}", leaves) for i, a in enumerate(args))
    flat_kwargs = {k: flatten(a, f"argument {k!r}", leaves) for k, a in kwargs.items()}
    return flat_args, flat_kwargs


def unusual_array(leaves) -> str | None:
    """Which sort of arrays among the arguments programs cannot hold, or None.

    A subclass of ndarray (a masked array, a matrix) may give NumPy's operators other meanings;
    `numpy.memmap` does not.
    """
    for x in leaves:
        array = x._data[0] if isinstance(x, chainer.Variable) else x
        kind = type(array)
        if kind is not np.ndarray and kind is not np.memmap and kind is not Array:
            return f"arguments of type {kind.__module__}.{kind.__qualname__}"
        if array.dtype not in DTYPE_CODES:
            return f"arguments of dtype {array.dtype}"
    return None


def unusual_value(trace) -> Reason | None:
    """What makes a trace dynamic because programs cannot hold it, or None."""
    for value in trace.values:
        if value.dtype not in DTYPE_CODES:
            line = value.source[0].line if value.kind == RESULT else ""
            text = f"{value.kind} {value.index} is an array of dtype {value.dtype}"
            return Reason(text, Remedy.CAST_BEFORE, line)
    return None


def call_key(structure, leaves, config: tuple, backend: str, device: int | None = None) -> CallKey:
    """The cache key of a call, without what the schedule's guards look at.

    Parameters
    ----------
    structure : tuple
        ``(args, kwargs)`` from `flatten_arguments`.
    leaves : list
        The arrays and Variables among the arguments.
    config : tuple
        See `ConfigKeys`.
    backend : str
    device : int or None
    """
    specs = []
    for x in leaves:
        if isinstance(x, chainer.Variable):
            a = x._data[0]
            specs.append((a.shape, a.dtype.str, x.requires_grad, type(x)))
        else:
            specs.append((x.shape, x.dtype.str, None, type(x) if type(x) is Array else np.ndarray))
    arguments, on_host = freeze_arguments(structure), ()
    if device is not None:
        arrays = [x._data[0] if isinstance(x, chainer.Variable) else x for x in leaves]
        on_host = tuple([i for i, x in enumerate(arrays) if not isinstance(x, Array)])
    same = aliasing(leaves)
    return CallKey(arguments, tuple(specs), same, config, backend, device, on_host=on_host)


def layouts_of(leaves) -> tuple:
    """How the arrays among the arguments lie in memory."""
    arrays = [x._data[0] if isinstance(x, chainer.Variable) else x for x in leaves]
    return tuple([layout_of(x) for x in arrays])


class ConfigKeys:
    """Every entry of ``chainer.config`` that is no setting outside of the key, as a tuple.

    Made anew only where an entry is another object, or one whose contents may have changed.

    Attributes
    ----------
    unknown : list of (str, str)
        Entries that look like settings of sdbr and are none, with what to say of them.
    """

    __slots__ = ("_known", "unknown")

    def __init__(self):
        self._known: tuple = [], [], ()
        self.unknown: list[tuple[str, str]] = []

    def now(self) -> tuple:
        """The part of a key that this thread's configuration is."""
        config = config_entries()
        names, entries = list(config), list(config.values())
        known_names, known_entries, key = self._known
        if names == known_names and all(map(operator.is_, entries, known_entries)):
            return key
        if names != known_names:
            self.unknown = unknown_entries(names)
        key = tuple((k, freeze(config[k])) for k in sorted(config))
        if not any(isinstance(entry, _CONTAINERS) for entry in entries):
            self._known = names, entries, key
        return key


def describe_difference(key, others) -> str:
    """The part of `key` that differs from the nearest of `others`."""
    best = None
    for other in others:
        parts = [(n, a, b) for n, a, b in zip(_PARTS, key, other, strict=True) if a != b]
        if best is None or len(parts) <= len(best):  # of two as near, the one used later
            best = parts
    if not best:
        return "attributes of the chain, or its parameters"
    texts = []
    for name, new, old in best:
        if name == _PARTS.config:
            new, old = dict(new), dict(old)
            texts += [
                f"chainer.config.{k}: {_entry(old, k)} -> {_entry(new, k)}"
                for k in sorted({*old, *new})
                if k not in old or k not in new or new[k] != old[k]
            ]
        elif name == _PARTS.arrays:
            places = leaf_names(key.arguments)
            texts += [
                f"{places[i]}: {_spec(o)} -> {_spec(n)}"
                for i, (n, o) in enumerate(zip(new, old, strict=False))
                if n != o
            ]
        elif name == _PARTS.arguments:
            texts.append(differing_arguments(new, old))
        else:
            texts.append(f"{name}: {old!r:.80} -> {new!r:.80}")
    return "; ".join(texts)


def _spec(spec) -> str:
    shape, dtype, requires_grad, kind = spec
    text = f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"
    return (
        text if requires_grad is None else f"{kind.__name__} {text}, requires_grad={requires_grad}"
    )


def _entry(config: dict, name: str) -> str:
    if name not in config:
        return "missing"
    frozen = config[name]
    return describe(frozen) if isinstance(frozen, tuple) and frozen else str(frozen)
