"""``optimizer.update()`` without a loss function: the gradients are there, one native call."""

from __future__ import annotations

import dataclasses

from sdbr.backends import AUTO, ON_GPU
from sdbr.compat.graph._variables import settle_scaled
from sdbr.devices.arrays import contiguous, device_of, is_writeable
from sdbr.optimizers.audits import DIFFERS, UpdateAudits
from sdbr.optimizers.mixed import MixedStep
from sdbr.optimizers.native import NativeProgram, NativeUpdate
from sdbr.optimizers.plan import UpdatePlan
from sdbr.optimizers.problems import is_native

import numpy as np


@dataclasses.dataclass
class UpdateStatistics:
    """What ``optimizer.update`` did so far.

    Attributes
    ----------
    native_calls : int
        Native calls that updated parameters.
    python_updates : int
        Updates that were Chainer's own code as a whole.
    mixed_updates : int
        Updates of which a part (a hook, a rule) was Chainer's own code; they count in
        `native_calls`, too.
    traced_updates : int
        Updates that were Chainer's own code, though they could be native, because the call of
        their step was traced: the next step is likely one program, update included.
    builds : int
        How often the update program was made.
    """

    native_calls: int = 0
    python_updates: int = 0
    mixed_updates: int = 0
    traced_updates: int = 0
    builds: int = 0


#: Plans kept for optimizers that go back and forth between a few settings (frozen halves).
KEPT = 4


