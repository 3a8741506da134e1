"""Bind what a call brings, hand out what it makes.

An array is used again only when the reference counts say that nobody else holds it.
"""

from weakref import ref as _ref

from sdbr.compat.link_version import bump as bump_link_version
from sdbr.schedule.instance import contiguous
from sdbr.trace.scalars import Scalar
from sdbr.trace.structure import fill_values
from sdbr.trace.values import AttributeWrite, Report, values_in

import chainer
import numpy as np
from chainer import reporter

from cpython.array cimport array as int_array
from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from sdbr._executor cimport Executable
from sdbr.program._memory cimport Memory
from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    PyDict_SetItem,
    sdbr_bare,
    sdbr_data,
    sdbr_dims,
    sdbr_is_plain,
    sdbr_list_item,
    sdbr_refcount,
    sdbr_set_attributes,
)
from sdbr.call._spec cimport Leaves

cnp.import_array()

cdef str _DATA = "_data"
cdef str _NODE = "_node"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_NODE = <PyObject *> _NODE
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *NONE = <PyObject *> None
cdef object _SCALAR = "NumPy scalar"   # in the place of a Variable's requires_grad
cdef object _TRUE = True   # a literal True would become the C number 1
cdef PyObject *TRUE = <PyObject *> _TRUE

cdef object _Variable = chainer.Variable
cdef object _VariableNode = chainer.variable.VariableNode
cdef object _get_reporters = reporter._get_reporters
cdef object _Reporter = reporter.Reporter
cdef object _report = reporter.Reporter.report
cdef object _local_config = chainer.config._local
cdef dict _global_config = chainer.global_config.__dict__


def write_attribute(dict d, str name, value):
    """Set an attribute of a link past ``Link.__setattr__``.

    The version of the links counts up only when the kind of value changes: schedules that read
    the attribute look at its shape each time, but not at whether it is None.
    """
    cdef PyObject *old = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
    if old == NULL or (old == NONE) != (value is None):
        bump_link_version()
    d[name] = value


cdef dict _variable_template = {
    "_requires_grad": None,
    "_loss_scale": None,
    "_grad_var": None,
    "_device": None,
    "_grad_valid": True,
    "_layout": None,
    "_data": None,
    "_node": None,
    "_grad": None,
}
cdef dict _node_template = {
    "_variable": None,
    "name": None,
    "_requires_grad": None,
    "_layout": None,
    "dtype": None,
    "shape": None,
}


cdef object new_variable(object array, object requires_grad, object node_class, shape, dtype):
    """A `chainer.Variable` as ``_init_unchecked`` makes it."""
    cdef dict inside = _node_template.copy()
    cdef dict outside = _variable_template.copy()
    variable = sdbr_bare(_Variable)
    node = sdbr_bare(node_class)
    inside["_variable"] = _ref(variable)
    inside["_requires_grad"] = requires_grad
    inside["dtype"] = dtype
    inside["shape"] = shape
    sdbr_set_attributes(node, inside)
    outside["_requires_grad"] = requires_grad
    outside["_data"] = [array]
    outside["_node"] = node
    sdbr_set_attributes(variable, outside)
    return variable


cdef object without_history(value):
    """``copy.copy`` of a variable: the same array, a node of its own."""
    cdef dict inside = _node_template.copy()
    cdef dict outside = (<dict> value.__dict__).copy()
    array = (<list> outside["_data"])[0]
    variable = sdbr_bare(_Variable)
    node = sdbr_bare(_VariableNode)
    inside["_variable"] = _ref(variable)
    inside["name"] = value.name
    inside["_requires_grad"] = outside["_requires_grad"]
    inside["dtype"] = array.dtype
    inside["shape"] = array.shape
    sdbr_set_attributes(node, inside)
    outside["_node"] = node
    sdbr_set_attributes(variable, outside)
    return variable


cdef bint report_quickly(current, dict values, observer) except -1:
    """What ``Reporter.report`` does, for Chainer's own class; False leaves it to that."""
    cdef dict observation
    if type(current) is not _Reporter or _Reporter.report is not _report:
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
    observation = current.observation
    for name, value in values.items():
        if type(value) is _Variable:
            value = without_history(value)
        elif isinstance(value, _Variable):
            return False
        observation[name if prefix is None else f"{prefix}/{name}"] = value
    return True


