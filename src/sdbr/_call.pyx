"""One call, compiled: is it the same call as before, bind, run, wrap.

Everything here has a slower twin in :mod:`sdbr.manager`; whatever looks unusual is left to it.
"""

import chainer
import numpy as np
from chainer import reporter

from sdbr._memory import claim
from sdbr.compat import LINK_VERSION
from sdbr.compat.link_version import bump as bump_link_version
from sdbr.schedule import StaticCall, contiguous
from sdbr.trace.provenance import TRACES_UNDER_WAY
from sdbr.trace.provenance import _local as _trace_local
from sdbr.trace.structure import fill_values

from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from sdbr._executor cimport Executable, Memory
from sdbr._update cimport Guard

cnp.import_array()

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *)
    int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **)
    Py_ssize_t sdbr_dict_size "PyDict_GET_SIZE"(PyObject *)
    PyObject *sdbr_list_item "PyList_GET_ITEM"(PyObject *, Py_ssize_t)
    Py_ssize_t sdbr_refcount "Py_REFCNT"(PyObject *)
    int PyDict_SetItem(PyObject *, PyObject *, PyObject *) except -1

cdef extern from *:
    """
    #define SDBR_A(x) ((PyArrayObject *)(x))
    static inline int sdbr_is_array(PyObject *x) { return PyArray_CheckExact(x); }
    static inline PyObject *sdbr_descr(PyObject *x) { return (PyObject *)PyArray_DESCR(SDBR_A(x)); }
    static inline int sdbr_ndim(PyObject *x) { return PyArray_NDIM(SDBR_A(x)); }
    static inline npy_intp *sdbr_dims(PyObject *x) { return PyArray_DIMS(SDBR_A(x)); }
    static inline int sdbr_is_plain(PyObject *x) { return PyArray_ISCARRAY_RO(SDBR_A(x)); }
    static inline char *sdbr_data(PyObject *x) { return PyArray_BYTES(SDBR_A(x)); }
    """
    bint sdbr_is_array(PyObject *)
    PyObject *sdbr_descr(PyObject *)
    int sdbr_ndim(PyObject *)
    cnp.npy_intp *sdbr_dims(PyObject *)
    bint sdbr_is_plain(PyObject *)
    char *sdbr_data(PyObject *)

cdef str _DATA = "_data"
cdef str _REQUIRES_GRAD = "_requires_grad"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_REQUIRES_GRAD = <PyObject *> _REQUIRES_GRAD
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True   # a literal True would become the C number 1
cdef PyObject *TRUE = <PyObject *> _TRUE

cdef object _Variable = chainer.Variable
cdef object _VariableNode = chainer.variable.VariableNode
cdef dict _global_config = chainer.global_config.__dict__
cdef object _local_config = chainer.config._local
cdef object _chainer_thread = chainer._thread_local
cdef object _ref = __import__("weakref").ref
cdef list _version = LINK_VERSION
cdef list _traces_under_way = TRACES_UNDER_WAY
cdef object _Link = chainer.Link
cdef object _Method = __import__("types").MethodType
cdef object _get_reporters = reporter._get_reporters

ctypedef struct Leaf:
    int kind                  # 0: array, 1: Variable, 2: anything else
    PyObject *descr
    int ndim
    cnp.npy_intp dims[8]
    PyObject *requires_grad
    int same_as               # first argument that was the same object


