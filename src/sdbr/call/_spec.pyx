"""Is it the same call as before? Arguments and configuration, compared in C."""

from sdbr.trace.structure import NUMBERS

import chainer
import numpy as np

from cpython.object cimport Py_TYPE, PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version, sdbr_own, sdbr_own_dict
from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    PyDict_Next,
    sdbr_attributes,
    sdbr_descr,
    sdbr_dict_size,
    sdbr_dims,
    sdbr_is_array,
    sdbr_list_item,
    sdbr_ndim,
    sdbr_tuple_item,
)
from sdbr.devices._arrays cimport is_alike as is_alike_there, on_device

cnp.import_array()

cdef str _DATA = "_data"
cdef str _REQUIRES_GRAD = "_requires_grad"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_REQUIRES_GRAD = <PyObject *> _REQUIRES_GRAD

cdef object _Variable = chainer.Variable
# Classes of numbers that may be others in each call, and of what is compared by value.
cdef frozenset _FLOATS = frozenset(NUMBERS)
cdef frozenset _PLAIN = frozenset({
    int, str, bool, type(None), np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8,
    np.uint16, np.uint32, np.uint64,
})
cdef dict _global_config = chainer.global_config.__dict__
cdef object _local_config = chainer.config._local
cdef sdbr_own _own_config


def _configuration():
    """The values of all entries, global and of this thread."""
    return [*_global_config.values(), *_local_config.__dict__.values()]


def _is_comparable(x):
    """Whether an argument is of a kind that is compared here."""
    kind = type(x)
    if kind is _Variable:
        x = x._data[0]
        kind = type(x)
        if kind is not np.ndarray and not on_device(<PyObject *> x):
            return False
    if kind is np.ndarray or on_device(<PyObject *> x):
        return x.ndim <= 8
    if kind is list or kind is tuple:
        return all(map(_is_comparable, x))
    if kind is dict:
        return all(map(_is_comparable, x.values()))
    return kind in _PLAIN or kind in _FLOATS


cdef bint has_containers(tuple args):
    for x in args:
        if type(x) is list or type(x) is tuple or type(x) is dict:
            return True
    return False


def shape_of(x):
    """Containers as tuples of their type, keys and what is in them; None for anything else."""
    kind = type(x)
    if kind is list or kind is tuple:
        return kind, None, [shape_of(y) for y in x]
    if kind is dict:
        return kind, list(x), [shape_of(y) for y in x.values()]
    return None


cdef bint gather(x, shape, list leaves) except -1:
    """Append what is in `x` to `leaves`; False when its containers are not those of `shape`."""
    cdef Py_ssize_t i
    cdef list parts, inner
    if shape is None:
        leaves.append(x)
        return type(x) is not list and type(x) is not tuple and type(x) is not dict
    kind, keys, inner = <tuple> shape
    if type(x) is not kind:
        return False
    if kind is dict:
        if list(<dict> x) != keys:
            return False
        parts = list((<dict> x).values())
    else:
        parts = list(x)
        if len(parts) != len(inner):
            return False
    for i in range(len(parts)):
        if not gather(parts[i], inner[i], leaves):
            return False
    return True


def signature(tuple args, dict kwargs, bint by_type=False):
    """What tells calls apart that no key has in common; None where it is not known.

    Of whole numbers only that they are some, with `by_type`.

    Calls that differ here have different keys; those that do not may differ in what the key has
    besides.
    """
    found = _signature(args, by_type)
    if kwargs and found is not None:
        named = _signature(kwargs, by_type)
        return None if named is None else (found, named)
    return found


cdef object _signature(x, bint by_type):
    cdef list parts = []
    kind = type(x)
    if kind is np.ndarray:
        return x.dtype, x.shape
    if kind is _Variable:
        array = x._data[0]
        if array is None:
            return None
        device = array.data.device_id if on_device(<PyObject *> array) else None
        return x._requires_grad, array.dtype, array.shape, device
    if on_device(<PyObject *> x):
        return x.dtype, x.shape, x.data.device_id
    if kind in _FLOATS or (by_type and kind is int):
        return kind
    if kind in _PLAIN:
        return kind, x
    if kind is dict:
        parts.append(tuple(x))
        x = tuple((<dict> x).values())
    elif kind is not tuple and kind is not list:
        return None
    parts.append(kind)
    for y in x:
        part = _signature(y, by_type)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


cdef inline bint is_alike(PyObject *array, Leaf *leaf) noexcept:
    """Whether something is an array with the dtype and the shape of a leaf."""
    cdef int k
    if not sdbr_is_array(array) or sdbr_descr(array) != leaf.descr:
        return False
    if sdbr_ndim(array) != leaf.ndim:
        return False
    for k in range(leaf.ndim):
        if sdbr_dims(array)[k] != leaf.dims[k]:
            return False
    return True


