"""A plan: tests in C that tell that nothing of what a call has read has moved since it was noted.

Tests go from the roots to what hangs from them, and look at an object only after those before have
told that it is still there. What the version of a dictionary or the tag of a class vouches for is
not looked at; where that has moved, what was read there is compared one by one. While the tests run
no other code does, neither Python's nor the collector, so nothing that was found can go away.

An address says which object it is only as long as that lives: what is compared by its address is
weakly referenced or held, or lies in a dictionary whose version has not moved since.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.trace.watch.plan._noted cimport note
from sdbr.trace.watch.plan._parts cimport *
from sdbr.trace.watch.plan._states cimport Like, Usual, is_like, is_variable_like
from sdbr.trace.watch.plan._unmoved cimport *
from sdbr.trace.watch.plan._watched cimport (
    sdbr_forget,
    sdbr_found,
    sdbr_is_unmoved,
    sdbr_version_of,
)
from sdbr.trace.watch.plan._words cimport sdbr_end, sdbr_roots_hold, sdbr_stop, sdbr_words_hold

cdef PyObject *NONE = <PyObject *>None
cdef object Witness = type("Witness", (), {})
cdef PyObject *WITNESS = <PyObject *>Witness
cdef Py_ssize_t MOST = 1 << 60
cdef uint64_t MOVED = <uint64_t>-1  # no dictionary's and no class's


def fields_of(thing):
    """The dictionary of an object, by Python's own idea of where that is; None for none."""
    cdef PyObject *found = sdbr_fields_of(<PyObject *>thing)
    return None if found == NULL else <object>found


def fields_offset(thing):
    """How many bytes from an object's address its dictionary is noted; 0 where that differs."""
    return sdbr_fields_offset(<PyObject *>thing)


def has_safe_keys(thing):
    """Whether looking for a key in a dict runs no code of anybody's."""
    return sdbr_has_safe_keys(<PyObject *>thing)


def wrapped_of(thing):
    """The function in a static method or class method."""
    cdef PyObject *found = sdbr_wrapped_of(<PyObject *>thing)
    return None if found == NULL else <object>found


def class_tag(kind):
    """A number that no class has had before; 0 where Python has not counted."""
    sdbr_class_attribute(<PyObject *>kind, <PyObject *>"__doc__")  # which lets Python count
    return sdbr_class_tag(<PyObject *>kind, WITNESS)


def slot_offset(slot, thing):
    """Where in an object a slot of its class lies; 0 for what is no pointer."""
    return sdbr_slot_offset(<PyObject *>slot, <PyObject *>thing)


