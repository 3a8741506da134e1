"""Memory: what the slots of a schedule are bound to, and its control block."""

import numpy as np

from sdbr.base.errors import BackendError
from sdbr.devices import arrays
from sdbr.program.buffers import ARENA, STAGED

from sdbr.base._python cimport sdbr_descr, sdbr_is_array, sdbr_view
from sdbr.devices._arrays cimport address_of, is_contiguous, nbytes_of, on_device

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

cimport numpy as cnp
from numpy cimport ndarray

cnp.import_array()

cdef extern from *:
    """
    /* The list keeps `item` alive; the reference it held before is given up. */
    static inline void sdbr_replace(PyObject *list, int i, PyObject *item)
    {
        PyObject *old = PyList_GET_ITEM(list, i);
        Py_INCREF(item);
        PyList_SET_ITEM(list, i, item);
        Py_XDECREF(old);
    }
    """
    void sdbr_replace(PyObject *items, int i, PyObject *item)


cdef enum:
    NOWHERE = 256  # in the place of the address of an array without elements


cdef class Memory:
    """The memory of one schedule instance; its executables share it.

    Parameters
    ----------
    n_slots : int
        Length of the slot table of the schedule.
    n_control : int
        Length of the control block (numbers that change from call to call).
    device : int, optional
        The GPU that all arrays lie on; without it the host.
    """

    def __cinit__(self, int n_slots=0, int n_control=0, device=None):
        self.device = device
        self.owners = []
        self.on_host = set()
        self.state = {}
        self.grow(n_slots, n_control)

    def __dealloc__(self):
        free(self.pointers)
        free(self.sizes)
        free(self.control)

    cpdef bint take(self):
        """Mark as taken; False if it is. No thread gets in between; the taker sets it back."""
        if self.taken:
            return False
        self.taken = True
        return True

    cpdef grow(self, int n_slots, int n_control):
        """Make room for more slots and control values; never shrinks."""
        cdef int i
        if n_slots > self.n_slots:
            self.pointers = <char **> _resized(self.pointers, n_slots * sizeof(char *))
            self.sizes = <int64_t *> _resized(self.sizes, n_slots * sizeof(int64_t))
            for i in range(self.n_slots, n_slots):
                self.pointers[i] = NULL
                self.sizes[i] = -1
                self.owners.append(None)
            self.n_slots = n_slots
        if n_control > self.n_control:
            self.control = <double *> _resized(self.control, n_control * sizeof(double))
            for i in range(self.n_control, n_control):
                self.control[i] = 0.0
            self.n_control = n_control

    cpdef bind(self, int slot, array):
        """Bind a C-contiguous array, which is kept alive, to a slot.

        Raises
        ------
        BackendError
            If the slot does not exist or the array is not a C-contiguous, aligned
            ndarray in native byte order; of CuPy, and on the very GPU, where this is one's memory.
        """
        self.check_slot(slot)
        device = self.device_of(slot)
        if on_device(<PyObject *> array) and device is not None:
            self.check_device(slot, array)
            self.bind_fast(slot, <PyObject *> array)
            return
        if not isinstance(array, np.ndarray) or device is not None:
            kind = "ndarray" if device is None else f"array of CuPy on GPU {device}"
            raise BackendError(f"slot {slot} takes an {kind}, got {type(array).__name__}")
        if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
            raise BackendError(
                f"slot {slot} takes a C-contiguous, aligned array in native byte order; got "
                f"{array.dtype.str} with shape {array.shape} and strides {array.strides}"
            )
        self.bind_fast(slot, <PyObject *> array)

    cpdef device_of(self, int slot):
        """The GPU that what is bound to a slot lies on; None for the host."""
        return None if self.device is None or slot in self.on_host else self.device

    cdef int check_device(self, int slot, array) except -1:
        if array.data.device_id != self.device:
            raise BackendError(
                f"slot {slot} takes an array on GPU {self.device}, got one on GPU "
                f"{array.data.device_id}: all arrays of a call have to lie on one device"
            )
        if not is_contiguous(array):
            raise BackendError(
                f"slot {slot} takes a C-contiguous array, got strides {array.strides} with shape "
                f"{array.shape}"
            )
        return 0

    cdef int bind_fast(self, int slot, PyObject *array) except -1:
        """The same without any check: `slot` exists, `array` is a fitting ndarray."""
        if on_device(array):
            if PyList_GET_ITEM(self.owners, slot) != array:
                sdbr_replace(<PyObject *> self.owners, slot, array)
                self.sizes[slot] = nbytes_of(<object> array)
                self.pointers[slot] = address_of(<object> array)
                if self.pointers[slot] == NULL and self.sizes[slot] == 0:
                    self.pointers[slot] = <char *> NOWHERE  # bound, and nothing is read there
            return 0
        if PyList_GET_ITEM(self.owners, slot) != array:
            sdbr_replace(<PyObject *> self.owners, slot, array)
            self.sizes[slot] = cnp.PyArray_NBYTES(<ndarray> array)
        self.pointers[slot] = <char *> cnp.PyArray_DATA(<ndarray> array)
        return 0

    cpdef unbind(self, int slot):
        """Forget the array of a slot; a run that needs it raises until it is bound again."""
        self.check_slot(slot)
        self.owners[slot] = None
        self.pointers[slot] = NULL
        self.sizes[slot] = -1

    def let_go(self, list slots):
        """Forget the arrays of some slots, which exist."""
        cdef int slot
        for slot in slots:
            sdbr_replace(<PyObject *> self.owners, slot, <PyObject *> None)
            self.pointers[slot] = NULL
            self.sizes[slot] = -1

    def follow(self, list followed, tuple results):
        """Bind the present arrays of Variables that were handed out.

        Parameters
        ----------
        followed : list of (int, Followed)
            With the place in `results`.
        results : tuple of (list or None)
            What holds the array of each Variable; None: as the forward has made it.

        Returns
        -------
        int
            The first one that is of another shape or dtype, or -1.
        """
        cdef int i
        cdef Followed which
        for i, which in followed:
            if results[i] is None:
                whole = self.owners[which.source]
                self.bind_fast(which.slot, <PyObject *> whole)
            elif not which.bind(self, PyList_GET_ITEM(results[i], 0)):
                return i
        return -1

    def array(self, int slot):
        """The array that is bound to a slot, or None."""
        self.check_slot(slot)
        return self.owners[slot]

    def addresses(self):
        """Where the memory of each slot lies, as uint64; 0 where nothing is bound."""
        cdef int i
        cdef ndarray made = np.empty(self.n_slots, np.uint64)
        for i in range(self.n_slots):
            (<size_t *> cnp.PyArray_DATA(made))[i] = <size_t> self.pointers[i]
        return made

    cpdef set_control(self, int index, double value):
        """Write one value of the control block."""
        if not 0 <= index < self.n_control:
            raise IndexError(f"control index {index}; the control block has {self.n_control}")
        self.control[index] = value

    def get_control(self, int index):
        """Read one value of the control block."""
        if not 0 <= index < self.n_control:
            raise IndexError(f"control index {index}; the control block has {self.n_control}")
        return self.control[index]

    def reserve(self, program):
        """Grow to the slots of `program`, allocate its arenas and bind its constants.

        What is bound already stays bound.
        """
        references = program.control_references
        n_control = int(references[:, 1].max()) + 1 if len(references) else 0
        self.grow(max([s.index + 1 for s in program.slots], default=0), n_control)
        for slot in program.slots:
            if slot.host:
                self.on_host.add(slot.index)
            if self.owners[slot.index] is not None:
                continue
            if slot.array is not None:
                self.bind(slot.index, slot.array if slot.host else self.constant(slot.array))
            elif slot.kind == STAGED or (slot.kind == ARENA and slot.host):
                place = self.device_of(slot.index)
                self.bind(slot.index, arrays.new(slot.shape, slot.dtype, place, slot.name))
            elif slot.kind == ARENA:
                self.bind(slot.index, self.arena(program, slot.nbytes))

    def arena(self, program, nbytes=0):
        """An arena for a program; as large as it says itself where `nbytes` is 0."""
        return self.bytes(nbytes or program.arena_bytes, f"the arena of a {program.name}")

    def constant(self, array):
        """What a slot is bound to for the constant `array` of a program."""
        if self.device is None or on_device(<PyObject *> array):
            return array
        return arrays.on_device(array, self.device)

    def bytes(self, n, what="an arena"):
        """An uninitialised uint8 array of `n` bytes, aligned for every dtype, where this lies."""
        if self.device is None:
            return aligned_bytes(n)
        return arrays.new((max(int(n), 1),), np.uint8, self.device, what)

    cdef int check_slot(self, int slot) except -1:
        if not 0 <= slot < self.n_slots:
            raise BackendError(f"slot {slot} does not exist; there are {self.n_slots}")
        return 0


