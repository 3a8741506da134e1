"""What a lowering writes to: emits instructions and makes rows.

Every method that returns a :class:`~sdbr.program.buffers.Row` may emit
instructions; rows of arguments are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdbr.ops.table import BY_NAME, Op
from sdbr.program._making import new_instruction
from sdbr.program.buffers import BufferTable, Row, c_strides, is_c_contiguous
from sdbr.program.instruction import ControlSlot, Instruction

import numpy as np


class Builder:
    """Collects the instructions of one program over a shared buffer table.

    Parameters
    ----------
    table : BufferTable
        Rows and slots of the schedule.
    """

    def __init__(self, table: BufferTable | None = None):
        self.table = BufferTable() if table is None else table
        self.instructions: list[Instruction] = []
        self.made: set[int] = set()  # root rows that instructions of this builder write
        self.label = ""
        self.line = ""
        self.link = ""
        self.gradients: set[int] = set()  # root rows that are, or are made of, gradients
        self.repeated: set[int] = set()  # rows that may show one element in several places

    def at(self, label: str, line: str = "", link: str = "") -> None:
        """What comes next is made for this: Chainer label, user source line, path of the link."""
        self.label, self.line, self.link = label, line, link

    # --- rows --------------------------------------------------------------------------------
    def new(self, shape: Sequence[int], dtype, name: str = "") -> Row:
        """A fresh C-contiguous row in the arena."""
        return self.table.root(shape, dtype, None, name or self.label)

    def constant(self, array) -> Row:
        """A row that holds a copy of `array` forever."""
        return self.table.constant(array)

    def reshape(self, x: Row, shape: Sequence[int]) -> Row:
        """`x` in another shape, C-contiguous: a view when `x` is, else of a copy."""
        shape = tuple(shape)
        x = self.contiguous(x)
        if shape == x.shape:
            return x
        return self.table.view(x, shape, c_strides(shape, x.dtype.itemsize))

    def transpose(self, x: Row, axes: Sequence[int] | None = None) -> Row:
        """A view with permuted axes."""
        if axes is None:
            axes = range(x.ndim - 1, -1, -1)
        axes = [a % x.ndim for a in axes]
        return self.table.view(x, [x.shape[a] for a in axes], [x.strides[a] for a in axes])

    def broadcast(self, x: Row, shape: Sequence[int]) -> Row:
        """A view of `x` repeated to `shape` with stride 0; NumPy's rules."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        lead = len(shape) - x.ndim
        strides = [0] * lead
        for n, have, s in zip(shape[lead:], x.shape, x.strides, strict=True):
            if have != n and have != 1:
                raise ValueError(f"cannot broadcast {x.shape} to {shape}")
            strides.append(s if have == n else 0)
        return self.table.view(x, shape, strides)

    def slice(self, x: Row, key) -> Row:
        """``x[key]`` for basic indexing: ints, slices, None and Ellipsis."""
        # The Ellipsis keeps it an array when every axis is picked by an int.
        key = key if isinstance(key, tuple) else (key,)
        return self.view_like(
            x, lambda dummy: dummy[key if any(k is Ellipsis for k in key) else (*key, Ellipsis)]
        )

    def view_like(self, x: Row, look) -> Row:
        """The view that ``look(array)`` gives of an array laid out as `x`; it must not read it."""
        # NumPy itself works out shape, strides and offset on an array without memory.
        dummy = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), x.shape, x.strides)
        part = look(dummy)
        offset = (
            part.__array_interface__["data"][0] - dummy.__array_interface__["data"][0]
            if part.size
            else 0
        )
        return self.table.view(x, part.shape, part.strides, offset)

    def contiguous(self, x: Row) -> Row:
        """`x`, or a C-contiguous copy of it."""
        return x if x.is_contiguous else self.copy(x)

    # --- instructions ------------------------------------------------------------------------
    def emit(
        self,
        name: str,
        ins: Sequence[Row],
        outs: Sequence[Row],
        ints: Sequence[int] = (),
        floats: Sequence[float | ControlSlot] = (),
        obj=None,
    ) -> Instruction:
        """Append one instruction; see :mod:`sdbr.ops.table` for operands and attributes."""
        op: Op = BY_NAME[name]
        if not op.takes(len(ints), len(floats)):
            raise ValueError(
                f"op {name!r} takes attributes {op.ints} and {op.floats}, "
                f"got {tuple(ints)} and {tuple(floats)}"
            )
        instruction = new_instruction(
            op,
            ins,
            outs,
            ints,
            floats,
            self.label,
            self.line,
            self.link,
            obj,
            self.made,
            self.gradients,
        )
        self.instructions.append(instruction)
        return instruction

    def are_gradients(self, rows: Iterable[Row]) -> None:
        """What is made of these flushes, see `Instruction`."""
        for row in rows:
            self.gradients.add(row.root.index)

    def elementwise(self, name: str, *ins: Row, floats: Sequence[float | ControlSlot] = ()) -> Row:
        """Emit an elementwise op on broadcast inputs and return its new output.

        Where all inputs lie in memory in one order of their axes, so does the output, as in NumPy:
        nothing is transposed.
        """
        shape = ins[0].shape
        for x in ins:
            if x.shape != shape:
                shape = np.broadcast_shapes(*[x.shape for x in ins])
                break
        rows = [self.broadcast(x, shape) for x in ins]
        order = _common_order(ins, shape)
        if order is None:
            y = self.new(shape, ins[0].dtype)
            self.emit(name, rows, [y], floats=floats)
            return y
        y = self.new([shape[i] for i in order], ins[0].dtype)
        self.emit(name, [self.transpose(x, order) for x in rows], [y], floats=floats)
        return self.transpose(y, np.argsort(order).tolist())

    def copy(self, x: Row) -> Row:
        """A C-contiguous copy of `x` in the arena."""
        y = self.new(x.shape, x.dtype)
        self.emit("copy", [x], [y])
        return y

    def copy_to(self, x: Row, y: Row) -> None:
        """``y[...] = x`` for rows of the same dtype; `x` is broadcast."""
        self.emit("copy", [self.broadcast(x, y.shape)], [y])

    def fill(self, shape: Sequence[int], dtype, value: float | ControlSlot) -> Row:
        """A new row that holds `value` everywhere."""
        y = self.new(shape, dtype)
        self.emit("fill", [], [y], floats=(value,))
        return y

    def cast(self, x: Row, dtype) -> Row:
        """`x` in another dtype (C-contiguous), or `x` itself."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        y = self.new(x.shape, dtype)
        self.emit("cast", [x], [y])
        return y

    def reduce(self, name: str, x: Row, axes: Sequence[int], keepdims: bool = False) -> Row:
        """Reduce over `axes` with op `name` (``sum``, ``mean``, ``max``, ``min``)."""
        axes = sorted({a % x.ndim for a in axes})
        kept = [i for i in range(x.ndim) if i not in axes]
        out_shape = [x.shape[i] for i in kept]
        final = [1 if i in axes else n for i, n in enumerate(x.shape)] if keepdims else out_shape
        if not axes:
            return x
        n = _product([x.shape[a] for a in axes])
        if n == 1:  # nothing to combine: bias gradients of a batch of one
            y = self.reshape(x, final)
            incoming = x.root.slot is not None and x.root.index in self.gradients
            return self.copy(y) if incoming else y  # which is handed out where it is no sum
        if n < _FEW and (not x.is_contiguous or axes[-1] - axes[0] + 1 > len(axes)):
            # One after the other, as in NumPy: the gradient of what only moves data is exact.
            if name == "sum" and _has_long_rows(x, kept):
                return self.reshape(self._added(x, axes), final)
            x = self.contiguous(self.transpose(x, kept + axes))
            axes = list(range(len(kept), x.ndim))
        order = _order_of_memory(x)
        if order is not None:  # along its memory, not along a copy of it
            moved = [order.index(a) for a in axes]
            y = self.reduce(name, self.transpose(x, order), moved, keepdims=True)
            return self.reshape(self.transpose(y, np.argsort(order).tolist()), final)
        run = _first_run(x, axes)
        if len(run) < len(axes):
            y = self.reduce(name, x, run, keepdims=True)
            rest = [a for a in axes if a not in run]
            return self.reshape(self.reduce(name, y, rest, keepdims=True), final)
        outer, inner = _product(x.shape[: axes[0]]), _product(x.shape[axes[-1] + 1 :])
        y = self.new(out_shape, x.dtype)
        self.emit(name, [self.reshape(x, (outer, n, inner))], [self.reshape(y, (outer, inner))])
        return self.reshape(y, final)

    def _added(self, x: Row, axes: Sequence[int]) -> Row:
        """The sum over `axes` as a chain of additions of views, which become one pass."""
        lengths = [x.shape[a] for a in axes]
        parts = []
        for place in np.ndindex(*lengths):
            at = dict(zip(axes, place, strict=True))
            parts.append(self.slice(x, tuple(at.get(i, slice(None)) for i in range(x.ndim))))
        total = parts[0]
        for part in parts[1:]:
            total = self.elementwise("add", total, part)
        return total

    def sum_to(self, x: Row, shape: Sequence[int]) -> Row:
        """Sum `x` down to `shape`: the gradient of a broadcast."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.dtype == np.float16:
            return self.cast(self.sum_to(self.cast(x, np.float32), shape), x.dtype)
        lead = x.ndim - len(shape)
        axes = list(range(lead)) + [
            i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1
        ]
        return self.reshape(self.reduce("sum", x, axes), shape)


