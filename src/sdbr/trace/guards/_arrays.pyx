"""Arrays and Variables as they were when their prints were taken."""

import weakref

import chainer
import numpy as np

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

cimport numpy as cnp

from sdbr.trace.guards._compare cimport Print

cnp.import_array()

#: How an array or a Variable is used: bound as the very object, or read anew in every call.
SAME, LIKE = "same", "like"
cdef object _SAME = SAME, _LIKE = LIKE
cdef object _Variable = chainer.Variable
#: Beyond so many bytes not even what the traced call does is looked at in full.
cdef Py_ssize_t MOST_SUMMED = 1 << 22
cdef enum:
    PLACES = 16                   # of a large array that are looked at,
    BYTES = 64                    # each so many bytes


cdef object how_used(object thing, dict live):
    """`SAME`, `LIKE` or None."""
    if not live:
        return None
    return live.get(<size_t> <PyObject *> thing)


cdef uint64_t sum_of(const char *data, Py_ssize_t n) noexcept nogil:
    """A checksum of eight bytes at a time."""
    cdef uint64_t prime = 0x9E3779B97F4A7C15, a = 1, w
    cdef Py_ssize_t i = 0
    while i + 8 <= n:
        memcpy(&w, data + i, 8)
        a = (a ^ w) * prime
        a ^= a >> 29
        i += 8
    return a


cdef uint64_t sample_of(object array) except? 0:
    """A checksum of some places in an array without gaps, its ends included."""
    cdef Py_ssize_t n = cnp.PyArray_NBYTES(<cnp.ndarray> array), i
    cdef const char *data = cnp.PyArray_BYTES(<cnp.ndarray> array)
    cdef uint64_t found = 1
    for i in range(PLACES):
        found = found * 31 + sum_of(data + n // PLACES * i, BYTES)
    return found * 31 + sum_of(data + n - BYTES, BYTES)


cdef object total_of(object array):
    """A checksum of the whole of an array."""
    cdef object plain = np.ascontiguousarray(array)
    cdef Py_ssize_t n = cnp.PyArray_NBYTES(<cnp.ndarray> plain)
    cdef const char *data = cnp.PyArray_BYTES(<cnp.ndarray> plain)
    return sum_of(data, n), sum_of(data + n - 8, 8)  # what is left over at the end


cdef inline bint has_no_gaps(object array):
    return cnp.PyArray_CheckExact(array) and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray> array)


cdef class ArrayPrint(Print):
    """An array: by its contents, unless the schedule reads it anew.

    Parameters
    ----------
    array : numpy.ndarray
    whole : bool
        Whether all of it is compared; else it has to be the very array, and some places in it are
        looked at.
    """

    def __init__(self, array, bint whole):
        self.array = array
        self.kind = (array.shape, array.dtype)  # now: both may be set in place
        self.strides = array.strides
        self.flags = cnp.PyArray_FLAGS(<cnp.ndarray?> array)
        if whole:
            self.contents = array.tobytes()
        else:
            if array.nbytes <= MOST_SUMMED:
                self.total = total_of(array)
            if has_no_gaps(array):
                self.sample = sample_of(array)

    cdef bint is_of_kind(self, object thing) except -1:
        """Whether an array has the shape and dtype."""
        cdef tuple shape
        cdef object dtype
        cdef int i
        if not cnp.PyArray_CheckExact(thing):
            return (thing.shape, thing.dtype) == self.kind
        shape, dtype = self.kind
        if cnp.PyArray_NDIM(<cnp.ndarray> thing) != len(shape):
            return False
        for i in range(len(shape)):
            if cnp.PyArray_DIM(<cnp.ndarray> thing, i) != <Py_ssize_t> shape[i]:
                return False
        now = <object> cnp.PyArray_DESCR(<cnp.ndarray> thing)
        return now is dtype or now == dtype

    cdef bint lies_alike(self, object thing) except -1:
        """Whether an array lies in memory as this one did, of the same shape."""
        cdef int i
        if cnp.PyArray_FLAGS(<cnp.ndarray?> thing) != self.flags:
            return False
        for i in range(len(self.strides)):
            if cnp.PyArray_STRIDE(<cnp.ndarray> thing, i) != <Py_ssize_t> self.strides[i]:
                return False
        return True

    def settle(self):
        """The traced call is over: it has left the array alone."""
        self.total = None

    cdef bint matches(self, object thing, dict live) except -1:
        if type(thing) is not type(self.array):
            return False
        if not self.is_of_kind(thing):
            return False
        how = how_used(self.array, live)
        if how is _SAME:
            return thing is self.array
        if how is _LIKE:
            return True
        if self.contents is None:
            return self.looks_same(thing)
        if not self.lies_alike(thing):  # flags and strides may be set in place, too
            return False
        if not has_no_gaps(thing):
            return thing.tobytes() == self.contents
        return memcmp(
            cnp.PyArray_BYTES(<cnp.ndarray> thing), <char *> self.contents, len(self.contents)
        ) == 0

    def looks_same(self, thing):
        """Of a large array: whether it is the one, and has not changed where it is looked at."""
        if thing is not self.array:
            return False
        if self.total is not None and total_of(thing) != self.total:
            return False
        return not has_no_gaps(thing) or sample_of(thing) == self.sample


cdef class DevicePrint(Print):
    """An array of CuPy: by its contents, which are copied to the host for it, unless the schedule
    reads it anew.

    Parameters
    ----------
    array : cupy.ndarray
    whole : bool
        Whether its contents are compared; else it has to be the very array.
    """

    def __init__(self, array, bint whole):
        self.array = array
        self.kind = (array.shape, array.dtype, array.strides, array.data.device_id)
        self.contents = array.tobytes() if whole else None

    def settle(self):
        """The traced call is over."""

    cdef bint matches(self, object thing, dict live) except -1:
        if type(thing) is not type(self.array):
            return False
        how = how_used(self.array, live)
        if how is _SAME:
            return thing is self.array
        kind = (thing.shape, thing.dtype, thing.strides, thing.data.device_id)
        if how is _LIKE:
            return kind[:2] == self.kind[:2] and kind[3] == self.kind[3]
        if self.contents is None:
            return thing is self.array
        return kind == self.kind and thing.tobytes() == self.contents


cdef tuple kind_of(object variable):
    """What has to stay of a Variable that is read anew in every call."""
    array = variable._data[0]
    if array is None:
        return (None,)
    return array.shape, array.dtype, variable.requires_grad


cdef class VariablePrint(Print):
    """A Variable: by identity and kind; by kind alone if the schedule reads it anew.

    It is not held: with it would stay the graph that has made it, and all activations. Who looks
    at `variable` while the call is traced holds it himself.
    """

    def __init__(self, variable):
        self.reference = weakref.ref(variable)
        self.identity = <size_t> <PyObject *> variable
        self.kind = kind_of(variable)

    @property
    def variable(self):
        """The Variable, or None when nobody has it any more."""
        return self.reference()

    cdef bint matches(self, object thing, dict live) except -1:
        if thing is not self.reference():
            if not live or live.get(self.identity) is not _LIKE:
                return False
        return isinstance(thing, _Variable) and kind_of(thing) == self.kind
