# cython: language_level=3
"""What NumPy knows of an array and does not tell, or not without a warning."""

cimport numpy as np

cdef extern from "numpy/ndarraytypes.h":
    ctypedef struct PyArrayObject_fields:
        void *_buffer_info


def was_exported(np.ndarray array not None) -> bool:
    """Whether somebody has asked `array` for its buffer since it was made.

    NumPy notes what it has told (shapes and strides) in the array, until that goes.
    """
    return (<PyArrayObject_fields *> array)._buffer_info != NULL


def is_writeable(np.ndarray array not None) -> bool:
    """Its flag; asking for that in Python warns for what ``numpy.broadcast_arrays`` has made."""
    return bool(np.PyArray_ISWRITEABLE(array))
