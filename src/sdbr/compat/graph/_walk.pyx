"""Chainer's way back through a graph with replayed calls in it, compiled.

What ``Variable.backward`` and ``_backprop_to_all`` of Chainer 7.8.1 do, step by step and in their
order, for graphs of replayed calls and functions of Chainer's own. Where anything else is in the
graph, or something looks at the steps (function hooks, the debug mode, a trace in any thread), it
declines before anything has happened, and Chainer's code runs.
"""

from heapq import heappop as _pop
from heapq import heappush as _push

import chainer
from chainer import _backprop_utils
from chainer.backends import cuda

from cpython.object cimport PyObject

cimport numpy as cnp

from sdbr.base._dicts cimport sdbr_own, sdbr_own_dict
from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    sdbr_attributes,
    sdbr_descr,
    sdbr_dims,
    sdbr_empty,
    sdbr_is_array,
    sdbr_list_item,
    sdbr_ndim,
)
from sdbr.compat.graph._graph cimport (
    Compiled, attribute, compiled_of, creator_of, is_walkable, keeps_history, nobody_looks,
    walk_begins, walk_ends,
)
from sdbr.compat.graph._sums cimport sum_of
from sdbr.compat.graph._variables cimport (
    as_variable, bare, give_gradient, take_gradient,
)

cnp.import_array()

cdef str _REQUIRES_GRAD = "_requires_grad"
cdef str _INPUTS = "inputs"
cdef str _OUTPUTS = "outputs"
cdef str _LAZY = "lazy_grad_sum"
cdef str _OLD_STYLE = "_old_style_grad_generator"
cdef str _NODE = "_node"
cdef str _DATA = "_data"
cdef str _DTYPE = "dtype"
cdef str _SHAPE = "shape"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef str _LAYOUT = "_layout"
cdef str _CHAINERX = "_has_chainerx_array"
cdef str _ENABLE_BACKPROP = "enable_backprop"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True    # literals would become C numbers
cdef object _FALSE = False
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef PyObject *FALSE = <PyObject *> _FALSE

cdef object _Variable = chainer.Variable
cdef object _DeviceArray = cuda.ndarray
cdef object _check_grad_type = chainer.variable._check_grad_type
cdef object _local_config = chainer.config._local
cdef object _chainers_step = _backprop_utils.backprop_step
cdef object _absent = object()
cdef sdbr_own _own_config


cdef inline bint wants_gradient(node) except -1:
    return attribute(node, _REQUIRES_GRAD) == TRUE or node._requires_grad


cdef bint fits(node, gradient) except -1:
    """Whether a gradient is of the kind that a variable node wants; False leaves it to Chainer."""
    cdef PyObject *array = <PyObject *> gradient
    cdef PyObject *shape
    cdef int i
    if attribute(node, _LAYOUT) != NONE:
        return False
    if type(gradient) is _Variable:
        array = sdbr_list_item(attribute(gradient, _DATA), 0)
    shape = attribute(node, _SHAPE)
    if not sdbr_is_array(array) or sdbr_descr(array) != attribute(node, _DTYPE) or shape == NULL:
        return False
    if type(<object> shape) is not tuple or len(<tuple> shape) != sdbr_ndim(array):
        return False
    for i in range(sdbr_ndim(array)):
        if sdbr_dims(array)[i] != (<tuple> shape)[i]:
            return False
    return True