cdef class Outputs:
    """Arrays handed to the user: one is used again only when nobody else holds it."""

    def __init__(self, Memory memory, outputs, windows, hidden, Shown shown):
        self.memory = memory
        self.shown = shown
        self.n = len(outputs) + len(hidden)
        self.slots = [slot for _, slot, _, _ in outputs] + [slot for slot, _, _ in hidden]
        self.shapes = [s for _, _, s, _ in outputs] + [s for _, s, _ in hidden]
        self.dtypes = [d for _, _, _, d in outputs] + [d for _, _, d in hidden]
        self.windows = [
            (i, slot, windows[value.index])
            for i, (value, slot, _, _) in enumerate(outputs) if value.index in windows
        ]
        self.is_window = [value.index in windows for value, _, _, _ in outputs]
        self.is_window += [False] * len(hidden)
        self.pools = [[] for _ in range(self.n)]
        self.arrays = [None] * self.n

    cdef int bind(self, list reused) except -1:
        """Choose and bind the array of every output; ``reused[i]`` stays in place when true."""
        cdef Py_ssize_t i
        cdef object array
        cdef PyObject *item
        cdef Py_ssize_t held
        cdef list pool
        cdef Py_ssize_t n_reused = 0 if reused is None else len(reused)
        for i, _, _ in self.windows:
            self.arrays[i] = None
        for i in range(self.n):
            if i < n_reused and reused[i]:
                continue
            if self.windows and self.is_window[i]:
                continue
            pool = self.pools[i]
            array = None
            for k in range(len(pool)):
                item = sdbr_list_item(<PyObject *> pool, k)
                # References: the pool's, that of `arrays`, the memory's; the memory may have been
                # bound to another array by a call that went the slower way.
                held = 1
                if sdbr_list_item(<PyObject *> self.arrays, i) == item:
                    held += 1
                if sdbr_list_item(<PyObject *> self.memory.owners, <int> self.slots[i]) == item:
                    held += 1
                if sdbr_refcount(item) == held:
                    array = <object> item
                    break
            if array is None:
                array = np.empty(self.shapes[i], self.dtypes[i])
                if len(pool) >= 4:
                    pool.pop(0)
                pool.append(array)
            self.arrays[i] = array
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> array)
        for i, slot, window in self.windows:
            self.arrays[i] = window.on(self.shown.array(<int> slot, self.memory.owners[<int> slot]))
        return 0


cdef class Shown:
    """The leaves of which results are views.

    Parameters
    ----------
    slots : iterable of int
    """

    def __init__(self, slots):
        self.slots = frozenset(slots)
        self.given = {}

    cdef object copied(self, int slot, array):
        """`array` as kernels take it, and a note of itself where that is a copy."""
        found = contiguous(array)
        if found is not array and slot in self.slots:
            self.given[slot] = array
        return found

    cdef object array(self, int slot, bound):
        """What views are made of: the caller's array where a copy of it is bound."""
        return self.given.get(slot, bound) if self.given else bound


cdef class Parameters:
    """Binds the present arrays of parameters.

    Parameters
    ----------
    memory : Memory
    items : list of (Parameter, int, tuple, dtype)
        With their slots, and the shapes and dtypes that the program was made for.
    watched : set of int
        Ids of parameters whose list of arrays somebody else compares before each call.
    shown : Shown
    """

    def __init__(self, Memory memory, items, watched=frozenset(), Shown shown=None):
        self.memory = memory
        self.shown = Shown(()) if shown is None else shown
        self.params = [p for p, _, _, _ in items]
        self.dicts = [p.__dict__ for p in self.params]
        self.lists = [p._data if id(p) in watched else None for p in self.params]
        self.slots = int_array("i", [slot for _, slot, _, _ in items])
        self.shapes = [shape for _, _, shape, _ in items]
        self.dtypes = [dtype for _, _, _, dtype in items]
        # Where the arrays keep their shapes: setting one in place takes other memory for it.
        self.places = int_array("q", bytes(8 * len(self.params)))

    cdef bint bind(self) except -1:
        """Bind; False when one no longer has its shape and dtype."""
        cdef Py_ssize_t i
        cdef int slot
        cdef PyObject *data
        cdef PyObject *now
        for i in range(len(self.dicts)):
            data = sdbr_list_item(<PyObject *> self.lists, i)
            if data == NONE:
                data = PyDict_GetItemWithError(sdbr_list_item(<PyObject *> self.dicts, i), K_DATA)
                if data == NULL:
                    return False
            now = sdbr_list_item(data, 0)
            slot = self.slots.data.as_ints[i]
            if sdbr_list_item(<PyObject *> self.memory.owners, slot) == now:
                if sdbr_data(now) == self.memory.pointers[slot]:
                    if <long long> sdbr_dims(now) == self.places.data.as_longlongs[i]:
                        continue
            current = <object> now
            if not isinstance(current, np.ndarray):
                return False
            if current.shape != self.shapes[i] or current.dtype != self.dtypes[i]:
                return False
            self.memory.bind(slot, self.shown.copied(slot, current))
            self.places.data.as_longlongs[i] = <long long> sdbr_dims(now)
        return True


