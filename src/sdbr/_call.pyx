"""One call, compiled: the same as before? Then bind, run, wrap.

Everything here has a slower twin in :mod:`sdbr.manager`; whatever looks unusual is left to it.
"""

from time import perf_counter as _clock
from types import MethodType as _Method
from weakref import ref as _ref

from sdbr._memory import claim
from sdbr.audit.settings import share_now
from sdbr.autograd import anchor, call_class
from sdbr.backends import make_executable
from sdbr.functions.python_op import WHOLE_STEP
from sdbr.trace.structure import fill_values

import chainer

from cpython.object cimport PyObject

from sdbr._audit cimport Due
from sdbr._binding cimport Binder, Effects, Gradients
from sdbr._executor cimport Memory
from sdbr._python cimport (
    PyDict_GetItemWithError,
    sdbr_attributes,
    sdbr_bare,
    sdbr_set_attributes,
)
from sdbr._spec cimport CallSpec, LinkGuards, Numbers, hooks_are_off
from sdbr._update cimport Guard

cdef object _Variable = chainer.Variable
cdef object _VariableNode = chainer.variable.VariableNode
cdef object _Link = chainer.Link


cdef class Statistics:
    """Counters of one manager.

    Attributes
    ----------
    calls, traces, second_traces, replays, steps, define_by_run_calls : int
        How calls were served; `steps` are replays that were whole steps.
    native_calls : int
        Runs of a program (forward, backward, update or step).
    python_ops : int
        Python ops run inside them.
    second_backwards, second_replays : int
        Second derivatives that were taken through a replayed call, and how many of them were
        replays of their own.
    """

    cdef public long long calls
    cdef public long long traces
    cdef public long long second_traces
    cdef public long long replays
    cdef public long long steps
    cdef public long long define_by_run_calls
    cdef public long long native_calls
    cdef public long long python_ops
    cdef public long long second_backwards
    cdef public long long second_replays

    def count_run(self, executable):
        """Count one run of an executable."""
        self.native_calls += 1
        self.python_ops += executable.program.python_ops

    def to_dict(self):
        """All counters by name."""
        return {
            "calls": self.calls,
            "traces": self.traces,
            "second_traces": self.second_traces,
            "replays": self.replays,
            "steps": self.steps,
            "define_by_run_calls": self.define_by_run_calls,
            "native_calls": self.native_calls,
            "python_ops": self.python_ops,
            "second_backwards": self.second_backwards,
            "second_replays": self.second_replays,
        }

    def __repr__(self):
        return f"Statistics({', '.join(f'{k}={v}' for k, v in self.to_dict().items())})"


cdef class Usage:
    """How often a schedule served its manager's calls.

    Attributes
    ----------
    served : int
    last_call : int
        Number of the call that it served last.
    """

    cdef public long long served
    cdef public long long last_call

    def count(self, Statistics statistics):
        """Count the present call."""
        self.served += 1
        self.last_call = statistics.calls


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


