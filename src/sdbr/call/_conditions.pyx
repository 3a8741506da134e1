"""What must be as before besides the arguments of a call: hooks, links, numbers; compared in C."""

from sdbr.compat import LINK_VERSION
from sdbr.trace.arrays._scalars import ScalarAttribute, kept_now, values_now
from sdbr.trace.current import TRACES_UNDER_WAY
from sdbr.trace.current import _local as _trace_local
from sdbr.trace.effects.sides import plain_now

import chainer

from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

from sdbr.base._dicts cimport sdbr_own, sdbr_own_dict
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_dict_size, sdbr_list_item
from sdbr.call._spec cimport CallSpec
from sdbr.program._memory cimport Memory

cdef object _chainer_thread = chainer._thread_local
cdef sdbr_own _own_hooks
cdef list _version = LINK_VERSION
cdef list _traces_under_way = TRACES_UNDER_WAY
cdef tuple _NOTHING = ()
cdef dict _NO_KEYWORDS = {}


cdef class WriteWatch:
    """Watches whether any link was written to; until then ``guards.hold()`` need not be asked."""

    def __init__(self, guards):
        self.guards = guards
        self.volatile = guards.volatile
        self.version = None
        self.dicts = None
        self.definitions = guards.definitions
        self.seen = None if guards.seen is None else guards.seen.checks

    cdef bint hold(self):
        if self.definitions.failed() is not None:
            return False
        failed = self.volatile.failing()
        if failed is not None:
            self.guards.note(failed)
            return False
        if self.version is not _version[0] or self.dicts.moved():
            if not self.guards.hold():
                return False
            self.version = _version[0]
            self.dicts = self.guards.dicts
            return True
        if self.seen is None or self.seen.check(_NOTHING, _NO_KEYWORDS) is None:
            return True
        return self.guards.seen_holds()


cdef class Numbers:
    """The numbers that each call reads anew, for one runner.

    Parameters
    ----------
    schedule : Schedule
    n_floats : int
        How many floats there are among the arguments.
    """

    def __cinit__(self, schedule, int n_floats):
        self.scalars = schedule.trace.scalars
        self.guards = schedule.guards
        self.n = len(self.scalars)
        self.exact = schedule.trace.numbers
        self.kept = None
        self.active = self.n > 0 or n_floats > 0 or bool(self.exact)
        # Comparisons of arguments with attributes come out anew for the same arguments.
        self.mixed = any([
            type(root) is ScalarAttribute
            for condition in schedule.guards.on_floats
            for s in condition.scalars
            for root in s.roots
        ])
        self.accepted = None
        self.values = <double *> calloc(max(self.n, 1), sizeof(double))
        if self.values == NULL:
            raise MemoryError
        holders = [None if s.kind is int else getattr(s, "holder", None) for s in self.scalars]
        self.holders = [x if type(x) is dict else None for x in holders]
        self.names = [getattr(s, "attribute", None) for s in self.scalars]

    def __dealloc__(self):
        free(self.values)

    cdef bint read(self, CallSpec spec) except -1:
        """`look`; False as well when a float among the arguments may not be what it is now."""
        cdef tuple floats = ()
        if spec.float_positions:
            floats = tuple([<object> spec.arrays[<int> p] for p in spec.float_positions])
            # repr tells 0.0 from -0.0; the usual case is the very object.
            if self.mixed or floats != self.accepted or 0.0 in floats:
                if not self.guards.accept(floats):
                    return False
                self.accepted = floats
        return self.look(floats)

    cdef bint look(self, tuple floats) except -1:
        """Look up and compute each, `floats` are those among the arguments; False where none is."""
        cdef int i
        cdef PyObject *holder
        cdef PyObject *found
        for i in range(self.n):
            holder = sdbr_list_item(<PyObject *> self.holders, i)
            if holder != <PyObject *> None:
                found = PyDict_GetItemWithError(holder, sdbr_list_item(<PyObject *> self.names, i))
                if found == NULL or not isinstance(<object> found, float):
                    return False
                self.values[i] = <double> <object> found
            else:
                number = values_now([self.scalars[i]], floats)
                if number is None:
                    return False
                self.values[i] = number[0]
        if self.exact:
            self.kept = kept_now(self.exact, floats)
            return self.kept is not None
        return True

    cdef void write(self, Memory memory, int base):
        """Put the numbers into the control block, from `base` on."""
        cdef int i
        for i in range(self.n):
            memory.control[base + i] = self.values[i]

    cdef dict show(self, dict things):
        """`things` with the numbers added, each under its scalar."""
        cdef int i
        for i in range(self.n):
            things[self.scalars[i]] = self.values[i]
        if self.exact:
            things.update(zip(self.exact, self.kept))
        return things


cdef enum Hooks:
    NO_HOOK
    FUNCTION_HOOK
    LINK_HOOK


cdef inline Hooks hooks_now() except *:
    """Which of this thread's hooks look at its calls."""
    cdef PyObject *hooks
    cdef object d = sdbr_own_dict(_chainer_thread, &_own_hooks)
    hooks = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> "function_hooks")
    if hooks != NULL and sdbr_dict_size(hooks):
        return FUNCTION_HOOK
    hooks = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> "link_hooks")
    if hooks != NULL and sdbr_dict_size(hooks):
        return LINK_HOOK
    return NO_HOOK


def active_hook():
    """What this thread has a hook on, functions or links; None without any."""
    return {NO_HOOK: None, FUNCTION_HOOK: "function", LINK_HOOK: "link"}[hooks_now()]


cdef bint hooks_are_off():
    """No function hook, no link hook, and no trace or plain run under way in this thread."""
    if hooks_now() != NO_HOOK:
        return False
    if not _traces_under_way[0]:
        return True
    return getattr(_trace_local, "recorder", None) is None and not plain_now()
