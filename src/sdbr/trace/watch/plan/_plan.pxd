"""Tests in C that tell that nothing of what a call has read has moved since it was noted."""

cimport cython
from cpython.object cimport PyObject

from sdbr.trace.watch.plan._parts cimport CNode, CPair, CTest, Node, Test
from sdbr.trace.watch.plan._states cimport Usual
from sdbr.trace.watch.plan._words cimport sdbr_words


@cython.final
cdef class Plan:
    cdef Py_ssize_t n, n_nodes
    cdef CNode *nodes
    cdef CTest *tests
    cdef CPair *pairs
    cdef sdbr_words words
    cdef list kept, trash, owned, fetched
    cdef object rest
    cdef Usual usual
    cdef bint unsure, arming
    cdef readonly Py_ssize_t stopped

    cdef PyObject *keep(self, thing)
    cdef int set_node(self, CNode *to, Node node) except -1
    cdef Py_ssize_t set_test(self, CTest *to, Test test, Py_ssize_t n_pairs) except -1
    cpdef bint check(self, tuple args, dict kwargs) except -1
    cdef int let_go(self) except -1
    cdef bint passes(self, tuple args, dict kwargs) noexcept
    cdef bint stands(self, tuple args, dict kwargs) noexcept
    cdef bint holds(self, CTest *t, tuple args, dict kwargs) noexcept
    cdef bint passes_other(self, CTest *t, PyObject *x, tuple args, dict kwargs) noexcept
    cdef bint is_given(self, CTest *t, PyObject *args, PyObject *kwargs) noexcept
    cdef bint lies(self, CPair *pair, PyObject *x) noexcept
    cdef bint accepts(self, CNode *node, PyObject *x) noexcept
    cdef bint moved(self, CTest *t, PyObject *x, PyObject *d) noexcept
    cdef bint moved_class(self, CTest *t) noexcept
    cdef bint has_elements(self, CTest *t, PyObject *x) noexcept
    cdef PyObject *own_of(self, CTest *t, PyObject *local) noexcept
