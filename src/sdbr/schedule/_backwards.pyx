"""The backwards of one set of activations: bind, run, hand the gradients out."""

from sdbr.base.audit_share import SHARE, share_now
from sdbr.backends import make_executable
from sdbr.base.errors import Retrace, SdbrError
from sdbr.devices import arrays
from sdbr.lowering.python_op import AGAIN, NO_GRADIENT
from sdbr.program._memory import claim, claim_backward
from sdbr.schedule.parts import Pattern

import chainer
import numpy as np

from cpython.array cimport array as int_array
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject

from sdbr._executor cimport Executable
from sdbr.audit._budget cimport Budget, seconds
from sdbr.base._dicts cimport sdbr_own, sdbr_own_dict
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes, sdbr_list_item
from sdbr.compat.graph._graph cimport Compiled
from sdbr.compat.graph._variables cimport as_variable, bare
from sdbr.schedule._kinds cimport Kinds
from sdbr.schedule._statistics cimport Statistics

cdef str _DATA = "_data"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _MANAGER = "manager"
cdef str _GENERATION = "generation"
cdef str _SOURCES = "sources"
cdef str _RESULTS = "results"
cdef str _REFERENCE = "reference"
cdef str _IS_SPLIT = "is_split"
cdef PyObject *NONE = <PyObject *> None
cdef str _AUDIT = "sdbr_audit"
cdef double _SHARE = SHARE
cdef object _local_config = chainer.config._local
cdef dict _global_config = chainer.global_config.__dict__
cdef sdbr_own _own_config
cdef object _Variable = chainer.Variable


cdef enum:
    # How a gradient is handed out.
    NO_GRADIENT_HERE
    INCOMING  # what came in, or a part of it
    MADE      # an array that is made for it
    WINDOW    # a part of one


def way_of(grad):
    """The way in which a `Gradient` is handed out."""
    if grad is None:
        return NO_GRADIENT_HERE
    if grad.made is None:
        return INCOMING
    return MADE if grad.window is None else WINDOW


cdef double share() except? -1:
    """What audits may cost now."""
    cdef dict own = sdbr_own_dict(_local_config, &_own_config)
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> own, <PyObject *> _AUDIT)
    if found == NULL:
        found = PyDict_GetItemWithError(<PyObject *> _global_config, <PyObject *> _AUDIT)
    if found != NULL and type(<object> found) is str:
        if <str> found == "auto":
            return _SHARE
        if <str> found == "off":
            return 0
    return share_now()


