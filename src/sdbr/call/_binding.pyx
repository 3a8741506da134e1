"""Bind what a call brings: arguments, parameters and captured state."""

from sdbr.devices.arrays import may_share_memory
import chainer
import numpy as np

from cpython.array cimport array as int_array
from cpython.object cimport PyObject

cimport numpy as cnp

from sdbr._executor cimport Executable
from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    sdbr_data,
    sdbr_dims,
    sdbr_is_plain,
    sdbr_list_item,
)
from sdbr.call._effects cimport Effects
from sdbr.call._outputs cimport Outputs, Shown
from sdbr.call._spec cimport Leaves
from sdbr.devices._arrays cimport is_alike, is_contiguous, on_device
from sdbr.program._arenas cimport Lodger
from sdbr.program._memory cimport Memory

cnp.import_array()

cdef str _DATA = "_data"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *NONE = <PyObject *> None

cdef object _Variable = chainer.Variable


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
            if self.memory.device is not None:
                if not self.bind_on_device(i, <object> now):
                    return False
                continue
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

    cdef bint bind_on_device(self, Py_ssize_t i, now) except -1:
        """The same for an array of CuPy: all of it but its shape stays as it is."""
        cdef int slot = self.slots.data.as_ints[i]
        if not on_device(<PyObject *> now):
            return False
        if sdbr_list_item(<PyObject *> self.memory.owners, slot) == <PyObject *> now:
            return now.shape == self.shapes[i]
        if not is_alike(now, <PyObject *> self.dtypes[i], self.shapes[i], self.memory.device):
            return False
        self.memory.bind(slot, self.shown.copied(slot, now))
        return True


cdef class Arguments:
    """Binds array arguments, and captured attributes."""

    def __init__(self, Memory memory, leaves, Shown shown=None, compared=()):
        self.memory = memory
        self.shown = Shown(()) if shown is None else shown
        self.compared = list(compared)
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
        cdef bint plain
        cdef PyObject *array
        for position, slot in self.positions:
            array = now.arrays[<int> positions[position]]
            if on_device(array):
                plain = is_contiguous(<object> array)
            else:
                plain = sdbr_is_plain(array)
            if plain:
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
            if self.memory.device_of(slot) is not None:
                if not self.bind_on_device(slot, thing, shape, dtype):
                    return False
                continue
            if not isinstance(thing, np.ndarray) or thing.shape != shape or thing.dtype != dtype:
                return False
            if slot in self.held and not (thing.flags.c_contiguous and thing.flags.aligned):
                return False
            self.memory.bind(slot, self.shown.copied(slot, thing))
        return not self.compared or self.are_others(now, positions)

    cdef bint bind_on_device(self, int slot, thing, shape, dtype) except -1:
        """Bind an attribute; False when it no longer has its shape and dtype."""
        if not on_device(<PyObject *> thing):
            return False
        if not is_alike(thing, <PyObject *> dtype, shape, self.memory.device):
            return False
        if slot in self.held and not is_contiguous(thing):
            return False
        self.memory.bind(slot, self.shown.copied(slot, thing))
        return True

    cdef bint are_others(self, Leaves now, list positions) except -1:
        """Whether nothing that the code has compared with arguments is one of them."""
        cdef int position
        cdef tuple given = now.now
        for d, name in self.compared:
            thing = d.get(name)
            if thing is None:
                continue
            array = thing._data[0] if isinstance(thing, _Variable) else thing
            for position in positions:
                if given[position] is thing or <PyObject *> array == now.arrays[position]:
                    return False
        return True


