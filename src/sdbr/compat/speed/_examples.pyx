"""Lists of plain examples, compiled: made of arrays, and ``concat_examples`` of them."""

import numpy as np
cimport numpy as cnp
from cpython.sequence cimport PySequence_GetItem
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcpy

cnp.import_array()


def joined(batch):
    """What ``chainer.dataset.concat_examples(batch)`` gives.

    Parameters
    ----------
    batch : list
        Of tuples of arrays and numbers, or of arrays, or of numbers.

    Returns
    -------
    tuple of ndarray, ndarray or None
        None where it takes more than copying: examples of other kinds, dtypes or shapes.
    """
    cdef Py_ssize_t i, n_columns
    cdef list column, results
    if type(batch) is not list or not (<list>batch):
        return None
    if type((<list>batch)[0]) is not tuple:
        return _array_of(<list>batch)
    n_columns = PyTuple_GET_SIZE((<list>batch)[0])
    for example in <list>batch:
        if type(example) is not tuple or PyTuple_GET_SIZE(example) < n_columns:
            return None
    results = []
    for i in range(n_columns):
        column = [<object>PyTuple_GET_ITEM(example, i) for example in <list>batch]
        found = _array_of(column)
        if found is None:
            return None
        results.append(found)
    return tuple(results)


def of_rows(tuple columns, indices):
    """What ``[dataset[i] for i in indices]`` gives, of a ``TupleDataset`` of arrays.

    Parameters
    ----------
    columns : tuple
        The arrays.
    indices : ndarray of int

    Returns
    -------
    list of tuple, or None
        None where a column is no plain array, or indices are of another kind.

    Raises
    ------
    IndexError
        As for the arrays.
    """
    cdef Py_ssize_t i, k, index, n_columns = PyTuple_GET_SIZE(columns)
    cdef const cnp.npy_intp[:] places
    cdef list result
    for column in columns:
        if type(column) is not cnp.ndarray or cnp.PyArray_NDIM(<cnp.ndarray>column) == 0:
            return None
    if type(indices) is not cnp.ndarray or indices.dtype.char != "l" or indices.ndim != 1:
        return None
    places = indices
    result = [None] * places.shape[0]
    for i in range(places.shape[0]):
        index = places[i]
        if n_columns == 2:
            result[i] = (
                PySequence_GetItem(<object>PyTuple_GET_ITEM(columns, 0), index),
                PySequence_GetItem(<object>PyTuple_GET_ITEM(columns, 1), index),
            )
        else:
            result[i] = tuple([
                PySequence_GetItem(<object>PyTuple_GET_ITEM(columns, k), index)
                for k in range(n_columns)
            ])
    return result


cdef object _array_of(list items):
    first = items[0]
    if type(first) is cnp.ndarray:
        return _array_of_arrays(items)
    if not (isinstance(first, int) or isinstance(first, float) or isinstance(first, np.generic)):
        return None
    # np.concatenate([x[None] for x in np.asarray(items)])
    array = np.asarray(items)
    return array if array.ndim == 1 and array.dtype.kind in "biufc" else None


cdef object _array_of_arrays(list items):
    # np.concatenate([x[None] for x in items])
    cdef cnp.ndarray first = items[0], array, result
    cdef cnp.dtype dtype = first.dtype
    cdef int axis, n_axes = cnp.PyArray_NDIM(first)
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(first)
    cdef cnp.npy_intp[32] shape
    cdef char *place
    if n_axes >= 32 or dtype.kind not in "biufc" or not dtype.isnative:
        return None
    for item in items:
        if type(item) is not cnp.ndarray:
            return None
        array = <cnp.ndarray>item
        if array.dtype is not dtype or cnp.PyArray_NDIM(array) != n_axes:
            return None
        # Of another order, the result would be, too.
        if not cnp.PyArray_IS_C_CONTIGUOUS(array):
            return None
        for axis in range(n_axes):
            if cnp.PyArray_DIM(array, axis) != cnp.PyArray_DIM(first, axis):
                return None
    shape[0] = len(items)
    for axis in range(n_axes):
        shape[axis + 1] = cnp.PyArray_DIM(first, axis)
    result = cnp.PyArray_SimpleNew(n_axes + 1, shape, dtype.num)
    place = <char *>cnp.PyArray_DATA(result)
    for item in items:
        memcpy(place, cnp.PyArray_DATA(<cnp.ndarray>item), nbytes)
        place += nbytes
    return result
