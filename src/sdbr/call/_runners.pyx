"""Who serves a call or a step that is the same as one before: it is replayed at once.

Else :mod:`sdbr.call.manager` compares the key in full, and finds or makes the schedule; the replay
is the same (:mod:`sdbr.call._replay`).
"""

from time import perf_counter as _clock
from types import MethodType as _Method

from sdbr.audit.share import share_now
from sdbr.backends import make_executable
from sdbr.base.errors import OtherAnswer
from sdbr.lowering.python_op import RAISED, WHOLE_STEP
from sdbr.schedule.questions import Before

import chainer

from cpython.object cimport PyObject

from sdbr.call._due cimport Due
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes
from sdbr.call._binding cimport Binder
from sdbr.call._effects cimport Effects
from sdbr.call._gradients cimport Gradients
from sdbr.program._memory cimport Arena, Memory
from sdbr.call._replay cimport Replay, binder_of
from sdbr.call._conditions cimport Numbers, WriteWatch, hooks_are_off
from sdbr.call._spec cimport CallSpec
from sdbr.call._table cimport Runner
from sdbr.optimizers._update cimport Update
from sdbr.schedule._statistics cimport Statistics, Usage

cdef object _Link = chainer.Link
cdef str _LOSS_SCALE = "_loss_scale"
cdef str _USE_CLEARGRADS = "_use_cleargrads"
cdef str _LOCAL_LINK_HOOKS = "_local_link_hooks"
cdef str _DYNAMIC = "dynamic"
cdef str _GONE = "gone"
cdef str _KEEPS_GRAPHS = "keeps_graphs"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True   # literals would become C numbers
cdef object _FALSE = False
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef PyObject *FALSE = <PyObject *> _FALSE


# Called with (manager, start, seconds) after every static call and step; None while nobody asks.
cdef object _watcher = None


def watch_calls(watcher):
    """Let `watcher` see every static call and every whole step; None ends it.

    Parameters
    ----------
    watcher : callable or None
        ``watcher(manager, start, seconds)``: `start` by the clock of `time.perf_counter`.

    Returns
    -------
    callable or None
        The watcher before.
    """
    global _watcher
    before = _watcher
    _watcher = watcher
    return before


def call_watcher():
    """The callable that sees every static call, or None."""
    return _watcher


cdef inline bint is_set(dict d, str name, PyObject *unset) noexcept:
    """Whether an instance has an attribute of its own that is not `unset`."""
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
    return found != NULL and found != unset


cdef double audit_share(manager, schedule) except? -1:
    """What audits of a schedule may cost now; the setting is among what a `CallSpec` compares."""
    if schedule.due is None or manager.audits.off:
        return 0
    return share_now()


cdef int _tell(manager, double start) except -1:
    watcher = _watcher
    if watcher is not None:
        watcher(manager, start, _clock() - start)
    return 0


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
    cdef Gradients gradients
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
    cdef object taken_back        # what is put back of a run that met another answer
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
        self.control_base = plan.update.n_control
        n_control = self.control_base + len(schedule.trace.scalars)
        memory = plan.memory = self.memory = Memory(len(plan.table.slots), n_control)
        memory.state[WHOLE_STEP] = schedule
        for slot, array in plan.states:
            memory.bind(slot, array)
        lodger = arena.join(memory, plan.program)
        memory.reserve(plan.program)
        self.executable = make_executable(plan.program, memory, schedule.backend)
        self.python_ops = plan.program.python_ops
        self.gradients = Gradients(memory, plan.grads, gradients)
        self.binder = Binder(
            self.executable, plan.leaves, plan.outputs, schedule.trace, node_class,
            plan.extra_params, {id(p) for p in plan.update.params}, self.control_base,
            plan.views, plan.hidden, lodger=lodger,
        )
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
        cdef double start = 0
        cdef double begin = 0
        self.met, self.halted = None, False
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return False
        self.running = True
        if _watcher is not None:
            start = _clock()
        try:
            if not self.matches(lossfun, args, kwargs):
                return False
            if self.share and not audited:
                if not self.declines and self.due.is_due(self.spec, self.positions):
                    self.halted = True
                    return False
                begin = self.due.budget.start()
            made = self.run(audited)
            if made:
                self.declines = False
            self.halted = not made and self.met is None
            if begin:
                self.due.budget.stop(begin, self.share)
            if made and start:
                _tell(self.manager, start)
            return made
        finally:
            if self.spec is not None:
                self.spec.release()
            self.memory.taken = False
            self.running = False

    cdef bint matches(self, lossfun, tuple args, dict kwargs):
        if self.spec is None or not self.is_lossfun(lossfun):
            return False
        if not self.spec.matches(args, kwargs) or not hooks_are_off():
            return False
        if not self.write_watch.hold() or not self.update.check():
            return False
        if self.numbers.active and not self.numbers.read(self.spec):
            return False
        if is_set(self.optimizer_dict, _LOSS_SCALE, NONE):
            return False
        if is_set(self.manager_dict, _KEEPS_GRAPHS, FALSE):
            return False
        if is_set(self.optimizer_dict, _USE_CLEARGRADS, TRUE):
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
            self.spec = CallSpec(args, kwargs, self.schedule.trace.asks_layout)
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
        if not binder.bind(self.spec, self.positions) or not binder.effects.can_report():
            return False
        if binder.effects.is_overheard and not audited:
            # Who is told may look at parameters, or raise: before the update. An audit keeps the
            # reports back, and is not begun where the user's own reporter would hear them.
            return False
        if not self.update.prepare(memory, 0):
            return False
        self.numbers.write(memory, self.control_base)
        self.gradients.bind()
        if self.taken_back is None:
            before = None
            binder.outputs.bind(binder.effects.in_place())
        else:
            before = Before(self.taken_back, memory)
            binder.effects.forget()
            binder.outputs.bind(None)
        try:
            binder.run()
        except OtherAnswer as other:
            before.put_back()
            if audited:
                raise
            self.met = self.schedule.after(other)
            return False
        except BaseException:
            if memory.state.pop(RAISED, False):
                # As Chainer, which clears them between the forward and the backward.
                self.optimizer.target.cleargrads()
            raise
        self.gradients.publish()
        self.update.commit()
        self.statistics.steps += 1
        self.statistics.replayed(self.usage, self.python_ops, True)
        binder.effects.keep_written()
        binder.effects.numbers = self.numbers.kept
        binder.effects.apply()
        return True


