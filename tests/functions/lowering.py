"""Lowers what a Chainer function does, node by node, and runs the programs on a backend.

Independent of the tracer: nodes are collected by watching ``FunctionNode.apply``.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses

import sdbr.backends
from sdbr.backends import MACHINES
from sdbr.functions import load_all
from sdbr.functions.registry import Node, function_of, row_of
from sdbr.program._memory import Memory
from sdbr.program.buffers import ARENA, CONSTANT, OWNED, BufferTable
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.memory import check_overlaps, plan
from sdbr.program.passes import shaped
from sdbr.program.program import assemble

import chainer
import numpy as np

load_all()


@dataclasses.dataclass
class Applied:
    """One function node: the node as it was before its first forward, its ends by identity."""

    function: object
    ins: list
    outs: list


@contextlib.contextmanager
def collecting():
    """Collect the function nodes that are applied, in order; keeps their variables alive."""
    applied = []
    original = chainer.FunctionNode.apply
    known = {}

    def as_variable(x):
        if isinstance(x, chainer.Variable):
            return x
        return known.setdefault(id(x), chainer.as_variable(x))

    def apply(self, inputs):
        before = copy.copy(self)
        inputs = [as_variable(x) for x in inputs]
        outputs = original(self, inputs)
        applied.append(Applied(before, inputs, list(outputs)))
        return outputs

    chainer.FunctionNode.apply = apply
    try:
        yield applied
    finally:
        chainer.FunctionNode.apply = original


def as_inputs(arrays):
    """Variables for float arrays, the arrays themselves otherwise."""
    return [chainer.Variable(a) if a.dtype.kind == "f" else a for a in arrays]


def outputs_of(result):
    """The outputs of a function as a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def define_by_run(f, arrays, gys, wanted):
    """Outputs and the gradients of the inputs in `wanted`, as Chainer computes them."""
    with np.errstate(all="ignore"):
        xs = as_inputs(arrays)
        ys = outputs_of(f(*xs))
        given = [
            (y, chainer.Variable(g.copy())) for y, g in zip(ys, gys, strict=True) if g is not None
        ]
        if not wanted:
            return [y.array for y in ys], []
        grads = chainer.grad(
            [y for y, _ in given], [xs[i] for i in wanted], grad_outputs=[g for _, g in given]
        )
    return [y.array for y in ys], [None if g is None else g.array for g in grads]


