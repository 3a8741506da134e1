"""Chainer's graph, and whether a backward through it needs Chainer's code."""

import chainer
from chainer import _backprop, _backprop_utils
from chainer.functions.util.forget import Forget

from cpython.object cimport PyObject

from sdbr.base._dicts cimport sdbr_own, sdbr_own_dict
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes, sdbr_dict_size

cdef str _CREATOR_NODE = "_creator_node"
cdef str _HOOKS = "_local_function_hooks"
cdef str _INPUTS = "inputs"
cdef str _COMPILED = "sdbr_compiled"
cdef str _BACKWARD = "backward"
cdef str _DEBUG = "debug"
cdef str _ENABLE_BACKPROP = "enable_backprop"
cdef str _FUNCTION_HOOKS = "function_hooks"
cdef str _WALK = "_backprop_to_all"
cdef str _STEP = "backprop_step"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True    # literals would become C numbers
cdef object _FALSE = False
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef PyObject *FALSE = <PyObject *> _FALSE

cdef object _VariableNode = chainer.variable.VariableNode
cdef object _chainer_thread = chainer._thread_local
cdef object _local_config = chainer.config._local
cdef dict _global_config = chainer.global_config.__dict__
cdef dict _walks = _backprop.__dict__
cdef dict _steps = _backprop_utils.__dict__
cdef object _chainers_step = _backprop_utils.backprop_step
cdef object _in_place = None
cdef sdbr_own _own_config
cdef sdbr_own _own_hooks


cdef extern from *:
    """
    static _Thread_local int sdbr_walks = 0;
    """
    int sdbr_walks  # that go back compiled in this thread, one inside of another


cdef void walk_begins() noexcept:
    global sdbr_walks
    sdbr_walks += 1


cdef void walk_ends() noexcept:
    global sdbr_walks
    sdbr_walks -= 1


cdef bint walks_here() noexcept:
    """Whether this thread goes back compiled now."""
    return sdbr_walks > 0


cdef class Compiled:
    """How the function node that holds it as ``sdbr_compiled`` goes back without Chainer's code."""

    cdef bint may_run(self, dict attributes, list starts) except -1:
        """Whether the node, whose attributes these are, may go back in this way now.

        `starts` are the variable nodes that the backward begins at.
        """
        raise NotImplementedError

    cdef tuple outputs(self, dict attributes):
        """Its outputs, as weak references."""
        raise NotImplementedError

    cdef list gradients(self, function, dict attributes, tuple targets, list gys, bint retain):
        """The gradients of the inputs `targets`: arrays, Variables or None.

        `gys` are those of the outputs: Variables, arrays or None. With `retain` the outputs get
        theirs.
        """
        raise NotImplementedError


cdef Compiled compiled_of(dict attributes):
    """What a function node with these attributes offers; None for Chainer's own."""
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> attributes, <PyObject *> _COMPILED)
    return None if found == NULL else <Compiled> found


cdef PyObject *attribute(object thing, str name) except? NULL:
    """An attribute of an instance's own, borrowed; NULL without."""
    d = sdbr_attributes(thing, NULL)
    return PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)


cdef object creator_of(node):
    """The function node that has made a variable node, or None."""
    cdef PyObject *found = attribute(node, _CREATOR_NODE)
    if found != NULL:
        return <object> found
    # A node of a class of its own may make its creator when asked for it.
    return None if type(node) is _VariableNode else node._creator_node


cdef dict _known = {}  # class of function nodes -> whether it is one of Chainer's own


cdef bint is_chainers(function, dict attributes) except -1:
    """Whether the backward of a function node is code of Chainer's alone."""
    cdef PyObject *found
    kind = type(function)
    found = PyDict_GetItemWithError(<PyObject *> _known, <PyObject *> kind)
    if found == NULL:
        own = kind.__module__.startswith("chainer.functions.") and not issubclass(kind, Forget)
        _known[kind] = own
        found = <PyObject *> own
    return found == TRUE and _BACKWARD not in attributes


cdef bint is_walkable(list nodes) except -1:
    """Whether all of a graph can be gone back through, and a replayed call is in it."""
    cdef list stack = list(nodes)
    cdef set seen = set()
    cdef bint replayed = False
    cdef PyObject *found
    cdef Compiled compiled
    cdef dict d
    while stack:
        node = stack.pop()
        if type(node) is not _VariableNode:
            return False
        function = creator_of(node)
        if function is None or function in seen:
            continue
        seen.add(function)
        d = sdbr_attributes(function, NULL)
        found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _HOOKS)
        if found != NULL and found != NONE and sdbr_dict_size(found):
            return False
        compiled = compiled_of(d)
        if compiled is not None:
            if not compiled.may_run(d, nodes):
                return False
            replayed = True
        elif not is_chainers(function, d):
            return False
        found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _INPUTS)
        if found == NULL or found == NONE:
            return False
        stack.extend(<object> found)
    return replayed


cdef PyObject *entry_of_config(str name) except? NULL:
    """An entry of ``chainer.config`` as this thread sees it, borrowed."""
    cdef dict own = sdbr_own_dict(_local_config, &_own_config)
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> own, <PyObject *> name)
    if found != NULL:
        return found
    return PyDict_GetItemWithError(<PyObject *> _global_config, <PyObject *> name)


cdef bint keeps_history() except -1:
    """Whether gradients of the backward that runs now can be differentiated in turn."""
    return entry_of_config(_ENABLE_BACKPROP) != FALSE


cdef bint nobody_looks() except -1:
    """Whether Chainer's code is in place, and no hook, debug mode or trace looks at its steps."""
    cdef PyObject *found
    cdef dict d
    if _walks[_WALK] is not _in_place or _steps[_STEP] is not _chainers_step:
        return False
    d = sdbr_own_dict(_chainer_thread, &_own_hooks)
    found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _FUNCTION_HOOKS)
    if found != NULL and sdbr_dict_size(found):
        return False
    found = entry_of_config(_DEBUG)
    return found == FALSE or not <object> found


def put_in_place(walk):
    """Note what is in the place of ``_backprop_to_all``: while it is there, nobody else looks.

    Parameters
    ----------
    walk : callable
    """
    global _in_place
    _in_place = walk
