"""Update rules that make the same step, and what their op takes at each."""

import numpy as np

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version
from sdbr.base._python cimport sdbr_tuple_item
from sdbr.optimizers._arrays cimport lookup


class Missing:
    """Stands for a hyperparameter that does not exist; no number, so the step is declined."""


cdef class Group:
    """Rules that make the same step: one rule row, the same hyperparameters, the same `t`."""

    def __init__(self, rule_row, dtype, hyperparam, options, chain, int number, int offset):
        self.rule_row = rule_row
        self.dtype = dtype
        self.attribute = rule_row.attribute
        self.carry = rule_row.carry
        self.hyperparam = hyperparam
        self.options = options
        self.chain = chain
        self.number = number
        self.first = -1
        self.offset = offset
        self.names = rule_row.hyperparameters
        self.option_places = tuple([rule_row.hyperparameters.index(o) for o in rule_row.options])
        self.function = rule_row.function
        if self.function is None:
            self.scalars, self.n_scalars = rule_row.scalars, rule_row.n_scalars
        else:
            self.scalars, self.n_scalars = self.function.scalars_of(options)

    cdef tuple values(self):
        """Hyperparameters in the order of the rule row; a missing one is the class `Missing`."""
        cdef Py_ssize_t i, n
        cdef uint64_t[LINKS] now
        cdef uint64_t differ = self.known is None
        cdef tuple found
        if self.chain is None:
            return tuple([getattr(self.hyperparam, name, Missing) for name in self.names])
        n = len(self.chain)
        if not SDBR_DICT_VERSIONS or n > LINKS:
            return self.look()
        for i in range(n):
            now[i] = sdbr_dict_version(sdbr_tuple_item(<PyObject *> self.chain, i))
            differ |= now[i] ^ self.versions[i]
        if not differ:
            return self.known
        found = self.look()
        # Together, whatever other threads have done meanwhile.
        for i in range(n):
            self.versions[i] = now[i]
        self.known = found
        return found

    cdef tuple look(self):
        cdef list out = []
        cdef PyObject *value
        for name in self.names:
            value = NULL
            for d in self.chain:
                value = lookup(<PyObject *> d, <PyObject *> name)
                if value != NULL:
                    break
            out.append(Missing if value == NULL else <object> value)
        return tuple(out)

    cdef bint options_hold(self, tuple values):
        cdef Py_ssize_t i
        if self.function is not None:
            return self.function.holds(self.options, values)
        for i in range(len(self.options)):
            if bool(values[self.option_places[i]]) is not self.options[i]:
                return False
        return True


cdef double as_number(value) except? -1.0:
    """A number for the control block."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)) or (
        isinstance(value, np.floating) or isinstance(value, np.integer)
    ):
        return float(value)
    # An array is a number for each element; those are not for the control block.
    raise TypeError(f"expected a number, got {type(value).__name__}")
