"""Reductions over axes that are apart, and of views: along the memory, without copies."""

from __future__ import annotations

import itertools
import math

import sdbr.backends
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.memory import plan
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.tolerances import FLOOR, SUMS

SHAPES = [(3, 5), (40, 3), (2, 3, 17), (5, 20, 2), (2, 3, 4, 19), (4, 1, 3, 2)]


def reduced(name: str, x: np.ndarray, order: tuple, axes: tuple, keepdims: bool):
    """What `Builder.reduce` gives for ``x.transpose(order)``, and the ops that it takes."""
    b = Builder()
    source = b.table.bound(x.shape, x.dtype, "x")
    found = b.reduce(name, b.transpose(source, order), axes, keepdims)
    y = np.empty(found.shape, x.dtype)
    target = b.table.bound(y.shape, y.dtype, "y")
    ops = [(i.op.name, math.prod(i.ins[0].shape)) for i in b.instructions]
    b.copy_to(found, target)
    memory = Memory(len(b.table.slots), 0)
    memory.bind(source.slot.index, x)
    memory.bind(target.slot.index, y)
    arena = plan(b.instructions, b.table)
    program = assemble(b.instructions, b.table, "reduction", arena)
    sdbr.backends.make_executable(program, memory, "cython").run()
    return y, ops


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_choice_of_axes(name, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    x.flat[3] = np.nan if name in ("max", "min") else 2.0
    for order in itertools.permutations(range(x.ndim)):
        look = x.transpose(order)
        for count in range(1, x.ndim + 1):
            for axes in itertools.combinations(range(x.ndim), count):
                for keepdims in (False, True):
                    y, ops = reduced(name, x, order, axes, keepdims)
                    want = getattr(np, name)(look, axis=axes, keepdims=keepdims)
                    np.testing.assert_allclose(y, want, rtol=SUMS, atol=FLOOR)
                    n = math.prod(look.shape[axis] for axis in axes)
                    copied = ("copy", x.size) in ops
                    assert n < 16 or not copied, (order, axes, ops)
                    if copied and n < 4 and name == "sum":  # one after the other, as in NumPy
                        rest = [axis for axis in range(x.ndim) if axis not in axes]
                        rows = look.transpose(*rest, *axes).reshape(*y.shape, -1)
                        wanted = rows[..., 0].copy()
                        for k in range(1, rows.shape[-1]):
                            wanted += rows[..., k]
                        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("axes", [(0, 2), (2,), (0, 1)])
def test_few_long_rows(axes):
    """Views are added one after the other, in NumPy's order, and nothing is copied."""
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 40, 64)).astype("f")
    y, ops = reduced("sum", x, (1, 0, 2, 3, 4), axes, False)
    look = x.transpose(1, 0, 2, 3, 4)
    wanted = np.zeros(y.shape, "f")
    for place in itertools.product(*[range(look.shape[axis]) for axis in axes]):
        at = dict(zip(axes, place, strict=True))
        wanted += look[tuple(at.get(axis, slice(None)) for axis in range(look.ndim))]
    np.testing.assert_array_equal(y, wanted)
    assert all(name != "copy" for name, _ in ops)
    assert any(name == "add" for name, _ in ops)
