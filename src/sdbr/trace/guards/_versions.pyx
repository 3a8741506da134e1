"""Whether the dictionaries of links were written to, past the links: ``vars(link)['n'] = 2``."""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *) except? NULL


cdef class Dicts:
    """Dictionaries as they are now.

    Parameters
    ----------
    items : list of (dict, object)
        Dictionaries and the keys that matter.
    busy : set of int
        Ids of those that every replay writes to: their items are compared one by one. Python
        counts the changes of the others (before 3.13).
    """

    def __init__(self, list items, busy):
        cdef dict found = {}
        self.items = []
        for d, key in items:
            if SDBR_DICT_VERSIONS and id(d) not in busy:
                found[id(d)] = d
            else:
                self.items.append((d, key))
        self.dicts = list(found.values())
        self.n = len(self.dicts)
        self.counted = <Counted *> PyMem_Malloc(max(1, self.n) * sizeof(Counted))
        if self.counted == NULL:
            raise MemoryError
        for i, d in enumerate(self.dicts):
            self.counted[i].d = <PyObject *> d
            self.counted[i].version = sdbr_dict_version(<PyObject *> d)
        self.items = [(d, key, d.get(key, _ABSENT)) for d, key in self.items]

    def __dealloc__(self):
        PyMem_Free(self.counted)

    cpdef bint moved(self) except -1:
        """Whether one has changed since, as far as it matters."""
        cdef Py_ssize_t i
        cdef tuple item
        cdef PyObject *now
        cdef uint64_t differ = 0
        for i in range(self.n):
            differ |= sdbr_dict_version(self.counted[i].d) ^ self.counted[i].version
        if differ:
            return True
        for i in range(len(self.items)):
            item = <tuple> self.items[i]
            now = PyDict_GetItemWithError(<PyObject *> item[0], <PyObject *> item[1])
            if (<PyObject *> _ABSENT if now == NULL else now) != <PyObject *> item[2]:
                return True
        return False


cdef object _ABSENT = object()
