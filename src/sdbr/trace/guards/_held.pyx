"""Conditions on places outside of links, compared in C before every replay."""

import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code.reading import Cell, behind

import chainer
import numpy as np

from cpython.object cimport PyObject
from libc.string cimport memcmp

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *) except? NULL
    PyObject *sdbr_cell "PyCell_GET"(PyObject *)
    bint PyFloat_CheckExact(object)
    bint PyLong_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyBytes_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    bint PyObject_RichCompareBool(object, object, int) except -1
    int Py_EQ

#: What a check gets where there is nothing.
MISSING = object()
cdef object _MISSING = MISSING
cdef object _Variable = chainer.Variable
cdef tuple SCALARS = (int, float, str, bool, bytes, complex, type(None), np.generic)
cdef tuple _ARRAYS = (*ARRAYS, np.generic)

# Where to look, in the low bits of a code; what to look for in the others.
cdef enum:
    IN_DICT = 0
    IN_CELL = 1
    AT_HAND = 2
    ELSEWHERE = 3
    WHERE = 3
    IS = 4
    EQUALS = 8
    CHECK = 12
    WHAT = 12


cdef inline bint same_double(double a, double b) noexcept nogil:
    """As their ``repr`` is: 0.0 is not -0.0, and nan is nan."""
    return memcmp(&a, &b, sizeof(double)) == 0 or (a != a and b != b)


cdef bint same_scalar(object thing, object want) except -1:
    """Whether two things that are not the same one are numbers or texts of one type and value."""
    if type(thing) is not type(want):
        return False
    if PyFloat_CheckExact(want):
        return same_double(PyFloat_AS_DOUBLE(thing), PyFloat_AS_DOUBLE(want))
    if PyLong_CheckExact(want) or PyUnicode_CheckExact(want) or PyBytes_CheckExact(want):
        return PyObject_RichCompareBool(thing, want, Py_EQ)
    return isinstance(want, SCALARS) and repr(thing) == repr(want)


cdef bint same_number(object thing, object want) except -1:
    """Whether two numbers or texts are one, type and sign of zero included."""
    return thing is want or same_scalar(thing, want)


class Given:
    """The place of what a condition is told of and need not look up, whatever it is called."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        self.thing = thing

    def get(self, name, default=None):
        """The thing itself."""
        return self.thing


def is_same(thing, want):
    """Whether it is the very thing."""
    return thing is want


def is_equal(thing, want):
    """Whether it is the same number or text, of the same type."""
    return thing is want or same_number(thing, want)


def is_variable_like(thing, want):
    """Whether it is a Variable of the shape, dtype and kind that are wanted."""
    if not isinstance(thing, _Variable):
        return False
    array = thing._data[0]
    if array is None or want is None:
        return array is want
    return (array.shape, array.dtype, thing.requires_grad) == want


def is_array_like(thing, want):
    """Whether it is an array of the shape and dtype that are wanted."""
    return isinstance(thing, _ARRAYS) and (thing.shape, thing.dtype) == want


def is_met(condition):
    """Whether a condition, as it was given, holds."""
    holder, name, check, want = condition[:4]
    return check(holder.get(name, _MISSING), want)


cdef class Conditions:
    """Places, and what has to lie there."""

    def __init__(self):
        self.holders, self.names, self.checks = [], [], []
        self.wants, self.given = [], []
        self.codes = bytearray()

    def __len__(self):
        return len(self.codes)

    def add(self, holder, name, check, want, label=None):
        """Take up a condition.

        Parameters
        ----------
        holder : object
            ``holder.get(name, default)`` is what lies there; looked up in C where it is a
            dictionary, a variable of an enclosing function or a `Given`.
        name : object
        check : callable
            ``check(thing, want)``; the functions of this module are not called but done here.
        want : object
        label : str, optional
            What the place is called where that is not `name`.
        """
        self.given.append((holder, name, check, want, name if label is None else label))
        code = CHECK
        if check is is_same:
            code = IS
        elif check is is_equal:
            code = EQUALS
        if type(holder) is types.MappingProxyType and type(behind(holder)) is dict:
            holder = behind(holder)  # the dictionary of a class itself
        if type(holder) is dict:
            code |= IN_DICT
        elif type(holder) is Cell:
            holder, code = holder.cell, code | IN_CELL
        elif type(holder) is Given:
            holder, code = holder.thing, code | AT_HAND
        else:
            code |= ELSEWHERE
        self.codes.append(code)
        self.holders.append(holder)
        self.names.append(name)
        self.checks.append(check)
        self.wants.append(want)

    def met(self):
        """Those that hold, as conditions of their own."""
        cdef Conditions found = Conditions()
        for condition in filter(is_met, self.given):
            found.add(*condition)
        return found

    def failed(self):
        """The first condition that does not hold, its label at the end; None if all do."""
        return self.failing()

    cdef tuple failing(self):
        cdef Py_ssize_t i
        cdef int code
        cdef bint held
        cdef PyObject *found
        for i in range(len(self.codes)):
            code = self.codes[i]
            holder = self.holders[i]
            if code & WHERE == IN_DICT:
                found = PyDict_GetItemWithError(<PyObject *> holder, <PyObject *> self.names[i])
                thing = _MISSING if found == NULL else <object> found
            elif code & WHERE == IN_CELL:
                found = sdbr_cell(<PyObject *> holder)
                thing = _MISSING if found == NULL else <object> found
            elif code & WHERE == AT_HAND:
                thing = holder
            else:
                thing = holder.get(self.names[i], _MISSING)
            want = self.wants[i]
            if thing is want and code & WHAT != CHECK:
                continue
            if code & WHAT == IS:
                held = False
            elif code & WHAT == EQUALS:
                held = same_number(thing, want)
            else:
                held = self.checks[i](thing, want)
            if not held:
                return <tuple> self.given[i]
        return None