cdef class StepRunner:
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
    """

    cdef readonly object manager
    cdef readonly object schedule
    cdef readonly object plan
    cdef readonly object optimizer
    cdef readonly object lossfun
    cdef readonly Memory memory
    cdef readonly object executable
    cdef Binder binder
    cdef Statistics statistics
    cdef Usage usage
    cdef LinkGuards link_guards
    cdef Numbers numbers
    cdef readonly Guard update
    cdef Gradients gradients
    cdef CallSpec spec
    cdef object optimizer_dict
    cdef list positions
    cdef bint running
    cdef int python_ops
    cdef Due due                  # when to audit
    cdef double share             # what audits may cost; 0 without any
    cdef int control_base         # where the numbers of the trace begin in the control block

    def __init__(self, manager, schedule, plan, optimizer, lossfun, node_class):
        self.manager = manager
        self.schedule = schedule
        self.plan = plan
        self.optimizer = optimizer
        self.optimizer_dict = optimizer.__dict__
        self.lossfun = lossfun
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.link_guards = LinkGuards(schedule.guards)
        self.update = plan.update
        self.control_base = plan.update.n_control
        n_control = self.control_base + len(schedule.trace.scalars)
        memory = self.memory = Memory(len(plan.table.slots), n_control)
        memory.state[WHOLE_STEP] = schedule
        for slot, array in plan.states:
            memory.bind(slot, array)
        memory.reserve(plan.program)
        self.executable = make_executable(plan.program, memory, schedule.backend)
        self.python_ops = plan.program.python_ops
        self.gradients = Gradients(memory, plan.grads)
        self.binder = Binder(
            self.executable, plan.leaves, plan.outputs, schedule.trace, node_class,
            plan.extra_params, {id(p) for p in plan.update.params}, self.control_base,
            plan.views, plan.hidden,
        )
        self.spec = None

    def step(self, lossfun, tuple args, dict kwargs, bint audited=False):
        """Make the step if it is the one that this runner is for.

        Parameters
        ----------
        lossfun, args, kwargs :
            As given to ``optimizer.update``.
        audited : bool
            Whether this is the replay of an audit; else one that is due is declined.

        Returns
        -------
        bool or None
            None when it is another call; False when the native step declines: nothing has
            happened then.
        """
        cdef double start = 0
        cdef double begin = 0
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return None
        self.running = True
        if _watcher is not None:
            start = _clock()
        try:
            if not self.matches(lossfun, args, kwargs):
                return None
            if self.share and not audited:
                if self.due.is_due(self.spec, self.positions):
                    return None
                begin = self.due.budget.start()
            made = self.run()
            if begin:
                self.due.budget.stop(begin, self.share)
            if made and start:
                _tell(self.manager, start)
            return made
        finally:
            if self.spec is not None:
                self.spec.release()
            self.running = False

    cdef bint matches(self, lossfun, tuple args, dict kwargs):
        if self.spec is None or not self.is_lossfun(lossfun):
            return False
        if not self.spec.matches(args, kwargs) or not hooks_are_off():
            return False
        if not self.link_guards.hold() or not self.update.check():
            return False
        if self.numbers.active and not self.numbers.read(self.spec):
            return False
        d = self.optimizer_dict
        if d.get("_loss_scale") is not None or d.get("_use_cleargrads", True) is not True:
            return False
        return self.schedule.dynamic is None and not self.schedule.gone

    cdef bint is_lossfun(self, lossfun):
        if isinstance(lossfun, _Link):
            # Its own hooks alone: those of its parts are conditions of the schedule.
            d = sdbr_attributes(lossfun, NULL)
            return lossfun is self.lossfun and not (<dict> d).get("_local_link_hooks")
        if lossfun is self.lossfun:
            return True
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
            self.spec = CallSpec(args, kwargs)
            self.share = audit_share(self.manager, self.schedule)
            self.due = self.schedule.due
            self.numbers = Numbers(self.schedule, len(self.spec.float_positions))
            self.positions = self.spec.array_positions(args, kwargs)
            return self.spec.matches(args, kwargs)
        finally:
            if self.spec is not None:
                self.spec.release()
            self.running = False

    cdef bint run(self) except -1:
        cdef Memory memory = self.memory
        cdef Binder binder = self.binder
        if not binder.bind(self.spec, self.positions) or not binder.effects.can_report():
            return False
        if not self.update.prepare(memory, 0):
            return False
        self.numbers.write(memory, self.control_base)
        self.gradients.bind()
        binder.outputs.bind(binder.effects.in_place())
        binder.run()
        self.gradients.publish()
        self.update.commit()
        statistics = self.statistics
        statistics.calls += 1
        statistics.replays += 1
        statistics.steps += 1
        statistics.native_calls += 1
        statistics.python_ops += self.python_ops
        self.usage.served += 1
        self.usage.last_call = statistics.calls
        binder.effects.apply()
        return True


cdef Binder instance_binder(instance):
    """The binder of an instance of a schedule."""
    plan = instance.plan
    trace = instance.schedule.trace
    return Binder(
        instance.executable, plan.leaves, plan.outputs, trace, _VariableNode,
        windows=plan.views, hidden=plan.hidden,
    )


cdef class CallRunner:
    """Runs one schedule whose calls leave no graph behind (test mode, no backprop).

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    instance : Instance
        Its own: no other call takes it.
    args, kwargs : tuple, dict
        The call that was compared in full.
    """

    cdef readonly object manager
    cdef readonly object schedule
    cdef Binder binder
    cdef Statistics statistics
    cdef Usage usage
    cdef LinkGuards link_guards
    cdef Numbers numbers
    cdef CallSpec spec
    cdef list positions
    cdef object result
    cdef Due due                  # when to audit
    cdef double share             # what audits may cost; 0 without any
    cdef readonly dict places     # value index -> output index
    cdef int result_place         # output index of a result that is one Variable or array, else -1
    cdef int python_ops
    cdef bint running

    def __init__(self, manager, schedule, instance, tuple args, dict kwargs):
        plan = instance.plan
        self.manager = manager
        self.schedule = schedule
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.link_guards = LinkGuards(schedule.guards)
        self.python_ops = plan.program.python_ops
        self.binder = instance_binder(instance)
        self.spec = CallSpec(args, kwargs)
        self.numbers = Numbers(schedule, len(self.spec.float_positions))
        self.positions = self.spec.array_positions(args, kwargs)
        self.share = audit_share(manager, schedule)
        self.due = schedule.due
        self.result = schedule.trace.result
        places = {v.index: i for i, (v, _, _, _) in enumerate(plan.outputs)}
        self.result_place = places.get(getattr(self.result, "index", None), -1)
        self.places = places

    @property
    def executable(self):
        """The executable that runs."""
        return self.binder.executable

    @staticmethod
    def suits(schedule, tuple args, dict kwargs):
        """Whether a runner can serve such calls."""
        return not schedule.returned_leaves and CallSpec.suits(args, kwargs)

    cdef bint matches(self, tuple args, dict kwargs, bint unhooked):
        if self.schedule.dynamic is not None:
            return False
        if not self.spec.matches(args, kwargs) or not (unhooked or hooks_are_off()):
            return False
        if not self.link_guards.hold():
            return False
        if self.numbers.active and not self.numbers.read(self.spec):
            return False
        return self.share == 0 or not self.due.is_due(self.spec, self.positions)

    cdef object run_call(self, tuple args, dict kwargs):
        """The result of the call, or NotImplemented when it declines."""
        cdef Binder binder = self.binder
        cdef Effects effects = binder.effects
        if not binder.bind(self.spec, self.positions):
            return NotImplemented
        binder.outputs.bind(effects.in_place())
        self.numbers.write(binder.outputs.memory, 0)
        binder.run()
        statistics = self.statistics
        statistics.calls += 1
        statistics.replays += 1
        statistics.native_calls += 1
        statistics.python_ops += self.python_ops
        self.usage.served += 1
        self.usage.last_call = statistics.calls
        if self.result_place >= 0:
            result = effects.hand_out(self.result_place)
        else:
            things = {}
            for index, place in self.places.items():
                things[index] = effects.hand_out(place)
            result = fill_values(self.result, self.numbers.show(things))
        effects.apply()
        return result


cdef class GraphRunner(CallRunner):
    """Runs one schedule whose calls leave an autograd node behind."""

    cdef list leaf_sources        # per leaf: (position or -1, object or dict, name)
    cdef list graph_sources       # the same of the inputs of the autograd node
    cdef list graph_places        # output indices of the outputs of the autograd node
    cdef tuple in_layouts
    cdef tuple out_layouts
    cdef list graph_ranks         # of these: by how much they are above the inputs
    cdef object call_class
    cdef str outputs_name
    cdef bint anchored            # one input that gets no gradient
    cdef bint double              # second derivatives may be asked for

    def __init__(self, manager, schedule, tuple args, dict kwargs):
        plan = schedule.forward
        self.manager = manager
        self.schedule = schedule
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.link_guards = LinkGuards(schedule.guards)
        self.double = manager.options.enable_double_backprop
        self.python_ops = plan.program.python_ops
        self.spec = CallSpec(args, kwargs)
        self.numbers = Numbers(schedule, len(self.spec.float_positions))
        self.positions = self.spec.array_positions(args, kwargs)
        self.share = audit_share(manager, schedule)
        self.due = schedule.due
        self.result = schedule.trace.result
        self.places = {v.index: i for i, (v, _, _, _) in enumerate(plan.outputs)}
        self.result_place = self.places.get(getattr(self.result, "index", None), -1)
        self.leaf_sources = [self.describe(v) for v, _ in plan.leaves]
        self.graph_sources = [self.describe(v) for v in plan.differentiable]
        self.graph_places = [self.places[v.index] for v in plan.graph_outputs]
        self.graph_ranks = [depth + 1 for depth in plan.depths]
        self.call_class = call_class(plan)
        self.outputs_name = "every_output" if plan.comes_apart else "outputs"
        self.anchored = plan.parts[0].is_anchored
        self.in_layouts = (None,) * (1 if self.anchored else len(self.graph_sources))
        self.out_layouts = (None,) * len(self.graph_places)

    def describe(self, value):
        """How to find what a leaf stands for at each call."""
        if value.kind == "argument":
            return (self.positions[value.source], None, None)
        if value.kind == "parameter":
            return (-1, value.source, None)
        if value.index in self.places:  # a leaf that the call has made itself
            return (-3, None, self.places[value.index])
        return (-2, value.source[0].__dict__, value.source[1])

    cdef list sources(self, list wanted, tuple args, Effects effects):
        cdef list found = []
        for position, thing, name in wanted:
            if <int> position >= 0:
                found.append(args[<int> position])
            elif <int> position == -1:
                found.append(thing)
            elif <int> position == -2:
                found.append(thing[name])
            else:
                found.append(effects.thing(<int> name))
        return found

    cdef object idle_instance(self, tuple args):
        """An instance whose activations no live call needs, marked as running."""
        cdef list instances = self.schedule.instances
        if instances:
            instance = instances[0]
            if claim(instance, False):
                return instance
        return self.manager.acquire(self.schedule, [args[i] for i in self.positions])

    cdef object run_call(self, tuple args, dict kwargs):
        cdef Binder binder
        cdef Effects effects
        args = self.spec.now  # flat, as they were compared
        instance = self.idle_instance(args)
        try:
            binder = instance.binder
            if binder is None:
                binder = instance.binder = instance_binder(instance)
            if not binder.bind(self.spec, self.positions):
                return NotImplemented
            binder.effects.forget()
            binder.outputs.bind(None)
            self.numbers.write(binder.outputs.memory, 0)
            sources = self.sources(self.leaf_sources, args, None)
            snapshot = None
            if self.double:
                snapshot = self.manager.snapshot(self.schedule.forward, sources)
            binder.run()
            statistics = self.statistics
            statistics.calls += 1
            statistics.replays += 1
            statistics.native_calls += 1
            statistics.python_ops += self.python_ops
            self.usage.served += 1
            self.usage.last_call = statistics.calls
            effects = binder.effects
            self.connect(instance, effects, args, sources, snapshot)
            if self.result_place >= 0:
                result = effects.thing(self.result_place)
            else:
                things = {index: effects.thing(place) for index, place in self.places.items()}
                result = fill_values(self.result, self.numbers.show(things))
            effects.apply()
            effects.forget()
        finally:
            # Not before the node is there: until then the instance looks idle to other threads.
            instance.running = False
        return result

    cdef int connect(
        self, instance, Effects effects, tuple args, list sources, snapshot
    ) except -1:
        """Make the autograd node and wire it in, as ``StaticCall.connect`` does."""
        cdef list inputs = []
        cdef list outputs = []
        cdef int rank = 0
        cdef Py_ssize_t i
        for x in self.sources(self.graph_sources, args, effects):
            node = x._node
            if node._rank > rank:
                rank = node._rank
            inputs.append(node)
        if self.anchored:
            inputs.append(anchor())
        call = sdbr_bare(self.call_class)
        for i in range(len(self.graph_places)):
            variable = effects.thing(<int> self.graph_places[i])
            node = variable._node
            node._creator_node = call
            node._rank = rank + <int> self.graph_ranks[i]
            outputs.append(_ref(node))
        attributes = {
            "instance": instance,
            "generation": instance.generation,
            "sources": sources,
            "manager": self.manager,
            "snapshot": snapshot,
            "call_line": self.statistics.calls,
            "_input_layouts": self.in_layouts,
            "_output_layouts": self.out_layouts,
            "_output_count": len(outputs),
            "inputs": tuple(inputs),
            self.outputs_name: tuple(outputs),
            "rank": rank,
            "lazy_grad_sum": chainer.config.lazy_grad_sum,
        }
        sdbr_set_attributes(call, attributes, NULL)
        instance.call_line = self.statistics.calls
        instance.node = _ref(call)
        return 0


cdef class Entry:
    """How the calls of one decorated function are served: compiled, else by `slow`."""

    cdef object function
    cdef object managers_key
    cdef object slow
    cdef object call              # what stands in the place of the function

    cdef object serve(self, tuple args, dict kwargs, bint unhooked):
        """One call; `unhooked` tells that there are no hooks, as the caller has just seen."""
        cdef PyObject *managers
        cdef PyObject *found
        cdef list runners
        if args and isinstance(args[0], _Link):
            owner = args[0]
            d = sdbr_attributes(owner, NULL)
            managers = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> self.managers_key)
            if managers != NULL and (<object> managers).owner_id == <size_t> <PyObject *> owner:
                found = PyDict_GetItemWithError(managers, <PyObject *> self.function)
                if found != NULL:
                    runners = (<object> found).runners
                    if runners:
                        result = serve_fast(runners, args[1:], kwargs, unhooked)
                        if result is not NotImplemented:
                            return result
        else:
            manager = self.call.schedule_manager
            if manager is not None:
                runners = manager.runners
                if runners:
                    result = serve_fast(runners, args, kwargs, unhooked)
                    if result is not NotImplemented:
                        return result
        return self.slow(args, kwargs)


def static_entry(function, managers_key, slow):
    """What stands in the place of a decorated function: the compiled path, else ``slow``.

    Parameters
    ----------
    function : callable
        Undecorated.
    managers_key : str
        Attribute of a link that holds its managers by function.
    slow : callable
        Serves every call; ``slow(args, kwargs)``.
    """
    cdef Entry entry = Entry.__new__(Entry)

    def call(*args, **kwargs):
        return entry.serve(args, kwargs, False)

    entry.function, entry.managers_key, entry.slow, entry.call = function, managers_key, slow, call
    call._sdbr_serves = entry
    return call


def link_call(call):
    """A ``__call__`` for links whose ``forward`` is `call`: past the hooks when there are none."""
    cdef Entry entry = call._sdbr_serves

    def __call__(*args, **kwargs):
        cdef dict d
        if not args:
            raise TypeError("__call__() missing 1 required positional argument: 'self'")
        d = sdbr_attributes(args[0], NULL)
        if "_local_link_hooks" in d or "forward" in d or not hooks_are_off():
            return _Link.__call__(*args, **kwargs)
        return entry.serve(args, kwargs, True)

    __call__._sdbr_link_call = True
    return __call__


cpdef run_fast(list runners, tuple args, dict kwargs):
    """Serve a call by the first of `runners` that fits; NotImplemented when none does."""
    return serve_fast(runners, args, kwargs, False)


cdef object serve_fast(list runners, tuple args, dict kwargs, bint unhooked):
    cdef CallRunner runner
    cdef Py_ssize_t i
    cdef double start = 0
    cdef double begin
    if _watcher is not None:
        start = _clock()
    for i in range(len(runners)):
        if i >= len(runners):
            break
        runner = <CallRunner> runners[i]
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if runner.running:
            continue
        runner.running = True
        try:
            if runner.matches(args, kwargs, unhooked):
                if i:
                    runners.remove(runner)
                    runners.insert(0, runner)
                    runner.manager.use(runner.schedule)
                begin = runner.due.budget.start() if runner.share else 0
                result = runner.run_call(args, kwargs)
                if begin:
                    runner.due.budget.stop(begin, runner.share)
                if start and result is not NotImplemented:
                    _tell(runner.manager, start)
                return result
        finally:
            runner.spec.release()
            runner.running = False
    return NotImplemented
