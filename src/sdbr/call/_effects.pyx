"""What a run leaves behind: attributes, places outside of links, reports; in their order."""

from sdbr.devices.arrays import on_host
from sdbr.compat.link_version import bump as bump_link_version
from sdbr.trace.arrays._scalars import Scalar
from sdbr.trace.structure import fill_shared, fill_values
from sdbr.trace.values import AttributeWrite, Report, Value, values_in

import chainer
from chainer import reporter

from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    sdbr_attributes,
    sdbr_list_item,
    sdbr_refcount,
)
from sdbr.call._outputs cimport Outputs
from sdbr.compat.graph._variables cimport is_as_made, new_variable, without_history
from sdbr.devices._arrays cimport memory_is_held, on_device

cdef str _DATA = "_data"
cdef str _NODE = "_node"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_NODE = <PyObject *> _NODE
cdef PyObject *NONE = <PyObject *> None
# In the place of a Variable's requires_grad.
cdef object _SCALAR = "NumPy scalar"
cdef object _NUMBER = "number of Python"

cdef object _Variable = chainer.Variable
cdef object _get_reporters = reporter._get_reporters
cdef object _Reporter = reporter.Reporter
cdef object _report = reporter.Reporter.report
cdef object _local_config = chainer.config._local
cdef dict _global_config = chainer.global_config.__dict__


def write_attribute(dict d, str name, value):
    """Set an attribute of a link past ``Link.__setattr__``.

    The version of the links counts up only when the kind of value changes: schedules that read
    the attribute look at its shape each time, but not at whether it is None. Those that read a
    number look at the dictionary.
    """
    cdef PyObject *old = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
    if old == NULL or (old == NONE) != (value is None):
        bump_link_version()
    d[name] = value


cdef bint report_quickly(current, dict values, observer) except -1:
    """What ``Reporter.report`` does, for Chainer's own class; False leaves it to that."""
    if type(current) is not _Reporter or _Reporter.report is not _report:
        return False
    if type(current.observation) is not dict or type(current._observer_names) is not dict:
        return False
    keep = (<dict> _local_config.__dict__).get("keep_graph_on_report")
    if keep or (keep is None and _global_config.get("keep_graph_on_report")):
        return False
    prefix = None
    if observer is not None:
        # An observer that is not registered is an error, which Chainer words.
        prefix = (<dict> current._observer_names).get(<size_t> <PyObject *> observer)
        if type(prefix) is not str:
            return False
    cdef dict observation = current.observation
    for name, value in values.items():
        if type(value) is _Variable:
            value = without_history(value)
        elif isinstance(value, _Variable):
            return False
        observation[name if prefix is None else f"{prefix}/{name}"] = value
    return True


cdef enum:
    # What a step of the effects does.
    ASSIGN        # an output, to an attribute of a link
    ASSIGN_PLAIN  # something that is always the same
    ASSIGN_NUMBER  # one of Python, to an attribute of a link
    ASSIGN_TREE   # outputs in lists, tuples and dicts
    STORE         # something, outside of links
    REPORT

cdef enum:
    # In the place of an output.
    NOWHERE = -1  # there is none
    NUMBER = -2  # one of the control block, in what is reported
    EXACT = -3  # one of `numbers`


cdef tuple _where(source):
    """What tells apart where attributes of links lie."""
    holder, name = source
    return id(getattr(holder, "__dict__", None)), name