cdef class Arguments:
    """Binds array arguments, and captured attributes."""

    def __init__(self, Memory memory, leaves, Shown shown=None):
        self.memory = memory
        self.shown = Shown(()) if shown is None else shown
        self.positions = []
        self.attributes = []
        self.held = frozenset([slot for value, slot in leaves if value.held])
        for value, slot in leaves:
            if value.kind == "argument":
                self.positions.append((value.source, slot))
            elif value.kind == "attribute":
                link, name = value.source
                self.attributes.append((link.__dict__, name, slot, value.shape, value.dtype))

    cdef bint bind(self, Leaves now, list positions) except -1:
        cdef int position, slot
        cdef PyObject *array
        for position, slot in self.positions:
            array = now.arrays[<int> positions[position]]
            if sdbr_is_plain(array):
                self.memory.bind_fast(slot, array)
                continue
            if slot in self.held:  # a function may update it: a copy will not do
                return False
            self.memory.bind(slot, self.shown.copied(slot, <object> array))
        for d, name, slot, shape, dtype in self.attributes:
            thing = d.get(name)
            if isinstance(thing, _Variable):
                thing = thing._data[0]
            elif isinstance(thing, np.generic):
                thing = np.asarray(thing)
            if not isinstance(thing, np.ndarray) or thing.shape != shape or thing.dtype != dtype:
                return False
            if slot in self.held and not (thing.flags.c_contiguous and thing.flags.aligned):
                return False
            self.memory.bind(slot, self.shown.copied(slot, thing))
        return True


cdef enum:
    # What a step of the effects does.
    ASSIGN        # an output, to an attribute of a link
    ASSIGN_PLAIN  # something that is always the same
    ASSIGN_TREE   # outputs in lists, tuples and dicts
    STORE         # something, outside of links
    REPORT