cdef class Walk:
    """One backward: what ``_backprop_to_all`` keeps in its local variables, and its loop.

    Parameters
    ----------
    retain : bool
        Whether Variables between the functions get their gradients.
    """

    cdef dict grads               # variable node -> list of the gradients that came so far
    cdef list heap
    cdef set seen
    cdef bint retain

    def __cinit__(self, bint retain):
        self.grads = {}
        self.heap = []
        self.seen = set()
        self.retain = retain

    cdef int run(self, list outputs, loss_scale) except -1:
        """Go back from variable nodes with their gradients."""
        walk_begins()
        try:
            self.go(outputs, loss_scale)
        finally:
            walk_ends()
        return 0

    cdef int go(self, list outputs, loss_scale) except -1:
        for node, gradient in outputs:
            self.list_of(node).append(gradient)
            self.reached(node)
        while self.heap:
            self.step((<tuple> _pop(self.heap))[2])
        # Those of all others were taken by what has made them: these are leaves.
        for node, gradients in self.grads.items():
            if gradients:
                assert creator_of(node) is None
                variable = node._variable()
                if variable is not None:
                    self.reduce(gradients)
                    give_gradient(variable, (<list> gradients)[0], loss_scale)
        return 0

    cdef int reached(self, node) except -1:
        """A gradient has come to a variable node."""
        function = creator_of(node)
        if function is not None and function not in self.seen:
            _push(self.heap, (-function.rank, len(self.seen), function))
            self.seen.add(function)
        return 0

    cdef list list_of(self, node):
        """The gradients of a variable node so far; that which lies on a leaf is taken from it."""
        cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> self.grads, <PyObject *> node)
        cdef list gradients
        if found != NULL:
            return <list> found
        gradients = []
        if creator_of(node) is None:
            if attribute(node, _OLD_STYLE) != NULL:
                node._check_old_style_gradient()
            variable = node._variable()
            if variable is not None:
                gradient = take_gradient(variable)
                if gradient is not None:
                    gradients.append(gradient)
        self.grads[node] = gradients
        return gradients

    cdef int reduce(self, list gradients) except -1:
        if len(gradients) > 1:
            gradients[:] = [sum_of(gradients)]
        return 0

    cdef object pop(self, node):
        """The gradient of a variable node, which is known no longer."""
        cdef list gradients = self.grads.pop(node, None)
        if gradients is None:
            variable = node._variable()
            return None if variable is None else take_gradient(variable)
        self.reduce(gradients)
        return gradients[0] if gradients else None

    cdef object pop_output(self, node):
        if node is None or creator_of(node) is None:
            return None
        return self.pop(node)

    cdef int step(self, function) except -1:
        """Go back through one function."""
        cdef dict d = sdbr_attributes(function, NULL)
        cdef Compiled compiled = compiled_of(d)
        cdef tuple inputs = d[_INPUTS]
        cdef tuple targets = tuple([i for i in range(len(inputs)) if wants_gradient(inputs[i])])
        cdef list known
        cdef list outputs = [
            ref() for ref in (d[_OUTPUTS] if compiled is None else compiled.outputs(d))
        ]
        cdef list gys = [self.pop_output(y) for y in outputs]
        cdef Py_ssize_t k
        if not targets:
            return 0
        if compiled is None:
            known = self.chainers(function, inputs, outputs, targets, gys)
        elif compiled.device is None:
            known = self.compiled(compiled, function, d, targets, gys)
        else:
            with cuda.Device(compiled.device):
                known = self.compiled(compiled, function, d, targets, gys)
        for k in range(len(targets)):
            node = inputs[<int> targets[k]]
            for gradient in <list> known[k]:
                if gradient is not None and not fits(node, gradient):
                    _check_grad_type(function, node, True, bare(gradient))
            if known[k]:
                self.reached(node)
        return 0

    cdef list chainers(self, function, tuple inputs, list outputs, tuple targets, list gys):
        """The step of a function of Chainer's, by its own code; the gradients of each target."""
        cdef list known = [self.list_of(inputs[<int> i]) for i in targets]
        gys = [as_variable(g) for g in gys]
        for given in known:
            (<list> given)[:] = [as_variable(g) for g in <list> given]
        arrays = [x.data for x in inputs] + [None if g is None else g.raw_array for g in gys]
        step = (
            function, targets, tuple(gys), dict(zip([inputs[i] for i in targets], known)), False
        )
        if any([type(x) is _DeviceArray for x in arrays]):
            with chainer.using_device(chainer.backend.get_device_from_array(*arrays)):
                _chainers_step(*step)
        else:
            _chainers_step(*step)
        if self.retain:
            for y, gy in zip(outputs, gys):
                if y is not None:
                    y._set_grad_var_if_available(gy)
        return known

    cdef list compiled(self, Compiled compiled, function, dict d, tuple targets, list gys):
        """The step of a replayed call; the gradients of each target.

        One that gets none is not reached: functions of the call that lead elsewhere have it.
        """
        cdef list gradients = compiled.gradients(function, d, targets, gys, self.retain)
        cdef list known = []
        cdef tuple inputs = d[_INPUTS]
        cdef list given
        cdef Py_ssize_t k
        for k in range(len(targets)):
            given = []
            if gradients[k] is not None:
                given = self.list_of(inputs[<int> targets[k]])
                given.append(gradients[k])
                gradients[k] = None  # the list alone holds it
            known.append(given)
        if not d[_LAZY]:
            for given in known:
                self.reduce(given)
        return known


