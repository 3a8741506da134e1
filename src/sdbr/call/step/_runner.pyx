"""Who makes a step that is the same as one before: forward, backward and update at once.

Else :mod:`sdbr.call.step.whole` looks for the runner, or makes it.
"""

from types import MethodType as _Method

from sdbr.backends import make_executable
from sdbr.base.errors import OtherAnswer, SideExit
from sdbr.call.exits.failures import exit_after
from sdbr.call._replay import returned_leaves
from sdbr.call.exits.resumed import finished
from sdbr.lowering.python_op import RAISED, WHOLE_STEP
from sdbr.ops.control import ALL_FINITE
from sdbr.optimizers.ranks.averaging import AVERAGING, averaging_of
from sdbr.schedule.questions import Before

import chainer

from cpython.object cimport PyObject

from sdbr.call._due cimport Due
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes
from sdbr.call._binding cimport Binder
from sdbr.call._effects cimport Effects
from sdbr.call.step._gradients cimport Added, Gradients
from sdbr.program._arenas cimport Arena
from sdbr.program._memory cimport Memory
from sdbr.call._replay cimport Sources, look_for_exits
from sdbr.call._conditions cimport Numbers, WriteWatch, hooks_are_off
from sdbr.call._spec cimport CallSpec
from sdbr.call._table cimport Runner
from sdbr.call._watching cimport audit_share, is_set, tell, watched_since
from sdbr.optimizers._groups cimport as_number
from sdbr.optimizers._masters cimport Masters
from sdbr.optimizers._update cimport Update
from sdbr.schedule._statistics cimport Statistics, Usage

cdef object _Link = chainer.Link
cdef object _Variable = chainer.Variable
cdef str _LOSS_SCALE = "_loss_scale"
cdef str _USE_CLEARGRADS = "_use_cleargrads"
cdef str _LOCAL_LINK_HOOKS = "_local_link_hooks"
cdef str _IS_NAN = "_loss_scaling_isnan"
cdef str _IS_NAN_EVER = "_loss_scaling_isnan_ever"
cdef str _AVERAGING = AVERAGING
cdef str _DYNAMIC = "dynamic"
cdef str _GONE = "gone"
cdef str _KEEPS_GRAPHS = "keeps_graphs"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True   # literals would become C numbers
cdef object _FALSE = False
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef PyObject *FALSE = <PyObject *> _FALSE