class Lowered:
    """Forward and backward programs of one function, lowered from one traced call.

    Parameters
    ----------
    f : callable
        Of Variables (float arguments) and arrays (others).
    arrays : list of ndarray
        Arguments while tracing; other values may be given to `run`.
    has_gy : list of bool
        Which outputs carry a gradient.
    wanted : list of int
        Arguments whose gradient is wanted.
    watched : dict
        ``(class name, attribute) -> control slot`` of floats that may change.
    """

    def __init__(self, f, arrays, has_gy, wanted, watched=None):
        self.table = BufferTable()
        self.watched = watched or {}
        self.rows: dict[int, object] = {}
        xs = as_inputs(arrays)
        with collecting() as applied, np.errstate(all="ignore"):
            ys = outputs_of(f(*xs))
        self.applied = applied
        self.args = [
            self.table.bound(a.shape, a.dtype, f"argument {i}") for i, a in enumerate(arrays)
        ]
        for x, a, row in zip(xs, arrays, self.args, strict=True):
            self.rows[id(x)] = self.rows[id(a)] = row
        self.forward_ops = self._lower_forward(ys)
        self.backward_ops = self._lower_backward(xs, ys, has_gy, wanted)
        self.forward_ops, self.backward_ops = (
            shaped(ops, set(), self.table, frozenset(), MACHINES["cython"])
            for ops in (self.forward_ops, self.backward_ops)
        )
        kept = [r for i in self.backward_ops for r in i.ins]
        arena = plan(self.forward_ops, self.table, kept, "forward")
        self.forward = assemble(self.forward_ops, self.table, "forward", arena)
        arena = plan(self.backward_ops, self.table, (), "backward")
        self.backward = assemble(self.backward_ops, self.table, "backward", arena)
        assert not check_overlaps(self.forward_ops, kept)
        assert not check_overlaps(self.backward_ops)

    def row(self, x):
        """The row of a variable; an array made on the way is a constant."""
        row = self.rows.get(id(x))
        if row is None:
            row = self.rows.get(id(x.array))
        if row is None:
            row = self.rows[id(x)] = self.table.constant(x.array)
        return row

    def _nested(self, thing):
        if isinstance(thing, (tuple, list)):
            return type(thing)(map(self._nested, thing))
        return self.rows.get(id(thing), thing)

    def _node(self, a: Applied) -> Node:
        slots = {
            attribute: slot
            for (cls, attribute), slot in self.watched.items()
            if cls == type(function_of(a.function)).__name__
        }
        function, row = function_of(a.function), row_of(a.function)
        for name in row.arrays if row else ():  # arguments that the node keeps
            known = self.rows.get(id(getattr(function, name, None)))
            if known is not None:
                slots[name] = known
        for name in row.nested if row else ():
            slots[name] = self._nested(getattr(function, name))
        return Node(
            function,
            tuple(x.shape for x in a.ins),
            tuple(x.dtype for x in a.ins),
            tuple(y.shape for y in a.outs),
            tuple(y.dtype for y in a.outs),
            tuple(x.requires_grad for x in a.ins),
            slots,
            chainer.config.train,
        )

    def _lower_forward(self, ys):
        b = Builder(self.table)
        self.nodes = []
        for a in self.applied:
            node = self._node(a)
            row = row_of(a.function)
            assert row is not None, f"no row for {type(node.function).__name__}"
            reason = row.reason(node)
            assert reason is None, f"{type(node.function).__name__}: {reason}"
            ins = [self.row(x) for x in a.ins]
            b.label = a.function.label
            outs = row.forward(b, node, ins)
            for y, out in zip(a.outs, outs, strict=True):
                assert (out.shape, out.dtype) == (y.shape, y.dtype), (node.function, out)
                self.rows[id(y)] = out
            self.nodes.append((a, node, row, ins, outs))
        self.results = [self._owned(b, self.row(y), "output") for y in ys]
        return b.instructions

    def _owned(self, b, row, name):
        owned = self.table.owned(row.shape, row.dtype, name)
        b.copy_to(row, owned)
        return owned

    def _lower_backward(self, xs, ys, has_gy, wanted):
        b = Builder(self.table)
        needed = {id(xs[i]) for i in wanted}
        for a in self.applied:
            if any(id(x) in needed for x in a.ins):
                needed.update(id(y) for y in a.outs)
        grads: dict[int, object] = {}
        self.gys = [
            self.table.bound(y.shape, y.dtype, "gy") if has else None
            for y, has in zip(ys, has_gy, strict=True)
        ]
        for y, g in zip(ys, self.gys, strict=True):
            if g is not None:
                self._add(b, grads, id(y), g)
        for a, node, row, ins, outs in reversed(self.nodes):
            gys = [grads.get(id(y)) for y in a.outs]
            here = tuple(i for i, x in enumerate(a.ins) if id(x) in needed and x.dtype.kind == "f")
            if not here or all(g is None for g in gys):
                continue
            gxs = row.backward(b, node, ins, outs, gys, here)
            assert len(gxs) == len(ins)
            for i in here:
                if gxs[i] is not None:
                    assert (gxs[i].shape, gxs[i].dtype) == (ins[i].shape, ins[i].dtype)
                    self._add(b, grads, id(a.ins[i]), gxs[i])
        self.grads = [
            self._owned(b, grads[id(xs[i])], "gradient") if id(xs[i]) in grads else None
            for i in wanted
        ]
        return b.instructions

    @staticmethod
    def _add(b, grads, key, g):
        grads[key] = g if key not in grads else b.elementwise("add", grads[key], g)

    def run(self, backend, arrays, gys, control=()):
        """Outputs and gradients for these arguments and output gradients."""
        memory = Memory(len(self.table.slots), len(control))
        for slot in self.table.slots:
            if slot.kind == CONSTANT:
                memory.bind(slot.index, slot.array)
            elif slot.kind == OWNED:
                memory.bind(slot.index, np.full(slot.shape, 99, slot.dtype))
            elif slot.kind == ARENA:
                memory.bind(slot.index, np.full(slot.nbytes, 0xFF, np.uint8))
        for i, value in enumerate(control):
            memory.set_control(i, value)
        for row, a in zip(self.args, arrays, strict=True):
            array = np.array(a, order="C")
            array.flags.writeable = False
            memory.bind(row.slot.index, array)
        for row, g in zip(self.gys, gys, strict=True):
            if g is not None:
                memory.bind(row.slot.index, np.array(g, order="C"))
        for program in (self.forward, self.backward):
            assert program.python_ops == 0
            sdbr.backends.make_executable(program, memory, backend).run()
        outs = [memory.array(r.slot.index) for r in self.results]
        grads = [None if r is None else memory.array(r.slot.index) for r in self.grads]
        return outs, grads


def assert_close(got, want, rtol, what):
    """The largest difference is at most `rtol` of the largest magnitude; NaN where NaN is."""
    assert got.shape == want.shape, (what, got.shape, want.shape)
    assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=what)
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)], err_msg=what)
    if finite.any():
        scale = np.abs(want[finite]).max()
        worst = np.abs(got[finite] - want[finite]).max()
        assert worst <= rtol * scale, f"{what}: off by {worst:g} where the largest is {scale:g}"


def watch(cls: str, attribute: str, value: float, index: int = 0):
    """Entry of ``Lowered(watched=...)``."""
    return {(cls, attribute): ControlSlot(index, value, attribute)}