cdef class Followed:
    """What backwards read of a Variable that was handed out: the array that it has by then.

    Parameters
    ----------
    place : int
        Of the Variable among the outputs.
    slot, source : int
        What backwards read, and what the forward has written.
    shape, strides, offset, dtype :
        Of what backwards read, in the memory of `slot`.
    whole : tuple or None
        Shape of the memory of `slot`, if the array is a part of that.
    """

    def __init__(self, place, slot, source, shape, strides, offset, dtype, whole):
        self.place = place
        self.slot = slot
        self.source = source
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.dtype = dtype
        self.whole = whole
        self.layout = np.array([*shape, *strides], np.intp)

    cdef bint bind(self, Memory memory, PyObject *array) except -1:
        """Bind the present `array`; False where its shape or dtype is another one."""
        cdef ndarray now
        cdef cnp.npy_intp *layout
        cdef int i, n
        if sdbr_is_array(array) and sdbr_descr(array) == <PyObject *> self.dtype:
            now = <ndarray> array
            layout = <cnp.npy_intp *> cnp.PyArray_DATA(<ndarray> self.layout)
            n = cnp.PyArray_NDIM(now)
            if (
                <char *> cnp.PyArray_DATA(now) == memory.pointers[self.source] + self.offset
                and n == len(self.shape)
            ):
                for i in range(n):
                    if cnp.PyArray_DIMS(now)[i] != layout[i]:
                        break
                    if layout[i] != 1 and cnp.PyArray_STRIDES(now)[i] != layout[n + i]:
                        break
                else:
                    memory.bind_fast(self.slot, PyList_GET_ITEM(memory.owners, self.source))
                    return True
        given = <object> array
        if memory.device is not None:
            return self.bind_on_device(memory, given)
        if not (isinstance(given, np.ndarray) or isinstance(given, np.generic)):
            return False
        if given.shape != self.shape or given.dtype != self.dtype:
            return False
        if self.whole is None:
            given = np.require(np.asarray(given), None, ("C", "A"))
        else:
            whole = np.empty(self.whole, self.dtype)
            view_of(whole, self.shape, self.strides, self.offset, True)[...] = given
            given = whole
        memory.bind(self.slot, given)
        return True

    cdef bint bind_on_device(self, Memory memory, given) except -1:
        """The same for an array of CuPy."""
        if not on_device(<PyObject *> given) or given.data.device_id != memory.device:
            return False
        if given.shape != self.shape or given.dtype != self.dtype:
            return False
        if (
            address_of(given) == memory.pointers[self.source] + self.offset
            and given.strides == self.strides
        ):
            memory.bind_fast(self.slot, PyList_GET_ITEM(memory.owners, self.source))
            return True
        if self.whole is not None:
            whole = arrays.new(self.whole, self.dtype, memory.device)
            arrays.view(whole, self.shape, self.dtype, self.strides, self.offset)[...] = given
            given = whole
        memory.bind(self.slot, arrays.contiguous(given))
        return True


