"""Runs cases of ops on a backend and compares the results of two backends."""

from __future__ import annotations

import dataclasses

import sdbr.backends
from sdbr.ops.table import BY_NAME
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.program import assemble

import numpy as np

from tests.tolerances import PARITY

from .values import Operand


@dataclasses.dataclass(eq=False)
class Case:
    """One op with operands and attributes.

    Attributes
    ----------
    op, what : str
        Name of the op; what is special about the case.
    ins, outs : list of Operand
        An output that is an input's object shares its memory.
    exact : bool
        Results must be equal, not only close.
    zero_sign : bool
        The sign of zero must be equal, too.
    per_element : bool
        Each element is judged by its own size (but at least 1, or the largest), not by the largest.
    written : list of Operand
        Inputs that the op writes besides the outputs.
    tolerance : str
        ``'f4'`` or ``'f8'`` where it is not that of the output's dtype.
    """

    op: str
    what: str
    ins: list[Operand]
    outs: list[Operand]
    ints: tuple = ()
    floats: tuple = ()
    exact: bool = False
    zero_sign: bool = False
    per_element: bool = False
    written: list = dataclasses.field(default_factory=list)
    tolerance: str = ""

    @property
    def operands(self) -> list[Operand]:
        return [*self.ins, *self.outs]

    def __str__(self) -> str:
        shapes = ", ".join(f"{o.view.dtype}{list(o.view.shape)}" for o in self.operands)
        return f"{self.op} ({self.what}; {shapes}; {self.ints} {self.floats})"


class Prepared:
    """A program of cases (one op each) on a memory of its own."""

    def __init__(self, cases: list[Case], backend: str):
        builder = Builder()
        rows: dict[int, object] = {}
        self.arrays: dict[int, np.ndarray] = {}
        control: list[float] = []
        for k, case in enumerate(cases):
            for operand in case.operands:
                if id(operand) not in rows:
                    self.arrays[id(operand)] = operand.base.copy()
                    root = builder.table.bound(operand.base.shape, operand.base.dtype, "operand")
                    view = operand.view
                    rows[id(operand)] = (
                        root
                        if view is operand.base
                        else builder.table.view(root, view.shape, view.strides, operand.offset)
                    )
            floats = case.floats
            if k % 2:  # every second case reads its attributes from the control block
                floats = tuple(
                    ControlSlot(len(control) + j, -1e6) for j, _ in enumerate(case.floats)
                )
                control.extend(case.floats)
            ins = [rows[id(o)] for o in case.ins]
            outs = [rows[id(o)] for o in case.outs]
            builder.emit(case.op, ins, outs, case.ints, floats)
        self.program = assemble(builder.instructions, builder.table, "parity")
        self.memory = Memory(len(builder.table.slots), len(control))
        for i, value in enumerate(control):
            self.memory.set_control(i, value)
        for key, row in rows.items():
            self.memory.bind(row.root.slot.index, self.arrays[key])
        self.executable = sdbr.backends.make_executable(self.program, self.memory, backend)


def execute(cases: list[Case], backend: str) -> dict[int, np.ndarray]:
    """Run all cases as one program; the bases of the operands afterwards, by ``id(operand)``."""
    prepared = Prepared(cases, backend)
    prepared.executable.run()
    return prepared.arrays


def assert_parity(cases: list[Case], backend: str, seed: int = 0) -> None:
    """Compare a backend with the reference on every case; one message with the first failures."""
    np.random.seed(seed)
    want = execute(cases, "numpy")
    drawn = np.random.random()
    np.random.seed(seed)
    got = execute(cases, backend)
    problems = [p for case in cases if (p := difference(case, want, got))]
    if problems:
        shown = "\n".join(problems[:8])
        raise AssertionError(f"{len(problems)} of {len(cases)} cases differ:\n{shown}")
    assert np.random.random() == drawn, "the backends drew different amounts of random numbers"


def difference(case: Case, want: dict, got: dict) -> str:
    """What is wrong with the results `got` of a case, in words; empty when nothing is."""
    # What is left in memory that a kernel works in is nobody's business.
    named = zip(BY_NAME[case.op].outputs, case.outs, strict=False)
    scratch = [operand for name, operand in named if name.startswith("scratch:")]
    written = [o for o in [*case.outs, *case.written] if o not in scratch]
    for operand in case.ins:
        if operand not in written:
            before, after = operand.base.tobytes(), got[id(operand)].tobytes()
            if before != after:
                return f"{case}: input {case.ins.index(operand)} was changed"
    for k, operand in enumerate(written):
        w, g = want[id(operand)], got[id(operand)]
        problem = _compare(case, operand.window(w), operand.window(g)) or _gaps(operand, w, g)
        if problem:
            return f"{case}: output {k}: {problem}"
    return ""


def _gaps(operand: Operand, want: np.ndarray, got: np.ndarray) -> str:
    if operand.view is operand.base:
        return ""
    inside = np.zeros(operand.base.shape, bool)
    offset = operand.offset // operand.base.itemsize
    strides = [s // operand.base.itemsize for s in operand.view.strides]
    np.ndarray(operand.view.shape, bool, inside, offset, strides)[...] = True
    same = want[~inside].tobytes() == got[~inside].tobytes()
    return "" if same else "memory outside the operand was changed"


def _compare(case: Case, want: np.ndarray, got: np.ndarray) -> str:
    if want.dtype.kind not in "fc":
        wrong = want != got
    elif want.dtype.kind == "c":
        wrong = ~((want == got) | (np.isnan(want) & np.isnan(got)))
    else:
        wrong = _wrong_floats(case, want, got)
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    count = f"{wrong.sum()} of {wrong.size} elements"
    want, got = np.atleast_1d(want), np.atleast_1d(got)
    return f"{count}, first at {at}: expected {want[at]!r}, got {got[at]!r}"


def _wrong_floats(case: Case, want: np.ndarray, got: np.ndarray) -> np.ndarray:
    finite = np.isfinite(want) & np.isfinite(got)
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    if not case.exact:
        tolerance = PARITY[case.tolerance or want.dtype.str[1:]]
        scale = np.max(abs(want), where=np.isfinite(want), initial=0.0)
        tiny = 4 * float(np.finfo(want.dtype).smallest_subnormal)
        a, b = np.where(finite, want, 0).astype(np.longdouble), np.where(finite, got, 0)
        each = np.maximum(abs(a), min(scale, 1)) if case.per_element else scale
        same |= finite & (abs(a - b) <= tolerance * each + tiny)
    if case.zero_sign:
        zero = (want == 0) & (got == 0)
        same &= ~zero | (np.signbit(want) == np.signbit(got))
    return ~same
