"""Parameters in float16 whose rules update a copy in float32: Chainer's ``use_fp32_update``.

A step of Chainer's gives such a parameter a new array, the copy rounded. Here two arrays take turns
as long as nobody else holds them.
"""

import numpy as np

from cpython.object cimport PyObject

from sdbr.base._python cimport sdbr_list_item, sdbr_refcount
from sdbr.program._memory cimport Memory

cdef str _NODE = "_node"


cdef class Master:
    """One of them, with its copy.

    Parameters
    ----------
    parameter : chainer.Parameter
        In float16, with an array.
    rule : chainer.UpdateRule
        That has the copy.
    before : int or None
        What `t` of the rule is while the copy has not been used: it is made ahead of its time then.
    """

    def __init__(self, parameter, rule, before):
        self.parameter, self.rule = parameter, rule
        self.data = parameter._data
        self.copy = rule._fp32_param
        self.before = before

    cdef bint refresh(self, bint counted) except -1:
        """Make the copy again, if it is ahead of its time; `counted`: the rule's `t` is the next.

        False when it is not: from now on it goes its own way.
        """
        if self.before is None or self.rule.t - counted != self.before:
            self.before = None
            return False
        # Chainer will make it of what the parameter is then.
        self.copy._data[0][...] = self.data[0]
        return True

    cdef int bind(self, Memory memory, int slot) except -1:
        """Bind the array that is to be the parameter's."""
        cdef PyObject *spare = <PyObject *> self.spare
        cdef bint bound
        # Where the last run has failed, it is bound there.
        bound = sdbr_list_item(<PyObject *> memory.owners, slot) == spare
        if self.spare is None or sdbr_refcount(spare) != 1 + bound:
            array = self.data[0]
            self.spare = np.empty(array.shape, array.dtype)
        memory.bind_fast(slot, <PyObject *> self.spare)
        return 0

    cdef int publish(self, Memory memory, int slot) except -1:
        """What was bound is the array of the parameter."""
        cdef PyObject *written = sdbr_list_item(<PyObject *> memory.owners, slot)
        array, old = <object> written, self.data[0]
        self.data[0] = array
        node = self.parameter.__dict__[_NODE]
        if node._data is not None:
            node._data = array
        flags = old.flags
        fits = old.shape == array.shape and old.dtype == array.dtype
        fits = fits and flags.c_contiguous and flags.owndata and flags.writeable
        self.spare = old if fits else None
        memory.unbind(slot)
        return 0


cdef class Masters:
    """Those that one program updates.

    Parameters
    ----------
    memory : Memory
    places : list of (Master, int)
        With the slots of the arrays that the parameters get.
    """

    def __init__(self, Memory memory, places):
        self.memory = memory
        self.masters = [master for master, _ in places]
        self.slots = [slot for _, slot in places]

    cpdef int bind(self) except -1:
        """Bind what is to be written, before a run."""
        cdef Py_ssize_t i
        for i in range(len(self.masters)):
            (<Master> self.masters[i]).bind(self.memory, <int> self.slots[i])
        return 0

    cpdef int publish(self) except -1:
        """Give the parameters what a run has written."""
        cdef Py_ssize_t i
        for i in range(len(self.masters)):
            (<Master> self.masters[i]).publish(self.memory, <int> self.slots[i])
        return 0
