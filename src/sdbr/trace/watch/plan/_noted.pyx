"""Notes which words have to stay as they are for the tests of a plan to hold again.

This is done right after all tests have held, before any other code runs. A word says of a test what
the test itself asks where nothing has moved: of what lies at its node, which is what lay there as
long as the words before it are as they were. Objects are thus told apart as in the tests: an
address is enough for what is held or weakly referenced (the reference is a word as well) and for
what lies in a dictionary that has still its version; of anything else that came to lie at the same
address, all that was read is read anew, through words. Once tests were run that may note other
things at their nodes, words of before count no more.

Tests that no word stands for are run between the words, in their place. What they find is at their
nodes then: where other words hang from that, what is noted at the node is a word itself.

Words of a test that are others again and again (a dictionary to which every call writes) are left
out, and the test is run. If what that finds is another thing each time as well (an argument), so
are all that look at what it has found.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.trace.watch.plan._parts cimport *
from sdbr.trace.watch.plan._unmoved cimport *
from sdbr.trace.watch.plan._watched cimport sdbr_is_unmoved
from sdbr.trace.watch.plan._words cimport *

cdef extern from *:
    """
    #include <numpy/ndarraytypes.h>
    /* A shape that is set in place is written there, or lies elsewhere. */
    static inline void sdbr_put_array(sdbr_words *w, PyObject *x) {
        PyArrayObject_fields *array = (PyArrayObject_fields *)x;
        int i;
        sdbr_put_type(w, x);
        sdbr_put(w, &array->descr);  /* which `Like` holds */
        sdbr_put(w, &array->nd);
        sdbr_put(w, &array->dimensions);
        for (i = 0; i < array->nd; i++)
            sdbr_put(w, &array->dimensions[i]);
    }
    """
    void sdbr_put_array(sdbr_words *, PyObject *) noexcept

# What is done about a test: its words are compared; it is run; so is what hangs from it.
cdef enum:
    WORDS
    RUN
    ROVES

# So many times words may become others, with no more than so many checks from one to the next.
cdef int MOVES = 3
cdef uint64_t LATELY = 64
# So many times in a row words may be of no use before they are noted more rarely.
cdef int USELESS = 32


cdef void note(
    sdbr_words *w, CTest *tests, Py_ssize_t n, CNode *nodes, Py_ssize_t n_nodes, CPair *pairs
) noexcept:
    """Note words after all tests have held."""
    cdef Py_ssize_t i, first, n_roots
    cdef bint kept
    cdef CTest *t
    if w.waits > 0:
        w.waits -= 1
        return
    w.useless = 0 if w.held > 0 else w.useless + 1
    if w.useless > USELESS:
        w.waits = 1 << min(w.useless - USELESS, 10)
    w.held = 0
    if not sdbr_begin(w, n, n_nodes):
        return
    find_users(w, tests, n, pairs)
    for i in range(n):
        t = &tests[i]
        first, n_roots = w.n, w.n_roots
        kept = w.past[i].level != WORDS or is_roving(w, t) or not put_test(w, t, nodes, pairs)
        if kept:
            w.n, w.n_roots = first, n_roots
            w.stops[w.n_stops].last, w.stops[w.n_stops].test = w.n, i
            w.n_stops += 1
            put_found(w, t, nodes, pairs)
        learn(w, &w.past[i], first, kept)
    w.stops[w.n_stops].last, w.stops[w.n_stops].test = w.n, -1
    w.ready = not w.full


cdef void find_users(sdbr_words *w, CTest *tests, Py_ssize_t n, CPair *pairs) noexcept:
    """Which nodes words hang from, and where another thing lies each time."""
    cdef Py_ssize_t i
    cdef int k
    for i in range(n):
        if w.past[i].level == ROVES:
            for k in range(tests[i].first, tests[i].last):
                if pairs[k].node >= 0:
                    w.roving[pairs[k].node] = True
    for i in range(n):
        if w.past[i].level == WORDS and not is_roving(w, &tests[i]):
            if tests[i].node >= 0:
                w.used[tests[i].node] = True
            if tests[i].other >= 0:
                w.used[tests[i].other] = True


cdef bint is_roving(sdbr_words *w, CTest *t) noexcept:
    return (t.node >= 0 and w.roving[t.node]) or (t.other >= 0 and w.roving[t.other])


cdef void put_found(sdbr_words *w, CTest *t, CNode *nodes, CPair *pairs) noexcept:
    """What a test that is run notes at its nodes."""
    cdef int k
    for k in range(t.first, t.last):
        if pairs[k].node >= 0 and w.used[pairs[k].node] and not w.roving[pairs[k].node]:
            sdbr_put(w, &nodes[pairs[k].node].now)


cdef void learn(sdbr_words *w, sdbr_past *past, Py_ssize_t first, bint kept) noexcept:
    """Count how often the words of a test have become others."""
    if w.n_before > 0 and past.kept == kept and not sdbr_are_same(w, past, first):
        past.moves = past.moves + 1 if w.round - past.round <= LATELY else 1
        past.round = w.round
        if past.moves >= MOVES:
            past.moves, past.level = 0, ROVES if kept else RUN
    past.first, past.last, past.kept = first, w.n, kept


# --- words of tests -----------------------------------------------------------------------------
cdef bint put_test(sdbr_words *w, CTest *t, CNode *nodes, CPair *pairs) noexcept:
    """The words of a test; False where there are none that tell."""
    cdef PyObject *x = NULL if t.node < 0 else nodes[t.node].now
    cdef CPair *pair = &pairs[t.first]
    if t.op == FIELDS:
        return put_fields(w, t, x)
    if t.op == TYPE:
        sdbr_put_type(w, x)
        return True
    if t.op == CLASS:  # whose objects were found before; they hold it
        return t.version != 0 and sdbr_put_tag(w, t.thing)
    if t.op == ITEMS:
        if not sdbr_is_unmoved(x, t.seen, t.version):
            return False
        sdbr_put_version(w, x, t.seen)
        return True
    if t.op == ALIVE:
        w.roots[w.n_roots].ref, w.roots[w.n_roots].x = t.thing, x
        w.n_roots += 1
        return True
    if t.op == AGAIN:
        return put_accepted(w, &nodes[t.node])
    if t.op == DEFINITION:
        if nodes[t.node].how != WEAK and nodes[t.node].how != SAME:
            sdbr_put_type(w, x)  # else it is the very function, which gets no other class
        sdbr_put_definition(w, x, tuple_item(t.thing, 0))
        return True
    if t.op == FIRST:
        sdbr_put_list(w, x)
        sdbr_put_list_item(w, x, 0)
        return True
    if t.op == LIST or t.op == TUPLE:
        return put_elements(w, t, x, nodes, pairs)
    if t.op == CELL:
        sdbr_put_cell(w, x)
        return put_lies(w, pair, nodes)
    if t.op == IS:  # of what was found before
        return True
    if t.op == MEMBER:
        sdbr_put(w, <char *>x + t.number)
        return put_lies(w, pair, nodes)
    if t.op == CLOSURE:
        sdbr_put_closure(w, x)
        sdbr_put_tuple(w, closure_of(x))
        sdbr_put_tuple_item(w, closure_of(x), t.number)
        return put_lies(w, pair, nodes)
    if t.op == SELF:
        sdbr_put_self(w, x)
        return put_lies(w, pair, nodes)
    if t.op == KIND_OF:
        sdbr_put_type(w, x)
        return put_lies(w, pair, nodes)
    return False


cdef bint put_fields(sdbr_words *w, CTest *t, PyObject *x) noexcept:
    cdef PyObject *d = sdbr_at(x, t.number)
    if d == NULL or d != t.thing or not sdbr_is_unmoved(d, t.seen, t.version):
        return False
    if t.kind != NULL:
        sdbr_put_type(w, x)
    sdbr_put(w, <char *>x + t.number)
    sdbr_put_version(w, d, t.seen)
    return True


cdef bint put_elements(
    sdbr_words *w, CTest *t, PyObject *x, CNode *nodes, CPair *pairs
) noexcept:
    cdef int i
    cdef Py_ssize_t k
    cdef Py_ssize_t size = list_size(x) if t.op == LIST else tuple_size(x)
    if t.op == LIST:
        sdbr_put_list(w, x)
    else:
        sdbr_put_tuple(w, x)
    for i in range(t.first, t.last):
        if pairs[i].node == SIZE:
            continue
        k = pairs[i].number
        if k < 0:
            k += size
        if t.op == LIST:
            sdbr_put_list_item(w, x, k)
        else:
            sdbr_put_tuple_item(w, x, k)
        if not put_lies(w, &pairs[i], nodes):
            return False
    return True


cdef bint put_lies(sdbr_words *w, CPair *pair, CNode *nodes) noexcept:
    """What lies at a place, whose address is a word already, may lie there."""
    return pair.node < 0 or put_accepted(w, &nodes[pair.node])


cdef bint put_accepted(sdbr_words *w, CNode *node) noexcept:
    """What says that it is still the thing that was accepted, where its address does not."""
    if node.how == ANY or node.how == SAME or node.how == ATOM:
        return True  # held, or whatever it is
    if node.how == WEAK:
        sdbr_put_ref(w, node.keep)
        return True
    if node.how == KIND:
        sdbr_put_type(w, node.now)
        return True
    if node.how == ARRAY:
        sdbr_put_array(w, node.now)
        return True
    return False