def _common_order(ins: Sequence[Row], shape: Sequence[int]) -> tuple[int, ...] | None:
    """The order of axes in which all of `ins` that have this shape lie in memory without gaps.

    None where that is the order of C, or where they differ.
    """
    found: tuple[int, ...] | None = None
    for x in ins:
        if x.shape != shape:
            continue
        if x.is_contiguous:
            return None
        order = _order_of_memory(x)
        if order is None or tuple(order) != (found or tuple(order)):
            return None
        found = tuple(order)
    return found


#: Fewer elements than this are added in their order; shorter rows come last, when fewer are left.
_FEW = 16


#: From here on many passes, one after the other in a cache, are faster than a transposed copy.
_MANY = 1 << 15


def _has_long_rows(x: Row, kept: Sequence[int]) -> bool:
    """Whether `x` is large, and lies along the last of the axes `kept` for a while."""
    if not kept or x.size < _MANY:
        return False
    last = kept[-1]
    return x.strides[last] == x.dtype.itemsize and x.shape[last] >= _FEW


def _first_run(x: Row, axes: Sequence[int]) -> list[int]:
    """Those of `axes`, in order, that lie side by side and are best reduced first.

    The last ones, whose elements lie together and which leave less to read, unless they are short.
    """
    runs = [[axes[0]]]
    for axis in axes[1:]:
        if axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    short = axes[-1] == x.ndim - 1 and _product([x.shape[a] for a in runs[-1]]) < _FEW
    return runs[0 if short else -1]


def _order_of_memory(x: Row) -> list[int] | None:
    """The order of axes in which `x` lies in memory without gaps; None where that is C's."""
    if x.is_contiguous:
        return None
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    lengths, strides = zip(*((x.shape[axis], x.strides[axis]) for axis in order), strict=True)
    return order if is_c_contiguous(lengths, strides, x.dtype.itemsize) else None


def _product(numbers) -> int:
    n = 1
    for k in numbers:
        n *= k
    return n
