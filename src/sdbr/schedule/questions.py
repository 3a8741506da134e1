"""Programs that ask: what of a run is taken back where the answer is another one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sdbr.devices import generators
from sdbr.devices.arrays import where_it_lies
from sdbr.lowering.caught import caught_error
from sdbr.ops.control import ALL_FINITE
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.buffers import BOUND
from sdbr.program.program import Program
from sdbr.trace.values import Value

import numpy as np

_QUESTION, _PYTHON = (BY_NAME[name].opcode for name in ("question", "python"))
_LOOKING_UP = [op.opcode for op in OPS if op.reads_indices]
_STATE_BYTES = 625 * 4  # of MT19937: its words and the position


class TakenBack(NamedTuple):
    """What a program may do before the last op that may end its run, that somebody could see.

    Attributes
    ----------
    slots : tuple of int
        Memory of the caller that it may write.
    draws : bool
        Whether it may draw from NumPy's global generator, or CuPy's.
    python : bool
        Whether Chainer's own code may: that moves more than the generator's words.
    last : int
        The last op that asks; -1 without any.
    beside : bool
        Whether it runs code of the user's, which may change what the call reads.
    caught : bool
        Whether the call may catch an error of an op.
    """

    slots: tuple[int, ...]
    draws: bool
    python: bool
    last: int
    beside: bool
    caught: bool

    @property
    def is_all(self) -> bool:
        """Whether everything has to be put back; else a run that raised may do so itself."""
        return self.beside or self.caught or self.last >= 0


def taken_back(program: Program, leaves: Sequence[tuple[Value, int]], schedule) -> TakenBack | None:
    """What has to be put back after a run that could not go on; None where each can.

    One that met another answer, user code that has changed what the call reads (what that did
    stays), or an error: of Python, and of others where the call may catch it. On a GPU errors are
    told when it is too late.

    Parameters
    ----------
    program : Program
    leaves : list of (Value, int)
        What is bound, with its slot: what functions may update in place is among it.
    schedule : Schedule
    """
    asking = [
        int(i)
        for i in np.flatnonzero(program.opcodes == _QUESTION)
        if program.attributes_of(i)[0][1] != ALL_FINITE
    ]
    of_python = [int(i) for i in np.flatnonzero(program.opcodes == _PYTHON)]
    beside = {i for i in of_python if _is_beside(program, i)}
    ends, caught = [*asking, *beside], False
    if schedule.device is None:
        caught = caught_error(schedule.trace) is not None
        ends += [i for i in of_python if _raises(program, i)]
        ends += [int(i) for i in np.flatnonzero(np.isin(program.opcodes, _LOOKING_UP) & caught)]
    if not ends:
        return None
    held = {slot for value, slot in leaves if value.held}
    slots, draws, python = set(), False, False
    for i in range(max(ends)):
        if i in beside:
            continue
        op = OPS[program.opcodes[i]]
        draws |= op.draws
        python |= op.python and _may_draw(program, i)
        ins, outs = program.operands_of(i)
        for rows, among in ((outs, None), (ins, held)):
            for row in rows:
                slot = program.slots[program.rows["slot"][row]]
                if slot.kind == BOUND and (among is None or slot.index in among):
                    slots.add(slot.index)
    last = asking[-1] if asking else -1
    return TakenBack(tuple(sorted(slots)), draws or python, python, last, bool(beside), caught)


def _object(program: Program, i: int):
    """What the Python op `i` calls."""
    return program.objects[program.attributes_of(i)[0][0]]


def runs_python(program: Program, i: int) -> bool:
    """Whether op `i` is a Python op."""
    return bool(program.opcodes[i] == _PYTHON)


def _raises(program: Program, i: int) -> bool:
    """Whether a Python op may raise where its call can begin anew: not in its backward."""
    return not getattr(_object(program, i), "of_the_loss", False)


def _is_beside(program: Program, i: int) -> bool:
    return getattr(_object(program, i), "beside", False)


def _may_draw(program: Program, i: int) -> bool:
    """Whether the Python op `i` is more than a NumPy call."""
    traced = getattr(_object(program, i), "traced", None)
    return traced is None or traced.function is not None or traced.draws


def words_of_generator() -> tuple[int, bytes] | None:
    """Where the words of NumPy's global generator lie, and what they are; None if it has none."""
    bits = np.random.mtrand._rand._bit_generator
    if type(bits) is not np.random.MT19937:
        return None
    address = bits.ctypes.state_address
    return address, ctypes.string_at(address, _STATE_BYTES)


class Before:
    """The state before a run, to be put back where it could not go on.

    Parameters
    ----------
    what : TakenBack
    memory : Memory
        With everything bound.
    """

    _of_cupy: generators.Before | None = None

    def __init__(self, what: TakenBack, memory):
        self.arrays: Iterable[tuple[Any, Any]] = [
            (array, _copy_of(array)) for array in map(memory.array, what.slots)
        ]
        self.state: Any = None
        self.words: tuple[int, bytes] | None = None
        self.is_unsure = what.python and not what.is_all  # whether more may move than is kept
        if not what.draws:
            return
        if memory.device is not None:
            self._of_cupy = generators.Before(memory.device)
            if not what.python:  # kernels draw by CuPy's generator
                return
        self.words = None if what.python and what.is_all else words_of_generator()
        if self.words is None:
            self.state = np.random.get_state(legacy=False)  # takes 50 microseconds

    def put_back(self) -> bool:
        """Undo what the run has done; False where it cannot be undone."""
        if self.is_unsure and self.words is not None and self.words != words_of_generator():
            return False
        for array, contents in self.arrays:
            with where_it_lies(array):
                array[...] = contents
        if self._of_cupy is not None:
            self._of_cupy.put_back()
        if self.state is not None:
            np.random.set_state(self.state)
        elif self.words is not None:
            ctypes.memmove(*self.words, _STATE_BYTES)
        return True

    def end(self) -> None:
        """The run is over: what is drawn from now on stays drawn."""
        if self._of_cupy is not None:
            self._of_cupy.end()


def _copy_of(array):
    if isinstance(array, np.ndarray):
        return array.copy()
    with where_it_lies(array):
        return array.copy()