cdef class CallSpec:
    """Arguments and the configuration of one call, to compare later calls with.

    Parameters
    ----------
    args : tuple
        Variables, arrays and plain values; no containers.
    kwargs : dict
        The same by name; the order counts.
    """

    cdef Leaf *leaves
    cdef int n
    cdef tuple values             # per argument: the plain value, the dtype or None
    cdef list config_keys
    cdef list config_values
    cdef dict local_config
    cdef tuple names
    cdef PyObject **arrays        # borrowed, from `matches` until the call ends

    def __cinit__(self, tuple args, dict kwargs):
        cdef int i, j, k
        cdef object array
        self.names = tuple(kwargs)
        args = args + tuple(kwargs.values())
        self.n = len(args)
        self.leaves = <Leaf *> calloc(max(self.n, 1), sizeof(Leaf))
        self.arrays = <PyObject **> calloc(max(self.n, 1), sizeof(PyObject *))
        if self.leaves == NULL or self.arrays == NULL:
            raise MemoryError
        values = []
        for i in range(self.n):
            x = args[i]
            array = None
            if type(x) is _Variable:
                self.leaves[i].kind = 1
                array = x._data[0]
                self.leaves[i].requires_grad = <PyObject *> x._requires_grad
            elif type(x) is np.ndarray:
                array = x
            else:
                self.leaves[i].kind = 2
                values.append(x)
            if array is not None:
                self.leaves[i].descr = <PyObject *> array.dtype
                self.leaves[i].ndim = array.ndim
                for k in range(array.ndim):
                    self.leaves[i].dims[k] = array.shape[k]
                values.append(array.dtype)
            self.leaves[i].same_as = i
            for j in range(i):
                if args[j] is x:
                    self.leaves[i].same_as = j
                    break
        self.values = tuple(values)
        self.config_keys = list(_global_config.keys())
        self.config_values = list(_global_config.values())
        self.local_config = dict(_local_config.__dict__)

    def __dealloc__(self):
        free(self.leaves)
        free(self.arrays)

    @staticmethod
    def suits(tuple args, dict kwargs):
        """Whether a call is of the kind that can be compared: flat, at most 8 axes."""
        for x in args + tuple(kwargs.values()):
            if type(x) is _Variable:
                array = x._data[0]
                if type(array) is not np.ndarray or array.ndim > 8:
                    return False
            elif type(x) is np.ndarray:
                if x.ndim > 8:
                    return False
            elif type(x) not in (int, str, bool, type(None)):
                return False
        return True

    cdef bint config_matches(self):
        cdef Py_ssize_t place = 0
        cdef Py_ssize_t i = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef dict local
        if sdbr_dict_size(<PyObject *> _global_config) != len(self.config_keys):
            return False
        while PyDict_Next(<PyObject *> _global_config, &place, &key, &value):
            if sdbr_list_item(<PyObject *> self.config_keys, i) != key:
                return False
            if sdbr_list_item(<PyObject *> self.config_values, i) != value:
                return False
            i += 1
        local = _local_config.__dict__
        if len(local) != len(self.local_config):
            return False
        place = 0
        while PyDict_Next(<PyObject *> local, &place, &key, &value):
            if PyDict_GetItemWithError(<PyObject *> self.local_config, key) != value:
                return False
        return True

    cdef bint matches(self, tuple args, dict kwargs):
        """Whether arguments and configuration are as before; fills `arrays`."""
        cdef int i, j, k
        cdef Leaf *leaf
        cdef PyObject *x
        cdef PyObject *array
        if kwargs is not None and kwargs:
            if tuple(kwargs) != self.names:
                return False
            args = args + tuple(kwargs.values())
        elif self.names:
            return False
        if len(args) != self.n:
            return False
        for i in range(self.n):
            leaf = &self.leaves[i]
            arg = args[i]
            x = <PyObject *> arg
            if leaf.kind == 2:
                value = self.values[i]
                if arg is not value and (type(arg) is not type(value) or arg != value):
                    return False
                continue
            if leaf.kind == 1:
                if type(arg) is not _Variable:
                    return False
                d = arg.__dict__
                if PyDict_GetItemWithError(<PyObject *> d, K_REQUIRES_GRAD) != leaf.requires_grad:
                    return False
                array = PyDict_GetItemWithError(<PyObject *> d, K_DATA)
                if array == NULL:
                    return False
                array = sdbr_list_item(array, 0)
            else:
                array = x
            if not sdbr_is_array(array) or sdbr_descr(array) != leaf.descr:
                return False
            if sdbr_ndim(array) != leaf.ndim:
                return False
            for k in range(leaf.ndim):
                if sdbr_dims(array)[k] != leaf.dims[k]:
                    return False
            self.arrays[i] = array
            for j in range(i):
                if (<PyObject *> args[j] == x) != (self.leaves[j].same_as == leaf.same_as):
                    return False
        return self.config_matches()


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
    """

    cdef public long long calls
    cdef public long long traces
    cdef public long long second_traces
    cdef public long long replays
    cdef public long long steps
    cdef public long long define_by_run_calls
    cdef public long long native_calls
    cdef public long long python_ops

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
        }

    def __repr__(self):
        return f"Statistics({', '.join(f'{k}={v}' for k, v in self.to_dict().items())})"


cdef bint hooks_are_off():
    """No function hook, no link hook, and no trace under way in this thread."""
    cdef PyObject *hooks
    cdef object d = _chainer_thread.__dict__
    hooks = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> "function_hooks")
    if hooks != NULL and sdbr_dict_size(hooks):
        return False
    hooks = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> "link_hooks")
    if hooks != NULL and sdbr_dict_size(hooks):
        return False
    return not _traces_under_way[0] or getattr(_trace_local, "recorder", None) is None


cdef list array_positions(tuple args, dict kwargs):
    """Which arguments are arrays or Variables: leaf i of a flat call is argument ``[i]``."""
    everything = args + tuple(kwargs.values())
    return [i for i, x in enumerate(everything) if isinstance(x, (np.ndarray, _Variable))]


cdef class LinkGuards:
    """``guards.hold()``, skipped while no link was written to."""

    cdef object guards
    cdef object version
    cdef bint volatile

    def __init__(self, guards):
        self.guards = guards
        self.volatile = bool(guards.volatile)
        self.version = None

    cdef bint hold(self):
        if self.volatile or self.version is not _version[0]:
            if not self.guards.hold():
                return False
            self.version = _version[0]
        return True


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
    variable = _Variable.__new__(_Variable)
    node = node_class.__new__(node_class)
    inside["_variable"] = _ref(variable)
    inside["_requires_grad"] = requires_grad
    inside["dtype"] = dtype
    inside["shape"] = shape
    node.__dict__ = inside
    outside["_requires_grad"] = requires_grad
    outside["_data"] = [array]
    outside["_node"] = node
    variable.__dict__ = outside
    return variable


cdef class Outputs:
    """Arrays handed to the user: one is used again only when nobody else holds it."""

    cdef list pools               # per output: a list of arrays
    cdef list arrays              # per output: the array of this run
    cdef list shapes
    cdef list dtypes
    cdef list slots
    cdef Memory memory
    cdef Py_ssize_t n

    def __init__(self, Memory memory, outputs):
        self.memory = memory
        self.n = len(outputs)
        self.slots = [slot for _, slot, _, _ in outputs]
        self.shapes = [shape for _, _, shape, _ in outputs]
        self.dtypes = [dtype for _, _, _, dtype in outputs]
        self.pools = [[] for _ in outputs]
        self.arrays = [None] * self.n

    cdef int bind(self, list reused) except -1:
        """Choose and bind the array of every output; ``reused[i]`` stays in place when true."""
        cdef Py_ssize_t i
        cdef object array
        cdef PyObject *item
        cdef list pool
        for i in range(self.n):
            if reused is not None and reused[i]:
                continue
            pool = self.pools[i]
            array = None
            for k in range(len(pool)):
                item = sdbr_list_item(<PyObject *> pool, k)
                # One reference in the pool; the memory and `arrays` hold the present one.
                if sdbr_refcount(item) == 1 + (2 if self.arrays[i] is <object> item else 0):
                    array = <object> item
                    break
            if array is None:
                array = np.empty(self.shapes[i], self.dtypes[i])
                if len(pool) >= 4:
                    pool.pop(0)
                pool.append(array)
            self.arrays[i] = array
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> array)
        return 0


cdef class Parameters:
    """Binds the present arrays of parameters."""

    cdef list params
    cdef list dicts
    cdef list slots
    cdef list shapes
    cdef list dtypes
    cdef Memory memory

    def __init__(self, Memory memory, pairs):
        self.memory = memory
        self.params = [p for p, _ in pairs]
        self.dicts = [p.__dict__ for p, _ in pairs]
        self.slots = [s for _, s in pairs]
        self.shapes = [p._data[0].shape for p, _ in pairs]
        self.dtypes = [p._data[0].dtype for p, _ in pairs]

    cdef bint bind(self) except -1:
        """Bind; False when one no longer has its shape and dtype."""
        cdef Py_ssize_t i
        cdef int slot
        cdef PyObject *data
        cdef PyObject *array
        for i in range(len(self.dicts)):
            data = PyDict_GetItemWithError(sdbr_list_item(<PyObject *> self.dicts, i), K_DATA)
            if data == NULL:
                return False
            array = sdbr_list_item(data, 0)
            slot = self.slots[i]
            if sdbr_list_item(<PyObject *> self.memory.owners, slot) == array:
                if sdbr_data(array) == self.memory.pointers[slot]:
                    continue
            current = <object> array
            if type(current) is not np.ndarray:
                return False
            if current.shape != self.shapes[i] or current.dtype != self.dtypes[i]:
                return False
            self.memory.bind(slot, contiguous(current))
        return True


cdef class Arguments:
    """Binds array arguments, and captured attributes."""

    cdef list positions           # of (argument, slot)
    cdef list attributes          # of (dict, name, slot, shape, dtype)
    cdef Memory memory

    def __init__(self, Memory memory, leaves):
        self.memory = memory
        self.positions = []
        self.attributes = []
        for value, slot in leaves:
            if value.kind == "argument":
                self.positions.append((value.source, slot))
            elif value.kind == "attribute":
                link, name = value.source
                self.attributes.append((link.__dict__, name, slot, value.shape, value.dtype))

    cdef bint bind(self, CallSpec spec, list positions) except -1:
        cdef int position, slot
        cdef PyObject *array
        for position, slot in self.positions:
            array = spec.arrays[<int> positions[position]]
            if sdbr_is_plain(array):
                self.memory.bind_fast(slot, array)
            else:
                self.memory.bind(slot, contiguous(<object> array))
        for d, name, slot, shape, dtype in self.attributes:
            thing = d.get(name)
            if isinstance(thing, _Variable):
                thing = thing._data[0]
            if type(thing) is not np.ndarray or thing.shape != shape or thing.dtype != dtype:
                return False
            self.memory.bind(slot, contiguous(thing))
        return True


cdef class Effects:
    """Writes attributes and reports values after a run.

    A Variable that this object wrote and that nobody else holds stays where it is: its array
    gets the new values.
    """

    cdef list writes              # of (dict, name, output index or -1, value)
    cdef list written             # per write: the Variable or array that was written last
    cdef list reports             # of (items, observer)
    cdef list kinds               # per output: requires_grad of a Variable, None for an array
    cdef list keep                # per output: whether its array stays in place
    cdef list things              # per output: what is handed out in this run
    cdef object node_class
    cdef Outputs outputs

    def __init__(self, Outputs outputs, values, trace, node_class):
        index = {value.index: i for i, (value, _, _, _) in enumerate(values)}
        self.outputs = outputs
        self.node_class = node_class
        self.kinds = [v.shown if v.is_variable else None for v, _, _, _ in values]
        self.writes = []
        for write in trace.writes:
            x = write.value
            place = index.get(getattr(x, "index", None), -1)
            self.writes.append((write.link.__dict__, write.name, place, x))
        self.written = [None] * len(self.writes)
        self.reports = []
        for report in trace.reports:
            items = [(k, index.get(getattr(x, "index", None), -1), x) for k, x in report.items.items()]
            self.reports.append((items, report.observer))
        self.keep = [False] * len(values)
        self.things = [None] * len(values)

    cdef list in_place(self):
        """Which outputs can stay where they are: only the attribute written last time holds them."""
        cdef Py_ssize_t i, n
        cdef PyObject *variable
        cdef PyObject *data
        cdef PyObject *array
        cdef PyObject *node
        cdef PyObject *found
        for i in range(len(self.keep)):
            self.keep[i] = False
        for i in range(len(self.writes)):
            d, name, place, _ = self.writes[i]
            if <int> place < 0 or self.written[i] is None:
                continue
            variable = <PyObject *> self.written[i]
            found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
            # References: ours in `written`, and the attribute.
            if found != variable or sdbr_refcount(variable) != 2:
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
                node = PyDict_GetItemWithError(<PyObject *> inside, <PyObject *> "_node")
                if data == NULL or node == NULL or sdbr_refcount(data) != 1 or sdbr_refcount(node) != 1:
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
                if <object> array is not self.outputs.arrays[<int> place] or sdbr_refcount(array) != 4:
                    self.written[i] = None
                    continue
            self.keep[<int> place] = True
        return self.keep

    cdef object thing(self, int place):
        made = self.things[place]
        if made is None:
            made = self.outputs.arrays[place]
            kind = self.kinds[place]
            if kind is not None:
                made = new_variable(
                    made, kind, self.node_class, self.outputs.shapes[place], self.outputs.dtypes[place]
                )
            self.things[place] = made
        return made

    cdef object hand_out(self, int place):
        """What the caller gets for an output; the very object that an attribute keeps."""
        cdef Py_ssize_t i
        for i in range(len(self.writes)):
            if self.writes[i][2] == place and self.written[i] is not None and self.keep[place]:
                self.things[place] = self.written[i]
        return self.thing(place)

    cdef void forget(self):
        """Hold nothing of what was handed out: nothing stays in place."""
        cdef Py_ssize_t i
        for i in range(len(self.written)):
            self.written[i] = None

    cdef int apply(self) except -1:
        cdef Py_ssize_t i
        cdef dict found
        for i in range(len(self.writes)):
            d, name, place, value = self.writes[i]
            if <int> place < 0:
                write_attribute(<dict> d, name, value)
                continue
            if self.written[i] is not None:
                self.things[<int> place] = self.written[i]
                continue
        for i in range(len(self.writes)):
            d, name, place, value = self.writes[i]
            if <int> place >= 0 and self.written[i] is None:
                made = self.thing(<int> place)
                write_attribute(<dict> d, name, made)
                self.written[i] = made
        if self.reports:
            reporters = _get_reporters()
            if reporters:
                for items, observer in self.reports:
                    found = {}
                    for name, place, value in items:
                        found[name] = value if <int> place < 0 else self.thing(<int> place)
                    reporters[len(reporters) - 1].report(found, observer)
        for i in range(len(self.things)):
            self.things[i] = None
        return 0


cdef class Gradients:
    """The gradient arrays of parameters: ours, and used again only when nobody else holds them."""

    cdef list dicts
    cdef list params
    cdef list arrays
    cdef list slots
    cdef Memory memory

    def __init__(self, Memory memory, pairs):
        self.memory = memory
        self.params = [p for p, _ in pairs]
        self.dicts = [p.__dict__ for p, _ in pairs]
        self.slots = [s for _, s in pairs]
        self.arrays = [None] * len(pairs)

    cdef int bind(self) except -1:
        cdef Py_ssize_t i
        cdef PyObject *d
        cdef PyObject *array
        for i in range(len(self.arrays)):
            array = sdbr_list_item(<PyObject *> self.arrays, i)
            if array != NONE:
                d = sdbr_list_item(<PyObject *> self.dicts, i)
                # References: ours, the memory's, the parameter's. One that the user dropped
                # from the parameter but kept has another number, too.
                if PyDict_GetItemWithError(d, K_GRAD) == array and sdbr_refcount(array) == 3:
                    continue
                if PyDict_GetItemWithError(d, K_GRAD) != array and sdbr_refcount(array) == 2:
                    continue
            data = self.params[i]._data[0]
            new = np.empty(data.shape, data.dtype)
            self.arrays[i] = new
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> new)
        return 0

    cdef int publish(self) except -1:
        """Make the arrays the gradients of their parameters."""
        cdef Py_ssize_t i
        cdef PyObject *d
        cdef PyObject *array
        for i in range(len(self.arrays)):
            d = sdbr_list_item(<PyObject *> self.dicts, i)
            array = sdbr_list_item(<PyObject *> self.arrays, i)
            if PyDict_GetItemWithError(d, K_GRAD) != array:
                PyDict_SetItem(d, K_GRAD, array)
            if PyDict_GetItemWithError(d, K_GRAD_VAR) != NONE:
                PyDict_SetItem(d, K_GRAD_VAR, NONE)
            if PyDict_GetItemWithError(d, K_GRAD_VALID) != TRUE:
                PyDict_SetItem(d, K_GRAD_VALID, TRUE)
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
    cdef Executable compiled
    cdef Statistics statistics
    cdef LinkGuards link_guards
    cdef readonly Guard update
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Gradients gradients
    cdef Outputs outputs
    cdef Effects effects
    cdef CallSpec spec
    cdef object optimizer_dict
    cdef list positions
    cdef bint running
    cdef int python_ops

    def __init__(self, manager, schedule, plan, optimizer, lossfun, node_class):
        from sdbr.backends import make_executable

        self.manager = manager
        self.schedule = schedule
        self.plan = plan
        self.optimizer = optimizer
        self.optimizer_dict = optimizer.__dict__
        self.lossfun = lossfun
        self.statistics = manager.statistics
        self.link_guards = LinkGuards(schedule.guards)
        self.update = plan.update
        memory = self.memory = Memory(len(plan.table.slots), plan.update.n_control)
        for slot, array in plan.states:
            memory.bind(slot, array)
        memory.reserve(plan.program)
        self.executable = make_executable(plan.program, memory, schedule.backend)
        self.compiled = self.executable if isinstance(self.executable, Executable) else None
        self.python_ops = plan.program.python_ops
        pairs = [(v.source, slot) for v, slot in plan.leaves if v.kind == "parameter"]
        self.parameters = Parameters(memory, pairs + plan.extra_params)
        self.arguments = Arguments(memory, plan.leaves)
        self.gradients = Gradients(memory, plan.grads)
        self.outputs = Outputs(memory, plan.outputs)
        self.effects = Effects(self.outputs, plan.outputs, schedule.trace, node_class)
        self.spec = None

    def step(self, lossfun, tuple args, dict kwargs):
        """Make the step if it is the one that this runner is for.

        Returns
        -------
        bool or None
            None when it is another call; False when the native step declines: nothing has
            happened then.
        """
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return None
        self.running = True
        try:
            return self.run() if self.matches(lossfun, args, kwargs) else None
        finally:
            self.running = False

    cdef bint matches(self, lossfun, tuple args, dict kwargs):
        if self.spec is None or not self.is_lossfun(lossfun):
            return False
        if not self.spec.matches(args, kwargs) or not hooks_are_off():
            return False
        if not self.link_guards.hold() or not self.update.check():
            return False
        d = self.optimizer_dict
        if d.get("_loss_scale") is not None or d.get("_use_cleargrads", True) is not True:
            return False
        return self.schedule.dynamic is None

    cdef bint is_lossfun(self, lossfun):
        if lossfun is self.lossfun:
            return True
        # Each access to a method makes a new object.
        if type(lossfun) is not _Method or type(self.lossfun) is not _Method:
            return False
        return (
            lossfun.__self__ is self.lossfun.__self__ and lossfun.__func__ is self.lossfun.__func__
        )

    def learn(self, tuple args, dict kwargs):
        """Remember a call whose key was compared in full; False if it is of no simple kind."""
        if not CallSpec.suits(args, kwargs):
            return False
        self.spec = CallSpec(args, kwargs)
        self.positions = array_positions(args, kwargs)
        return self.spec.matches(args, kwargs)

    cdef bint run(self) except -1:
        cdef Memory memory = self.memory
        if not self.parameters.bind() or not self.arguments.bind(self.spec, self.positions):
            return False
        if not self.update.prepare(memory, 0):
            return False
        self.gradients.bind()
        self.outputs.bind(self.effects.in_place())
        if self.compiled is not None:
            self.compiled.run_c()
        else:
            self.executable.run()
        self.gradients.publish()
        self.update.commit()
        statistics = self.statistics
        statistics.calls += 1
        statistics.replays += 1
        statistics.steps += 1
        statistics.native_calls += 1
        statistics.python_ops += self.python_ops
        self.effects.apply()
        return True


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
    cdef readonly object executable
    cdef Executable compiled
    cdef Statistics statistics
    cdef LinkGuards link_guards
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Outputs outputs
    cdef Effects effects
    cdef CallSpec spec
    cdef list positions
    cdef object result
    cdef readonly dict places     # value index -> output index
    cdef int result_place         # output index of a result that is one Variable or array, else -1
    cdef int python_ops
    cdef bint running

    def __init__(self, manager, schedule, instance, tuple args, dict kwargs):
        plan = instance.plan
        memory = instance.memory
        self.manager = manager
        self.schedule = schedule
        self.executable = instance.executable
        self.compiled = self.executable if isinstance(self.executable, Executable) else None
        self.statistics = manager.statistics
        self.link_guards = LinkGuards(schedule.guards)
        self.python_ops = plan.program.python_ops
        pairs = [(v.source, slot) for v, slot in plan.leaves if v.kind == "parameter"]
        self.parameters = Parameters(memory, pairs)
        self.arguments = Arguments(memory, plan.leaves)
        self.outputs = Outputs(memory, plan.outputs)
        self.effects = Effects(self.outputs, plan.outputs, schedule.trace, _VariableNode)
        self.spec = CallSpec(args, kwargs)
        self.positions = array_positions(args, kwargs)
        self.result = schedule.trace.result
        places = {v.index: i for i, (v, _, _, _) in enumerate(plan.outputs)}
        self.result_place = places.get(getattr(self.result, "index", None), -1)
        self.places = places

    @staticmethod
    def suits(schedule, tuple args, dict kwargs):
        """Whether a runner can serve such calls."""
        return not schedule.returned_leaves and CallSpec.suits(args, kwargs)

    cdef bint matches(self, tuple args, dict kwargs):
        if self.schedule.dynamic is not None:
            return False
        return self.spec.matches(args, kwargs) and hooks_are_off() and self.link_guards.hold()

    cdef object run_call(self, tuple args, dict kwargs):
        """The result of the call, or NotImplemented when it declines."""
        if not self.parameters.bind() or not self.arguments.bind(self.spec, self.positions):
            return NotImplemented
        self.outputs.bind(self.effects.in_place())
        if self.compiled is not None:
            self.compiled.run_c()
        else:
            self.executable.run()
        statistics = self.statistics
        statistics.calls += 1
        statistics.replays += 1
        statistics.native_calls += 1
        statistics.python_ops += self.python_ops
        if self.result_place >= 0:
            result = self.effects.hand_out(self.result_place)
        else:
            things = {}
            for index, place in self.places.items():
                things[index] = self.effects.hand_out(place)
            result = fill_values(self.result, things)
        self.effects.apply()
        return result


cdef class Binder:
    """What a compiled call needs of one instance."""

    cdef object executable
    cdef Executable compiled
    cdef Parameters parameters
    cdef Arguments arguments
    cdef Outputs outputs
    cdef Effects effects

    def __init__(self, instance):
        plan = instance.plan
        memory = instance.memory
        self.executable = instance.executable
        self.compiled = self.executable if isinstance(self.executable, Executable) else None
        pairs = [(v.source, slot) for v, slot in plan.leaves if v.kind == "parameter"]
        self.parameters = Parameters(memory, pairs)
        self.arguments = Arguments(memory, plan.leaves)
        self.outputs = Outputs(memory, plan.outputs)
        self.effects = Effects(
            self.outputs, plan.outputs, instance.schedule.trace, _VariableNode
        )


cdef class GraphRunner(CallRunner):
    """Runs one schedule whose calls leave an autograd node behind."""

    cdef list leaf_sources        # per leaf: (position or -1, object or dict, name)
    cdef list graph_sources       # the same of the inputs of the autograd node
    cdef list graph_places        # output indices of the outputs of the autograd node
    cdef tuple in_layouts
    cdef tuple out_layouts

    def __init__(self, manager, schedule, tuple args, dict kwargs):
        plan = schedule.forward
        self.manager = manager
        self.schedule = schedule
        self.statistics = manager.statistics
        self.link_guards = LinkGuards(schedule.guards)
        self.python_ops = plan.program.python_ops
        self.spec = CallSpec(args, kwargs)
        self.positions = array_positions(args, kwargs)
        self.result = schedule.trace.result
        self.places = {v.index: i for i, (v, _, _, _) in enumerate(plan.outputs)}
        self.result_place = self.places.get(getattr(self.result, "index", None), -1)
        self.leaf_sources = [self.describe(v) for v, _ in plan.leaves]
        self.graph_sources = [self.describe(v) for v in plan.differentiable]
        self.graph_places = [self.places[v.index] for v in plan.graph_outputs]
        self.in_layouts = (None,) * len(self.graph_sources)
        self.out_layouts = (None,) * len(self.graph_places)

    def describe(self, value):
        """How to find what a leaf stands for at each call."""
        if value.kind == "argument":
            return (self.positions[value.source], None, None)
        if value.kind == "parameter":
            return (-1, value.source, None)
        return (-2, value.source[0].__dict__, value.source[1])

    cdef list sources(self, list wanted, tuple args):
        cdef list found = []
        for position, thing, name in wanted:
            if <int> position >= 0:
                found.append(args[<int> position])
            elif <int> position == -1:
                found.append(thing)
            else:
                found.append((<dict> thing)[name])
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
        if kwargs:
            args = args + tuple(kwargs.values())
        instance = self.idle_instance(args)
        try:
            binder = instance.binder
            if binder is None:
                binder = instance.binder = Binder(instance)
            if not binder.parameters.bind():
                return NotImplemented
            if not binder.arguments.bind(self.spec, self.positions):
                return NotImplemented
            binder.outputs.bind(None)
            if binder.compiled is not None:
                binder.compiled.run_c()
            else:
                binder.executable.run()
            statistics = self.statistics
            statistics.calls += 1
            statistics.replays += 1
            statistics.native_calls += 1
            statistics.python_ops += self.python_ops
            effects = binder.effects
            self.connect(instance, effects, args)
            if self.result_place >= 0:
                result = effects.thing(self.result_place)
            else:
                things = {index: effects.thing(place) for index, place in self.places.items()}
                result = fill_values(self.result, things)
            effects.apply()
            effects.forget()
        finally:
            # Not before the node is there: until then the instance looks idle to other threads.
            instance.running = False
        return result

    cdef int connect(self, instance, Effects effects, tuple args) except -1:
        """Make the autograd node and wire it in, as ``StaticCall.connect`` does."""
        cdef list inputs = []
        cdef list outputs = []
        cdef int rank = 0
        for x in self.sources(self.graph_sources, args):
            node = x._node
            if node._rank > rank:
                rank = node._rank
            inputs.append(node)
        call = StaticCall.__new__(StaticCall)
        for place in self.graph_places:
            variable = effects.thing(<int> place)
            node = variable._node
            node._creator_node = call
            node._rank = rank + 1
            outputs.append(_ref(node))
        call.__dict__ = {
            "instance": instance,
            "generation": instance.generation,
            "sources": self.sources(self.leaf_sources, args),
            "manager": self.manager,
            "call_line": self.statistics.calls,
            "_input_layouts": self.in_layouts,
            "_output_layouts": self.out_layouts,
            "_output_count": len(outputs),
            "inputs": tuple(inputs),
            "outputs": tuple(outputs),
            "rank": rank,
            "lazy_grad_sum": chainer.config.lazy_grad_sum,
        }
        instance.call_line = self.statistics.calls
        instance.node = _ref(call)
        return 0


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

    def call(*args, **kwargs):
        manager = None
        if args and isinstance(args[0], _Link):
            owner = args[0]
            managers = (<dict> owner.__dict__).get(managers_key)
            if managers is not None and managers.owner_id == <size_t> <PyObject *> owner:
                manager = managers.get(function)
            if manager is not None and manager.runners:
                result = run_fast(manager.runners, args[1:], kwargs)
                if result is not NotImplemented:
                    return result
        else:
            manager = call.schedule_manager
            if manager is not None and manager.runners:
                result = run_fast(manager.runners, args, kwargs)
                if result is not NotImplemented:
                    return result
        return slow(args, kwargs)

    return call


def link_call(entry):
    """A ``__call__`` for links whose ``forward`` is `entry`: past the hooks when there are none."""

    def __call__(self, *args, **kwargs):
        if "_local_link_hooks" in (<dict> self.__dict__) or not hooks_are_off():
            return _Link.__call__(self, *args, **kwargs)
        return entry(self, *args, **kwargs)

    __call__._sdbr_link_call = True
    return __call__


cpdef run_fast(list runners, tuple args, dict kwargs):
    """Serve a call by the first of `runners` that fits; NotImplemented when none does."""
    cdef CallRunner runner
    cdef Py_ssize_t i
    for i in range(len(runners)):
        if i >= len(runners):
            break
        runner = <CallRunner> runners[i]
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if runner.running:
            continue
        runner.running = True
        try:
            if runner.matches(args, kwargs):
                if i:
                    runners.remove(runner)
                    runners.insert(0, runner)
                return runner.run_call(args, kwargs)
        finally:
            runner.running = False
    return NotImplemented
