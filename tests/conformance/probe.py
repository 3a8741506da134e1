"""A chain around the function that a gradient check is about, and one run of it."""

from __future__ import annotations

import functools
import types
import unittest

import chainer
import numpy as np


class Probe:
    """A function, static and as it is, on one chain.

    Parameters
    ----------
    func : callable
        As a gradient check got it.
    params : sequence
        Parameters; arrays where `immutable`, which `func` then takes as its second argument.
    decorate : callable
        The decorator that is judged.
    """

    def __init__(self, func, params, immutable: bool, decorate):
        def forward(self, *xs):
            if immutable:
                return func(list(xs), tuple(self.params()))
            return func(*xs)

        kind = type("Probe", (chainer.Chain,), {"forward": decorate(forward), "plain": forward})
        self.chain = kind()
        if immutable:
            params = [chainer.Parameter(p.copy()) for p in params]
        self.params = list(params)
        self._names = [p.name for p in params]
        with self.chain.init_scope():
            for i, p in enumerate(params):
                setattr(self.chain, f"p{i:02}", p)
            if isinstance(func, chainer.Link):
                self.chain.link = func
        self._func = func
        self._link_name = getattr(func, "name", None)
        self.state = State(func)

    def close(self) -> None:
        """Give parameters and link the names they had."""
        for p, name in zip(self.params, self._names, strict=True):
            p.name = name
        if isinstance(self._func, chainer.Link):
            self._func.name = self._link_name


class State:
    """What a function may write to apart from its arguments: links and arrays it can reach."""

    def __init__(self, func):
        self._links: list = []
        self._arrays: list = []
        self._seen: set[int] = set()
        self._walk(func, 0)

    def _walk(self, thing, depth: int) -> None:
        if depth > 5 or id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, chainer.Link):
            self._links.extend(x for x in thing.links() if x not in self._links)
        elif isinstance(thing, np.ndarray):
            self._arrays.append(thing)
        for part in _parts(thing):
            self._walk(part, depth + 1)

    def save(self) -> tuple:
        """Attributes of the links and contents of all arrays."""
        links = [
            {k: (v, v.copy() if isinstance(v, np.ndarray) else None) for k, v in d.items()}
            for d in (x.__dict__ for x in self._links)
        ]
        return links, [a.copy() for a in self._arrays]

    def restore(self, saved: tuple) -> None:
        links, arrays = saved
        for link, attributes in zip(self._links, links, strict=True):
            for name, (thing, contents) in attributes.items():
                if contents is not None:
                    thing[...] = contents
                if link.__dict__.get(name) is not thing:
                    object.__setattr__(link, name, thing)
            for name in set(link.__dict__) - set(attributes) - _OURS:
                del link.__dict__[name]
        for array, contents in zip(self._arrays, arrays, strict=True):
            array[...] = contents

    def arrays(self) -> list:
        """Copies of all arrays and numbers, in a fixed order."""
        found = [a.copy() for a in self._arrays]
        for link in self._links:
            for name, thing in sorted(link.__dict__.items()):
                if isinstance(thing, (np.ndarray, float, int)):
                    found.append(np.array(thing))
                elif isinstance(thing, chainer.Variable) and name not in link._params:
                    found.append(None if thing.array is None else thing.array.copy())
        return found


_OURS = {"_sdbr_managers", "schedule_manager", "static_schedule"}


def _parts(thing):
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, types.FunctionType):
        cells = thing.__closure__ or ()
        return [c.cell_contents for c in cells if _is_full(c)]
    if isinstance(thing, unittest.TestCase):
        return list(thing.__dict__.values())
    if isinstance(thing, (list, tuple)) and len(thing) < 50:
        return list(thing)
    if isinstance(thing, dict) and len(thing) < 50:
        return list(thing.values())
    return []


def _is_full(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def run(call, xs, gys, ggs, params, seed: int) -> dict[str, list]:
    """One forward and backward (with `ggs` a second one), as Chainer's gradient checks do it.

    Returns
    -------
    dict
        Copies of all arrays by part: ``'forward'``, ``'input gradient'``, ...
    """
    np.random.seed(seed)
    variables = [None if x is None else _variable(x) for x in xs]
    ys = _as_tuple(call(*variables))
    _clear([*variables, *params])
    record = {"forward": [None if y is None else _copy(y.array) for y in ys]}
    if gys is None:
        gys = [np.ones_like(ys[0].array)]
    gys = [
        None if g is None or y is None else _constant(_fitting(g, y.array), bool(ggs))
        for g, y in zip(gys, ys, strict=True)
    ]
    chainer.backward(ys, gys, enable_double_backprop=bool(ggs))
    if ggs:
        firsts = [x.grad_var for x in variables if x is not None and x.dtype.kind == "f"]
        firsts += [p.grad_var for p in params]
        record["first derivative"] = [None if g is None else _copy(g.array) for g in firsts]
        _clear([*variables, *params, *gys])
        pairs = [
            # A node of its own: two first derivatives may be one and the same Variable.
            (chainer.functions.identity(g), _constant(_fitting(gg, g.array), False))
            for g, gg in zip(firsts, ggs, strict=True)
            if g is not None and gg is not None and g.requires_grad
        ]
        if pairs:
            chainer.backward([g for g, _ in pairs], [gg for _, gg in pairs])
        record["gradient of gradients"] = [None if g is None else _copy(g.grad) for g in gys]
    record["input gradient"] = [None if x is None else _copy(x.grad) for x in variables]
    record["parameter gradient"] = [_copy(p.grad) for p in params]
    _clear(params)
    record["next draw"] = [np.random.rand(1)]
    return record


def infer(call, xs, seed: int) -> dict[str, list]:
    """One forward in test mode, without a graph."""
    np.random.seed(seed)
    with chainer.no_backprop_mode(), chainer.using_config("train", False):
        ys = _as_tuple(call(*[None if x is None else _variable(x) for x in xs]))
    record = {"forward": [None if y is None else _copy(y.array) for y in ys]}
    record["creator"] = [np.array([y is not None and y.creator_node is not None for y in ys])]
    record["next draw"] = [np.random.rand(1)]
    return record


def _variable(x) -> chainer.Variable:
    return chainer.Variable(x, requires_grad=x.dtype.kind == "f")


def _constant(array, requires_grad: bool) -> chainer.Variable:
    return chainer.Variable(array, requires_grad=requires_grad)


def _fitting(g, y):
    """A gradient for `y`: `g`, cut or repeated where the shape of `y` depends on the data."""
    return g.copy() if g.shape == y.shape else np.resize(g, y.shape).astype(y.dtype)


def _copy(array):
    return None if array is None else np.array(array)


def _clear(variables) -> None:
    for x in variables:
        if x is not None:
            x.grad_var = None


def _as_tuple(ys) -> tuple:
    return tuple(ys) if isinstance(ys, (list, tuple)) else (ys,)