cdef class Effects:
    """What a run leaves behind: attributes, places outside of links, reports; in their order.

    A Variable that this object wrote and that nobody else holds stays where it is: its array
    gets the new values.

    Parameters
    ----------
    outputs : Outputs
    values : list of (Value, int, tuple, dtype)
    returned : list of Value
        Leaves that are handed out as they are: their places come after those of the outputs.
    trace : Trace
    node_class : type
        Variable node of what is handed out.
    control_base : int
        Where the scalars of the trace begin in the control block.
    """

    def __init__(self, Outputs outputs, values, returned, trace, node_class, control_base):
        self.exact = trace.numbers
        self.shares = bool(trace.shared)
        self.places = {value.index: i for i, (value, _, _, _) in enumerate(values)}
        for value in returned:
            self.places[value.index] = len(self.places)
        self.outputs = outputs
        self.node_class = node_class
        self.kinds = [
            v.shown if v.is_variable
            else _NUMBER if v.number is not None
            else _SCALAR if v.is_scalar
            else None
            for v, _, _, _ in values
        ]
        self.n_outputs = len(values)
        self.keep = [False] * len(values)
        # What lies there goes on to somebody: nothing else may be written over it.
        self.handed_on = {_where(value.source) for value in returned if value.kind == "attribute"}
        self.things = [None] * len(self.places)
        self.writes = []
        self.observers = []
        self.details = [
            self._write(effect) if isinstance(effect, AttributeWrite)
            else self._report(effect, trace.scalars, control_base) if isinstance(effect, Report)
            else self._store(effect)
            for effect in trace.effects
        ]
        self.written = [None] * len(self.writes)
        self.n_steps = len(self.details)
        self.steps = <Step *> calloc(max(self.n_steps, 1), sizeof(Step))
        if self.steps == NULL:
            raise MemoryError
        for i, (kind, place, at, *detail) in enumerate(self.details):
            self.steps[i] = Step(kind=kind, place=place, at=at)
            self.details[i] = tuple(detail)

    def __dealloc__(self):
        free(self.steps)

    def _write(self, write):
        x, d = write.value, write.link.__dict__
        if isinstance(x, (dict, list, tuple)):
            return ASSIGN_TREE, NOWHERE, NOWHERE, d, write.name, x, self._places_in(x)
        if isinstance(x, Scalar):
            return ASSIGN_NUMBER, self.exact.index(x), NOWHERE, d, write.name
        place = self.place_of(x)
        if place == NOWHERE:
            return ASSIGN_PLAIN, NOWHERE, NOWHERE, d, write.name, x
        i = NOWHERE
        if place < self.n_outputs and (id(d), write.name) not in self.handed_on:
            i = len(self.writes)
            # Who is told of a report before it must find there what was there before.
            self.writes.append((d, write.name, place, bool(self.observers)))
            self.n_late += bool(self.observers)
        return ASSIGN, place, i, d, write.name

    def _store(self, store):
        target = NOWHERE if store.target is None else self.places[store.target.index]
        return STORE, target, NOWHERE, store.sink, store.value, self._places_in(store.value)

    def _report(self, report, scalars, control_base):
        items = []
        for name, x in report.items.items():
            if isinstance(x, Scalar) and x in self.exact:
                items.append((name, EXACT, self.exact.index(x)))
            elif isinstance(x, Scalar):
                items.append((name, NUMBER, control_base + scalars.index(x)))
            else:
                items.append((name, self.place_of(x), x))
        self.observers.append(report.observer)
        return REPORT, NOWHERE, NOWHERE, items, report.observer

    def place_of(self, x):
        """Where what a value of the trace stands for is handed out; anything else is nowhere."""
        # The user's own may have an `index`, too.
        return self.places.get(x.index, NOWHERE) if isinstance(x, Value) else NOWHERE

    def _places_in(self, structure):
        return {value.index: self.places[value.index] for value in values_in(structure)}

    cdef list in_place(self):
        """Which outputs can stay where they are: only their attribute holds them."""
        cdef Py_ssize_t i
        for i in range(len(self.keep)):
            self.keep[i] = False
        self.forget_things()  # of a call that a signal ended before its effects
        for i in range(len(self.writes)):
            if self.written[i] is None:
                continue
            d, name, place, late = self.writes[i]
            if (self.is_overheard and late) or not self.stays(i, d, name, place):
                self.written[i] = None
            else:
                self.keep[<int> place] = True
        return self.keep

    cdef bint stays(self, Py_ssize_t i, d, name, int place) except -1:
        """Whether nobody but attribute `name` of `d` holds write `i`, or has put anything on it."""
        cdef PyObject *variable = <PyObject *> self.written[i]
        cdef PyObject *array = variable
        cdef PyObject *data
        cdef PyObject *node
        kind = self.kinds[place]
        # References: ours in `written`, and the attribute.
        if PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name) != variable:
            return False
        if sdbr_refcount(variable) != (5 if kind is None else 2):
            return False  # of an array: the pool, the arrays and the memory, too
        if kind is _SCALAR or kind is _NUMBER:
            return False
        if kind is not None:
            outside = (<object> variable).__dict__
            data = PyDict_GetItemWithError(<PyObject *> outside, K_DATA)
            node = PyDict_GetItemWithError(<PyObject *> outside, K_NODE)
            if data == NULL or node == NULL:
                return False
            if sdbr_refcount(data) != 1 or sdbr_refcount(node) != 1:
                return False
            if not is_as_made(outside, sdbr_attributes(<object> node, NULL)):
                return False
            array = sdbr_list_item(data, 0)
            # data list, pool, arrays, memory
            if array != sdbr_list_item(<PyObject *> self.outputs.arrays, place):
                return False
            if sdbr_refcount(array) != 4:
                return False
        return not (on_device(array) and memory_is_held(<object> array))

    cdef object thing(self, int place):
        """What is handed out at a place, as long as the run's effects are under way."""
        made = self.things[place]
        if made is None and place < self.n_outputs:
            made = self.outputs.arrays[place]
            kind = self.kinds[place]
            if kind is _SCALAR:
                made = on_host(made)[()]
            elif kind is _NUMBER:
                made = made.item()
            elif kind is not None:
                made = new_variable(
                    made,
                    kind,
                    self.node_class,
                    self.outputs.shapes[place],
                    self.outputs.dtypes[place],
                )
            self.things[place] = made
        return made

    cdef object filled(self, structure, dict places):
        """A structure of values with what is handed out for them."""
        cdef dict things = {index: self.thing(<int> at) for index, at in places.items()}
        if self.exact:
            things.update(zip(self.exact, self.numbers))
        return self.made_of(structure, things)

    cdef object made_of(self, structure, dict things):
        """The structure with `things` in it; a list or dict of many places is one for the run."""
        if not self.shares:
            return fill_values(structure, things)
        if self.made is None:
            self.made = {}
        return fill_shared(structure, things, self.made)

    cdef int take(self, list leaves) except -1:
        """Take the leaves that are handed out as they are."""
        cdef int place = self.n_outputs
        for thing in leaves:
            self.things[place] = thing
            place += 1
        return 0

    cdef void keep_written(self):
        """Hand out what stays in place: the very objects that the attributes keep."""
        cdef Py_ssize_t i
        for i in range(self.n_steps):
            if self.steps[i].kind == ASSIGN and self.steps[i].at >= 0:
                made = self.written[self.steps[i].at]
                if made is not None:
                    self.things[self.steps[i].place] = made

    cdef void forget(self):
        """Hold nothing of what was handed out: nothing stays in place."""
        cdef Py_ssize_t i
        for i in range(len(self.written)):
            self.written[i] = None
        self.forget_things()

    cdef void forget_things(self):
        cdef Py_ssize_t i
        for i in range(len(self.things)):
            self.things[i] = None
        self.made = None

    cdef bint can_report(self) except -1:
        """Whether Chainer's own Reporter knows every observer; else reporting raises.

        Notes whether code of others is told of the reports.
        """
        self.is_overheard = False
        if not self.observers:
            return True
        reporters = self.reporters = _get_reporters()
        if not reporters:
            return True
        current = reporters[len(reporters) - 1]
        self.is_overheard = type(current) is not _Reporter or _Reporter.report is not _report
        if not isinstance(current, _Reporter):
            return True
        names = current._observer_names
        for observer in self.observers:
            if observer is not None and <size_t> <PyObject *> observer not in names:
                return False
        return True

    cdef int apply(self) except -1:
        """Write and report, in the order of the traced call; to be called once after a run."""
        cdef Step step
        cdef tuple detail
        cdef int i
        try:
            for i in range(self.n_steps):
                step = self.steps[i]
                if step.kind == ASSIGN and step.at >= 0 and self.written[step.at] is not None:
                    continue  # it has stayed in place
                detail = self.details[i]
                if step.kind == ASSIGN:
                    made = self.thing(step.place)
                    if step.at >= 0:
                        self.written[step.at] = made
                    write_attribute(<dict> detail[0], detail[1], made)
                elif step.kind == ASSIGN_PLAIN:
                    write_attribute(<dict> detail[0], detail[1], detail[2])
                elif step.kind == ASSIGN_NUMBER:
                    write_attribute(<dict> detail[0], detail[1], self.numbers[step.place])
                elif step.kind == ASSIGN_TREE:
                    d, name, structure, places = detail
                    write_attribute(<dict> d, name, self.filled(structure, places))
                elif step.kind == STORE:
                    where, structure, places = detail
                    variable = None if step.place < 0 else self.thing(step.place)
                    where.put(self.filled(structure, places), variable)
                else:
                    self.report(<list> detail[0], detail[1])
        finally:
            self.reporters = None
            self.forget_things()
        return 0

    cdef int report(self, list items, observer) except -1:
        cdef dict found = {}
        cdef int place
        if self.reporters is None:
            self.reporters = _get_reporters()
        reporters = self.reporters
        if not reporters:
            return 0
        for item in items:
            name, at, x = <tuple> item
            place = at
            if place >= 0:
                found[name] = self.thing(place)
            elif place == NUMBER:
                found[name] = self.outputs.memory.control[<int> x]
            elif place == EXACT:
                found[name] = self.numbers[<int> x]
            else:
                found[name] = x
        current = reporters[len(reporters) - 1]
        if not report_quickly(current, found, observer):
            current.report(found, observer)
        return 0
