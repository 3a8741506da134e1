"""Programs on a GPU: each stretch of ops that have kernels is one graph."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping

from sdbr._executor import observer
from sdbr.backends.cuda import plan
from sdbr.backends.cuda._in_flight import in_flight
from sdbr.backends.cuda._launcher import Launcher
from sdbr.backends.cuda.chains import calls
from sdbr.backends.cuda.draws import Draws
from sdbr.backends.cuda.failures import explain
from sdbr.backends.cuda.moves import Moves
from sdbr.backends.cuda.products import Products
from sdbr.backends.cuda.races import Races
from sdbr.backends.cuda.recording import forms
from sdbr.backends.cuda.recording.graphs import Graphs, shown
from sdbr.backends.cuda.recording.launching import Launching
from sdbr.backends.cuda.riding import joint_launch
from sdbr.backends.cuda.together import Place, Unit, listed, place, units
from sdbr.backends.cuda.watched import Watching, observed, run_closely, show
from sdbr.backends.cuda.words import KERNEL, Words
from sdbr.backends.numpy.executable import explain_error
from sdbr.base.errors import BackendError
from sdbr.devices.driver import Borrowed, Buffer, Device
from sdbr.program.program import Program

import numpy as np

#: From source and headers to machine code for a device.
Compile = Callable[[str, Mapping[str, str]], bytes]


class CudaExecutable:
    """A program on one memory, whose slots are bound to arrays of a device.

    Addresses are part of the graphs: see `moves`. In which form a graph is recorded: see `forms`.

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
    races : Races or None
        Of the library that does large products, where there is one.
    form : str or None
        See `forms.wanted`; None: what the setting says.

    Attributes
    ----------
    native_ops, python_ops : int
        Number of ops of each kind.
    parts : list of range
        Ops that run together: one graph each, or one op without a kernel.
    calls : list of list of Call
        The kernels of each part.
    moves : Moves
        Where its slots lie.
    moving : set of int
        Slots whose address is read from a table.
    graphs : Graphs
        Of the parts.
    recorded : int
        How many were recorded so far.

    Raises
    ------
    ValidationError
        If the flat arrays are not a program.
    BackendError
        If an op has no kernel, or the kernels cannot be compiled.
    """

    def __init__(
        self,
        program: Program,
        memory,
        device: Device,
        compile: Compile,
        chained: bool = True,
        races: Races | None = None,
        form: str | None = None,
    ) -> None:
        program.validate()
        self.watch: Watching | None = None
        self.program = program
        self.memory = memory
        self.device = device
        self.form = forms.wanted(device) if form is None else form
        self.python_ops = program.python_ops
        self.native_ops = len(program) - self.python_ops
        self.launches = plan.launches(program)
        plan.refuse_missing(program, self.launches, self.has_other)
        self.parts = list(plan.stretches(self.launches))
        self._lasting = plan.lasting(program)
        self._part = range(0)  # which runs, and what lasts of the parts that this run has launched
        self._launched: list[int] = []
        self.moves = Moves(program)
        self._slots = np.array([s.index for s in program.slots], np.intp)
        self._controls = program.control_references.tolist()
        self.in_flight = in_flight(device)
        self._number = self.in_flight.enlist(self, len(program))
        self.products = Products(program, self.launches, races)
        program.chosen = self.products.choices
        try:
            with self.current():
                self._load(compile, chained)
        except BackendError as error:
            explain(error, program, range(len(program)), device)
            raise
        program.graphs = shown(self.parts, self.calls)

    def has_other(self, i: int) -> bool:
        """Whether `run_other` knows op `i`, which has no kernel."""
        return False

    def run_other(self, i: int) -> None:
        """Run an op that has no kernel; errors carry a note that names it."""
        raise NotImplementedError

    def allocate(self, nbytes: int) -> Buffer:
        """Memory for the program."""
        return self.device.allocate(nbytes)

    def current(self) -> contextlib.AbstractContextManager:
        """The device is that of this thread for a while."""
        return self.device.current()

    def now(self) -> Borrowed:
        """What a run is launched on."""
        return self.stream

    def _load(self, compile: Compile, chained: bool) -> None:
        program, device = self.program, self.device
        joint = functools.partial(joint_launch, program, self.launches, self._places, self._lasting)
        self.units = [
            []
            if self.launches[part.start] is None
            else list(units(part, self.launches, self._places, joint, self._lasting))
            for part in self.parts
        ]
        all_units = [unit for of_part in self.units for unit in of_part]
        self.calls = [list(calls(x, chained, self.products.takes)) for x in self.units]
        every = [launch for unit in all_units for launch in unit.launches]
        around = list(self.products.kernels(all_units))
        self.products.pair(all_units, self._places, self.allocate)
        kernels = [call.kernel for of_part in self.calls for call in of_part]
        self.stream = device.stream()
        module = device.load(compile(*plan.source([*every, *kernels, *around])))
        self._module = module
        listed_units = [unit for unit in all_units if unit.launches[0].is_listed]
        operands = [[r for i in unit.ops for r in self._operands(i)] for unit in listed_units]
        self._list_rows = np.array([r for rows in operands for r in rows], np.intp)
        self.words = Words(
            device, self.stream, module.function(KERNEL), program.float_attributes,
            len(program.rows), len(self._list_rows),
        )  # fmt: skip
        self.draws = Draws(self.launches)
        works = self._make_work(all_units)
        self.launching = Launching(
            program, device, self.moves, self.words,
            {x.kernel: module.function(x.kernel) for x in (*kernels, *around)},
            products=self.products, lists=self._make_lists(listed_units, operands), works=works,
            lasting=self._lasting, number=self._number, fault=self.in_flight.fault,
            draws=self.draws, places=self._places, allocate=self.allocate,
        )  # fmt: skip
        self.stream.synchronize()
        self.graphs = Graphs(
            program, self.parts, self.calls, self.launching, self.stream, self.form
        )
        self._is_one = len(self.parts) == 1 and self.launches[0] is not None
        self._launcher = Launcher(
            self.memory, self.words, self._slots, self._controls, device, self.in_flight
        )

    def _make_lists(self, of_units: list[Unit], operands: list[list[int]]) -> dict[int, tuple]:
        """Where the lists of each such unit begin: addresses, and integers, which never change."""
        ints = [listed(unit.launches[0], self._floats_of(unit)) for unit in of_units]
        joined = np.concatenate([np.zeros(0, np.int64), *ints])
        self._ints = self.allocate(joined.nbytes)
        self.stream.to_device(self._ints.address, joined)
        self.stream.synchronize()  # the array may go then
        found, at, begin = {}, self.words.lists, self._ints.address
        for unit, rows, numbers in zip(of_units, operands, ints, strict=True):
            found[unit.ops[0]] = (self.words.address(at), begin)
            at, begin = at + len(rows), begin + numbers.nbytes
        return found

    def _make_work(self, of_units: list[Unit]) -> dict[int, tuple[int, int]]:
        """Memory for what launches of a unit hand on, and behind it for draws."""
        needed = {x.ops[0]: 8 * max(y.work for y in x.launches) for x in of_units if x.launches}
        total = sum(needed.values())
        self._work = self.allocate(total + self.draws.nbytes)
        self._uncounted = total
        self.draws.lie(self._work, total, self.words)
        if self.draws.are_made:
            self.words.seed(self.draw_seed())
        found, at = {}, self._work.address
        for i, nbytes in needed.items():
            if nbytes:
                found[i] = (at, nbytes)
                at += nbytes
        return found

    def _places(self, i: int) -> tuple[list[Place], list[Place]]:
        """What an op reads and writes."""
        ins, outs = self.program.operands_of(i)
        return [place(self.program, r) for r in ins], [place(self.program, r) for r in outs]

    def _operands(self, i: int) -> list[int]:
        ins, outs = self.program.operands_of(i)
        return [*ins, *outs]

    def _floats_of(self, unit: Unit) -> list[int]:
        """Where the float attributes of its ops lie."""
        starts = self.program.attribute_offsets[:, 1]
        return [self.words.address(int(starts[i])) for i in unit.ops]

    def draw_seed(self) -> int:
        """A seed of NumPy's global generator."""
        return int(np.random.randint(2**63, dtype=np.int64))

    def draw(self, n: int) -> np.ndarray:
        """The next `n` numbers in [0, 1) of NumPy's global generator, as doubles."""
        return np.random.random_sample(n)

    def run(self) -> None:
        """Run the whole program on what is bound now.

        Raises
        ------
        IndexError
            For a label that is out of range: the error names the op, which may be one of another
            program that ran on the device before.
        ValueError
            If a slot is not bound.
        Exception
            Whatever a Python op raises. All errors carry a note that names the op.
        """
        # A program that gives views alone has no parts.
        self._part, self._launched = self.parts[0] if self.parts else range(0), []
        try:
            self._run()
        except BackendError as error:
            self._failed(error)
            raise

    def _failed(self, error: BackendError) -> None:
        """Say what ran; nobody knows what lies on the device now."""
        self.words.forget()
        self._launcher.forget()
        self.graphs.contests.clear()  # events of what failed say nothing
        explain(error, self.program, self._part, self.device, self._launched)

    def _run(self) -> None:
        if observer() is not None and self.watch is None:
            observed(self)
        elif self.watch is not None and (self.watch.closely or self.draws.are_made):
            run_closely(self)
        elif self._launcher.fits():
            if self._is_one and not self.draws and not self.graphs.contests:
                self._launcher.run(self.graphs[0].handle.value, self.handle())
                show(self, self.parts[0])
            else:
                self._run_again()
            self.finish()
        else:
            list(self.step())

    def _run_again(self) -> None:
        """Run part by part, as far as nothing is new; then as for the first time."""
        self.in_flight.before(self.handle())  # what it raises, it raises before a draw
        with self.current():
            for k, part in enumerate(self.parts):
                self._part = part
                if k in self.graphs and self._launcher.fits() and not self.graphs.is_due(k):
                    self._draw(part)
                    with self.graphs.turn(k, self.now()) as graph:
                        self._launcher.run(graph.handle.value, self.handle())
                    self._launched += self._lasting.intersection(part)
                else:
                    self.read_controls()
                    self._run_part(k)
                show(self, part)
        self._know()

    def handle(self) -> int:
        """The handle of what a run is launched on."""
        return self.stream.handle.value

    def step(self) -> Iterator[int]:
        """Run part by part; yields the index of each op that has run, those of a part together."""
        self._launched = []
        for k, part in enumerate(self.parts):
            self._part = part
            try:
                with self.current():  # not while somebody else goes on
                    self.read_controls()  # code of Python may have written there
                    self._run_part(k)
            except BackendError as error:
                self._failed(error)
                raise
            show(self, part)
            yield from part
        self._know()
        self.finish()

    def read_controls(self) -> None:
        """Take the floats that change from run to run."""
        self.in_flight.before(self.handle())
        for position, slot in self._controls:
            self.words.set_float(position, self.memory.get_control(slot))

    def _run_part(self, k: int) -> None:
        part = self.parts[k]
        if self.launches[part.start] is None:
            self.finish()
            self.run_other(part.start)
            return
        rows = self.prepare(part)
        if k not in self.graphs and not self.graphs.record(k, rows):
            recipes = self.graphs.recipes(k, rows)
            self.launching.run_all(self.calls[k], recipes, rows, self.now(), self._launched)
            return
        if self.graphs.is_due(k):
            self.graphs.record_others(k, rows)
        with self.graphs.turn(k, self.now()) as graph:
            graph.launch(self.now())
        self._launched += self._lasting.intersection(part)

    @property
    def recorded(self) -> int:
        return self.graphs.recorded

    @property
    def moving(self) -> set[int]:
        return self.moves.moving

    def prepare(self, part: range) -> np.ndarray:
        """See to all that kernels of a part read; the address of each row."""
        if self.moves.note(addresses := self._addresses()):
            self.graphs.forget()
            self._launcher.forget()
        rows = self.moves.rows(addresses)
        self.words.now[self.words.rows : self.words.lists] = rows
        self.words.now[self.words.lists : self.words.random] = rows[self._list_rows]
        self.in_flight.before(self.handle())  # Python ops may have gone to another stream
        self._begin_to_count()
        self._draw(part)
        self.words.send(self.now())
        return rows

    def _begin_to_count(self) -> None:
        """Kernels count their teams in memory that others had: on this stream they are done."""
        if self._uncounted:
            self.now().fill(self._work.address, self._uncounted, 0)
            self._uncounted = 0

    def _know(self) -> None:
        """From now on compiled code runs what was recorded."""
        if self.graphs and not self._launcher.ready:
            moves = self.moves
            self._launcher.know(
                moves.fixed, moves.moving, moves.row_slots, moves.offsets, self._list_rows,
                moves.on_host,
            )  # fmt: skip

    def _draw(self, part: range) -> None:
        """Draw in the order of the program, as define-by-run does, or let kernels do so."""
        if not self.draws:
            return
        if self.draws.philox:
            self.words.draw()
        if not self.draws.are_made:
            self.draw_all(part)

    def draw_all(self, part: range) -> None:
        """Put what the ops of a part draw where they read it."""
        drawn = []
        for _, n, address in self.draws.of_part(part):
            drawn.append(self.draw(n))
            self.stream.to_device(address, drawn[-1])
        if drawn:
            self.stream.synchronize()  # the arrays may go then

    def _addresses(self) -> np.ndarray:
        """Of the slots of the program."""
        return plan.addresses(self.memory, self._slots)

    def finish(self) -> None:
        """Wait for what has run, and raise for what went wrong in it.

        Raises
        ------
        IndexError
            For a label that is out of range.
        """
        self.in_flight.wait()

    def explain(self, error: Exception, i: int) -> None:
        """Add op `i` to an error."""
        explain_error(error, self.program, i)
