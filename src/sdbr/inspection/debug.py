"""``debug``: a call run op by op, on copies of all that it would be given."""

from __future__ import annotations

import contextlib
import operator
import random
from collections.abc import Iterator
from typing import Any

from sdbr.backends import BACKENDS, make_executable
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError, OtherAnswer
from sdbr.call.find import arrays_of, look_up
from sdbr.inspection.targets import serving
from sdbr.ops.table import OPS
from sdbr.program._memory import Memory
from sdbr.program.buffers import BOUND, OWNED
from sdbr.trace import values as v

import numpy as np

#: Other words for backends.
_NAMES = {"native": "cython"}


def debug(model: Any, *args: Any, backend: str = "native", **kwargs: Any) -> Debugger:
    """Stop before the first op of a call, to run it op by op.

    Everything is done on copies: parameters, attributes, arguments and the generators of NumPy
    and Python stay as they are. Only the forward is run.

    Parameters
    ----------
    model : chainer.Link, callable or ScheduleManager
        Static, and called before with arguments of these shapes, in this mode.
    *args, **kwargs
        Of the call.
    backend : str
        ``'native'`` (the same as ``'cython'``) or ``'numpy'``.

    Returns
    -------
    Debugger

    Raises
    ------
    TypeError
        If `model` is nothing static.
    ValueError
        If no schedule fits the call, or its schedule cannot be run without effects.
    BackendError
        For another backend, and for schedules of a GPU.
    """
    return Debugger(*found_for(model, args, kwargs), backend)


def found_for(model: Any, args: tuple, kwargs: dict) -> tuple:
    """The schedule of a call, and its arrays and floats."""
    manager, args = serving(model, args)
    if manager is None:
        raise ValueError(
            "model: no static call was made; decorate it with sdbr.static_graph, and call it with "
            "these arguments once or twice"
        )
    lookup = look_up(manager, args, kwargs)
    if lookup is None or lookup.schedule is None:
        why = f" ({lookup.reason})" if lookup is not None and lookup.reason else ""
        raise ValueError(
            "args: expected arguments that a schedule was traced for; call the model with them "
            f"once or twice, in the same mode{why}"
        )
    schedule = lookup.schedule
    if schedule.dynamic is not None:
        raise ValueError(f"model: such a call runs define-by-run: {schedule.dynamic.text}")
    if schedule.device is not None:
        raise BackendError("debug: runs schedules of the host, and this one is a GPU's")
    effect = next((node for node in schedule.trace.nodes if node.effect), None)
    if effect is not None:
        raise ValueError(f"model: {effect.label} at {effect.line} would run, whatever it does")
    return schedule, arrays_of(lookup.leaves), lookup.floats