cdef class BackwardRun:
    """One backward program on the memory of one instance.

    Parameters
    ----------
    instance : Instance
    plan : BackwardPlan
    """

    def __init__(self, instance, plan):
        self.instance = instance
        self.plan = plan
        self.memory = instance.memory
        self.given, self.wanted = plan.pattern.given, plan.pattern.wanted
        self.retained = plan.pattern.retained
        self.seeds = list(plan.seeds)
        outputs = [plan.part.outputs[i] for i in self.given]
        self.seed_kinds = Kinds([(value.shape, value.dtype) for value in outputs])
        self.seed_values = outputs
        self.grads = [*plan.grads, *plan.retained]
        made = [(), np.dtype("f")]  # for what is not made
        self.kinds = Kinds([
            made if grad is None or grad.made is None else grad.made for grad in self.grads
        ])
        self.ways = int_array("i", [way_of(grad) for grad in self.grads])
        self.slots = int_array("i", [-1 if grad is None else grad.slot for grad in self.grads])
        self.temporary = list(plan.temporary)
        self.followed = list(plan.followed)
        self.arena = -1 if plan.arena is None else plan.arena
        self.arena_bytes = plan.program.arena_bytes
        self.may_borrow = instance.plan.program.arena_bytes >= self.arena_bytes
        # A gradient that goes nowhere has a slot, but no place in the program.
        slots = [*plan.temporary, *[followed.slot for _, followed in plan.followed]]
        self.memory.grow(max(slots, default=-1) + 1, 0)

    cdef int prepare(self) except -1:
        """Make the executable; the arena has to be bound."""
        self.memory.reserve(self.plan.program)
        self.executable = make_executable(
            self.plan.program, self.memory, self.instance.schedule.backend
        )
        self.compiled = self.executable if isinstance(self.executable, Executable) else None
        return 0

    cdef object lender(self):
        """Another instance, marked as running, whose activations nobody needs and which has room.

        In a loop whose last loss is still bound while the next call runs there are two instances.
        By the backward the older one is idle, and its memory does for it: define-by-run has not
        more at once either.
        """
        cdef list instances = self.instance.schedule.instances
        cdef Py_ssize_t i
        if self.may_borrow:
            for i in range(4):
                if i >= len(instances):
                    break
                other = instances[i]
                if not (other is self.instance or other.given_back) and claim(other):
                    return other
        return None

    cdef list run(self, Backwards owner, list gys, list sources, tuple results):
        lender = arena = None
        if self.arena >= 0:
            lender = self.lender()
            if lender is None:
                arena = owner.forward.take_arena(self.arena_bytes, self.memory)
            memory = arena if lender is None else lender.own_arena()
            self.memory.bind_fast(self.arena, <PyObject *> memory)
        try:
            return self.run_bound(owner, gys, sources, results)
        finally:
            self.memory.let_go(self.temporary)
            if lender is not None:
                lender.running = False
                owner.forward.was_lent()
            elif arena is not None:
                owner.forward.arenas.append(arena)

    cdef list run_bound(self, Backwards owner, list gys, list sources, tuple results):
        """The same, with the arena of the program bound; it and the gradients stay bound."""
        cdef list given = []
        cdef Py_ssize_t k
        if self.executable is None:
            self.prepare()
        owner.bind(sources)
        if self.followed:
            misfit = self.memory.follow(self.followed, results)
            if misfit >= 0:
                value = owner.forward.lowered.gap.followed_values[misfit]
                raise Retrace(value, results[misfit][0])
        self.bind_seeds(gys)
        for k in range(len(self.grads)):
            given.append(self.bind_gradient(k))
        if self.compiled is not None:
            self.compiled.run_c()
        else:
            self.executable.run()
        return given

    cdef object bind_gradient(self, Py_ssize_t k):
        """Bind what one gradient is written to; the gradient as it is handed out, or None."""
        cdef int way = self.ways.data.as_ints[k]
        cdef int slot = self.slots.data.as_ints[k]
        if way == NO_GRADIENT_HERE:
            return None
        if way == INCOMING:
            return self.grads[k].on(self.memory.owners[slot])
        if self.memory.device is None:
            array = self.kinds.new(k)
        else:
            array = arrays.new(*self.grads[k].made, self.memory.device, "a gradient")
        self.memory.bind_fast(slot, <PyObject *> array)
        return array if way == MADE else self.grads[k].on(array)

    cdef int bind_seeds(self, list gys) except -1:
        cdef Py_ssize_t k
        cdef PyObject *g
        for k in range(len(self.seeds)):
            g = sdbr_list_item(<PyObject *> gys, k)
            if self.seed_kinds.fits(k, g):
                self.memory.bind_fast(<int> self.seeds[k], g)
                continue
            value = self.seed_values[k]
            array = <object> g
            if array.shape != value.shape or array.dtype != value.dtype:
                raise SdbrError(
                    f"the gradient of output {self.given[k]} of a static call has to be "
                    f"{value.dtype.name}{list(value.shape)} as the output is, got "
                    f"{array.dtype.name}{list(array.shape)}"
                )
            self.memory.bind(<int> self.seeds[k], arrays.contiguous(array))
        return 0