class UpdateEngine:
    """Updates the parameters of one optimizer from gradients that are computed already.

    Parameters
    ----------
    optimizer : chainer.GradientMethod
        Set up.
    chainer_update : callable
        ``chainer_update()``: Chainer's own update from present gradients.

    Attributes
    ----------
    statistics : UpdateStatistics
    plan : UpdatePlan or None
        The plan used last.
    native : NativeUpdate or None
        Its program; None while nothing is native.
    declined : str or None
        Why the last update that was Chainer's own code as a whole was that.
    audits : UpdateAudits
        Those of updates on a GPU.
    made : int
        Updates that came here.
    """

    def __init__(self, optimizer, chainer_update) -> None:
        self.optimizer = optimizer
        self.statistics = UpdateStatistics()
        self.plan: UpdatePlan | None = None
        self.native: NativeUpdate | None = None
        self.declined: str | None = None
        self.made = 0
        self._chainer_update = chainer_update
        self.audits = UpdateAudits(optimizer)
        self._kept: list[tuple[UpdatePlan, NativeUpdate]] = []

    def __reduce__(self):
        # Copies and pickles of an optimizer start without one.
        return (type(None), ())

    def current_plan(self) -> UpdatePlan:
        """The plan that fits the optimizer now; made anew where none fits."""
        plan = self.plan
        if plan is not None and plan.check():
            return plan
        if plan is not None:
            plan.release()
        for other, native in self._kept:
            if other is not plan and other.check():
                self.plan, self.native = other, native
                return other
        plan = self.plan = UpdatePlan(self.optimizer)
        self.native = None
        # The second look fills in what the plan compares from step to step.
        plan.check()
        return plan

    def update(self, backend: str, traced: bool = False) -> None:
        """Make one step as ``GradientMethod.update`` without a loss function makes it.

        Parameters
        ----------
        backend : str
            Executor of the native part.
        traced : bool
            Whether the gradients are those of a call that was traced.
        """
        if traced and self.plan is None and self._is_first() and is_native(self.optimizer):
            # The next step needs the plan, and makes it.
            self.statistics.traced_updates += 1
            return self._chainer_update()
        plan = self.current_plan()
        if plan.python_params:
            self._refuse_read_only(plan)
        if not plan.native or self.audits.problem:
            return self._in_python(plan, self.audits.problem or plan.reason)
        if plan.device is not None and backend == AUTO:
            backend = ON_GPU
        if (plan.device is None) == (backend == ON_GPU):
            where = "on the host" if plan.device is None else f"on GPU {plan.device}"
            return self._in_python(plan, f"backend {backend!r} updates no arrays {where}")
        if traced and self._is_first() and plan.in_step:
            self.statistics.traced_updates += 1
            try:
                return self._chainer_update()
            finally:
                plan.release()  # of what has made no step: gradients may be infinite
        native = self.native
        # Another thread that asks for the plan may have found another one meanwhile.
        if native is None or native.backend != backend or native.plan is not plan:
            native = self._build(plan, backend)
        if not plan.whole:
            return MixedStep(self, plan, native).make()
        program = native.programs[0]
        done = self.audits.run(plan, program, lambda: self.run(plan, program), self._chainer_update)
        if done is DIFFERS:
            self.statistics.python_updates += 1
            self.declined = self.audits.problem
            return None
        if done is None:
            return self._in_python(plan, "a gradient or hyperparameter of this step")
        self.statistics.native_calls += 1

    def _is_first(self) -> bool:
        """Whether a program for this update alone would likely be made for nothing."""
        statistics = self.statistics
        return not (statistics.native_calls or statistics.traced_updates or statistics.builds)

    def run(self, plan: UpdatePlan, native: NativeProgram):
        """Bind and run a program, to the end; None: it is not native, nothing was run."""
        memory = native.memory
        if not memory.take():
            # In another thread, which perhaps a fork has left behind: later ones get their own.
            self.native, self._kept = None, []
            return None
        try:
            copies: tuple | list | None = ()
            plan.bind_parameters(memory)
            if plan.bind_gradients(memory, plan.writes_gradients) >= 0:
                copies = self._bind(plan, native)
            if copies is None or not plan.prepare(memory, 0):
                return None
            native.masters.bind()
            if plan.whole:
                self.optimizer._loss_scaling_isnan = False
                native.run()
                plan.commit()
            else:
                if native.part.counts and not plan.counted:
                    plan.count()
                native.run()
            native.masters.publish()
            plan.unbind_gradients(memory)
        finally:
            memory.taken = False
        if copies or plan.loss_scale is not None:
            self._finish(plan, copies, plan.updated_params if plan.whole else native.part.updated)
        return True

    def _refuse_read_only(self, plan: UpdatePlan) -> None:
        """Raise what Chainer's rules would raise half-way, before anything is updated."""
        for param in plan.python_params:
            array = param.array
            own = type(param.update_rule).__module__.startswith("chainer.")
            if own and isinstance(array, np.ndarray) and not is_writeable(array):
                self.plan = None  # it may be writeable again at the next update
                path = next(n for n, p in self.optimizer.target.namedparams() if p is param)
                raise ValueError(
                    f"the array of parameter {path} ({array.dtype.name}{list(array.shape)}) is "
                    "read-only; nothing was updated"
                )

    def _in_python(self, plan: UpdatePlan, reason: str | None) -> None:
        self.declined = reason
        self.statistics.python_updates += 1
        plan.release()
        self._chainer_update()

    def _build(self, plan: UpdatePlan, backend: str) -> NativeUpdate:
        native = self.native = NativeUpdate(plan, backend)
        others = [(p, n) for p, n in self._kept if p is not plan and p.target is plan.target]
        self._kept = [(plan, native), *others[: KEPT - 1]]
        self.statistics.builds += 1
        return native

    def _bind(self, plan: UpdatePlan, native: NativeProgram):
        """Bind unusual gradients; those that were copied, or None: not native."""
        memory = native.memory
        # Missing gradients become zeros, and an invalid one raises, both in Chainer's words.
        self.optimizer.reallocate_cleared_grads()
        if plan.bind_gradients(memory, plan.writes_gradients) < 0:
            return ()
        copies = []
        for param, slot in zip(plan.params, native.grad_slots, strict=True):
            grad, array = param.grad, param.array
            if type(grad) is not type(array) or grad.dtype != array.dtype:
                return None
            if grad.shape != array.shape or device_of(grad) != plan.device:
                return None
            copy = contiguous(grad) if plan.device is not None else grad
            if copy is not grad:
                copies.append((grad, copy))
                memory.bind(slot, copy)
                continue
            if plan.device is None and plan.writes_gradients and not is_writeable(grad):
                return None
            if plan.device is None and not (
                grad.flags.c_contiguous and grad.flags.aligned and grad.dtype.isnative
            ):
                copy = np.array(grad, array.dtype, order="C")
                copies.append((grad, copy))
            memory.bind(slot, copy)
        return copies

    def _finish(self, plan: UpdatePlan, copies, updated) -> None:
        """Take gradients that were copied back to where they are from."""
        if plan.writes_gradients:
            for grad, copy in copies:
                grad[...] = copy
        if plan.loss_scale is not None:
            # Chainer assigns the divided gradient, which drops the variable around it.
            settle_scaled(list(updated))
