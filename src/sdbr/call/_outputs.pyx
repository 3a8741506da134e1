"""Arrays and Variables that a run hands out: one array is used again only when nobody holds it."""

from sdbr.devices.arrays import contiguous, new

from cpython.object cimport PyObject

from sdbr.base._python cimport sdbr_list_item, sdbr_refcount
from sdbr.devices._arrays cimport memory_is_held, on_device
from sdbr.program._memory cimport Memory

cdef class Shown:
    """The leaves of which results are views.

    Parameters
    ----------
    slots : iterable of int
    """

    def __init__(self, slots):
        self.slots = frozenset(slots)
        self.given = {}
        self.copies = None

    cdef object copied(self, int slot, array):
        """`array` as kernels take it, and a note of itself where that is a copy."""
        found = contiguous(array)
        if found is not array:
            if slot in self.slots:
                self.given[slot] = array
            if self.copies is not None:
                self.copies.append(array)
        return found

    cdef int clear(self) except -1:
        """Forget the notes on the last call."""
        if self.given:
            self.given.clear()
        if self.copies:
            self.copies.clear()
        return 0

    cdef object array(self, int slot, bound):
        """What views are made of: the caller's array where a copy of it is bound."""
        return self.given.get(slot, bound) if self.given else bound


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
                if sdbr_refcount(item) == held and not (
                    on_device(item) and memory_is_held(<object> item)
                ):
                    array = <object> item
                    break
            if array is None:
                device = self.memory.device_of(<int> self.slots[i])
                array = new(self.shapes[i], self.dtypes[i], device, "a result")
                if len(pool) >= 4:
                    pool.pop(0)
                pool.append(array)
            self.arrays[i] = array
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> array)
        for i, slot, window in self.windows:
            self.arrays[i] = window.on(self.shown.array(<int> slot, self.memory.owners[<int> slot]))
        return 0
