"""Memory: what the slots of a schedule are bound to, and its control block."""

from weakref import ref as _ref

import numpy as np

from sdbr.base.errors import BackendError
from sdbr.program.buffers import ARENA

from sdbr.base._python cimport sdbr_descr, sdbr_is_array, sdbr_view

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


cdef class Memory:
    """The memory of one schedule instance; its executables share it.

    Parameters
    ----------
    n_slots : int
        Length of the slot table of the schedule.
    n_control : int
        Length of the control block (numbers that change from call to call).
    """

    def __cinit__(self, int n_slots=0, int n_control=0):
        self.owners = []
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
            ndarray in native byte order.
        """
        self.check_slot(slot)
        if not isinstance(array, np.ndarray):
            raise BackendError(f"slot {slot} takes an ndarray, got {type(array).__name__}")
        if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
            raise BackendError(
                f"slot {slot} takes a C-contiguous, aligned array in native byte order; got "
                f"{array.dtype.str} with shape {array.shape} and strides {array.strides}"
            )
        self.bind_fast(slot, <PyObject *> array)

    cdef void bind_fast(self, int slot, PyObject *array):
        """The same without any check: `slot` exists, `array` is a fitting ndarray."""
        if PyList_GET_ITEM(self.owners, slot) != array:
            sdbr_replace(<PyObject *> self.owners, slot, array)
            self.sizes[slot] = cnp.PyArray_NBYTES(<ndarray> array)
        self.pointers[slot] = <char *> cnp.PyArray_DATA(<ndarray> array)

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
            if self.owners[slot.index] is not None:
                continue
            if slot.array is not None:
                self.bind(slot.index, slot.array)
            elif slot.kind == ARENA:
                self.bind(slot.index, aligned_bytes(slot.nbytes or program.arena_bytes))

    cdef int check_slot(self, int slot) except -1:
        if not 0 <= slot < self.n_slots:
            raise BackendError(f"slot {slot} does not exist; there are {self.n_slots}")
        return 0


cdef class Arena:
    """An arena that programs work in one after another: as large as the largest of them needs.

    For programs that leave nothing there. Many that come in turn touch the memory of one.
    """

    def __cinit__(self):
        self.lodgers = []

    def join(self, Memory memory, program):
        """Let `program` work here on `memory`, which has no arena of its own yet.

        Parameters
        ----------
        memory : Memory
        program : Program

        Returns
        -------
        Lodger or None
            None where the program needs no arena.
        """
        cdef Lodger lodger, one
        slot = program.arena_slot()
        if slot is None:
            return None
        lodger = Lodger(self, memory, slot, program.arena_bytes)
        memory.grow(slot + 1, 0)
        known = [which() for which in self.lodgers]
        living = [one for one in known if one is not None and one.arena is self]
        living.append(lodger)
        self.lodgers = [_ref(one) for one in living]
        needed = max([one.nbytes for one in living])
        if self.array is None or self.array.nbytes != needed:
            self.array = aligned_bytes(needed)
            for one in living:
                if not one.runs:  # one that does looks again before its next run
                    one.memory.bind(one.slot, self.array)
        else:
            memory.bind(slot, self.array)
        return lodger


cdef class Lodger:
    """A program that works in an arena with others.

    Parameters
    ----------
    arena : Arena
    memory : Memory
    slot : int
        Of the arena.
    nbytes : int
        How much of it the program needs.
    """

    def __init__(self, Arena arena, Memory memory, int slot, int64_t nbytes):
        self.arena = arena
        self.memory = memory
        self.slot = slot
        self.nbytes = nbytes

    cdef int enter(self) except -1:
        """Take the arena for a run; where another one runs there, have one's own from now on."""
        if self.arena is None:
            return 0
        if self.arena.taken:  # in another thread, or around this run
            self.memory.bind(self.slot, aligned_bytes(self.nbytes))
            self.arena = None
            return 0
        self.arena.taken = self.runs = True
        if PyList_GET_ITEM(self.memory.owners, self.slot) != <PyObject *> self.arena.array:
            self.memory.bind_fast(self.slot, <PyObject *> self.arena.array)
        return 0

    cdef int leave(self) except -1:
        """Give the arena back, if it was taken."""
        if self.runs:
            self.arena.taken = self.runs = False
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


def view_of(ndarray array, tuple shape, tuple strides, Py_ssize_t offset, bint writeable):
    """A view of `array` with these strides, from `offset` bytes after its first item.

    The memory is not taken as a buffer, which would leave a note in the array.
    """
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp steps[64]
    cdef int i
    if len(shape) > 64:
        raise BackendError("an array of more than 64 axes")
    for i in range(len(shape)):
        dims[i] = shape[i]
        steps[i] = strides[i]
    view = sdbr_view(
        array.dtype, len(shape), dims, steps, <char *> cnp.PyArray_DATA(array) + offset, array
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