cdef inline bint lies_alike(PyObject *array, Leaf *leaf) noexcept:
    """Whether an array lies in memory as a leaf did."""
    cdef int k
    if cnp.PyArray_FLAGS(<cnp.ndarray> array) != leaf.flags:
        return False
    for k in range(leaf.ndim):
        if cnp.PyArray_STRIDES(<cnp.ndarray> array)[k] != leaf.strides[k]:
            return False
    return True


def _can_change(value):
    """Whether a container: one compared by identity could have got other contents."""
    return isinstance(value, (list, dict, set, tuple))


cdef class Leaves:
    """The leaves of one call, arguments in their containers' order, as a binder takes them."""

    def __dealloc__(self):
        free(self.arrays)

    cdef int make(self, int n) except -1:
        """Make room for `n` leaves."""
        self.n = n
        self.now = None
        self.held = [None] * n
        self.arrays = <PyObject **> calloc(max(n, 1), sizeof(PyObject *))
        if self.arrays == NULL:
            raise MemoryError
        return 0

    cdef void release(self) noexcept:
        """Hold nothing of the call any more."""
        cdef int i
        self.now = None
        for i in range(self.n):
            self.held[i] = None


cdef Leaves leaves_of(list things):
    """The Variables and arrays of one call."""
    cdef Leaves made = Leaves.__new__(Leaves)
    cdef int i
    made.make(len(things))
    made.now = tuple(things)
    for i in range(made.n):
        thing = made.now[i]
        thing = thing._data[0] if isinstance(thing, _Variable) else thing
        made.held[i] = thing
        made.arrays[i] = <PyObject *> thing
    return made


