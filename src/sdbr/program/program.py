"""The flat arrays that are the program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS
from sdbr.program._flat import flat_arrays
from sdbr.program._memory import Memory
from sdbr.program.buffers import ARENA, BOUND, KIND_NAMES, OWNED, STAGED, BufferTable, Slot
from sdbr.program.builder import Instruction
from sdbr.program.executors import PROVIDED
from sdbr.program.validate import validate_program

import numpy as np


@dataclasses.dataclass
class Program:
    """A static schedule as flat arrays; the executors read nothing else.

    Attributes
    ----------
    opcodes : numpy.ndarray
        int32[n], places in the op table.
    operand_offsets : numpy.ndarray
        int32[n + 1]; op i has ``operands[operand_offsets[i]:operand_offsets[i + 1]]``.
    operands : numpy.ndarray
        int32[m], indices into `rows`; inputs before outputs.
    n_outputs : numpy.ndarray
        int32[n], how many of the operands (the last ones) are outputs.
    attribute_offsets : numpy.ndarray
        int32[n + 1, 2], starts in `int_attributes` and `float_attributes`.
    int_attributes, float_attributes : numpy.ndarray
        int64[], float64[].
    control_references : numpy.ndarray
        int32[k, 2]: float attribute ``[i, 0]`` is read from control slot ``[i, 1]``.
    rows : numpy.ndarray
        The buffer table, `sdbr.program.buffers.ROW_DTYPE`.
    dims : numpy.ndarray
        int64[], shapes and strides (bytes) of the rows.
    slots : tuple of Slot
        What must be bound before a run; `rows['slot']` indexes it.
    arena_bytes : int
        Size of this program's own arena (the slot of kind ``ARENA`` named like it).
    objects : tuple
        Python ops: callables that take the list of arrays of their operands.
    labels, lines, links : tuple of str
        Per op: Chainer label, user source line, path of the link.
    row_names : tuple of str
        Per row.
    sources : numpy.ndarray or None
        int32, which row of the table that the program was made from each row was.
    name : str
        ``'forward'``, ``'backward'``, ``'update'`` or ``'step'``.
    flushes : numpy.ndarray or None
        bool[n], see `Instruction`; None: none does.
    portable : bool
        Whether the backend that it was made for left it as any backend would take it.
    chosen : dict
        By op: what does it, where the backend had a choice; with `name` and `why`.
    graphs : list of (int, int, int) or None
        Where a GPU runs it: of each graph, the ops from and to, and its kernels.
    nodes : dict of int to int
        First op of each graph that a GPU's driver has recorded: its nodes.
    uncaptured : dict of int to str
        First op of each part that a GPU's driver did not record as a graph: why.
    forms : dict of int to str
        First op of each graph of a GPU: its form, and what others took, where they were tried.
    moving : list of str
        Slots whose addresses a GPU reads from memory, since they are bound to others in each run.
    """

    opcodes: np.ndarray
    operand_offsets: np.ndarray
    operands: np.ndarray
    n_outputs: np.ndarray
    attribute_offsets: np.ndarray
    int_attributes: np.ndarray
    float_attributes: np.ndarray
    control_references: np.ndarray
    rows: np.ndarray
    dims: np.ndarray
    slots: tuple[Slot, ...]
    arena_bytes: int = 0
    objects: tuple = ()
    labels: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    name: str = ""
    sources: np.ndarray | None = None
    flushes: np.ndarray | None = None
    portable: bool = True
    chosen: dict[int, object] = dataclasses.field(default_factory=dict)
    graphs: list[tuple[int, int, int]] | None = None
    nodes: dict[int, int] = dataclasses.field(default_factory=dict)
    uncaptured: dict[int, str] = dataclasses.field(default_factory=dict)
    forms: dict[int, str] = dataclasses.field(default_factory=dict)
    moving: list[str] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.opcodes)

    @functools.cached_property
    def python_ops(self) -> int:
        """Number of Python ops."""
        return int(np.count_nonzero(self.opcodes == 0))

    def arena_slot(self) -> int | None:
        """Number of the slot of this program's own arena; None where it needs none."""
        name = f"{self.name} arena"
        own = (s.index for s in self.slots if s.kind == ARENA and s.name == name)
        return next(own, None) if self.arena_bytes else None

    def row_shape(self, row: int) -> tuple[int, ...]:
        """Shape of a row of the buffer table."""
        start, ndim = int(self.rows["dims"][row]), int(self.rows["ndim"][row])
        return tuple(int(n) for n in self.dims[start : start + ndim])

    def row_strides(self, row: int) -> tuple[int, ...]:
        """Strides in bytes of a row of the buffer table."""
        start, ndim = int(self.rows["dims"][row]), int(self.rows["ndim"][row])
        return tuple(int(n) for n in self.dims[start + ndim : start + 2 * ndim])

    def operands_of(self, i: int) -> tuple[list[int], list[int]]:
        """Input rows and output rows of op `i`."""
        part = self.operands[self.operand_offsets[i] : self.operand_offsets[i + 1]].tolist()
        cut = len(part) - int(self.n_outputs[i])
        return part[:cut], part[cut:]

    def attributes_of(self, i: int) -> tuple[list[int], list[float]]:
        """Integer and float attributes of op `i`."""
        (a, b), (c, d) = self.attribute_offsets[i].tolist(), self.attribute_offsets[i + 1].tolist()
        return self.int_attributes[a:c].tolist(), self.float_attributes[b:d].tolist()

    def describe_row(self, row: int) -> str:
        """``%number(path):dtype[shape]`` of a row, as the disassembler prints it."""
        dtype = DTYPES[self.rows["type"][row]]
        shape = ",".join(str(n) for n in self.row_shape(row))
        path = self.path_of(row)
        return f"%{row}{path and f'({path})'}:{dtype.name}[{shape}]"

    def path_of(self, row: int) -> str:
        """The path of the parameter or persistent that a row lies in; empty for others."""
        slot = self.slots[self.rows["slot"][row]]
        path = slot.name.removeprefix("parameter ")
        return path if slot.kind == BOUND and "/" in path else ""

    def origin(self, i: int) -> tuple[str, ...]:
        """Chainer label, path of the link and user line of op `i`; empty where not known."""
        return tuple(kind[i] if kind else "" for kind in (self.labels, self.links, self.lines))

    def describe_origin(self, i: int) -> str:
        """Where op `i` comes from: Chainer label, path of the link, user line."""
        label, link, line = self.origin(i)
        return " ".join([*filter(None, (label, link)), *([f"at {line}"] if line else [])])

    def place_of(self, i: int) -> str:
        """What an error says of where it comes from: program, op, operands, the user's line."""
        return f"in {self.name or 'program'}, op {' '.join(self.describe_op(i).split())}"

    def describe_op(self, i: int) -> str:
        """One line for op `i`: index, op, operands, attributes, label, link, user line.

        A number that each run reads anew is shown as it was ``at first``, in the traced call.
        """
        op = OPS[self.opcodes[i]]
        ins, outs = self.operands_of(i)
        ints, floats = self.attributes_of(i)
        if op.spelled is not None:
            attributes = op.spelled(ins, outs, ints, floats)
        else:
            attributes = [f"{n}={v}" for n, v in zip(op.ints, ints, strict=False)]
            first = int(self.attribute_offsets[i, 1])
            anew = set(self.control_references[:, 0].tolist())
            attributes += [
                f"{n}={v:g}" + " at first" * (first + k in anew)
                for k, (n, v) in enumerate(zip(op.floats, floats, strict=False))
            ]
        text = f"{i:5d} {op.name:24s} {', '.join(map(self.describe_row, ins))}"
        text += f" -> {', '.join(map(self.describe_row, outs))}"
        if attributes:
            text += f"  {{{', '.join(attributes)}}}"
        origin = self.describe_origin(i)
        return f"{text}  ; {origin}" if origin else text

    def disassemble(self) -> str:
        """The whole program, one line per op."""
        return "\n".join(self.describe_op(i) for i in range(len(self)))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return PROVIDED["html"](self)

    def memory_plan(self) -> str:
        """The buffer table as text: kind, slot, offset, bytes, dtype and shape of each row."""
        lines = [f"{self.name or 'program'}: arena of {self.arena_bytes} bytes"]
        for r in range(len(self.rows)):
            row = self.rows[r]
            dtype = DTYPES[row["type"]]
            shape = self.row_shape(r)
            n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            what = "root" if row["base"] == r else f"view of %{row['base']}"
            name = self.row_names[r] if self.row_names else ""
            lines.append(
                f"%{r:<5d} {KIND_NAMES[row['kind']]:8s} slot {row['slot']:<4d} "
                f"offset {row['offset']:<10d} {n:<10d} bytes  "
                f"{dtype.name}{list(shape)}  {what}  {name}"
            )
        return "\n".join(lines)

    def run(self, inputs: Sequence[np.ndarray], backend: str = "numpy") -> list[np.ndarray]:
        """Run the program once on arrays of its own.

        Parameters
        ----------
        inputs : sequence of numpy.ndarray
            One per slot of kind ``BOUND`` or ``STAGED``, in the order of `slots`, in their shapes
            and dtypes. An update program writes to them.
        backend : str
            Executor.

        Returns
        -------
        list of numpy.ndarray
            One per slot of kind ``OWNED``, in the order of `slots`.

        Raises
        ------
        ValueError
            If the number, shape or dtype of the inputs is wrong.
        """
        executable, outputs = self._bound(inputs, backend)
        executable.run()
        return outputs

    def step(self, inputs: Sequence[np.ndarray], backend: str = "numpy") -> Iterator[str]:
        """The same op by op: yields the line of each op after it has run."""
        executable, _ = self._bound(inputs, backend)
        for i in executable.step():
            yield self.describe_op(i)

    def _bound(self, inputs, backend: str):
        wanted = [s for s in self.slots if s.kind in (BOUND, STAGED)]
        if len(inputs) != len(wanted):
            names = ", ".join(s.name for s in wanted)
            raise ValueError(f"inputs: expected {len(wanted)} arrays ({names}), got {len(inputs)}")
        memory = Memory(max((s.index for s in self.slots), default=-1) + 1, 0)
        memory.reserve(self)
        for slot, array in zip(wanted, inputs, strict=True):
            if array.shape != slot.shape or array.dtype != slot.dtype:
                raise ValueError(
                    f"inputs: {slot.name} must be {slot.dtype.name}{list(slot.shape)}, "
                    f"got {array.dtype.name}{list(array.shape)}"
                )
            memory.bind(slot.index, np.ascontiguousarray(array))
        outputs = [np.empty(s.shape, s.dtype) for s in self.slots if s.kind == OWNED]
        for slot, array in zip([s for s in self.slots if s.kind == OWNED], outputs, strict=True):
            memory.bind(slot.index, array)
        return PROVIDED["executable"](self, memory, backend), outputs

    def validate(self) -> None:
        """Check the arrays as a whole; nothing unchecked reaches an executor.

        Raises
        ------
        ValidationError
            Unknown opcode, operand out of range, wrong number of operands or
            attributes, rows outside their slot, unknown dtype.
        """
        validate_program(self)


def assemble(
    instructions: list[Instruction],
    table: BufferTable,
    name: str = "",
    arena: Slot | None = None,
) -> Program:
    """Turn placed instructions into flat arrays.

    Parameters
    ----------
    instructions : list of Instruction
        Every root row of theirs has a slot (see :func:`sdbr.program.memory.plan`).
    table : BufferTable
        Where the rows live.
    name : str
        Name of the program.
    arena : Slot, optional
        The arena that belongs to this program.

    Returns
    -------
    Program

    Raises
    ------
    ValidationError
        If a row has no memory.
    """
    return Program(
        **flat_arrays(instructions, len(table.rows)),
        arena_bytes=arena.nbytes if arena is not None and arena.kind == ARENA else 0,
        name=name,
    )