cdef enum:
    # In the place of an output, in what is reported.
    PLAIN = -1
    NUMBER = -2  # of the control block


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
        self.places = {value.index: i for i, (value, _, _, _) in enumerate(values)}
        for value in returned:
            self.places[value.index] = len(self.places)
        self.outputs = outputs
        self.node_class = node_class
        self.kinds = [
            v.shown if v.is_variable else _SCALAR if v.is_scalar else None
            for v, _, _, _ in values
        ]
        self.n_outputs = len(values)
        self.keep = [False] * len(values)
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
            return ASSIGN_TREE, PLAIN, PLAIN, d, write.name, x, self._places_in(x)
        place = self.places.get(getattr(x, "index", None), PLAIN)
        if place == PLAIN:
            return ASSIGN_PLAIN, PLAIN, PLAIN, d, write.name, x
        i = PLAIN
        if place < self.n_outputs:
            i = len(self.writes)
            # Who is told of a report before it must find there what was there before.
            self.writes.append((d, write.name, place, bool(self.observers)))
            self.n_late += bool(self.observers)
        return ASSIGN, place, i, d, write.name

    def _store(self, store):
        target = PLAIN if store.target is None else self.places[store.target.index]
        return STORE, target, PLAIN, store.place, store.value, self._places_in(store.value)

    def _report(self, report, scalars, control_base):
        items = []
        for name, x in report.items.items():
            if isinstance(x, Scalar):
                items.append((name, NUMBER, control_base + scalars.index(x)))
            else:
                items.append((name, self.places.get(getattr(x, "index", None), PLAIN), x))
        self.observers.append(report.observer)
        return REPORT, PLAIN, PLAIN, items, report.observer

    def _places_in(self, structure):
        return {value.index: self.places[value.index] for value in values_in(structure)}

    cdef list in_place(self):
        """Which outputs can stay where they are: only their attribute holds them."""
        cdef Py_ssize_t i, n
        cdef PyObject *variable
        cdef PyObject *data
        cdef PyObject *array
        cdef PyObject *node
        cdef PyObject *found
        for i in range(len(self.keep)):
            self.keep[i] = False
        self.forget_things()  # of a call that a signal ended before its effects
        for i in range(len(self.writes)):
            d, name, place, late = self.writes[i]
            if self.written[i] is None:
                continue
            if self.is_overheard and late:
                self.written[i] = None
                continue
            variable = <PyObject *> self.written[i]
            found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
            # References: ours in `written`, and the attribute.
            if found != variable or sdbr_refcount(variable) != 2:
                self.written[i] = None
                continue
            if self.kinds[<int> place] is _SCALAR:
                self.written[i] = None
                continue
            if self.kinds[<int> place] is None:
                array = variable
                # written, attribute, pool, arrays, memory
                n = 5
                if sdbr_refcount(array) != n:
                    self.written[i] = None
                    continue
            else:
                inside = (<object> variable).__dict__
                data = PyDict_GetItemWithError(<PyObject *> inside, K_DATA)
                node = PyDict_GetItemWithError(<PyObject *> inside, K_NODE)
                if data == NULL or node == NULL:
                    self.written[i] = None
                    continue
                if sdbr_refcount(data) != 1 or sdbr_refcount(node) != 1:
                    self.written[i] = None
                    continue
                if PyDict_GetItemWithError(<PyObject *> inside, K_GRAD) != NONE:
                    self.written[i] = None
                    continue
                if PyDict_GetItemWithError(<PyObject *> inside, K_GRAD_VAR) != NONE:
                    self.written[i] = None
                    continue
                array = sdbr_list_item(data, 0)
                # data list, pool, arrays, memory
                found = sdbr_list_item(<PyObject *> self.outputs.arrays, <int> place)
                if array != found or sdbr_refcount(array) != 4:
                    self.written[i] = None
                    continue
            self.keep[<int> place] = True
        return self.keep

    cdef object thing(self, int place):
        """What is handed out at a place, as long as the run's effects are under way."""
        made = self.things[place]
        if made is None and place < self.n_outputs:
            made = self.outputs.arrays[place]
            kind = self.kinds[place]
            if kind is _SCALAR:
                made = made[()]
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
        return fill_values(structure, {index: self.thing(<int> at) for index, at in places.items()})

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
            else:
                found[name] = x
        current = reporters[len(reporters) - 1]
        if not report_quickly(current, found, observer):
            current.report(found, observer)
        return 0


cdef object spare_gradient(PyObject *d, shape, dtype):
    """The gradient that a parameter has, if it is of that kind, nobody else holds it and it
    can be written; or None.

    Those of the call that was traced would lie beside ours until the first step is over.
    """
    cdef PyObject *found = PyDict_GetItemWithError(d, K_GRAD)
    cdef PyObject *variable = PyDict_GetItemWithError(d, K_GRAD_VAR)
    cdef Py_ssize_t held = 2  # by the parameter and by us
    if found == NULL or found == NONE or type(<object> found) is not np.ndarray:
        return None
    array = <object> found
    if variable != NULL and variable != NONE:
        # Chainer's backward leaves a Variable, which goes when the gradient is published.
        if sdbr_refcount(variable) != 1:
            return None
        holder = <object> variable
        if holder.__dict__["_data"][0] is not array:
            return None
        held += 1
    if sdbr_refcount(found) != held or array.dtype != dtype or array.shape != shape:
        return None
    base = array if array.base is None else array.base
    if type(base) is not np.ndarray:
        return None
    if base is not array and sdbr_refcount(<PyObject *> base) != 2:  # by the array and by us
        return None
    flags = array.flags
    if not (base.flags.owndata and flags.c_contiguous and flags.writeable):
        return None
    return array