class Debugger:
    """A forward that has stopped between two ops.

    Attributes
    ----------
    program : Program
        What is run; `disassemble` lists its ops.
    position : int
        The op that comes next; as many as there are at the end.
    backend : str
        Runs the next op.
    """

    def __init__(self, schedule, arrays: list, floats, backend: str):
        self.program = schedule.forward.program
        self.position = 0
        self._memory = _memory(schedule, arrays, floats)
        self._generators = _generators()
        self._run: Iterator[int] | None = None
        self.replay(backend)

    def replay(self, backend: str) -> Debugger:
        """Let another backend run what comes next, from what lies in the buffers now.

        Parameters
        ----------
        backend : str
            See :func:`debug`.
        """
        name = _NAMES.get(backend, backend)
        if name not in ("cython", "numpy") or name not in BACKENDS:
            raise BackendError(f"backend: expected 'native' or 'numpy', got {backend!r}")
        if self._run is not None:
            self._run.close()
        self.backend = name
        self._run = make_executable(self.program, self._memory, name).step(self.position)
        return self

    def step(self, n: int = 1) -> str:
        """Run the next `n` ops, as far as there are some.

        Returns
        -------
        str
            The line of the last op that was run; nothing where none is left.

        Raises
        ------
        Exception
            What the op raises; it says which.
        ValueError
            If the arguments lead another way through the code than this schedule goes, or `n` is
            below 0.
        """
        if operator.index(n) < 0:
            raise ValueError(f"n: expected a number of ops from 0 on, got {n}")
        first = self.position
        with self._own_generators():
            for _ in range(min(n, len(self.program) - self.position)):
                try:
                    next(self._run)
                except OtherAnswer as error:
                    raise ValueError(
                        f"args: lead another way at {self.program.describe_op(self.position)}"
                    ) from error
                self.position += 1
        return self.program.describe_op(self.position - 1) if self.position > first else ""

    def run_to(self, where: int | str) -> str:
        """Run until an op, or the next one of a link or below it, comes next.

        Parameters
        ----------
        where : int or str
            An index, or a path such as ``'/predictor/l1'``.

        Returns
        -------
        str
            The line of the op that comes next.

        Raises
        ------
        ValueError
            If no such op is left.
        """
        n = len(self.program)
        for i in range(self.position, n):
            if i == where or (isinstance(where, str) and _is_below(self.program.links[i], where)):
                self.step(i - self.position)
                return self.program.describe_op(i)
        left = f"an op from {self.position} to {n - 1}, or a link of one"
        if self.position == n:
            left = "an op that is left, and all have run"
        raise ValueError(f"where: expected {left}, got {where!r}")

    def run(self) -> None:
        """Run all that is left."""
        self.step(len(self.program))

    def buffer(self, which: int | str) -> np.ndarray:
        """A buffer as it is now, read-only; it shows what later ops write there.

        Parameters
        ----------
        which : int or str
            The number that listings have behind ``%``, or the name of an argument, result,
            parameter or persistent: ``'argument 0'``, ``'/l1/W'``.

        Raises
        ------
        KeyError
            If there is none.
        """
        if isinstance(which, str):
            names = {s.name.removeprefix("parameter "): s for s in self.program.slots if s.name}
            if which not in names or names[which].kind not in (BOUND, OWNED):
                raise KeyError(f"{which!r}: expected one of {', '.join(map(repr, names))}")
            found = self._memory.array(names[which].index).view()
        elif 0 <= which < len(self.program.rows):
            found = self.window(which)
        else:
            raise KeyError(f"%{which}: the program has {len(self.program.rows)} buffers")
        found.flags.writeable = False
        return found

    def window(self, row: int) -> np.ndarray:
        """A buffer to write to: what comes next reads that."""
        entry = self.program.rows[row]
        owner = self._memory.array(self.program.slots[entry["slot"]].index)
        layout = self.program.row_shape(row), DTYPES[entry["type"]], owner, int(entry["offset"])
        return np.ndarray(*layout, self.program.row_strides(row))

    def result_rows(self, i: int) -> list[int]:
        """The buffers that op `i` writes, without memory that its kernel works in."""
        _, outs = self.program.operands_of(i)
        op = OPS[int(self.program.opcodes[i])]
        has_scratch = bool(op.most_outputs) and len(outs) == op.most_outputs
        return outs[:-1] if has_scratch else outs

    def results(self, i: int | None = None) -> list[np.ndarray]:
        """What op `i` has made, read-only; the last one that has run by default."""
        return [self.buffer(row) for row in self.result_rows(self.position - 1 if i is None else i)]

    @contextlib.contextmanager
    def _own_generators(self):
        """Draws come from where the generators were when the debugger was made."""
        outside = _generators()
        _set_generators(self._generators)
        try:
            yield
        finally:
            self._generators = _generators()
            _set_generators(outside)

    def __repr__(self) -> str:
        n = len(self.program)
        at = self.program.describe_op(self.position).strip() if self.position < n else "the end"
        return f"<Debugger before {at}, on {self.backend}>"


def _is_below(link: str, path: str) -> bool:
    return link == path or link.startswith(path.rstrip("/") + "/")


def _generators() -> tuple:
    return np.random.get_state(), random.getstate()


def _set_generators(states: tuple) -> None:
    np.random.set_state(states[0])
    random.setstate(states[1])


def _memory(schedule, arrays: list, floats) -> Memory:
    """Memory of its own, with copies of what the call would be given."""
    plan = schedule.forward
    scalars = schedule.trace.scalars
    memory = Memory(len(plan.table.slots), len(scalars))
    memory.reserve(plan.program)
    for i, scalar in enumerate(scalars):
        memory.set_control(i, float(scalar.evaluate(floats)))
    leaves = {slot: value for value, slot in plan.leaves}
    for slot in plan.program.slots:
        if slot.kind == BOUND:
            array = np.array(_array_of(leaves[slot.index], arrays), order="C", copy=True)
            if array.shape != slot.shape or array.dtype != slot.dtype:
                raise ValueError(
                    f"{slot.name}: expected {np.dtype(slot.dtype).name}{list(slot.shape)}, got "
                    f"{array.dtype.name}{list(array.shape)}"
                )
            memory.bind(slot.index, array)
        elif slot.kind == OWNED:
            memory.bind(slot.index, np.zeros(slot.shape, slot.dtype))
    return memory


def _array_of(value: v.Value, arrays: list):
    """What lies there now, of an argument, parameter or attribute."""
    if value.kind == v.ARGUMENT:
        return arrays[value.source]
    if value.kind == v.PARAMETER:
        return value.source.array
    holder, name = value.source
    thing = holder.__dict__[name]
    return thing.array if hasattr(thing, "creator_node") else thing
