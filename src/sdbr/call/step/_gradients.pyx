"""The gradient arrays of parameters that a whole step writes."""

from sdbr.devices import arrays

import numpy as np

from cpython.object cimport PyObject

from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    PyDict_SetItem,
    sdbr_list_item,
    sdbr_refcount,
)
from sdbr.devices._arrays cimport memory_is_held, on_device
from sdbr.program._memory cimport Memory

cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *NONE = <PyObject *> None
cdef str _LOSS_SCALE = "_loss_scale"
cdef PyObject *K_LOSS_SCALE = <PyObject *> _LOSS_SCALE
cdef object _TRUE = True   # a literal True would become the C number 1
cdef PyObject *TRUE = <PyObject *> _TRUE


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


cdef class Gradient:
    """The gradient array of a parameter: ours, and used again only when nobody else holds it.

    It is bound to the memory of one runner at a time.
    """

    def __init__(self, attributes, shape, dtype):
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype

    cdef bint bind(self, Memory memory, int slot) except -1:
        """Choose the array and bind it to `slot`; whether it has to be published."""
        cdef PyObject *d = <PyObject *> self.attributes
        cdef PyObject *mine
        cdef PyObject *found
        cdef Py_ssize_t held
        if self.memory is not memory or self.slot != slot:
            self.let_go()
        mine = <PyObject *> self.array
        if mine != NONE:
            found = PyDict_GetItemWithError(d, K_GRAD)
            # References: ours, a memory's, the parameter's. One that the user dropped from the
            # parameter but kept has another number, too.
            held = 1 + (self.memory is not None)
            if on_device(mine) and memory_is_held(self.array):
                mine = NULL  # by a view of it
            elif found == mine and sdbr_refcount(mine) == held + 1:
                # A gradient variable would hold the array, too; the flag stays as we set it.
                if self.memory is None:
                    self.take(memory, slot)
                return False
            if mine != NULL and found != mine and sdbr_refcount(mine) == held:
                if self.memory is None:
                    self.take(memory, slot)
                return True
        new = spare_gradient(d, self.shape, self.dtype)
        if new is None:
            new = arrays.new(self.shape, self.dtype, memory.device, "a gradient")
        self.array = new
        self.take(memory, slot)
        return True

    cdef int take(self, Memory memory, int slot) except -1:
        memory.bind_fast(slot, <PyObject *> self.array)
        self.memory, self.slot = memory, slot
        return 0

    cdef int let_go(self) except -1:
        """Take the array from another runner; where that runs, in another thread, leave it."""
        if self.memory is not None:
            if self.memory.taken:
                self.array = None
            else:
                self.memory.unbind(self.slot)
            self.memory = None
        return 0


cdef class Gradients:
    """The gradients of parameters that one runner writes.

    Parameters
    ----------
    memory : Memory
    places : list of (Parameter, int, tuple, dtype)
        With their slots, and the shapes and dtypes that the program was made for.
    shared : dict
        The `Gradient` of each, for all runners of an optimizer.
    unreached : set of int
        Ids of parameters that the loss does not depend on.
    """

    def __init__(self, Memory memory, places, shared, unreached):
        self.memory = memory
        self.slots = [slot for _, slot, _, _ in places]
        self.gradients = []
        for parameter, _, shape, dtype in places:
            # A `Gradient` keeps the dictionary alive, so nothing else has its address.
            name = id(parameter.__dict__), shape, dtype, memory.device
            gradient = shared.get(name)
            if gradient is None:
                gradient = shared[name] = Gradient(parameter.__dict__, shape, dtype)
            self.gradients.append(gradient)
        self.reached = [id(parameter) not in unreached for parameter, _, _, _ in places]
        self.fresh = []

    cdef int bind(self) except -1:
        """Choose and bind the array of every gradient; notes which have to be published."""
        cdef Py_ssize_t i
        if self.fresh:
            self.fresh.clear()
        self.memory.taken = True
        for i in range(len(self.gradients)):
            if (<Gradient> self.gradients[i]).bind(self.memory, <int> self.slots[i]):
                self.fresh.append(i)
        return 0

    cdef int publish(self, scale, bint filled) except -1:
        """Make the arrays the gradients of their parameters; those in place stay untouched.

        `scale` is what the loss was multiplied with, or None. `filled`: those that are replaced
        become zero, as Chainer's ``zerograds`` makes them.
        """
        cdef Py_ssize_t i
        cdef PyObject *d
        cdef PyObject *written
        for i in range(len(self.gradients)):
            d = <PyObject *> (<Gradient> self.gradients[i]).attributes
            written = PyDict_GetItemWithError(d, K_LOSS_SCALE)
            if written != <PyObject *> scale and self.reached[i]:
                PyDict_SetItem(d, K_LOSS_SCALE, <PyObject *> scale)
        for i in self.fresh:
            d = <PyObject *> (<Gradient> self.gradients[i]).attributes
            if filled:
                fill_with_zeros(<dict> d, self.memory.owners[<int> self.slots[i]])
            written = sdbr_list_item(<PyObject *> self.memory.owners, <int> self.slots[i])
            PyDict_SetItem(d, K_GRAD, written)
            PyDict_SetItem(d, K_GRAD_VAR, NONE)
            PyDict_SetItem(d, K_GRAD_VALID, TRUE)
        return 0


cdef fill_with_zeros(dict d, new):
    """What somebody else may hold of a gradient that is replaced."""
    old = d.get(_GRAD)
    if old is None:
        variable = d.get(_GRAD_VAR)
        old = None if variable is None else variable.array
    if old is not None and old is not new:
        old.fill(0)


cdef class Added:
    """Gradients that a step adds to what is there: of arguments, of parameters of others.

    Parameters
    ----------
    memory : Memory
    places : list of (Value, int, tuple, dtype)
        With their slots.
    """

    def __init__(self, Memory memory, places):
        self.memory = memory
        self.items = [
            (value.source if value.kind == "argument" else -1, value.source, slot, shape, dtype)
            for value, slot, shape, dtype in places
        ]
        self.arrays = []

    cdef int bind(self) except -1:
        self.arrays = []
        for _, _, slot, shape, dtype in self.items:
            array = arrays.new(shape, dtype, self.memory.device, "a gradient")
            self.arrays.append(array)
            self.memory.bind_fast(<int> slot, <PyObject *> array)
        return 0

    cdef int publish(self, tuple args, list positions, scale) except -1:
        cdef int place
        for (at, source, slot, _, _), array in zip(self.items, self.arrays):
            place = at
            variable = source if place < 0 else args[<int> positions[place]]
            before = variable.grad
            variable._set_grad_without_check(array if before is None else before + array)
            variable._loss_scale = scale
            self.memory.unbind(<int> slot)
        self.arrays = []
        return 0
