"""A step of an optimizer in parts: native ones, and hooks and rules of Python between them."""

from __future__ import annotations

from sdbr.optimizers.audits import DIFFERS
from sdbr.optimizers.native import NativeUpdate
from sdbr.optimizers.parts import POST, PRE, Part
from sdbr.optimizers.plan import UpdatePlan

from chainer.optimizer import Optimizer


class MixedStep:
    """One step, in Chainer's order.

    Code of Python may change whatever it likes. The plan is looked at again before the next native
    part; where it no longer fits, Chainer's own code makes the rest of the step.

    Parameters
    ----------
    engine : UpdateEngine
    plan : UpdatePlan
        That fits now.
    native : NativeUpdate
        Its programs.
    """

    def __init__(self, engine, plan: UpdatePlan, native: NativeUpdate) -> None:
        self.engine, self.plan, self.native = engine, plan, native
        self.optimizer = engine.optimizer
        self.is_changed = False  # code of Python has run since the plan was looked at
        self.ran = 0  # native parts

    def make(self) -> None:
        """Make the step."""
        plan = self.plan
        self._allocate()
        self._check_finite()
        statistics = self.engine.statistics
        try:
            done = self._parts() if self.optimizer.is_safe_to_update() else 0
            if done < len(plan.parts):
                self._rest(done)
            else:
                if not plan.counted:  # there is nothing to update
                    self.optimizer.t += 1
                self._allocate()
        finally:
            plan.end()
        if self.ran:
            statistics.native_calls += 1
            statistics.mixed_updates += 1
        else:
            statistics.python_updates += 1
        self.optimizer.update_loss_scale()

    def _parts(self) -> int:
        """Make the parts one after the other; the number of those that were made."""
        plan = self.plan
        for k, part in enumerate(plan.parts):
            if self.is_changed:
                if part.moves[0].stage == POST:
                    self._allocate()
                if part.is_native or (part.counts and not plan.counted):
                    # Chainer's rules leave parameters alone whose gradient another one has cleared.
                    if not plan.check() or not plan.gradients_are_there():
                        return k
                    self.is_changed = False
            if part.counts and not part.is_native and not plan.counted:
                if not plan.look_ahead():
                    return k
                plan.count()
            if part.is_native:
                if not self._run(k, part):
                    return k
                if self.engine.audits.problem:
                    return k + 1  # the rest as well is Chainer's own
                continue
            self.is_changed = True
            self._call(part)
        return len(plan.parts)

    def _run(self, k: int, part: Part) -> bool:
        plan, program = self.plan, self.native.programs[k]
        was_counted = plan.counted
        done = self.engine.audits.run(
            plan,
            program,
            lambda: self.engine.run(plan, program),
            lambda: self._plainly(part, was_counted),
        )
        if done is None:
            return False
        if done is DIFFERS:
            return True
        self.ran += 1
        return True

    def _plainly(self, part: Part, was_counted: bool) -> None:
        """A native part by Chainer's own code; what the plan counts is counted as there."""
        plan = self.plan
        if part.counts and not was_counted:
            if not plan.look_ahead():
                return  # nor is it native
            plan.commit()  # of the numbers alone, which are put back
        if part.counts or was_counted:
            plan.uncount([move.param.update_rule for move in part.moves if move.operand >= 0])
        self._call(part)

    def _call(self, part: Part) -> None:
        """Let Chainer's hooks and rules make the moves of a part."""
        for move in part.moves:
            if move.hook is None:
                move.param.update()
            else:
                # As `GradientMethod.call_hook`, which looks at each parameter afterwards.
                Optimizer.call_hook(self.optimizer, move.hook)
                self._allocate()

    def _allocate(self) -> None:
        """Chainer's zeros for missing gradients, and its error for an invalid one."""
        if not self.plan.gradients_are_there():
            self.optimizer.reallocate_cleared_grads()

    def _check_finite(self) -> None:
        plan = self.plan
        self.optimizer._loss_scaling_isnan = False
        if not plan.checks_finite:
            return
        finite = self._finds_all_finite()
        if finite and not self.engine.audits.is_due(plan, self.native.finite):
            return
        self.optimizer.check_nan_in_grads()
        if finite and self.optimizer._loss_scaling_isnan:
            self.engine.audits.differs("it finds gradients finite that are not")

    def _finds_all_finite(self) -> bool:
        """Whether a kernel has looked, and says so."""
        finite, plan = self.native.finite, self.plan
        if finite is None or not finite.memory.take():
            return False
        try:
            return plan.bind_gradients(finite.memory, False) < 0 and finite.finds_all_finite()
        finally:
            plan.unbind_gradients(finite.memory)
            finite.memory.taken = False

    def _rest(self, done: int) -> None:
        """Let Chainer's code make what is left after `done` parts."""
        optimizer, plan = self.optimizer, self.plan
        made = [move for part in plan.parts[:done] for move in part.moves]
        left = [move for part in plan.parts[done:] for move in part.moves]
        counted = plan.counted
        if counted:
            plan.uncount([plan.params[m.operand].update_rule for m in left if m.operand >= 0])
        plan.release()
        optimizer.reallocate_cleared_grads()
        hooks = optimizer._hookable
        for hook in list(hooks._pre_update_hooks.values())[_count(made, PRE) :]:
            optimizer.call_hook(hook)
        if not counted:
            optimizer.t += 1
        if optimizer.is_safe_to_update():
            updated = {id(move.param) for move in made}
            for param in optimizer.target.params():
                if id(param) not in updated:
                    param.update()
        optimizer.reallocate_cleared_grads()
        for hook in list(hooks._post_update_hooks.values())[_count(made, POST) :]:
            optimizer.call_hook(hook)


def _count(moves, stage: int) -> int:
    return sum(move.stage == stage and move.hook is not None for move in moves)
