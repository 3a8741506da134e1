"""Notes which words have to stay as they are for the tests of a plan to hold again."""

from sdbr.trace.watch.plan._parts cimport CNode, CPair, CTest
from sdbr.trace.watch.plan._words cimport sdbr_words


cdef void note(
    sdbr_words *w, CTest *tests, Py_ssize_t n, CNode *nodes, Py_ssize_t n_nodes, CPair *pairs
) noexcept