cdef object one_of(cnp.dtype dtype):
    one = sdbr_empty(dtype, 0, NULL)
    if not put(one, 1.0):
        cnp.PyArray_FillWithScalar(one, 1)
    return one


cdef bint put(array, double number) noexcept:
    """Write a number to an array of one element; False where its dtype is an unusual one."""
    cdef cnp.ndarray x = <cnp.ndarray> array
    if not cnp.PyArray_ISNOTSWAPPED(x):
        return False
    if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32:
        (<float *> cnp.PyArray_DATA(x))[0] = <float> number
        return True
    if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT64:
        (<double *> cnp.PyArray_DATA(x))[0] = number
        return True
    return False


cdef bint is_scaled(one, loss_scale) except -1:
    """Multiply an array of one element, which is 1, by a number; False where NumPy has to do it.

    NumPy warns where the product does not fit into the dtype.
    """
    if type(loss_scale) is not float and type(loss_scale) is not int:
        return False
    return abs(loss_scale) < 1e38 and put(one, loss_scale)


cdef bint begins_here(variable, dict d) except -1:
    """Whether a backward of this Variable may be compiled as far as it itself is concerned."""
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _CHAINERX)
    if (found != NULL and found != FALSE) or d[_LAYOUT] is not None:
        return False
    array = (<list> d[_DATA])[0]
    if not (sdbr_is_array(<PyObject *> array) or type(array) is _DeviceArray):
        return False
    # Chainer warns of arrays of one element that have axes.
    return array.ndim == 0 or array.size != 1


cdef object seed_of(variable, dict d, loss_scale):
    """The gradient that a backward begins with, which the Variable has no longer; or None."""
    array = (<list> d[_DATA])[0]
    if d[_GRAD_VAR] is not None or d[_GRAD] is not None or array.size != 1:
        return take_gradient(variable)
    if sdbr_is_array(<PyObject *> array):
        d[_GRAD] = one = one_of(array.dtype)
        d[_GRAD_VALID] = True
        if loss_scale is not None and not is_scaled(one, loss_scale):
            given = one
            one *= loss_scale
            if one is not given:
                variable.grad = one
        return take_gradient(variable)
    with chainer.using_device(variable.device):
        variable.grad = variable.device.xp.ones_like(array)
    if loss_scale is not None:
        variable.grad *= loss_scale
    return take_gradient(variable)


def goes_back(list outputs, bint retain, loss_scale):
    """Do what ``_backprop_to_all(outputs, retain, loss_scale)`` does.

    Parameters
    ----------
    outputs : list of (VariableNode, Variable)
        With their gradients.
    retain : bool
    loss_scale : float or None

    Returns
    -------
    bool
        False where Chainer's code has to do it; then nothing has happened.
    """
    cdef Walk walk
    if keeps_history() or not nobody_looks() or not is_walkable([node for node, _ in outputs]):
        return False
    walk = Walk(retain)
    walk.run(outputs, loss_scale)
    return True


def backward_of(variable, bint retain, loss_scale, list begun):
    """Do what ``variable.backward(retain, loss_scale=loss_scale)`` does.

    Parameters
    ----------
    variable : chainer.Variable
    retain : bool
    loss_scale : float or None
    begun : list of int
        Counts backwards.

    Returns
    -------
    bool
        False where Chainer's code has to do it; then nothing has happened.
    """
    cdef dict d
    cdef dict entries
    cdef Walk walk
    if type(variable) is not _Variable:
        return False
    d = sdbr_attributes(variable, NULL)
    if not begins_here(variable, d) or not nobody_looks():
        return False
    node = d[_NODE]
    if not is_walkable([node]):
        return False
    begun[0] += 1
    gradient = seed_of(variable, d, loss_scale)
    entries = sdbr_own_dict(_local_config, &_own_config)
    before = entries.get(_ENABLE_BACKPROP, _absent)
    entries[_ENABLE_BACKPROP] = False
    try:
        walk = Walk(retain)
        walk.run([(node, gradient)], loss_scale)
    finally:
        if before is _absent:
            entries.pop(_ENABLE_BACKPROP, None)
        else:
            entries[_ENABLE_BACKPROP] = before
    return True
