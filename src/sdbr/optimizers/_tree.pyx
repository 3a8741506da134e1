"""The parameters of an optimizer's target, compared before every step."""

from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

from sdbr.optimizers._arrays cimport PySet_GET_SIZE, lookup


cdef class Tree:
    """Which parameters a target has: noticed when a link or parameter comes or goes.

    Parameters
    ----------
    target : chainer.Link
    version_cell : list of int
        Changes with every attribute write of any link; while it does not, nothing is looked at.
    lookups : list of (dict, key, value)
        Registered parameters and children with the dictionaries that hold them.
    sets : list of set
        Names of registered parameters and children.
    lists : list of list
        Children of chain lists.
    opaque : bool
        A link overrides ``params``: then the list it gives is compared.
    """

    def __cinit__(self, target, version_cell, list lookups, list sets, list lists, bint opaque):
        cdef Py_ssize_t i
        self.target = target
        self.version_cell = version_cell
        self.version = version_cell[0]
        self.opaque = opaque
        self.kept = [lookups, sets]
        self.params = list(target.params())
        self.lists = [(items, tuple(items)) for items in lists]
        self.n_lookups = len(lookups)
        self.n_sizes = len(sets)
        self.lookups = <Lookup *> calloc(max(self.n_lookups, 1), sizeof(Lookup))
        self.sizes = <Size *> calloc(max(self.n_sizes, 1), sizeof(Size))
        if self.lookups == NULL or self.sizes == NULL:
            raise MemoryError
        for i in range(self.n_lookups):
            where, key, value = lookups[i]
            self.lookups[i] = Lookup(<PyObject *> where, <PyObject *> key, <PyObject *> value)
        for i in range(self.n_sizes):
            self.sizes[i] = Size(<PyObject *> sets[i], len(sets[i]))

    def __dealloc__(self):
        free(self.lookups)
        free(self.sizes)

    cpdef bint check(self):
        """Whether the target has the very same parameters as before."""
        cdef object now = (<list> self.version_cell)[0]
        if now is self.version and not self.opaque:
            return True
        if not self.walk():
            return False
        self.version = now
        return True

    cdef bint walk(self):
        cdef Py_ssize_t i
        cdef list items
        cdef tuple before
        if self.opaque:
            items = list(self.target.params())
            if len(items) != len(self.params):
                return False
            for i in range(len(items)):
                if items[i] is not self.params[i]:
                    return False
            return True
        for i in range(self.n_sizes):
            if PySet_GET_SIZE(self.sizes[i].where) != self.sizes[i].size:
                return False
        for i in range(self.n_lookups):
            if lookup(self.lookups[i].where, self.lookups[i].key) != self.lookups[i].value:
                return False
        for items, before in self.lists:
            if len(items) != len(before):
                return False
            for i in range(len(before)):
                if items[i] is not before[i]:
                    return False
        return True
