"""Calls with addresses in them, as the driver gets them: launched, or recorded in some form."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from sdbr.backends.cuda.chains import Call, ops_of
from sdbr.backends.cuda.draws import Draws
from sdbr.backends.cuda.failures import explain
from sdbr.backends.cuda.launch import THREADS, DeviceOp, Launch
from sdbr.backends.cuda.moves import Moves
from sdbr.backends.cuda.products import Address, Products, Recipe
from sdbr.backends.cuda.races import Room
from sdbr.backends.cuda.recording.dependences import EVERYWHERE, Range, Uses
from sdbr.backends.cuda.recording.lanes import Turn, one_after_the_other
from sdbr.backends.cuda.together import Place, Unit
from sdbr.backends.cuda.words import Words
from sdbr.base.errors import BackendError
from sdbr.devices.driver import Borrowed, Device, Stream
from sdbr.ops.table import OPS
from sdbr.program.buffers import BOUND, OWNED
from sdbr.program.program import Program

import numpy as np

_MEMORY, _BOUND, _FAULT = "memory of the program", "memory of the user", "fault"


class Launching:
    """The calls of a program.

    Parameters
    ----------
    program : Program
    device : Device
    moves : Moves
    words : Words
    functions : dict
        Kernels by name.
    products : Products
    lists : dict of int to tuple
        First op of a unit with lists -> the addresses of these.
    works : dict of int to tuple of (int, int)
        First op of a unit -> address and bytes of memory between its launches.
    draws : Draws
    lasting : frozenset of int
    number, fault : int
        Of the first op among those of all programs; the address of the `Fault`.
    places : callable
        What an op reads and what it writes.
    allocate : callable
        See `Races.algorithm`.

    Attributes
    ----------
    rooms : list of list of Room
        For each lane the memory that the library has had there, the last one now.
    """

    def __init__(
        self, program: Program, device: Device, moves: Moves, words: Words, functions, *,
        products: Products, lists: dict, works: dict, lasting: frozenset[int], number: int,
        fault: int, draws: Draws, places: Callable[[int], tuple[list[Place], list[Place]]],
        allocate: Callable,
    ) -> None:  # fmt: skip
        self.program, self.device, self.moves, self.words = program, device, moves, words
        self.products, self.lasting, self.number, self.fault = products, lasting, number, fault
        self._functions, self._lists, self._works = functions, lists, works
        self._places, self._draws, self._allocate = places, draws, allocate
        self._kinds = [slot.kind for slot in program.slots]
        self.rooms: list[list[Room]] = []  # what is recorded keeps the older ones
        self._lanes: list[Stream] = []  # beside the first

    def recipes(
        self, of_part: Sequence[Call], rows: np.ndarray, stream: Borrowed
    ) -> list[Recipe | None]:
        """How the library does each call; None: it does not.

        Parameters
        ----------
        of_part : sequence of Call
        rows : numpy.ndarray
            The address of each row.
        stream : Borrowed
            That does not record.
        """
        taken = [call.links[0][0] if call.alone else None for call in of_part]
        if any(taken):
            self.device.wait()  # who had the memory before has done what it does there

        def where(r: int) -> Address:
            if self.moves.does(r):
                return Address(self.words.address(self.words.rows + r), moves=True)
            return Address(int(rows[r]))

        return self.products.recipes(taken, where, self.lasting, self._allocate, stream)

    def make_room(self, recipes: Sequence[Recipe | None], turns: Sequence[Turn]) -> None:
        """See to memory for what the library does: one product of a lane after the other has it."""
        for recipe, turn in zip(recipes, turns, strict=True):
            while len(self.rooms) <= turn.lane:
                self.rooms.append([Room()])
            if recipe is not None and recipe.nbytes > self.rooms[turn.lane][-1].nbytes:
                self.rooms[turn.lane].append(Room(self._allocate, recipe.nbytes))

    def forget_rooms(self) -> None:
        """Nothing that was recorded needs what was made smaller before."""
        self.rooms = [of_lane[-1:] for of_lane in self.rooms]

    def forget_lanes(self) -> None:
        """Nothing was recorded on more than one stream, or that is done and gone."""
        del self.rooms[1:]
        self._lanes.clear()

    def run(
        self, call: Call, recipe: Recipe | None, rows: np.ndarray, stream: Borrowed, lane: int = 0,
        early: bool = False,
    ) -> None:  # fmt: skip
        """Launch what does one call.

        Parameters
        ----------
        call : Call
        recipe : Recipe or None
        rows : numpy.ndarray
        stream : Borrowed
        lane : int
            Whose memory the library has.
        early : bool
            Whether the kernel may begin before the one in front of it has ended.
        """
        if recipe is None:
            self._launch(stream, call.kernel, [self._op(*x, rows) for x in call.links], early)
            return
        number, room = self.number + recipe.unit.ops[0], self.rooms[lane][-1].address
        for kernel, op in recipe.run(stream, room, number, self.fault):
            self._launch(stream, kernel, [op])
        for unit, launch in recipe.launches:
            self._launch(stream, launch, [self._op(unit, launch, rows)])

    def run_all(
        self, calls: Sequence[Call], recipes: Sequence[Recipe | None], rows: np.ndarray,
        stream: Borrowed, written: list[int],
    ) -> None:  # fmt: skip
        """Launch calls one after the other; `written` gets the ops that write what lasts."""
        self.make_room(recipes, one_after_the_other(len(calls)))
        for call, recipe in zip(calls, recipes, strict=True):
            with self._explained(call, written):
                self.run(call, recipe, rows, stream)
            written += self.lasting.intersection(ops_of(call))

    def record(
        self, calls: Sequence[Call], recipes: Sequence[Recipe | None], rows: np.ndarray,
        stream: Stream, turns: Sequence[Turn], early: bool,
    ) -> None:  # fmt: skip
        """Launch calls on a stream that records, and on others that record with it.

        Parameters
        ----------
        calls, recipes, rows, stream
            As in `run_all`.
        turns : sequence of Turn
        early : bool
            Whether kernels of this package may begin before one of them in front has ended.
        """
        lanes: list[Borrowed] = [stream, *self._lanes]
        awaited = {k for turn in turns for k in turn.waits}
        events, is_own, joined = {}, {}, {0}
        begun = self.device.event(timed=False)
        begun.record(stream)
        for k, (call, recipe, turn) in enumerate(zip(calls, recipes, turns, strict=True)):
            on = lanes[turn.lane]
            for other in turn.waits:
                on.wait_for(events[other])
            if turn.lane not in joined and not turn.waits:
                on.wait_for(begun)
            joined.add(turn.lane)
            is_early = early and turn.follows and recipe is None and is_own.get(turn.lane, False)
            with self._explained(call, ()):
                self.run(call, recipe, rows, on, turn.lane, is_early)
            is_own[turn.lane] = recipe is None
            if k in awaited:
                events[k] = self.device.event(timed=False)
                events[k].record(on)
        for lane in joined - {0}:
            end = self.device.event(timed=False)
            end.record(lanes[lane])
            stream.wait_for(end)

    def make_lanes(self, turns: Sequence[Turn]) -> None:
        """See to as many streams as there are lanes."""
        while len(self._lanes) < max((turn.lane for turn in turns), default=0):
            self._lanes.append(self.device.stream())

    @contextlib.contextmanager
    def _explained(self, call: Call, written: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except BackendError as error:
            explain(error, self.program, ops_of(call), self.device, written)
            raise

    def _launch(
        self, stream: Borrowed, kernel: Launch, ops: list[DeviceOp], early: bool = False
    ) -> None:
        function = self._functions[kernel.kernel]
        stream.launch(function, kernel.grid, THREADS, (DeviceOp * len(ops))(*ops), early)

    def operands(self, i: int) -> list[int]:
        """The rows of an op."""
        ins, outs = self.program.operands_of(i)
        return [*ins, *outs]

    def floats_of(self, unit: Unit) -> list[int]:
        """Where the float attributes of its ops lie."""
        starts = self.program.attribute_offsets[:, 1]
        return [self.words.address(int(starts[i])) for i in unit.ops]

    def _op(self, unit: Unit, launch: Launch, rows: np.ndarray) -> DeviceOp:
        i = unit.ops[0]
        operands, moving = self._lists.get(i, ()), 0
        if not launch.is_listed:
            operands, moving = self._where(unit, launch, rows)
        work, _ = self._works.get(i) or (self._draws.places.get(i, 0), 0)
        op = launch.op(operands, self.floats_of(unit)[0], self.fault, self.number + i, work)
        op.moving, op.is_lasting = moving, not self.lasting.isdisjoint(unit.ops)
        op.makes_draws = i + 1 if launch.draws and self._draws.are_made else 0
        return op

    def _where(self, unit: Unit, launch: Launch, rows: np.ndarray) -> tuple[list[int], int]:
        """Addresses of the operands; a bit for each that says where the address stands."""
        every = [r for i in unit.ops for r in self.operands(i)]
        operands, moving = [], 0
        for bit, r in enumerate([every[k] for k in launch.operands] or every):
            does_move = self.moves.does(r)
            moving |= does_move << bit
            table = self.words.address(self.words.rows + r)
            operands.append(table if does_move else int(rows[r]))
        return operands, moving

    def uses(self, call: Call, recipe: Recipe | None) -> Uses:
        """What a call touches."""
        found, addresses = Uses(), self.moves.fixed
        for i in ops_of(call):
            op, (ins, outs) = OPS[int(self.program.opcodes[i])], self._places(i)
            found.reads += [self._range(x, addresses) for x in ins]
            found.writes += [self._range(x, addresses) for x in outs]
            if op.writes_inputs:
                found.writes += [self._range(x, addresses) for x in ins]
            # Who notes what is wrong does so in order, and who looks whether anything was does not
            # come before.
            if op.reads_indices:
                found.writes.append((_FAULT, 0, 1))
            if i in self.lasting:
                found.reads.append((_FAULT, 0, 1))
            if i in self._works:
                begin, nbytes = self._works[i]
                found.writes.append((_MEMORY, begin, begin + nbytes))
        if recipe is not None and "mask" in recipe.operands:
            begin = recipe.operands["mask"].number
            found.writes.append((_MEMORY, begin, begin + recipe.matmul.product.mask_bytes))
        return found

    def _range(self, place: Place, addresses: np.ndarray) -> Range:
        """Where a row lies, or may lie in later runs: arrays of the user's may be one another's."""
        slot, low, high = place
        kind = self._kinds[slot]
        begin = int(addresses[slot])
        if slot not in self.moves.moving:
            return _BOUND if kind == BOUND else _MEMORY, begin + low, begin + high
        if kind == OWNED:  # made for this run alone
            return slot, low, high
        return _BOUND, *EVERYWHERE