cdef class CallRunner(Runner):
    """Serves the calls that are like one that was compared in full.

    Parameters
    ----------
    replay : Replay
        Of the schedule.
    instance : Instance or None
        Its own, where calls leave no graph behind: no other call takes it.
    args, kwargs : tuple, dict
        The call that was compared in full.
    """

    cdef readonly Replay replay
    cdef dict schedule_dict
    cdef Binder own
    cdef WriteWatch write_watch
    cdef Numbers numbers
    cdef CallSpec spec
    cdef list positions
    cdef Due due                  # when to audit
    cdef double share             # what audits may cost; 0 without any

    def __init__(self, Replay replay, instance, tuple args, dict kwargs):
        schedule = self.schedule = replay.schedule
        self.replay = replay
        self.schedule_dict = schedule.__dict__
        self.own = None if instance is None else binder_of(instance)
        self.write_watch = WriteWatch(schedule.guards)
        self.spec = CallSpec(args, kwargs, schedule.trace.asks_layout)
        self.numbers = Numbers(schedule, len(self.spec.float_positions))
        self.positions = self.spec.array_positions(args, kwargs)
        self.share = audit_share(replay.manager, schedule)
        self.due = schedule.due

    @property
    def executable(self):
        """The executable that no other call runs; None where calls leave a graph behind."""
        return None if self.own is None else self.own.executable

    @staticmethod
    def suits(tuple args, dict kwargs):
        """Whether a runner can serve such calls."""
        return CallSpec.suits(args, kwargs)

    cdef object attempt(self, callee, tuple args, dict kwargs, bint unhooked):
        """The result of the call."""
        cdef double start = 0
        cdef double begin
        self.met, self.halted = None, False
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return NotImplemented
        self.running = True
        if _watcher is not None:
            start = _clock()
        try:
            if not self.matches(args, kwargs, unhooked):
                return NotImplemented
            if self.share and self.due.is_due(self.spec, self.positions):
                self.halted = True
                return NotImplemented
            begin = self.due.budget.start() if self.share else 0
            result = self.run_call()
            if begin:
                self.due.budget.stop(begin, self.share)
            if result is NotImplemented:
                self.halted = True
            elif start:
                _tell(self.replay.manager, start)
            return result
        except OtherAnswer as other:
            self.met = self.schedule.after(other)
            return NotImplemented
        finally:
            self.spec.release()
            self.running = False

    cdef bint matches(self, tuple args, dict kwargs, bint unhooked):
        if is_set(self.schedule_dict, _DYNAMIC, NONE):
            return False
        if not self.spec.matches(args, kwargs) or not (unhooked or hooks_are_off()):
            return False
        if not self.write_watch.hold():
            return False
        return not self.numbers.active or self.numbers.read(self.spec)

    cdef object run_call(self):
        """The result of the call, or NotImplemented when it declines."""
        if self.own is not None:
            return self.replay.serve_alone(self.own, self.spec, self.positions, self.numbers)
        return self.replay.serve(self.spec, self.positions, self.numbers, True, None)
