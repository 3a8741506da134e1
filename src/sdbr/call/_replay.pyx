"""The replay of a schedule, whoever asks for it: bind, run, hand out, wire in, effects."""

from weakref import ref as _ref

from sdbr.base.errors import OtherAnswer, SideExit
from sdbr.call.exits.failures import exit_after
from sdbr.program._memory import claim
from sdbr.call.autograd import anchor, call_class
from sdbr.schedule.questions import Before
from sdbr.schedule.results import output_values, returned_as_is
from sdbr.trace.effects.sides import EXITS
from sdbr.trace.values import Value

import chainer

from sdbr.call._binding cimport Binder
from sdbr.call._effects cimport Effects
from sdbr.base._python cimport sdbr_bare, sdbr_set_attributes
from sdbr.call._conditions cimport Numbers
from sdbr.call._spec cimport Leaves, leaves_of
from sdbr.call.exits._exits cimport Exits
from sdbr.compat.graph._graph cimport entry_of_config
from sdbr.optimizers._update cimport Update
from sdbr.program._memory cimport Memory

cdef str _LAZY_GRAD_SUM = "lazy_grad_sum"
cdef object _VariableNode = chainer.variable.VariableNode


cdef enum Source:
    # Where a leaf of the trace lies that is no leaf of the call.
    PARAMETER = -1
    ATTRIBUTE = -2
    RESULT = -3  # the call has made it itself


cdef enum:
    NOWHERE = -1  # in the place of a result that is no single Variable or array
    TRIM_EVERY = 256  # calls after which instances that nobody needed go


cdef Binder binder_of(instance):
    """The binder of an instance; made when first asked for."""
    binder = instance.binder
    if binder is None:
        plan, trace = instance.plan, instance.schedule.trace
        binder = instance.binder = Binder(
            instance.executable, plan.leaves, plan.outputs, trace, _VariableNode,
            windows=plan.views, hidden=plan.hidden, returned=returned_leaves(trace),
            lodger=instance.lodger, staged=plan.staged,
        )
        look_for_exits(binder, instance.schedule, plan, [], None)
    return binder


cdef int look_for_exits(Binder binder, schedule, plan, list params, Update update) except -1:
    """Look, after user code that a program runs, at what the call reads; see `Exits`."""
    cdef Memory memory = binder.outputs.memory
    if plan.taken_back is not None and plan.taken_back.beside:
        binder.exits = Exits(schedule, plan.leaves, params, plan.taken_back, memory, update)
        memory.state[EXITS] = binder.exits
    return 0


def returned_leaves(trace):
    """Arguments, parameters and captured state that a call hands out as they are."""
    return [value for value in output_values(trace) if returned_as_is(value)]


def without_history(plan, leaves) -> set[int]:
    """Numbers of the Variables of whose arrays alone the call has made something (``h.array``)."""
    reached = {value.index for value in plan.differentiable}
    return {
        value.index
        for value in leaves
        if value.kind in ("argument", "attribute")
        and value.is_variable
        and value.requires_grad
        and value.index not in reached
    }


cdef class Sources:
    """Where leaves of a trace lie in a call.

    Parameters
    ----------
    values : list of Value
    places : dict
        By number of a value the place of what the call hands out for it.
    bare : set of int
        Numbers of values of which the call has taken the array alone: a Variable would keep a
        history alive that define-by-run's graph does not hold.
    """

    def __init__(self, values, dict places, bare=frozenset()):
        self.described = [
            (*self.describe(value, places), value.index in bare) for value in values
        ]

    def describe(self, value, dict places):
        if value.kind == "argument":
            return (value.source, None, None)
        if value.kind == "parameter":
            return (PARAMETER, value.source, None)
        if value.index in places:
            return (RESULT, None, places[value.index])
        return (ATTRIBUTE, value.source[0].__dict__, value.source[1])

    cdef list of(self, tuple args, list positions, Effects effects):
        """The Variables and arrays themselves."""
        cdef list found = []
        cdef int place
        for at, thing, name, bare in self.described:
            place = at
            if place >= 0:
                thing = args[<int> positions[place]]
            elif place == ATTRIBUTE:
                thing = thing.get(name)  # a place may stand in for a dictionary
            elif place == RESULT:
                thing = effects.thing(<int> name)
            found.append(thing._data[0] if bare else thing)
        return found