cdef class Plan:
    """Tests that are ready to run.

    Parameters
    ----------
    nodes : list of Node
    tests : list of Test
        Those of what another hangs from come first.
    fetched : list of Node
    rest : callable or None
        ``rest(values, given)`` asks what no test can; values are those of `fetched`.
    usual : Usual or None

    Attributes
    ----------
    stopped : int
        Which test did not hold the last time that one did not.
    """

    def __cinit__(self, list nodes, list tests, list fetched, rest, Usual usual):
        cdef Py_ssize_t n_pairs = 0, i
        cdef Test test
        cdef Node node
        for test in tests:
            n_pairs += len(test.pairs)
        self.nodes = <CNode *>PyMem_Calloc(len(nodes) + 1, sizeof(CNode))
        self.tests = <CTest *>PyMem_Calloc(len(tests) + 1, sizeof(CTest))
        self.pairs = <CPair *>PyMem_Calloc(n_pairs + 1, sizeof(CPair))
        if self.nodes == NULL or self.tests == NULL or self.pairs == NULL:
            raise MemoryError
        self.n, self.n_nodes = len(tests), len(nodes)
        self.kept, self.trash, self.owned, self.rest, self.usual = [], [], [], rest, usual
        for i, node in enumerate(nodes):
            node.index = i
            self.set_node(&self.nodes[i], node)
        self.fetched = [(<Node>x).index for x in fetched]
        n_pairs = 0
        for i, test in enumerate(tests):
            n_pairs = self.set_test(&self.tests[i], test, n_pairs)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_nodes):
            Py_XDECREF(self.nodes[i].held)
        for i in range(self.n):
            sdbr_forget(self.tests[i].seen)
        PyMem_Free(self.nodes)
        PyMem_Free(self.tests)
        PyMem_Free(self.pairs)
        sdbr_end(&self.words)

    cdef PyObject *keep(self, thing):
        self.kept.append(thing)
        return <PyObject *>thing

    cdef int set_node(self, CNode *to, Node node) except -1:
        to.now = <PyObject *>node.value
        to.how = node.how
        if node.how == ATOM:
            to.held = <PyObject *>node.keep
            Py_INCREF(to.held)
        elif node.keep is not None:
            to.keep = self.keep(node.keep)
        return 0

    cdef Py_ssize_t set_test(self, CTest *to, Test test, Py_ssize_t n_pairs) except -1:
        to.op = test.op
        to.node = -1 if test.node is None else test.node.index
        to.other = -1 if test.other is None else test.other.index
        to.number = test.number
        to.version = 0 if test.op == CLASS else MOVED
        if test.op == TYPE or test.op == CLASS:  # not kept
            to.thing = <PyObject *>test.thing[0]
            to.ref = self.keep(test.thing[1])
        elif test.op == FIELDS:
            to.kind = NULL if test.thing is None else <PyObject *>test.thing[0]
        elif test.op == OWN:
            to.number = len(self.owned)
            self.owned.append(None)
        elif test.thing is not None:
            to.thing = self.keep(test.thing)
        to.first = n_pairs
        for key, node in test.pairs:
            self.pairs[n_pairs].key = self.keep(key)
            self.pairs[n_pairs].node = (<Node>node).index if type(node) is Node else node
            if type(key) is int and -MOST <= key <= MOST:
                self.pairs[n_pairs].number = key
            if self.pairs[n_pairs].node == FIXED:
                to.version = test.number
            n_pairs += 1
        to.last = n_pairs
        return n_pairs

    def arm(self, args, kwargs):
        """Whether all is as it was noted: from now on versions count."""
        self.unsure, self.arming = False, True  # what was found is still held
        held = self.passes(args, kwargs)
        self.arming = False
        self.let_go()
        return held and not self.unsure

    cpdef bint check(self, tuple args, dict kwargs) except -1:
        """Whether all holds; False also where that has to be asked anew."""
        cdef Py_ssize_t i, n = len(self.fetched)
        cdef bint unsure
        cdef list values = None if self.rest is None else [None] * n  # before anything is found
        self.unsure = False
        if not self.passes(args, kwargs):
            self.let_go()
            return False
        if not self.unsure and self.rest is None:
            self.let_go()
            return True
        unsure = self.unsure
        if values is not None:
            for i in range(n):
                values[i] = <object>self.nodes[<int>self.fetched[i]].now
        self.let_go()
        if unsure and not self.usual.holds():
            return False
        return self.rest is None or self.rest(values, (args, kwargs))

    def by_words(self):
        """(words, tests that are run beside them, checks for which that has been enough)."""
        return self.words.n, max(self.words.n_stops, 0), self.words.held

    cdef int let_go(self) except -1:
        if self.trash:
            self.trash = []
        return 0

    # --- the tests ------------------------------------------------------------------------------
    cdef bint passes(self, tuple args, dict kwargs) noexcept:
        cdef Py_ssize_t i
        if self.stands(args, kwargs):
            return True
        self.words.ready = False  # what they were noted of may become another thing
        for i in range(self.n):
            if not self.holds(&self.tests[i], args, kwargs):
                self.stopped = i
                return False
        if not self.arming:
            note(&self.words, self.tests, self.n, self.nodes, self.n_nodes, self.pairs)
        return True

    cdef bint stands(self, tuple args, dict kwargs) noexcept:
        """Whether words tell that all holds, with the tests that no words stand for."""
        cdef sdbr_stop *stop = self.words.stops
        cdef Py_ssize_t at = 0
        self.words.round += 1
        if not self.words.ready or not sdbr_roots_hold(&self.words):
            return False
        while sdbr_words_hold(self.words.words + at, self.words.words + stop.last):
            if stop.test < 0:
                self.words.held += 1
                return True
            if not self.holds(&self.tests[stop.test], args, kwargs):
                return False
            at = stop.last
            stop += 1
        return False

    cdef bint holds(self, CTest *t, tuple args, dict kwargs) noexcept:
        cdef PyObject *x = NULL if t.node < 0 else self.nodes[t.node].now
        cdef PyObject *d
        if t.op == FIELDS:
            if t.kind != NULL and type_of(x) != t.kind:
                return False
            d = sdbr_at(x, t.number)
            if d != NULL and d == t.thing and sdbr_is_unmoved(d, t.seen, t.version):
                return True
            # An object that keeps its attributes itself has none, or an odd address.
            return self.moved(t, x, sdbr_fields_of(x) if d == NULL or <size_t>d & 1 else d)
        if t.op == TYPE:
            return type_of(x) == t.thing
        if t.op == CLASS:
            if x != NULL and x != t.thing:
                return False
            if t.version != 0 and t.version == sdbr_class_tag(t.thing, WITNESS):
                return True
            return self.moved_class(t)
        if t.op == ITEMS:
            return sdbr_is_unmoved(x, t.seen, t.version) or self.moved(t, x, x)
        if t.op == ALIVE:
            return sdbr_is_alive(t.thing, x)
        if t.op == AGAIN:
            return self.accepts(&self.nodes[t.node], x)
        if t.op == DEFINITION:
            return sdbr_is_defined(
                x, tuple_item(t.thing, 0), tuple_item(t.thing, 1), tuple_item(t.thing, 2))
        if t.op == FIRST:
            return list_size(x) > 0 and (list_item(x, 0) == NONE) == t.number
        return self.passes_other(t, x, args, kwargs)

    cdef bint passes_other(self, CTest *t, PyObject *x, tuple args, dict kwargs) noexcept:
        """What is rarer, or asked of the call."""
        cdef PyObject *d
        cdef CPair *pair = &self.pairs[t.first]
        if t.op == LIST or t.op == TUPLE:
            return self.has_elements(t, x)
        if t.op == CELL:
            return self.lies(pair, cell_of(x))
        if t.op == IS:
            return (x == self.nodes[t.other].now) == t.number
        if t.op == OWN:
            d = self.own_of(t, x)
            return d != NULL and self.lies(pair, d)
        if t.op == ROVING:
            return self.moved(t, x, sdbr_fields_of(x))
        if t.op == MEMBER:
            return self.lies(pair, sdbr_at(x, t.number))
        if t.op == CLOSURE:
            d = closure_of(x)
            return d != NULL and t.number < tuple_size(d) and self.lies(
                pair, tuple_item(d, t.number))
        if t.op == SELF:
            return self.lies(pair, sdbr_self_of(x))
        if t.op == KIND_OF:
            return self.lies(pair, type_of(x))
        if t.op == ENVIRONMENT:
            if not self.usual.is_here():
                self.unsure = True
            return True
        return self.is_given(t, <PyObject *>args, <PyObject *>kwargs)

    cdef bint is_given(self, CTest *t, PyObject *args, PyObject *kwargs) noexcept:
        cdef PyObject *key
        cdef PyObject *value
        cdef Py_ssize_t at = 0, i = t.first
        if t.op == ARGUMENT:
            return t.number < tuple_size(args) and self.lies(
                &self.pairs[i], tuple_item(args, t.number))
        if t.op == KEYWORD:
            return sdbr_has_safe_keys(kwargs) and self.lies(
                &self.pairs[i], dict_get(kwargs, self.pairs[i].key))
        if tuple_size(args) != t.number or dict_size(kwargs) != t.last - t.first:
            return False
        while i < t.last and PyDict_Next(kwargs, &at, &key, &value):
            if not sdbr_same_atom(key, self.pairs[i].key):
                return False
            i += 1
        return True

    cdef bint lies(self, CPair *pair, PyObject *x) noexcept:
        """Whether what lies at a place may lie there."""
        if pair.node >= 0:
            return x != NULL and self.accepts(&self.nodes[pair.node], x)
        return x == NULL and pair.node == NOTHING

    cdef bint accepts(self, CNode *node, PyObject *x) noexcept:
        """Whether `x` may lie where another lay; if so, it does from now on."""
        cdef bint held = True
        if node.how == WEAK:
            held = sdbr_is_alive(node.keep, x)
        elif node.how == SAME:
            held = x == node.keep
        elif node.how == ATOM:
            held = sdbr_same_atom(x, node.held)
            if held and x != node.held:
                sdbr_exchange(&node.held, x)
        elif node.how == KIND:
            held = type_of(x) == node.keep
        elif node.how == ARRAY:
            held = is_like(x, <Like>node.keep)
        elif node.how == VARIABLE:
            held = is_variable_like(x, <Like>node.keep)
        elif node.how == WRAPPED:
            held = type_of(x) == tuple_item(node.keep, 0) and sdbr_is_alive(
                tuple_item(node.keep, 1), sdbr_wrapped_of(x))
        elif node.how == UNKNOWN:
            held = self.arming and x == node.now
        if held:
            node.now = x
        return held

    cdef bint moved(self, CTest *t, PyObject *x, PyObject *d) noexcept:
        """A dictionary has moved: compare what was read of it."""
        cdef int i
        cdef uint64_t version = 0 if d == NULL else sdbr_version_of(d, &t.seen, d == t.thing)
        cdef CPair *pair
        t.version = MOVED  # should one differ
        if d != NULL and not sdbr_has_safe_keys(d):
            return False
        for i in range(t.first, t.last):
            pair = &self.pairs[i]
            if pair.node == SIZE:
                if (0 if d == NULL else dict_size(d)) != pair.number:
                    return False
            elif pair.node == KEYS:
                if not sdbr_has_keys(d, pair.key):
                    return False
            elif not self.lies(
                    pair, NULL if d == NULL else sdbr_found(x, d, pair.key, &pair.place)):
                return False
        t.thing, t.version = d, version
        return True

    cdef bint moved_class(self, CTest *t) noexcept:
        """A class, or one above it, was written to: compare what was read of it."""
        cdef int i
        t.version = 0
        if not sdbr_is_alive(t.ref, t.thing):
            return False
        for i in range(t.first, t.last):
            if self.pairs[i].node == FIXED:
                return False
            if not self.lies(&self.pairs[i], sdbr_class_attribute(t.thing, self.pairs[i].key)):
                return False
        t.version = sdbr_class_tag(t.thing, WITNESS)
        return True

    cdef bint has_elements(self, CTest *t, PyObject *x) noexcept:
        """Of a list or a tuple: its length, and what was read of it."""
        cdef int i
        cdef Py_ssize_t k
        cdef Py_ssize_t size = list_size(x) if t.op == LIST else tuple_size(x)
        for i in range(t.first, t.last):
            k = self.pairs[i].number
            if self.pairs[i].node == SIZE:
                if size != k:
                    return False
                continue
            if k < 0:
                k += size
            if k < 0 or k >= size or not self.lies(
                    &self.pairs[i], list_item(x, k) if t.op == LIST else tuple_item(x, k)):
                return False
        return True

    cdef PyObject *own_of(self, CTest *t, PyObject *local) noexcept:
        """The dictionary of a `threading.local` in this thread, which is always the same one."""
        cdef uint64_t thread = sdbr_thread_now()
        cdef PyObject *found
        if t.thing == NULL or t.version != thread:
            found = sdbr_own_fields(local)
            if found == NULL:
                return NULL
            if t.thing != NULL:  # not let go of before the tests are over
                self.trash.append(self.owned[t.number])
            self.owned[t.number] = <object>found
            Py_XDECREF(found)
            t.thing, t.version = found, thread
        return t.thing