cdef class CallSpec(Leaves):
    """Arguments and the configuration of one call, to compare later calls with.

    Parameters
    ----------
    args : tuple
        Variables, arrays, plain values, and lists, tuples and dicts of these.
    kwargs : dict
        The same by name; the order counts.
    laid_out : bool
        Whether the arrays have to lie in memory as these do.
    places : frozenset of int
        Which whole numbers may be others, by their places among all numbers.
    """

    def __cinit__(self, tuple args, dict kwargs, bint laid_out=False, places=frozenset()):
        cdef int i, j, k, n_floats = 0
        cdef object array
        self.names = tuple(kwargs)
        self.laid_out = laid_out
        args = args + tuple(kwargs.values())
        self.shape = shape_of(args) if has_containers(args) else None
        args = self.flat(args)
        self.make(len(args))
        self.leaves = <Leaf *> calloc(max(self.n, 1), sizeof(Leaf))
        if self.leaves == NULL:
            raise MemoryError
        values = []
        self.layouts = [None] * self.n
        self.float_positions = []
        for i in range(self.n):
            x = args[i]
            array = None
            if type(x) is _Variable:
                self.leaves[i].kind = VARIABLE
                array = x._data[0]
                self.leaves[i].requires_grad = <PyObject *> x._requires_grad
            elif type(x) is np.ndarray or on_device(<PyObject *> x):
                self.leaves[i].kind = ARRAY
                array = x
            elif type(x) in _FLOATS or (type(x) is int and len(self.float_positions) in places):
                self.leaves[i].kind = FLOAT
                n_floats += 1
                self.float_positions.append(i)
                values.append(type(x))
            else:
                self.leaves[i].kind = PLAIN
                values.append(x)
                if type(x) is int:
                    self.float_positions.append(i)
            if array is not None:
                self.leaves[i].descr = <PyObject *> array.dtype
                self.leaves[i].ndim = array.ndim
                self.leaves[i].device = -1
                if on_device(<PyObject *> array):
                    self.leaves[i].device = array.data.device_id
                    self.layouts[i] = array.shape, array.strides
                for k in range(array.ndim):
                    self.leaves[i].dims[k] = array.shape[k]
                    self.leaves[i].strides[k] = array.strides[k]
                if self.leaves[i].device < 0:
                    self.leaves[i].flags = array.flags.num
                values.append(array.dtype)
            self.leaves[i].same_as = i
            for j in range(i):
                if args[j] is x:
                    self.leaves[i].same_as = j
                    break
        if not n_floats:
            self.float_positions = []  # all are what they were
        self.values = tuple(values)
        self.config_keys = list(_global_config.keys())
        self.config_values = list(_global_config.values())
        self.local_config = dict(_local_config.__dict__)

    def __dealloc__(self):
        free(self.leaves)

    @staticmethod
    def suits(tuple args, dict kwargs):
        """Whether a call is of the kind that can be compared: plain containers, at most 8 axes."""
        for x in args + tuple(kwargs.values()):
            if not _is_comparable(x):
                return False
        return not any(map(_can_change, _configuration()))

    cdef tuple flat(self, tuple args):
        """What is in the containers, in order; None if they are others than in the first call.

        Parameters
        ----------
        args : tuple
            Positional and keyword arguments.
        """
        cdef list leaves = []
        if self.shape is None:
            return args
        return tuple(leaves) if gather(args, self.shape, leaves) else None

    cdef list array_positions(self, tuple args, dict kwargs):
        """Which leaves are arrays or Variables: leaf i of the key is leaf ``[i]`` here."""
        everything = self.flat(args + tuple(kwargs.values()))
        return [
            i for i, x in enumerate(everything)
            if isinstance(x, np.ndarray) or isinstance(x, _Variable) or on_device(<PyObject *> x)
        ]

    cdef bint fits(self, int i, PyObject *array) except -1:
        """Whether something is an array like leaf `i`."""
        if self.leaves[i].device >= 0:
            return self.fits_on_device(i, <object> array)
        if not is_alike(array, &self.leaves[i]):
            return False
        return not self.laid_out or lies_alike(array, &self.leaves[i])

    cdef bint fits_on_device(self, int i, array) except -1:
        """The same where that is one of CuPy."""
        shape, strides = self.layouts[i]
        if not on_device(<PyObject *> array):
            return False
        if not is_alike_there(array, self.leaves[i].descr, shape, self.leaves[i].device):
            return False
        return not self.laid_out or array.strides == strides

    cdef bint config_matches(self):
        """Whether the configuration is as before: looked at where it was written to since."""
        cdef dict local = sdbr_own_dict(_local_config, &_own_config)
        cdef uint64_t shared = sdbr_dict_version(<PyObject *> _global_config)
        cdef uint64_t own = sdbr_dict_version(<PyObject *> local)
        if not SDBR_DICT_VERSIONS or shared != self.global_version:
            if not self.global_matches():
                return False
            self.global_version = shared
        if not SDBR_DICT_VERSIONS or own != self.local_version:
            if not self.local_matches(local):
                return False
            self.local_version = own
        return True

    cdef bint global_matches(self):
        cdef Py_ssize_t place = 0
        cdef Py_ssize_t i = 0
        cdef PyObject *key
        cdef PyObject *value
        if sdbr_dict_size(<PyObject *> _global_config) != len(self.config_keys):
            return False
        while PyDict_Next(<PyObject *> _global_config, &place, &key, &value):
            if sdbr_list_item(<PyObject *> self.config_keys, i) != key:
                return False
            if sdbr_list_item(<PyObject *> self.config_values, i) != value:
                return False
            i += 1
        return True

    cdef bint local_matches(self, dict local):
        cdef Py_ssize_t place = 0
        cdef PyObject *key
        cdef PyObject *value
        if len(local) != len(self.local_config):
            return False
        while PyDict_Next(<PyObject *> local, &place, &key, &value):
            if PyDict_GetItemWithError(<PyObject *> self.local_config, key) != value:
                return False
        return True

    cdef bint matches(self, tuple args, dict kwargs):
        """Whether arguments and configuration are as before; fills `arrays`.

        They are held until `release`: another thread may replace the array of a Variable, or change
        a list of arguments.
        """
        cdef int i, j
        cdef Leaf *leaf
        cdef PyObject *x
        cdef PyObject *array
        if kwargs is not None and kwargs:
            if tuple(kwargs) != self.names:
                return False
            args = args + tuple(kwargs.values())
        elif self.names:
            return False
        if self.shape is not None:
            args = self.flat(args)
            if args is None:
                return False
        if len(args) != self.n:
            return False
        self.now = args
        for i in range(self.n):
            leaf = &self.leaves[i]
            arg = args[i]
            x = <PyObject *> arg
            if leaf.kind == FLOAT:
                if <PyObject *> Py_TYPE(arg) != sdbr_tuple_item(<PyObject *> self.values, i):
                    return False
                self.arrays[i] = x
                continue
            if leaf.kind == PLAIN:
                value = self.values[i]
                if arg is not value and (type(arg) is not type(value) or arg != value):
                    return False
                self.arrays[i] = x
                continue
            if leaf.kind == VARIABLE:
                if type(arg) is not _Variable:
                    return False
                d = sdbr_attributes(arg, NULL)
                if PyDict_GetItemWithError(<PyObject *> d, K_REQUIRES_GRAD) != leaf.requires_grad:
                    return False
                array = PyDict_GetItemWithError(<PyObject *> d, K_DATA)
                if array == NULL:
                    return False
                array = sdbr_list_item(array, 0)
                self.held[i] = <object> array
            else:
                array = x
            if not self.fits(i, array):
                return False
            self.arrays[i] = array
            for j in range(i):
                if (<PyObject *> args[j] == x) != (self.leaves[j].same_as == leaf.same_as):
                    return False
        return self.config_matches()