cdef class Staged:
    """What lies on the host and is copied to a GPU before a run.

    The caller may write to it as soon as the call is back.

    Parameters
    ----------
    executable : CudaExecutable
    items : list of (Value, int)
        Arguments, attributes and arrays of other places, with their slots.
    """

    def __init__(self, executable, items):
        self.executable = executable
        self.positions = [(v.source, slot) for v, slot in items if v.kind == "argument"]
        self.others = []
        for value, slot in items:
            if value.kind == "attribute":
                link, name = value.source
                self.others.append((link.__dict__, name, slot, value.shape, value.dtype))
            elif value.kind == "constant":
                self.others.append((None, value.source, slot, value.shape, value.dtype))

    cdef bint bind(self, Leaves now, list positions) except -1:
        """Begin to copy; False when an array no longer has its shape and dtype."""
        cdef int position, slot
        for d, name, slot, shape, dtype in self.others:
            thing = name if d is None else d.get(name)
            if isinstance(thing, _Variable):
                thing = thing._data[0]
            elif isinstance(thing, np.generic):
                thing = np.asarray(thing)
            if not isinstance(thing, np.ndarray) or thing.shape != shape or thing.dtype != dtype:
                return False
            self.executable.stage(slot, thing)
        for position, slot in self.positions:
            self.executable.stage(slot, <object> now.arrays[<int> positions[position]])
        return True


cdef class Written:
    """Arrays of links that a call writes in place: nothing else that is bound may lie there.

    Parameters
    ----------
    memory : Memory
    leaves : list of (Value, int)
    items : list of (Parameter, int, tuple, dtype)
        All parameters.
    lasting : list of Value
        Those of `leaves` that are written.
    shown : Shown
    """

    def __init__(self, Memory memory, leaves, items, lasting, Shown shown):
        self.memory = memory
        self.shown = shown
        shown.copies = []
        indices = {value.index for value in lasting}
        self.slots = [slot for value, slot in leaves if value.index in indices]
        self.params = [
            (value.source.__dict__, slot) for value, slot in leaves
            if value.index in indices and value.kind == "parameter"
        ]
        self.bound = list({slot for _, slot in leaves} | {slot for _, slot, _, _ in items})

    cdef bint lies_apart(self) except -1:
        """Whether they may be written, and nobody else sees it."""
        cdef Memory memory = self.memory
        cdef int slot, other
        cdef char *start
        cdef char *end
        for parameter, slot in self.params:
            if (<list> parameter["_data"])[0] is not memory.owners[slot]:
                return False  # a copy will not do
        for slot in self.slots:
            array = memory.owners[slot]
            if isinstance(array, np.ndarray) and not cnp.PyArray_ISWRITEABLE(array):
                return False
            start = memory.pointers[slot]
            end = start + memory.sizes[slot]
            for other in self.bound:
                if other != slot and memory.sizes[other] > 0 and memory.pointers[other] < end:
                    if start < memory.pointers[other] + memory.sizes[other]:
                        return False
            for copied in self.shown.copies:
                if may_share_memory(array, copied):
                    return False
        return True


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
    lodger : Lodger or None
        Where the program works in an arena with others.
    staged : list of (Value, int)
        See `Staged`.
    """

    def __init__(
        self, executable, leaves, outputs, trace, node_class, more=(), watched=frozenset(),
        control_base=0, windows=frozenset(), hidden=(), returned=(), Lodger lodger=None,
        staged=(),
    ):
        self.lodger = lodger
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
        self.arguments = Arguments(memory, leaves, shown, trace.compared)
        if staged:
            self.staged = Staged(executable, staged)
        if trace.lasting:
            self.written = Written(memory, leaves, items, trace.lasting, shown)
        self.outputs = Outputs(memory, outputs, windows, hidden, shown)
        self.effects = Effects(self.outputs, outputs, returned, trace, node_class, control_base)

    cdef bint bind(self, Leaves now, list positions) except -1:
        """Bind the inputs; False when one no longer has its shape and dtype."""
        self.shown.clear()
        if not (self.parameters.bind() and self.arguments.bind(now, positions)):
            return False
        if self.written is not None and not self.written.lies_apart():
            return False
        return self.staged is None or self.staged.bind(now, positions)

    cdef int enter(self) except -1:
        """Take the arena, where it is shared; `leave` gives it back."""
        if self.lodger is not None:
            self.lodger.enter()
        return 0

    cdef int leave(self) except -1:
        if self.lodger is not None:
            self.lodger.leave()
        return 0

    cdef int run(self) except -1:
        self.enter()
        try:
            if self.compiled is not None:
                self.compiled.run_c()
            else:
                self.executable.run()
        finally:
            self.leave()
        return 0
