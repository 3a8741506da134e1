"""Programs on arrays of CuPy, on its current stream; between graphs Chainer's own code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sdbr.backends.cuda import gpus
from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.devices import arrays
from sdbr.devices.driver import Borrowed
from sdbr.devices.staging import staging
from sdbr.ops.table import OPS
from sdbr.program._memory import view_of
from sdbr.program.program import Program
from sdbr.trace.effects.sides import entered, feeding

import numpy as np


class Room:
    """Memory of CuPy's pool.

    Attributes
    ----------
    address, nbytes : int
    array
        Of CuPy, uint8[nbytes].
    """

    def __init__(self, nbytes: int, device: int) -> None:
        self.array = arrays.new((max(nbytes, 1),), np.uint8, device, "work of kernels")
        self.address, self.nbytes = self.array.data.ptr, nbytes


class ArrayExecutable(CudaExecutable):
    """A program whose slots are bound to arrays of CuPy.

    Python ops and questions run between graphs; draws are made by CuPy's generator, in the order
    of the program.
    """

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self._others: dict[int, tuple] = {}  # prepared ops without a kernel

    def has_other(self, i: int) -> bool:
        op = OPS[int(self.program.opcodes[i])]
        return op.python or op.asks

    def run_other(self, i: int) -> None:
        if i not in self._others:
            self._others[i] = self._prepared(i)
        op, ins, outs, attributes, python, reads = self._others[i]
        try:
            ins, outs = [self._view(*x) for x in ins], [self._view(*x) for x in outs]
            if python is not None:
                python(self.memory, ins, outs)
            else:
                op.compute([arrays.on_host(x) for x in ins], [], attributes)
        except arrays.NO_MEMORY as error:
            arrays.say_for(error, f"op {i}, code of Chainer's", self.memory.device)
        except Exception as error:
            self.explain(error, i)
            raise
        if op.asks or reads:
            self.in_flight.check()  # the answer was waited for: it may be one of a wrong label

    def _prepared(self, i: int) -> tuple:
        """An op, its operands, attributes, the Python op that it is, and whether it waits.

        What it takes from the GPU to the host is waited for.
        """
        op = OPS[int(self.program.opcodes[i])]
        ints, _ = self.program.attributes_of(i)
        ins, outs = self.program.operands_of(i)
        python = self.program.objects[ints[0]] if op.python else None
        attributes = None if op.python else op.attributes(ints, ())
        of_host = [
            [self.program.slots[int(self.moves.row_slots[r])].host for r in rows]
            for rows in (ins, outs)
        ]
        reads = not all(of_host[0]) and any(of_host[1])
        ins, outs = list(map(self._place, ins)), list(map(self._place, outs))
        return op, ins, outs, attributes, python, reads

    def _place(self, r: int) -> tuple:
        """Slot of a row, shape, dtype, strides and offset."""
        shape, strides = tuple(self.program.row_shape(r)), tuple(self.program.row_strides(r))
        dtype = DTYPES[self.program.rows["type"][r]]
        return (
            int(self._slots[self.moves.row_slots[r]]),
            shape,
            dtype,
            strides,
            int(self.moves.offsets[r]),
        )

    def _view(self, slot: int, shape: tuple, dtype, strides: tuple, offset: int):
        owner = self.memory.array(slot)
        if owner is None:
            raise ValueError(f"slot {slot} is not bound to an array")
        return view_of(owner, shape, strides, offset, True, dtype)

    def stage(self, slot: int, array: np.ndarray) -> None:
        """Begin to copy an array of the host to where a slot is bound: later runs find it there."""
        if not array.size:
            return
        place = self.memory.array(slot)
        try:
            with self.current():
                handle = self.handle()
                self.in_flight.before(handle)
                staging(self.device).copy(array, place.data.ptr, Borrowed(self.device, handle))
        except BackendError as error:
            where = f"a copy of {array.nbytes:,} bytes from the host to GPU {self.memory.device}"
            error.args = (f"{error}; in {where}",)
            raise

    def finish(self) -> None:
        """Nobody waits for a run: what goes wrong in it is said by the next."""

    def allocate(self, nbytes: int) -> Room:
        return Room(nbytes, self.memory.device)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """The device is the current one of this thread, for CuPy as well."""
        with arrays.current(self.memory.device), self.device.current():
            yield

    def now(self) -> Borrowed:
        return Borrowed(self.device, self.handle())

    def handle(self) -> int:
        return arrays.current_stream()

    def draw_seed(self) -> int:
        """A seed of CuPy's generator."""
        with entered(None):  # also in an audit, which repeats draws of define-by-run
            return arrays.seed()

    def draw_all(self, part: range) -> None:
        room = self.draws.room
        for i, n, address in self.draws.of_part(part):
            place = arrays.view(room.array, (n,), np.dtype(float), (8,), address - room.address)
            single = self.launches[i][0].section == "f4"
            try:
                with feeding() if self.draws.is_fed else contextlib.nullcontext():
                    draw_into(place, self._ratio(i) if single else None)
            except arrays.NO_MEMORY as error:
                arrays.say_for(error, f"the draws of op {i}", self.memory.device)

    def _ratio(self, i: int) -> float:
        begin = int(self.program.attribute_offsets[i, 1])
        return self.words.get_float(begin)


def draw_into(place, ratio: float | None) -> None:
    """Draw the numbers of a dropout as Chainer's does: of single precision.

    Parameters
    ----------
    place
        Of CuPy, float64[n].
    ratio : float or None
        What they are compared with, where that is done in single precision.
    """
    drawn = arrays.uniform(place.size)
    place[...] = drawn
    if ratio is not None and float(np.float32(ratio)) < ratio:
        # The ratio in single precision counts: equal to it is not below it.
        place[drawn == np.float32(ratio)] = ratio


def executable(program: Program, memory) -> ArrayExecutable:
    """Prepare a program for the GPU that `memory` lies on.

    Raises
    ------
    BackendError
        If there is no such device, or an op has no kernel.
    """
    gpu, races = gpus.gpu(memory.device), gpus.races(memory.device)
    return ArrayExecutable(program, memory, *gpu, races=races)
