"""``Variable.unchain_backward``, compiled.

A replayed call of which only some parts lie behind the Variable loses these, and is taken apart
into the others. Functions go from the one last applied to the first, so that by the time of a call
it is known which of its results the history leads through.
"""

from heapq import heappop as _pop
from heapq import heappush as _push

import chainer

from cpython.object cimport PyObject

from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes
from sdbr.compat.graph._graph cimport compiled_of, creator_of, nobody_looks

cdef str _CREATOR_NODE = "_creator_node"
cdef str _INPUTS = "inputs"
cdef str _OUTPUTS = "outputs"
cdef str _UNCHAIN = "unchain"

cdef object _VariableNode = chainer.variable.VariableNode
cdef object _FunctionNode = chainer.FunctionNode
cdef object _of_functions = chainer.FunctionNode.unchain


cdef bint unchain(function, dict d) except -1:
    """What ``function.unchain()`` does."""
    cdef PyObject *outputs
    outputs = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _OUTPUTS)
    if outputs == NULL or _UNCHAIN in d or type(function).unchain is not _of_functions:
        return function.unchain()  # a user's, or one whose outputs hide
    for ref in <tuple> outputs:
        node = ref()
        if node is None:
            continue
        if type(node) is _VariableNode and creator_of(node) is function:
            sdbr_attributes(node, NULL)[_CREATOR_NODE] = None
        else:
            node.unchain()
    d[_INPUTS] = None
    d[_OUTPUTS] = None
    return True


cdef class Cut:
    """One history that is taken away."""

    cdef list heap
    cdef dict reached  # function node -> ids of those of its outputs that are reached
    cdef list nodes    # these outputs: what has been cut may have been all that held them

    def __cinit__(self):
        self.heap = []
        self.reached = {}
        self.nodes = []

    cdef int reach(self, node) except -1:
        cdef set found
        function = creator_of(node)
        if function is None:
            return 0
        found = self.reached.get(function)
        if found is None:
            found = self.reached[function] = set()
            _push(self.heap, (-function.rank, len(self.reached), function))
        found.add(id(node))
        self.nodes.append(node)
        return 0

    cdef int run(self, node) except -1:
        cdef dict d
        self.reach(node)
        while self.heap:
            function = (<tuple> _pop(self.heap))[2]
            d = sdbr_attributes(function, NULL)
            cut = None if compiled_of(d) is None else getattr(function, "sdbr_cut", None)
            if cut is not None:
                behind = cut(self.reached[function])
            else:
                behind = function.inputs
                unchain(function, d)
            for x in behind:
                self.reach(x)
        return 0


def cut_behind(node):
    """Do what ``variable.unchain_backward()`` does.

    Parameters
    ----------
    node : VariableNode
        That of the Variable.

    Returns
    -------
    bool
        False where Chainer's code has to do it; then nothing has happened.
    """
    if not nobody_looks() or _FunctionNode.unchain is not _of_functions:
        return False
    Cut().run(node)
    return True
