"""The programs of a plan for gradients that are there already."""

from __future__ import annotations

from sdbr.backends import make_executable
from sdbr.devices.arrays import new, on_host
from sdbr.optimizers._masters import Masters
from sdbr.optimizers.parts import Part
from sdbr.optimizers.plan import UpdatePlan
from sdbr.program import memory as memory_plan
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np


class NativeProgram:
    """A program whose slots are those of all parameters, gradients and states of a plan.

    Parameters
    ----------
    plan : UpdatePlan
    backend : str
        Executor of the program.
    part : Part or None
        What it does; None: it looks whether all gradients are finite.

    Attributes
    ----------
    program : Program
    memory : Memory
    run : callable
    grad_slots : list of int
        In the order of ``plan.params``, as those of parameters are in all programs of a plan.
    masters : Masters
        The parameters that it gives new arrays.
    is_compared : bool
        Whether it has run beside Chainer's own code, on a GPU.
    """

    def __init__(self, plan: UpdatePlan, backend: str, part: Part | None) -> None:
        self.part = part
        self.is_compared = False
        b = Builder()
        params, grads, states = [], [], []
        for i, (param, name) in enumerate(zip(plan.params, plan.names, strict=True)):
            shape, dtype = param.shape, plan.operand(i).dtype
            params.append(b.table.bound(shape, dtype, name))
            grads.append(b.table.bound(shape, param.dtype, f"{name}.grad"))
            states.append([b.table.bound(shape, dtype, f"{name}.{s}") for s, _ in plan.states(i)])
        halves = plan.new_halves(b, part)
        self.grad_slots = [r.slot.index for r in grads]
        plan.set_slots([r.slot.index for r in params], self.grad_slots)
        if part is None:
            finite = b.table.bound((), np.float64, "finite")
            b.label = "loss scale"
            wide = [b.cast(g, np.float32) if g.dtype == np.float16 else g for g in grads]
            b.emit("all_finite", wide, [finite])
        else:
            plan.emit(b, params, grads, states, 0, part, halves)
        arena = memory_plan.plan(b.instructions, b.table, name="update")
        self.program = assemble(b.instructions, b.table, "update", arena)
        self.memory = Memory(len(b.table.slots), plan.n_control, plan.device)
        for i, rows in enumerate(states):
            for row, (_, array) in zip(rows, plan.states(i), strict=True):
                self.memory.bind(row.slot.index, array)
        if part is None:
            self._finite = new((), np.float64, plan.device)
            self.memory.bind(finite.slot.index, self._finite)
        self.masters = Masters(
            self.memory, [(plan.masters[i], r.slot.index) for i, r in halves.items()]
        )
        self.memory.reserve(self.program)
        self.run = make_executable(self.program, self.memory, backend).run

    def finds_all_finite(self) -> bool:
        """Run the program that looks."""
        self.run()
        return bool(on_host(self._finite))


class NativeUpdate:
    """The programs of a plan.

    Parameters
    ----------
    plan : UpdatePlan
        With something native.
    backend : str
        Executor of the programs.

    Attributes
    ----------
    programs : list of NativeProgram or None
        By part.
    finite : NativeProgram or None
        Where all gradients are operands and have one dtype, and the loss scale is dynamic.
    """

    def __init__(self, plan: UpdatePlan, backend: str) -> None:
        self.plan = plan
        self.backend = backend
        self.programs = [
            NativeProgram(plan, backend, part) if part.is_native else None for part in plan.parts
        ]
        self.finite = None
        everything = list(plan.target.params())
        dtypes = {None if p.array is None else p.dtype for p in everything}
        if plan.checks_finite and len(plan.params) == len(everything) and len(dtypes) == 1:
            self.finite = NativeProgram(plan, backend, None)

    @property
    def program(self):
        """The first of them."""
        return next(native.program for native in self.programs if native is not None)
