"""Programs on a GPU: each stretch of ops that have kernels is one graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from sdbr.backends.cuda.chains import Call, calls
from sdbr.backends.cuda.launch import THREADS, DeviceOp, Launch
from sdbr.backends.cuda.plan import launches, source
from sdbr.backends.cuda.riding import product_with_sums
from sdbr.backends.cuda.together import Place, Unit, listed, units
from sdbr.backends.cuda.words import FAULT, KERNEL, Words
from sdbr.backends.numpy.executable import explain_error
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.devices.driver import Buffer, Device, Graph
from sdbr.ops.table import OPS
from sdbr.program.buffers import ARENA
from sdbr.program.program import Program

import numpy as np

#: From source and headers to machine code for a device.
Compile = Callable[[str, Mapping[str, str]], bytes]


class CudaExecutable:
    """A program on one memory, whose slots are bound to arrays of a device.

    Addresses are part of the graphs. A slot that turns out to be bound to another array *moves*:
    from then on its address is read from a table, and the graphs are recorded once more.

    Parameters
    ----------
    program : Program
        Checked as a whole before anything runs.
    memory : sdbr.program._memory.Memory
        Arrays by slot, control block, state of Python ops.
    device : Device
    compile : callable
        Source and headers to machine code for the device.
    chained : bool
        Whether small ops that follow each other are one kernel.

    Attributes
    ----------
    native_ops, python_ops : int
        Number of ops of each kind.
    parts : list of range
        Ops that run together: one graph each, or one op without a kernel.
    calls : list of list of Call
        The kernels of each part.
    moving : set of int
        Slots whose address is read from the table.
    recorded : int
        Graphs that were recorded so far.

    Raises
    ------
    ValidationError
        If the flat arrays are not a program.
    BackendError
        If an op has no kernel, or the kernels cannot be compiled.
    """

    def __init__(
        self, program: Program, memory, device: Device, compile: Compile, chained: bool = True
    ) -> None:
        program.validate()
        self.watch: Callable[[int], None] | None = None
        self.program = program
        self.memory = memory
        self.device = device
        self.python_ops = program.python_ops
        self.native_ops = len(program) - self.python_ops
        self.launches = launches(program)
        self._refuse(range(len(program)))
        self.parts = list(self._cut())
        self.moving: set[int] = set()
        self.recorded = 0
        self._graphs: dict[int, Graph] = {}
        self._fixed: np.ndarray | None = None
        self._slots = np.array([s.index for s in program.slots], np.intp)
        self._row_slots = np.asarray(program.rows["slot"], np.intp)
        self._offsets = program.rows["offset"].astype(np.uint64)
        self._controls = program.control_references.tolist()
        with device.current():
            self._load(compile, chained)

    def _refuse(self, ops: range) -> None:
        """Raise for the first op that nothing here can run."""
        for i in ops:
            if self.launches[i] is None and not self.has_other(i):
                raise BackendError(f"no kernel for GPUs: {self.program.describe_op(i).strip()}")

    def has_other(self, i: int) -> bool:
        """Whether `run_other` knows op `i`, which has no kernel."""
        return False

    def run_other(self, i: int) -> None:
        """Run an op that has no kernel; errors carry a note that names it."""
        raise NotImplementedError

    def _cut(self) -> Iterator[range]:
        has_kernel = [x is not None for x in self.launches]
        at = 0
        for native, group in itertools.groupby(has_kernel):
            n = len(list(group))
            yield from (
                [range(at, at + n)] if native else (range(k, k + 1) for k in range(at, at + n))
            )
            at += n

    def _load(self, compile: Compile, chained: bool) -> None:
        program, device = self.program, self.device
        self.units = [
            []
            if self.launches[part.start] is None
            else list(units(part, self.launches, self._places, self._rides))
            for part in self.parts
        ]
        all_units = [unit for of_part in self.units for unit in of_part]
        self.calls = [list(calls(of_part, chained)) for of_part in self.units]
        every = [launch for unit in all_units for launch in unit.launches]
        kernels = [call.kernel for of_part in self.calls for call in of_part]
        self.stream = device.stream()
        module = device.load(compile(*source([*every, *kernels])))
        self._functions = {launch.kernel: module.function(launch.kernel) for launch in kernels}
        self._module = module
        listed_units = [unit for unit in all_units if unit.launches[0].is_listed]
        operands = [[r for i in unit.ops for r in self._operands(i)] for unit in listed_units]
        self._list_rows = np.array([r for rows in operands for r in rows], np.intp)
        self.words = Words(
            device, self.stream, module.function(KERNEL), program.float_attributes,
            len(program.rows), len(self._list_rows),
        )  # fmt: skip
        # Where the lists of each such unit begin: addresses, and integers, which never change.
        ints = [listed(unit.launches[0], self._floats_of(unit)) for unit in listed_units]
        joined = np.concatenate([np.zeros(0, np.int64), *ints])
        self._ints = device.allocate(joined.nbytes)
        self.stream.to_device(self._ints.address, joined)
        self._lists, at, begin = {}, self.words.lists, self._ints.address
        for unit, rows, numbers in zip(listed_units, operands, ints, strict=True):
            self._lists[unit.ops[0]] = (self.words.address(at), begin)
            at, begin = at + len(rows), begin + numbers.nbytes
        self._work, self._draws = self._lay_out(every)
        self.stream.synchronize()

    def _places(self, i: int) -> tuple[list[Place], list[Place]]:
        """What an op reads and writes: the bytes from the first to the last of each operand."""

        def place(r: int) -> Place:
            itemsize = DTYPES[self.program.rows["type"][r]].itemsize
            low = high = int(self._offsets[r])
            shape, strides = self.program.row_shape(r), self.program.row_strides(r)
            for length, step in zip(shape, strides, strict=True):
                low, high = low + min(0, (length - 1) * step), high + max(0, (length - 1) * step)
            return int(self._row_slots[r]), low, high + itemsize

        ins, outs = self.program.operands_of(i)
        return [place(r) for r in ins], [place(r) for r in outs]

    def _rides(self, i: int, j: int) -> Launch | None:
        return product_with_sums(self.program, self.launches, i, j)

    def _floats_of(self, unit: Unit) -> list[int]:
        """Where the float attributes of its ops lie."""
        starts = self.program.attribute_offsets[:, 1]
        return [self.words.address(FAULT + int(starts[i])) for i in unit.ops]

    def _lay_out(self, every: list) -> tuple[Buffer, dict[int, int]]:
        """Memory for what launches hand on, and behind it for draws; where those of each op lie."""
        at = 8 * max([launch.work for launch in every], default=0)
        places = {}
        for i, of_op in enumerate(self.launches):
            n = sum(launch.draws for launch in of_op or ())
            if n:
                places[i] = at
                at += 8 * n
        buffer = self.device.allocate(at)
        return buffer, {i: buffer.address + place for i, place in places.items()}

    def draw(self, n: int) -> np.ndarray:
        """The next `n` numbers in [0, 1) of NumPy's global generator, as doubles."""
        return np.random.random_sample(n)

    def run(self) -> None:
        """Run the whole program on what is bound now, and wait for it.

        Raises
        ------
        IndexError
            For a label that is out of range: the error names the op.
        ValueError
            If a slot is not bound.
        Exception
            Whatever a Python op raises. All errors carry a note that names the op.
        """
        for i in self.step():
            if self.watch is not None:
                self.watch(i)

    def step(self) -> Iterator[int]:
        """Run part by part; yields the index of each op that has run, those of a part together."""
        for position, slot in self._controls:
            self.words.set_float(position, self.memory.get_control(slot))
        for k, part in enumerate(self.parts):
            with self.device.current():  # not while somebody else goes on
                self._run_part(k)
                if k == len(self.parts) - 1:
                    self.check()
            yield from part

    def _run_part(self, k: int) -> None:
        part = self.parts[k]
        if self.launches[part.start] is None:
            self.check()
            self.run_other(part.start)
            return
        addresses = self._addresses()
        self._note_moves(addresses)
        rows = addresses[self._row_slots] + self._offsets
        self.words.now[self.words.rows : self.words.lists] = rows
        self.words.now[self.words.lists :] = rows[self._list_rows]
        self.words.send()
        self._draw(part)
        if k not in self._graphs:
            self._graphs[k] = self._record(self.calls[k], rows)
        self._graphs[k].launch(self.stream)

    def _draw(self, part: range) -> None:
        """Draw in the order of the program, as define-by-run does."""
        drawn = []
        for i in part:
            if i in self._draws:
                drawn.append(self.draw(self.launches[i][0].draws))
                self.stream.to_device(self._draws[i], drawn[-1])
        if drawn:
            self.stream.synchronize()  # the arrays may go then

    def _addresses(self) -> np.ndarray:
        """Of the slots of the program."""
        addresses = self.memory.addresses()[self._slots]
        if not addresses.all():
            unbound = self._slots[np.flatnonzero(addresses == 0)[0]]
            raise ValueError(f"slot {unbound} is not bound to an array")
        return addresses

    def _note_moves(self, addresses: np.ndarray) -> None:
        """Find the slots that lie elsewhere than when the graphs were recorded."""
        if self._fixed is None:
            self._fixed = addresses
            return
        moved = set(np.flatnonzero(addresses != self._fixed).tolist()) - self.moving
        if moved:
            self.moving |= moved
            self._fixed = addresses
            self._graphs.clear()

    def _record(self, of_part: list[Call], rows: np.ndarray) -> Graph:
        with self.stream.capture() as made:
            for call in of_part:
                ops = [self._op(unit, launch, rows) for unit, launch in call.links]
                function = self._functions[call.kernel.kernel]
                self.stream.launch(function, call.kernel.grid, THREADS, (DeviceOp * len(ops))(*ops))
        self.recorded += 1
        return made[0]

    def _operands(self, i: int) -> list[int]:
        ins, outs = self.program.operands_of(i)
        return [*ins, *outs]

    def _op(self, unit: Unit, launch: Launch, rows: np.ndarray) -> DeviceOp:
        i = unit.ops[0]
        work = self._draws.get(i, self._work.address)
        operands, moving = self._lists.get(i, ()), 0
        if not launch.is_listed:
            operands, moving = self._where(unit, launch, rows)
        floats, fault = self._floats_of(unit)[0], self.words.address(0)
        op = launch.op(operands, floats, fault, i + 1, work)
        op.moving, op.is_lasting = moving, any(map(self._is_lasting, unit.ops))
        return op

    def _where(self, unit: Unit, launch: Launch, rows: np.ndarray) -> tuple[list[int], int]:
        """Addresses of the operands; a bit for each that says where the address stands."""
        every = [r for i in unit.ops for r in self._operands(i)]
        operands, moving = [], 0
        for bit, r in enumerate([every[k] for k in launch.operands] or every):
            does_move = int(self._row_slots[r]) in self.moving
            moving |= does_move << bit
            table = self.words.address(self.words.rows + r)
            operands.append(table if does_move else int(rows[r]))
        return operands, moving

    def _is_lasting(self, i: int) -> bool:
        """Whether an op writes what outlives the run."""
        _, outs = self.program.operands_of(i)
        return OPS[int(self.program.opcodes[i])].updates or any(
            self.program.slots[self._row_slots[r]].kind != ARENA for r in outs
        )

    def check(self) -> None:
        """Wait for what has run, and raise for what went wrong in it.

        Raises
        ------
        IndexError
            For a label that is out of range.
        """
        fault = self.words.fault()
        if not fault.number:
            return
        error = IndexError(
            f"index {fault.value} at position {fault.position} is out of range for "
            f"{fault.bound} entries"
        )
        explain_error(error, self.program, fault.number - 1)
        raise error