cdef class StepRunner(Runner):
    """Runs the whole step of one optimizer through one schedule.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    plan : StepPlan
    optimizer : chainer.GradientMethod
    lossfun : callable
    node_class : type
        Variable node of what the step leaves behind.
    arena : Arena
    gradients : dict
        See `Gradients`.
    """

    cdef readonly object manager
    cdef readonly object plan
    cdef readonly object optimizer
    cdef readonly object lossfun
    cdef readonly Memory memory
    cdef readonly object executable
    cdef Binder binder
    cdef Statistics statistics
    cdef Usage usage
    cdef WriteWatch write_watch
    cdef Numbers numbers
    cdef readonly Update update
    cdef readonly object averaging  # over ranks, in the program or after it; or None
    cdef readonly bint whole      # the update is part of the program; else it comes after it
    cdef Gradients gradients
    cdef Added added
    cdef Masters masters
    cdef bint clears              # gradients become None before the backward, not zero
    cdef bint left_out            # gradients of the last run were not finite: no update
    cdef public object told       # the warning of that which define-by-run raised, in an audit
    cdef bint scaled              # the loss is multiplied with the scale of the optimizer
    cdef int scale_index
    cdef Sources returned         # what is handed out as it is
    cdef CallSpec spec
    cdef dict optimizer_dict
    cdef dict schedule_dict
    cdef dict manager_dict
    cdef bint of_link             # whether `lossfun` is a link
    cdef list positions
    cdef int python_ops
    cdef Due due                  # when to audit
    cdef double share             # what audits may cost; 0 without any
    cdef public bint declines     # whether an audited step was declined, and none made since
    cdef object taken_back        # what is put back of a run that could not go on
    cdef object side_exit         # of the run that is under way, or None
    cdef int control_base         # where the numbers of the trace begin in the control block

    def __init__(
        self, manager, schedule, plan, optimizer, lossfun, node_class, Arena arena, gradients
    ):
        self.manager = manager
        self.schedule = schedule
        self.plan = plan
        self.optimizer = optimizer
        self.optimizer_dict = optimizer.__dict__
        self.schedule_dict = schedule.__dict__
        self.manager_dict = manager.__dict__
        self.lossfun = lossfun
        self.of_link = isinstance(lossfun, _Link)
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.write_watch = WriteWatch(schedule.guards)
        self.update = plan.update
        self.whole = plan.in_step
        self.averaging = averaging_of(optimizer)
        self.clears = getattr(optimizer, _USE_CLEARGRADS, True)
        self.scaled = plan.scale_index >= 0
        self.scale_index = plan.scale_index
        self.control_base = plan.control_base
        n_control = self.control_base + len(schedule.trace.scalars) + self.scaled
        memory = plan.memory = self.memory = Memory(
            len(plan.table.slots), n_control, schedule.device
        )
        memory.state[WHOLE_STEP] = schedule
        for slot, array in plan.states:
            memory.bind(slot, array)
        lodger = arena.join(memory, plan.program)
        memory.reserve(plan.program)
        self.executable = make_executable(plan.program, memory, schedule.backend)
        self.python_ops = plan.program.python_ops
        self.gradients = Gradients(memory, plan.grads, gradients, plan.unreached)
        self.added = Added(memory, plan.added) if plan.added else None
        self.masters = Masters(memory, plan.masters) if plan.masters else None
        returned = returned_leaves(schedule.trace)
        self.returned = Sources(returned, {}) if returned else None
        self.binder = Binder(
            self.executable, plan.leaves, plan.outputs, schedule.trace, node_class,
            plan.extra_params, {id(p) for p in plan.update.params}, self.control_base,
            plan.views, plan.hidden, returned, lodger, plan.staged,
        )
        params = [parameter for parameter, _, _, _ in plan.extra_params]
        update = self.update if self.whole else None
        look_for_exits(self.binder, schedule, plan, params, update)
        self.spec = None
        self.taken_back = plan.taken_back

    cdef object attempt(self, lossfun, tuple args, dict kwargs, bint unhooked):
        """True when the step was made."""
        return True if self.make(lossfun, args, kwargs, False) else NotImplemented

    def step(self, lossfun, tuple args, dict kwargs, bint audited=False):
        """Make the step if it is one that this runner is for.

        Parameters
        ----------
        lossfun, args, kwargs :
            As given to ``optimizer.update``.
        audited : bool
            Whether this is the replay of an audit; else one that is due is declined.

        Returns
        -------
        bool
            False when it is another call, or the native step declines: nothing has happened then.
        """
        return self.make(lossfun, args, kwargs, audited)

    cdef bint make(self, lossfun, tuple args, dict kwargs, bint audited) except -1:
        cdef double start
        cdef double begin = 0
        self.met, self.halted = None, False
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return False
        self.running = True
        start = watched_since()
        try:
            if not self.matches(lossfun, args, kwargs):
                return False
            if self.share and not audited:
                if not self.declines and self.due.is_due(
                    self.spec, self.positions, self.share
                ):
                    self.halted = True
                    return False
                begin = self.due.start()
            made = self.run(audited)
            if made:
                self.declines = False
            elif self.side_exit is not None:
                left, self.side_exit = self.side_exit, None
                return self.end_in_parts(left, args, kwargs)
            self.halted = not made and self.met is None
            if begin:
                self.due.stop(begin, self.share)
        finally:
            if self.spec is not None:
                self.spec.release()
            self.memory.taken = False
            self.running = False
        if made and not self.whole:
            self.optimizer.update()
        elif made and self.left_out:
            try:
                self.leave_out(audited)
            finally:
                if not audited:  # who audits compares first
                    self.release()
        if made and start:
            tell(self.manager, start)
        return made

    def release(self):
        """Take back what was made ahead for an update that was left out."""
        if self.left_out:
            self.update.release()

    def fits_optimizer(self):
        """Whether the optimizer makes its steps as it did when this was made."""
        return self.update.check() and self.is_mode()

    cdef bint is_mode(self):
        if is_set(self.optimizer_dict, _LOSS_SCALE, NONE) != self.scaled:
            return False
        if _AVERAGING in self.optimizer_dict or self.averaging is not None:
            if self.averaging is not averaging_of(self.optimizer):
                return False
        return is_set(self.optimizer_dict, _USE_CLEARGRADS, TRUE) != self.clears

    cdef bint matches(self, lossfun, tuple args, dict kwargs):
        if self.spec is None or not self.is_lossfun(lossfun):
            return False
        if not self.spec.matches(args, kwargs) or not hooks_are_off():
            return False
        if not self.write_watch.hold() or not self.update.check():
            return False
        if self.numbers.active and not self.numbers.read(self.spec):
            return False
        if not self.is_mode() or is_set(self.manager_dict, _KEEPS_GRAPHS, FALSE):
            return False
        if is_set(self.schedule_dict, _DYNAMIC, NONE):
            return False
        return not is_set(self.schedule_dict, _GONE, FALSE)

    def is_overheard(self):
        """Whether code of others is told of the reports, as things are now."""
        cdef Effects effects = self.binder.effects
        return not effects.can_report() or effects.is_overheard

    cdef bint is_lossfun(self, lossfun):
        cdef PyObject *hooks
        if lossfun is self.lossfun:
            if not self.of_link:
                return True
            # Its own hooks alone: those of its parts are conditions of the schedule.
            d = sdbr_attributes(lossfun, NULL)
            hooks = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _LOCAL_LINK_HOOKS)
            return hooks == NULL or hooks == NONE or not <object> hooks
        # Each access to a method makes a new object.
        if type(lossfun) is not _Method or type(self.lossfun) is not _Method:
            return False
        return (
            lossfun.__self__ is self.lossfun.__self__ and lossfun.__func__ is self.lossfun.__func__
        )

    def learn(self, tuple args, dict kwargs):
        """Remember a call whose key was compared in full.

        Returns
        -------
        bool
            False if it is of no simple kind, or another thread is in a step.
        """
        if self.running:
            return False
        self.running = True
        try:
            if not CallSpec.suits(args, kwargs):
                return False
            schedule = self.schedule
            self.spec = CallSpec(args, kwargs, schedule.trace.asks_layout, schedule.free)
            self.share = audit_share(self.manager, self.schedule)
            self.due = self.schedule.due
            self.numbers = Numbers(self.schedule, len(self.spec.float_positions))
            self.positions = self.spec.array_positions(args, kwargs)
            return self.spec.matches(args, kwargs)
        finally:
            if self.spec is not None:
                self.spec.release()
            self.running = False

    cdef bint run(self, bint audited) except -1:
        cdef Memory memory = self.memory
        cdef Binder binder = self.binder
        scale = self.optimizer_dict[_LOSS_SCALE] if self.scaled else None
        if not binder.bind(self.spec, self.positions) or not binder.effects.can_report():
            return False
        if self.added is not None and not self.are_leaves():
            return False
        if self.whole:
            if binder.effects.is_overheard and not audited:
                # Who is told may look at parameters, or raise: before the update. An audit keeps
                # the reports back, and is not begun where the user's own reporter would hear them.
                return False
            if self.scaled and self.update.loss_scale is not None:
                self.update.loss_scale = scale  # of this step, by which its gradients are divided
            if not self.update.prepare(memory, 0):
                return False
        self.numbers.write(memory, self.control_base)
        if self.scaled:
            memory.control[self.scale_index] = as_number(scale)
        self.bind_written()
        if not self.run_program(audited):
            return False
        self.gradients.publish(scale, not self.clears)
        if self.added is not None:
            self.added.publish(self.spec.now, self.positions, scale)
        if self.whole and not self.left_out:
            self.commit()
        self.statistics.steps += 1
        self.statistics.replayed(self.usage, self.python_ops, True)
        binder.effects.keep_written()
        binder.effects.numbers = self.numbers.kept
        if self.returned is not None:
            binder.effects.take(self.returned.of(self.spec.now, self.positions, None))
        binder.effects.apply()
        return True

    cdef bint run_program(self, bint audited) except -1:
        """Whether the run came to its end; else it leaves nothing but what user code did."""
        cdef Binder binder = self.binder
        cdef Memory memory = self.memory
        self.left_out = False
        if self.taken_back is None:
            before = None
            binder.outputs.bind(binder.effects.in_place())
        else:
            before = Before(self.taken_back, memory)
            binder.effects.forget()
            binder.outputs.bind(None)
            if binder.exits is not None:
                binder.exits.begin(self.spec.now)
        try:
            binder.run()
        except OtherAnswer as other:
            self.left_out = other.number == ALL_FINITE
            if not self.left_out:
                before.put_back()
                if audited:
                    raise
                self.met = self.schedule.after(other)
                return False
        except SideExit as side_exit:
            before.put_back()
            if audited:
                raise
            self.side_exit = side_exit
            return False
        except BaseException as error:
            if memory.state.pop(RAISED, False):
                # As Chainer, which clears them between the forward and the backward.
                self.optimizer.target.cleargrads()
                raise
            left = None
            if isinstance(error, Exception):
                left = exit_after(error, self.plan, memory, before, binder.exits)
            if left is None:
                raise
            if audited:
                raise left from None
            self.side_exit = left
            return False
        finally:
            if binder.exits is not None:
                binder.exits.end()
            if before is not None and memory.device is not None:
                before.end()
        return True

    cdef bint end_in_parts(self, side_exit, tuple args, dict kwargs) except -1:
        """Make the step whose forward has been left, in parts."""
        self.statistics.calls += 1

        def loss(*args, **kwargs):
            return finished(self.manager, self.schedule, side_exit, args, kwargs)

        self.optimizer.update(loss, *args, **kwargs)
        return True

    cdef int commit(self) except -1:
        """What Chainer's own update does beside the rules, which have run."""
        if self.masters is not None:
            self.masters.publish()
        self.update.commit()
        if self.update.dynamic:
            self.optimizer_dict[_IS_NAN] = False
            self.optimizer.update_loss_scale()
        return 0

    cdef int leave_out(self, bint audited) except -1:
        """The same where gradients are not finite. Of an audit the other side has said it."""
        if audited:
            self.optimizer_dict[_IS_NAN] = self.optimizer_dict[_IS_NAN_EVER] = True
            if self.told is not None:
                raise self.told
        else:
            self.optimizer.check_nan_in_grads()
        self.optimizer.t += 1
        self.optimizer.update_loss_scale()
        return 0

    cdef int bind_written(self) except -1:
        """Choose and bind what becomes gradients, and parameters."""
        self.gradients.bind()
        if self.added is not None:
            self.added.bind()
        if self.masters is not None:
            self.masters.bind()
        return 0

    cdef bint are_leaves(self):
        """Whether no argument has a history that its gradient would go on into."""
        cdef tuple given = self.spec.now
        for position in self.positions:
            thing = given[<int> position]
            if isinstance(thing, _Variable) and thing.creator_node is not None:
                return False
        return True