cdef class Gradients:
    """The gradient arrays of parameters: ours, and used again only when nobody else holds them."""

    def __init__(self, Memory memory, places):
        self.memory = memory
        self.dicts = [p.__dict__ for p, _, _, _ in places]
        self.slots = [s for _, s, _, _ in places]
        self.shapes = [shape for _, _, shape, _ in places]
        self.dtypes = [dtype for _, _, _, dtype in places]
        self.arrays = [None] * len(places)
        self.fresh = []

    cdef int bind(self) except -1:
        """Choose and bind the array of every gradient; notes which have to be published."""
        cdef Py_ssize_t i
        cdef PyObject *d
        cdef PyObject *mine
        cdef PyObject *found
        self.fresh.clear()
        for i in range(len(self.arrays)):
            mine = sdbr_list_item(<PyObject *> self.arrays, i)
            if mine != NONE:
                d = sdbr_list_item(<PyObject *> self.dicts, i)
                found = PyDict_GetItemWithError(d, K_GRAD)
                # References: ours, the memory's, the parameter's. One that the user dropped
                # from the parameter but kept has another number, too.
                if found == mine and sdbr_refcount(mine) == 3:
                    # A gradient variable would hold the array, too; the flag stays as we set it.
                    continue
                if found != mine and sdbr_refcount(mine) == 2:
                    self.fresh.append(i)
                    continue
            self.fresh.append(i)
            new = spare_gradient(
                sdbr_list_item(<PyObject *> self.dicts, i), self.shapes[i], self.dtypes[i])
            if new is None:
                new = np.empty(self.shapes[i], self.dtypes[i])
            self.arrays[i] = new
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> new)
        return 0

    cdef int publish(self) except -1:
        """Make the arrays the gradients of their parameters; those in place stay untouched."""
        cdef Py_ssize_t i
        cdef PyObject *d
        for i in self.fresh:
            d = sdbr_list_item(<PyObject *> self.dicts, i)
            PyDict_SetItem(d, K_GRAD, sdbr_list_item(<PyObject *> self.arrays, i))
            PyDict_SetItem(d, K_GRAD_VAR, NONE)
            PyDict_SetItem(d, K_GRAD_VALID, TRUE)
        return 0


cdef class Binder:
    """Everything that a compiled call binds and hands out, on one memory.

    Parameters
    ----------
    executable : Executable or NumpyExecutable
    leaves : list of (Value, int)
        Arguments, parameters and captured attributes with their slots.
    outputs : list of (Value, int, tuple, dtype)
    trace : Trace
    node_class : type
        Variable node of what is handed out.
    more : list of (Parameter, int, tuple, dtype)
        Parameters that are no leaves.
    watched : set of int
        See `Parameters`.
    control_base : int
        Where the scalars of the trace begin in the control block.
    windows, hidden :
        See `sdbr.lowering.windows.Outputs`.
    returned : list of Value
        See `Effects`.
    """

    def __init__(
        self, executable, leaves, outputs, trace, node_class, more=(), watched=frozenset(),
        control_base=0, windows=frozenset(), hidden=(), returned=(),
    ):
        memory = executable.memory
        self.executable = executable
        self.compiled = executable if isinstance(executable, Executable) else None
        items = [
            (value.source, slot, value.shape, value.dtype)
            for value, slot in leaves if value.kind == "parameter"
        ]
        items += more
        shown = Shown([slot for value, slot, _, _ in outputs if value.index in windows])
        self.shown = shown
        self.parameters = Parameters(memory, items, watched, shown)
        self.arguments = Arguments(memory, leaves, shown)
        self.outputs = Outputs(memory, outputs, windows, hidden, shown)
        self.effects = Effects(self.outputs, outputs, returned, trace, node_class, control_base)

    cdef bint bind(self, Leaves now, list positions) except -1:
        """Bind the inputs; False when one no longer has its shape and dtype."""
        if self.shown.given:
            self.shown.given.clear()
        return self.parameters.bind() and self.arguments.bind(now, positions)

    cdef int run(self) except -1:
        if self.compiled is not None:
            self.compiled.run_c()
        else:
            self.executable.run()
        return 0
