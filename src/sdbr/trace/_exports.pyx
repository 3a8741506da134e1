# cython: language_level=3
"""Whether anybody has taken the memory of an array as a buffer."""

cimport numpy as np

cdef extern from "numpy/ndarraytypes.h":
    ctypedef struct PyArrayObject_fields:
        void *_buffer_info


def was_exported(np.ndarray array not None) -> bool:
    """Whether somebody has asked `array` for its buffer since it was made.

    NumPy notes what it has told (shapes and strides) in the array, until that goes.
    """
    return (<PyArrayObject_fields *> array)._buffer_info != NULL