cdef class Backwards(Compiled):
    """The backwards of one set of activations.

    Parameters
    ----------
    instance : Instance
    """

    def __init__(self, instance):
        plan = instance.plan
        trace = instance.schedule.trace
        self.instance = instance
        self.forward = plan
        self.lock = instance.lock
        self.memory = instance.memory
        self.values = [value for value, _ in plan.leaves]
        self.kinds = Kinds([(value.shape, value.dtype) for value in self.values])
        self.slots = int_array("i", [slot for _, slot in plan.leaves])
        self.comes_apart = plan.comes_apart
        self.outputs_name = "every_output" if self.comes_apart else "outputs"
        whole = plan.parts[0]
        self.suits = not (whole.own or whole.is_anchored or trace.forgotten)
        self.device = self.memory.device
        self.known = {}

    cdef int bind(self, list sources) except -1:
        """Bind arguments, parameters and captured state: per leaf what the call saw.

        The same objects are bound anew: an array that was replaced in a Variable is seen.

        Raises
        ------
        Retrace
            If one of them no longer has the shape and dtype of the trace.
        """
        cdef int i
        if len(sources) != len(self.slots):
            raise ValueError(f"{len(sources)} sources for {len(self.slots)} leaves")
        for i in range(len(self.slots)):
            self.bind_source(i, sources[i])
        return 0

    cdef int bind_source(self, int i, source) except -1:
        cdef PyObject *array = <PyObject *> source
        cdef int slot = self.slots.data.as_ints[i]
        if PyObject_TypeCheck(source, <PyTypeObject *> _Variable):
            d = sdbr_attributes(source, NULL)
            array = sdbr_list_item(
                PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _DATA), 0
            )
        if self.kinds.fits(i, array):
            return self.memory.bind_fast(slot, array)
        value = self.values[i]
        now = <object> array
        if now is None or now.shape != value.shape or now.dtype != value.dtype:
            raise Retrace(value, now)
        if value.held and not now.flags.c_contiguous:
            raise Retrace(value, now)  # a function may update it: a copy will not do
        self.memory.bind(slot, arrays.contiguous(now))
        return 0

    cdef BackwardRun run_of(self, tuple given, tuple wanted, bint retained):
        """The run for gradients of outputs `given` and inputs `wanted` of the whole call."""
        cdef BackwardRun last = self.last
        if (
            last is None or given != last.given or wanted != last.wanted
            or retained != last.retained
        ):
            last = self.last = self.get(Pattern(given, wanted, 0, False, retained))
        return last

    def get(self, pattern):
        """The run of a pattern; made when first asked for."""
        run = self.known.get(pattern)
        if run is None:
            run = self.known[pattern] = BackwardRun(self.instance, self.forward.backward(pattern))
        return run

    def run(self, pattern, list gys, list sources, tuple results, Statistics statistics):
        """Run the backward program of a pattern.

        Parameters
        ----------
        pattern : Pattern
        gys : list of ndarray
            Of the outputs that carry a gradient.
        sources : list
            See `bind`.
        results : tuple
            Per ``ForwardPlan.followed`` the list that holds the array of the Variable, or None.
        statistics : Statistics
            Counts the run.

        Returns
        -------
        list
            Gradients, None where none reaches.
        """
        return self.go(self.get(pattern), gys, sources, results, statistics)

    cdef list go(
        self, BackwardRun run, list gys, list sources, tuple results, Statistics statistics
    ):
        cdef list given = run.run(self, gys, sources, results)
        cdef dict state = self.memory.state
        statistics.count_run(run.executable)
        none = state.pop(NO_GRADIENT, None) if state else None
        if none is not None:
            # The traced call has had no backward yet: only now it shows that a function gives
            # None. That is not zeros; another program leaves these gradients out.
            pattern = run.plan.pattern
            self.forward.forget(run.plan)
            del self.known[pattern]
            self.last = None
            if none == AGAIN:
                return self.run(pattern, gys, sources, results, statistics)
        return given

    # --- without Chainer's code -------------------------------------------------------------
    cdef bint may_run(self, dict attributes, list starts) except -1:
        cdef PyObject *found
        if not self.suits or _REFERENCE in attributes or _IS_SPLIT in attributes:
            return False
        if not self.comes_apart:
            return True
        # Gradients that lie on siblings: see `SeveralParts`.
        for ref in attributes[self.outputs_name]:
            node = ref()
            if node is None or node in starts:
                continue
            variable = node._variable()
            if variable is None:
                continue
            d = sdbr_attributes(variable, NULL)
            found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _GRAD)
            if found != NULL and found != NONE:
                return False
            found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _GRAD_VAR)
            if found != NULL and found != NONE:
                return False
        return True

    cdef tuple outputs(self, dict attributes):
        return attributes[self.outputs_name]

    cdef list gradients(self, function, dict attributes, tuple targets, list gys, bint retain):
        cdef Statistics statistics
        cdef Budget budget
        cdef list given = []
        cdef list seeds = []
        cdef list found
        cdef Py_ssize_t i
        manager = attributes[_MANAGER]
        statistics = manager.statistics
        with self.lock:
            for i in range(len(gys)):
                if gys[i] is not None:
                    given.append(i)
                    seeds.append(bare(gys[i]))
            if not given:
                raise function.missing_gradient()
            if not claim_backward(self.instance, attributes[_GENERATION]):
                raise function.stale()
            # Nobody waits for a run on a GPU: its time is known of some.
            clock, may_take = function.clock() if self.device is not None else (None, 0)
            start = seconds() if clock is None else clock.begin()
            try:
                found = self.go(
                    self.run_of(tuple(given), targets, retain and self.comes_apart),
                    seeds, attributes[_SOURCES], attributes[_RESULTS], statistics,
                )
            except Retrace as e:
                raise function.misfit(*e.args) from None
            finally:
                self.instance.running = False
            statistics.compiled_backwards += 1
            if clock is None:
                budget = manager.audits.budget
                budget.count(seconds() - start, share())
            else:
                clock.end(start, may_take)
        if retain:
            self.retain(attributes, gys, found[len(targets):])
        return found

    cdef int retain(self, dict attributes, list gys, list inner) except -1:
        """Give the Variables that were handed out their gradients, `inner` where that is not None.

        Where the call comes apart, one that none reaches keeps what lies on it.
        """
        cdef Py_ssize_t i
        cdef tuple refs = attributes[self.outputs_name]
        for i in range(len(refs)):
            node = refs[i]()
            if node is None:
                continue
            gradient = gys[i]
            if inner and inner[i] is not None:
                gradient = inner[i]
            if gradient is not None or not self.comes_apart:
                node._set_grad_var_if_available(as_variable(gradient))
        return 0
