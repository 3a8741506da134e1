# cython: language_level=3
"""What NumPy knows of an array and does not tell, or not without a warning, or not as quickly."""

cimport numpy as np

from sdbr.devices.arrays import PLAIN, Array
from sdbr.trace.arrays.stripping import TRACED, strip

import chainer

np.import_array()

cdef object _Variable = chainer.Variable
#: Most of what nodes hold.
cdef frozenset _NO_ARRAYS = frozenset({bool, float, int, str, type(None)})

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


def owner(array):
    """The array that owns the memory of a plain one, of NumPy or CuPy."""
    plain = array if type(array) is np.ndarray else strip(array)
    if isinstance(plain, Array):
        return plain if plain.base is None else plain.base
    return _owner_on_host(plain)


cdef object _owner_on_host(np.ndarray present):
    while True:
        behind = np.get_array_base(present)
        if not isinstance(behind, np.ndarray):
            return present
        if type(behind) is not np.ndarray:
            # Of a traced array that nobody has handed out, `strip` would make one more view of it.
            plain = getattr(behind, "plain", None)
            behind = behind if plain is None else plain
        present = behind


def may_be_written(root not None, array not None) -> bool:
    """Whether versions of `root` can be told from `array`, a view of the whole of it."""
    if not owns_memory(root) or root.nbytes != array.nbytes:
        return False
    dtype = array.dtype
    if root.dtype != dtype or not dtype.isnative or dtype.kind not in "biuf":
        return False
    if array.flags.c_contiguous:
        return True
    return array.transpose(c_order(array)).flags.c_contiguous


def owns_memory(root not None) -> bool:
    """Whether the memory of an array goes with it."""
    if isinstance(root, Array):
        # One that was made of another's pointer has no base either.
        return root.base is None and root.data.ptr == root.data.mem.ptr
    return bool(np.PyArray_CHKFLAGS(<np.ndarray> root, np.NPY_ARRAY_OWNDATA))


def c_order(array not None) -> list:
    """The axes of an array, of NumPy or CuPy, from the one of the largest stride on."""
    cdef list axes = list(range(array.ndim))
    if not array.flags.c_contiguous:
        strides = array.strides
        axes.sort(key=[-abs(step) for step in strides].__getitem__)
    return axes


def address(array not None) -> int:
    """Where its first element lies."""
    if isinstance(array, Array):
        return array.data.ptr
    return <size_t> np.PyArray_DATA(<np.ndarray> array)


def arrays_in(thing) -> list:
    """The arrays in a structure, plain."""
    found: list = []
    _find_arrays(thing, found)
    return found


cdef int _find_arrays(thing, list found) except -1:
    kind = type(thing)
    if kind in PLAIN:
        found.append(thing)
    elif kind in _NO_ARRAYS:
        return 0
    elif kind in TRACED:
        if thing.origin is not None:
            found.append(strip(thing))
    elif isinstance(thing, _Variable):
        _find_arrays(thing._data[0], found)
    elif isinstance(thing, dict):
        for part in thing.values():
            _find_arrays(part, found)
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            _find_arrays(part, found)
    return 0


def arrays_of_fields(dict fields not None, but) -> list:
    """The arrays in the attributes of an object, plain, except those of these names."""
    found: list = []
    for name, thing in fields.items():
        if type(thing) not in _NO_ARRAYS and name not in but:
            _find_arrays(thing, found)
    return found


def new_fields(dict now not None, dict before not None, frozenset arrays_alone not None) -> list:
    """Names and things that were not among the attributes of an object `before`.

    Under the names of `arrays_alone` arrays count, and nothing else.
    """
    cdef list found = []
    for name, thing in now.items():
        if before.get(name) is not thing and (
            type(thing) in PLAIN or name not in arrays_alone
        ):
            found.append((name, thing))
    return found
