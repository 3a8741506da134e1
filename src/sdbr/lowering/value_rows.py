"""Which rows hold the values of a trace; in a program for a GPU some of them lie on the host."""

from __future__ import annotations

from sdbr.base.dtypes import DTYPE_CODES
from sdbr.base.errors import SdbrError
from sdbr.devices.arrays import contiguous, lies_in_order, memory_in_order
from sdbr.lowering.names import Names
from sdbr.lowering.python_op import Sent
from sdbr.program.buffers import ARENA, BOUND, CONSTANT, BufferTable, Row
from sdbr.program.builder import Builder
from sdbr.trace import values as v


class ValueRows:
    """The rows of the values of a trace.

    What lies on the host in a call on a GPU may have two: `host_row`, where NumPy finds it, and
    `row`, a copy on the GPU.

    Parameters
    ----------
    trace : Trace
    table : BufferTable
    builder : Builder

    Attributes
    ----------
    rows, host_rows : dict
        Value index -> Row.
    bound : list of (Value, Row)
        What is bound at each call: arguments, parameters, attributes.
    staged : list of (Value, Row)
        What is copied from the host before each run.
    names : Names
        Of links, parameters and captured state.
    """

    def __init__(self, trace: v.Trace, table: BufferTable, builder: Builder):
        self.trace = trace
        self.table = table
        self.builder = builder
        self.names = Names(trace)
        self.rows: dict[int, Row] = {}
        self.host_rows: dict[int, Row] = {}
        self.bound: list[tuple[v.Value, Row]] = []
        self.staged: list[tuple[v.Value, Row]] = []

    def row(self, value: v.Value) -> Row:
        """The row of a value where the call runs; leaves get their slot when first used."""
        row = self.rows.get(value.index)
        if row is None:
            if value.kind == v.ALIAS:
                return self.row(value.source)
            row = self._sent(value) if value.host else self._leaf(value)
            self.rows[value.index] = row
        return row

    def host_row(self, value: v.Value) -> Row:
        """The row of a value on the host that lies there."""
        row = self.host_rows.get(value.index)
        if row is None:
            if value.kind == v.ALIAS:
                return self.host_row(value.source)
            if value.kind == v.CONSTANT:
                row = self._constant(value, on_host=True)
            else:
                _check(value)
                name = self.names.of_leaf(value)
                row = self.table.on_host(BOUND, value.shape, value.dtype, name)
                self.bound.append((value, row))
            self.host_rows[value.index] = row
        return row

    def operand(self, value: v.Value) -> Row:
        """The row of a value where it lies."""
        return self.host_row(value) if value.host else self.row(value)

    def new(self, value: v.Value) -> Row:
        """A new row for a result, where it lies."""
        if not value.host:
            return self.builder.new(value.shape, value.dtype)
        return self.table.on_host(ARENA, value.shape, value.dtype, f"result {value.index}")

    def hold(self, value: v.Value, row: Row) -> None:
        """`row` holds a value from now on."""
        (self.host_rows if value.host else self.rows)[value.index] = row

    def _leaf(self, value: v.Value) -> Row:
        """The row of what the call is given."""
        _check(value)
        if value.kind == v.CONSTANT:
            return self._constant(value)
        row = self.table.bound(value.shape, value.dtype, self.names.of_leaf(value))
        self.bound.append((value, row))
        return row

    def _constant(self, value: v.Value, on_host: bool = False) -> Row:
        """The row of an array that is there before the call, in the memory of the user's own.

        It may be changed in place, which a copy would not show.
        """
        found = None if lies_in_order(value.source) else memory_in_order(value.source)
        array, first = found or (contiguous(value.source).reshape(value.shape), 0)
        slot = self.table.slot(CONSTANT, array.shape, value.dtype, "constant", array)
        slot.host = on_host
        row = self.table.root(array.shape, value.dtype, slot, "constant")
        if found is None:
            return row
        return self.table.view(row, value.shape, value.source.strides, first)

    def _sent(self, value: v.Value) -> Row:
        """A copy on the GPU of what lies on the host."""
        if value.kind == v.RESULT:
            sent = self.builder.new(value.shape, value.dtype)
            ins = [self.host_row(value)]
            self.builder.emit("python", ins, [sent], ints=(0, 1), obj=Sent())
            return sent
        if value.index in self.trace.fixed:
            return self._leaf(value)
        _check(value)
        name = "constant" if value.kind == v.CONSTANT else self.names.of_leaf(value)
        row = self.table.staged(value.shape, value.dtype, f"{name} of the host")
        self.staged.append((value, row))
        return row


def _check(value: v.Value) -> None:
    if value.kind == v.RESULT:
        raise SdbrError(f"{value!r} is used before the op that makes it")
    if value.dtype not in DTYPE_CODES:
        raise SdbrError(f"dtype {value.dtype} cannot be a program operand")