def view_of(array, tuple shape, tuple strides, Py_ssize_t offset, bint writeable, dtype=None):
    """A view of `array` with these strides, from `offset` bytes after its first item.

    The memory is not taken as a buffer, which would leave a note in the array. `dtype` is that of
    `array` where it is not given.
    """
    dtype = array.dtype if dtype is None else dtype
    if on_device(<PyObject *> array):
        return arrays.view(array, shape, dtype, strides, offset)
    return _host_view(array, shape, strides, offset, writeable, dtype)


cdef object _host_view(
    ndarray array, tuple shape, tuple strides, Py_ssize_t offset, bint writeable, dtype
):
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp steps[64]
    cdef int i
    if len(shape) > 64:
        raise BackendError("an array of more than 64 axes")
    for i in range(len(shape)):
        dims[i] = shape[i]
        steps[i] = strides[i]
    view = sdbr_view(
        dtype, len(shape), dims, steps, <char *> cnp.PyArray_DATA(array) + offset, array
    )
    if not writeable:
        view.flags.writeable = False
    return view


cdef void *_resized(void *block, size_t n) except NULL:
    cdef void *new = realloc(block, n)
    if new == NULL:
        raise MemoryError
    return new


def aligned_bytes(n, alignment=64):
    """An uninitialised uint8 array of `n` bytes that starts at a multiple of `alignment`."""
    block = np.empty(int(n) + alignment, np.uint8)
    start = -block.ctypes.data % alignment
    return block[start:start + int(n)]


def claim(instance):
    """Take an instance for a new call, if it is free; no other thread gets in between.

    It is not while the node of its call lives: a backward may come, or come again.

    Parameters
    ----------
    instance : Instance

    Returns
    -------
    bool
        Whether it was free; it is marked as running then.
    """
    if instance.running:
        return False
    node = instance.node
    if node is not None and node() is not None and not instance.given_back:
        return False
    instance.running = True
    instance.generation += 1
    instance.given_back = False
    instance.node = None
    return True


def claim_backward(instance, generation):
    """Mark an instance as running for the backward of its call; False if another call has it."""
    if instance.generation != generation:
        return False
    instance.running = True
    return True