cdef class Replay:
    """Runs one schedule.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    """

    def __init__(self, manager, schedule):
        plan = schedule.forward
        trace = schedule.trace
        self.manager = manager
        self.schedule = schedule
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.python_ops = plan.program.python_ops
        self.taken_back = plan.taken_back
        self.double = manager.options.enable_double_backprop
        self.result = trace.result
        self.places = {v.index: i for i, (v, _, _, _) in enumerate(plan.outputs)}
        returned = returned_leaves(trace)
        self.returned = Sources(returned, self.places) if returned else None
        leaves = [value for value, _ in plan.leaves]
        self.leaf_sources = Sources(leaves, self.places, without_history(plan, leaves))
        self.graph_sources = Sources(plan.differentiable, self.places)
        self.graph_places = [self.places[value.index] for value in plan.graph_outputs]
        for value in returned:
            self.places[value.index] = len(self.places)
        self.result_place = NOWHERE
        if isinstance(self.result, Value):  # a result of the user's may have an `index`, too
            self.result_place = self.places.get(self.result.index, NOWHERE)
        self.graph_ranks = [depth + 1 for depth in plan.depths]
        self.call_class = call_class(plan)
        self.outputs_name = "every_output" if plan.comes_apart else "outputs"
        self.anchored = bool(plan.graph_outputs) and plan.parts[0].is_anchored
        self.in_layouts = (None,) * (1 if self.anchored else len(self.graph_sources.described))
        self.out_layouts = (None,) * len(self.graph_places)
        self.joins_graph = bool(plan.graph_outputs)
        self.followed = plan.followed
        self.deepest = 0
        self.until_trim = TRIM_EVERY

    cdef object idle_instance(self):
        """An instance whose activations no live call needs, marked as running."""
        cdef list instances = self.schedule.instances
        cdef Py_ssize_t i = 0
        while i < len(instances):
            instance = instances[i]
            if claim(instance):
                break
            i += 1
        else:
            instance = self.manager.new_instance(self.schedule)
        if i > self.deepest:
            self.deepest = i
        self.until_trim -= 1
        if self.until_trim <= 0:
            self.trim(instances)
        return instance

    cdef int trim(self, list instances) except -1:
        """Let go of the instances that none of the last calls has needed."""
        while len(instances) > 2 * (self.deepest + 1) and claim(instances[len(instances) - 1]):
            instances.pop()
        self.deepest = 0
        self.until_trim = TRIM_EVERY
        return 0

    def call(self, list leaves, list floats, reference=None):
        """Serve a call that was compared in full.

        Parameters
        ----------
        leaves : list
            The Variables and arrays among the arguments.
        floats : list of float
            Those among the arguments.
        reference : GradientAudit or None
            What the backward is to be compared with.

        Returns
        -------
        object
            What the call returns; NotImplemented if what is bound no longer fits.
        """
        cdef Leaves now = leaves_of(leaves)
        cdef Numbers numbers = Numbers(self.schedule, len(floats))
        if not numbers.look(tuple(floats)):
            return NotImplemented
        return self.serve(now, list(range(len(leaves))), numbers, False, reference)

    def leaves_way(self, list leaves, list floats):
        """Run until the last question alone, and take all of it back.

        Parameters
        ----------
        leaves, floats : list
            As for `call`.

        Returns
        -------
        tuple of int or None
            The answers of a call that goes another way than this schedule.
        """
        cdef Leaves now
        cdef Numbers numbers
        cdef Binder binder
        cdef list positions = list(range(len(leaves)))
        if self.taken_back is None or self.taken_back.last < 0:
            return None
        now = leaves_of(leaves)
        numbers = Numbers(self.schedule, len(floats))
        if not numbers.look(tuple(floats)):
            return None
        instance = self.idle_instance()
        try:
            binder = binder_of(instance)
            if not binder.bind(now, positions):
                return None
            binder.effects.forget()
            binder.outputs.bind(None)
            numbers.write(binder.outputs.memory, 0)
            before = Before(self.taken_back, binder.outputs.memory)
            binder.enter()
            try:
                for i in instance.executable.step():
                    if i >= self.taken_back.last:
                        break
            except OtherAnswer as other:
                return self.schedule.after(other)
            except Exception:
                return None  # the replay says so
            finally:
                binder.leave()
                before.put_back()
        finally:
            instance.running = False
        return None

    cdef object serve(
        self, Leaves now, list positions, Numbers numbers, bint quick, reference
    ):
        """Run on an instance that no live call needs; its activations are the call's from now on.

        `quick` tells that nobody has counted the call yet.
        """
        cdef Binder binder
        cdef Effects effects
        cdef list sources
        cdef tuple args = now.now
        instance = self.idle_instance()
        try:
            binder = binder_of(instance)
            effects = binder.effects
            if not binder.bind(now, positions):
                return NotImplemented
            effects.forget()
            binder.outputs.bind(None)
            numbers.write(binder.outputs.memory, 0)
            sources = self.leaf_sources.of(args, positions, None)
            snapshot = None
            if self.double:
                snapshot = self.manager.snapshot(self.schedule.forward, sources)
            if reference is None:
                self.run(binder, args)
            else:
                instance.executable.watch = reference.watch(self.schedule, instance)
                try:
                    self.run(binder, args)
                finally:
                    instance.executable.watch = None
            self.statistics.replayed(self.usage, self.python_ops, quick)
            if self.joins_graph:
                node = self.connect(instance, effects, args, positions, sources, snapshot)
                if reference is not None:
                    node.reference = reference
            try:
                return self.finish(effects, numbers, args, positions)
            finally:
                effects.forget()
        finally:
            # Not before the node is there: until then the instance looks idle to other threads.
            instance.running = False

    cdef int run(self, Binder binder, tuple given) except -1:
        """Run the program; one that cannot go on leaves nothing behind but what user code did."""
        cdef Memory memory = binder.outputs.memory
        before = None
        if self.taken_back is not None:
            before = Before(self.taken_back, memory)
            if binder.exits is not None:
                binder.exits.begin(given)
        try:
            binder.run()
        except (OtherAnswer, SideExit):
            before.put_back()
            raise
        except Exception as error:
            left = exit_after(error, self.schedule.forward, memory, before, binder.exits)
            if left is None:
                raise
            raise left from None
        finally:
            if binder.exits is not None:
                binder.exits.end()
            if before is not None and memory.device is not None:
                before.end()
        return 0

    cdef object serve_alone(
        self, Binder binder, Leaves now, list positions, Numbers numbers
    ):
        """Run a call that leaves no graph behind on a binder that is nobody else's.

        What it wrote to attributes stays in place.
        """
        cdef Effects effects = binder.effects
        if not binder.bind(now, positions):
            return NotImplemented
        if effects.n_late and not effects.can_report():
            effects.is_overheard = True  # it is going to raise
        if self.taken_back is None:
            binder.outputs.bind(effects.in_place())
        else:  # a run that meets another answer has written nothing that somebody holds
            effects.forget()
            binder.outputs.bind(None)
        numbers.write(binder.outputs.memory, 0)
        self.run(binder, now.now)
        self.statistics.replayed(self.usage, self.python_ops, True)
        effects.keep_written()
        return self.finish(effects, numbers, now.now, positions)

    cdef object finish(self, Effects effects, Numbers numbers, tuple args, list positions):
        """Take what the call leaves behind to its places; its result."""
        if self.returned is not None:
            effects.take(self.returned.of(args, positions, effects))
        if self.result_place != NOWHERE:
            result = effects.thing(self.result_place)
        else:
            result = {index: effects.thing(<int> at) for index, at in self.places.items()}
            result = effects.made_of(self.result, numbers.show(result))
        effects.numbers = numbers.kept
        effects.apply()
        return result

    cdef object connect(
        self, instance, Effects effects, tuple args, list positions, list sources, snapshot
    ):
        """Make the autograd node and wire it in, as ``FunctionNode.apply`` would have done."""
        cdef list inputs = []
        cdef list outputs = []
        cdef int rank = 0
        cdef Py_ssize_t i
        for x in self.graph_sources.of(args, positions, effects):
            node = x._node
            if node._rank > rank:
                rank = node._rank
            inputs.append(node)
        if self.anchored:
            inputs = [anchor()]
        call = sdbr_bare(self.call_class)
        for i in range(len(self.graph_places)):
            variable = effects.thing(<int> self.graph_places[i])
            node = variable._node
            node._creator_node = call
            node._rank = rank + <int> self.graph_ranks[i]
            outputs.append(_ref(node))
        # Their arrays are where the Variables are no longer, too, and there is no cycle.
        results = ()
        if self.followed:
            results = tuple([
                None if place is None else effects.thing(<int> place)._data
                for place in self.followed
            ])
        attributes = {
            "instance": instance,
            "sdbr_compiled": instance.backwards,
            "generation": instance.generation,
            "sources": sources,
            "results": results,
            "manager": self.manager,
            "snapshot": snapshot,
            "call_number": self.statistics.calls,
            "_input_layouts": self.in_layouts,
            "_output_layouts": self.out_layouts,
            "_output_count": len(outputs),
            "inputs": tuple(inputs),
            self.outputs_name: tuple(outputs),
            "rank": rank,
            "lazy_grad_sum": <object> entry_of_config(_LAZY_GRAD_SUM),
        }
        sdbr_set_attributes(call, attributes)
        instance.call_number = self.statistics.calls
        instance.node = _ref(call)
        return call
