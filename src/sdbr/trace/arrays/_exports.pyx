# cython: language_level=3
"""What NumPy knows of an array and does not tell, or not without a warning."""

cimport numpy as np

cdef extern from "numpy/ndarraytypes.h":
    ctypedef struct PyArrayObject_fields:
        void *_buffer_info

cdef extern from "Python.h":
    ctypedef struct Py_buffer:
        pass
    ctypedef int (*getbufferproc)(object, Py_buffer *, int) except -1
    ctypedef struct PyBufferProcs:
        getbufferproc bf_getbuffer
    ctypedef struct PyTypeObject:
        PyBufferProcs *tp_as_buffer

# What a class did before `count_exports`, and how often it was done since.
cdef getbufferproc _export_of_array = NULL
cdef size_t _n_exports = 0


cdef int _export(object array, Py_buffer *buffer, int flags) except -1:
    global _n_exports
    _n_exports += 1
    return _export_of_array(array, buffer, flags)


def count_exports(type cls not None) -> type:
    """Let a class of arrays count whenever the buffer of one is asked for; a decorator."""
    global _export_of_array
    cdef PyBufferProcs *buffers = (<PyTypeObject *> cls).tp_as_buffer
    _export_of_array = buffers.bf_getbuffer
    buffers.bf_getbuffer = _export
    return cls


def n_exports() -> int:
    """How many buffers of arrays of that class were asked for so far, in all threads."""
    return _n_exports


def was_exported(np.ndarray array not None) -> bool:
    """Whether somebody has asked `array` for its buffer since it was made.

    NumPy notes what it has told (shapes and strides) in the array, until that goes.
    """
    return (<PyArrayObject_fields *> array)._buffer_info != NULL


def is_writeable(np.ndarray array not None) -> bool:
    """Its flag; asking for that in Python warns for what ``numpy.broadcast_arrays`` has made."""
    return bool(np.PyArray_ISWRITEABLE(array))
