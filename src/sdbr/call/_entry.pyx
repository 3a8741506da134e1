"""What stands in the place of a decorated function."""

import logging
from functools import update_wrapper
from weakref import WeakValueDictionary

from sdbr.call._watching import call_watcher

import chainer

from cpython.object cimport Py_TYPE, PyObject, PyObject_TypeCheck, PyTypeObject

from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes
from sdbr.call._conditions cimport WriteWatch, hooks_are_off
from sdbr.call._spec cimport CallSpec
from sdbr.call._table cimport Table
from sdbr.schedule._statistics cimport Statistics, Usage

cdef object _Link = chainer.Link
cdef object _logger = logging.getLogger("sdbr.dynamic")

IN_VAIN = 8  # objects in a row that a method was called for and none of its calls replayed
cdef int _AGAIN = 64  # after so many more, another may get schedules
cdef int _IN_FULL = 256  # every so many calls one is looked at in full, whatever it is


cdef class PlainCall:
    """Tells the calls that run define-by-run as one did that was looked at in full.

    It may be wrong in one direction alone: a call that it does not know is looked at in full.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
        Which is dynamic.
    always : bool
        Whether calls of this key run define-by-run whatever the guards say.
    args, kwargs : tuple, dict
        The call that was looked at.
    """

    cdef readonly object schedule
    cdef object reasons
    cdef str reason
    cdef Statistics statistics
    cdef Usage usage
    cdef CallSpec spec
    cdef WriteWatch write_watch   # None where guards say nothing
    cdef bint running

    def __init__(self, manager, schedule, bint always, tuple args, dict kwargs):
        self.schedule = schedule
        self.reasons = manager.define_by_run_reasons
        self.reason = schedule.dynamic.text
        self.statistics = manager.statistics
        self.usage = schedule.usage
        self.spec = CallSpec(args, kwargs)
        self.write_watch = None if always else WriteWatch(schedule.guards)

    @staticmethod
    def suits(tuple args, dict kwargs, bint always):
        """Whether such calls can be told: guards may look at floats among the arguments."""
        if not CallSpec.suits(args, kwargs):
            return False
        return always or not CallSpec(args, kwargs).float_positions

    cdef bint knows(self, tuple args, dict kwargs, bint unhooked) except -1:
        if self.running or not (self.usage.served + 1) % _IN_FULL:
            return False
        self.running = True  # comparing may run Python code, and so another thread
        try:
            if not self.spec.matches(args, kwargs) or not (unhooked or hooks_are_off()):
                return False
            return self.write_watch is None or self.write_watch.hold()
        finally:
            self.spec.release()
            self.running = False

    cdef int count(self) except -1:
        self.statistics.calls += 1
        self.statistics.define_by_run_calls += 1
        self.usage.served += 1
        self.usage.last_call = self.statistics.calls
        self.reasons[self.reason] += 1
        return 0


cdef PlainCall plain_call(list known, tuple args, dict kwargs, bint unhooked):
    """The first of these that knows a call; None where that has to be looked at in full."""
    if call_watcher() is not None or _logger.isEnabledFor(10):  # DEBUG: each is logged
        return None
    for one in known:
        if (<PlainCall> one).knows(args, kwargs, unhooked):
            return one
    return None


def is_plain(list known, tuple args, dict kwargs):
    """Whether a call runs define-by-run by one of these `PlainCall`; nothing is counted."""
    return plain_call(known, args, kwargs, False) is not None


cdef class Entry:
    """How the calls of one decorated function are served: compiled, else by `slow`."""

    cdef object function
    cdef object managers_key
    cdef object slow
    cdef object call              # what stands in the place of the function
    cdef readonly object given    # the managers that links and objects have for it, by id
    cdef public Statistics last   # of the one that was made last for what is no link
    cdef int in_vain

    def takes_another(self):
        """Whether another object gets schedules; not after many of which none was replayed."""
        self.in_vain = self.in_vain + 1 if self.last is not None and not self.last.replays else 0
        return self.in_vain < IN_VAIN or not self.in_vain % _AGAIN

    cdef object manager_of(self, owner):
        """The manager that a link or another object has for the function, or None."""
        cdef PyObject *managers
        cdef PyObject *found = NULL
        d = sdbr_attributes(owner, NULL)
        managers = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> self.managers_key)
        if managers != NULL and (<object> managers).owner_id == <size_t> <PyObject *> owner:
            if (<object> managers).fields_id == <size_t> <PyObject *> d:
                found = PyDict_GetItemWithError(managers, <PyObject *> self.function)
        return None if found == NULL else <object> found

    cdef object serve(self, tuple args, dict kwargs, bint unhooked):
        """One call; `unhooked` tells that there are no hooks, as the caller has just seen."""
        cdef Table runners
        cdef list plain
        cdef PlainCall one
        cdef tuple others = args
        # `isinstance` asks the metaclass first; what only claims to be a link goes the slow way.
        cdef bint is_link = args and PyObject_TypeCheck(args[0], <PyTypeObject *> _Link)
        manager = None
        if is_link or (self.last is not None and args and has_attributes(args[0])):
            manager = self.manager_of(args[0])
            if manager is not None:
                others = args[1:]
        if manager is None and not is_link:
            manager = self.call.schedule_manager
        if manager is not None:
            runners = manager.runners
            if runners.groups:
                result = runners.serve(None, others, kwargs, unhooked)
                if result is not NotImplemented:
                    return result
            plain = manager.plain
            if plain:
                one = plain_call(plain, others, kwargs, unhooked)
                if one is not None:
                    one.count()
                    return self.function(*args, **kwargs)
        return self.slow(args, kwargs)


cdef bint has_attributes(thing):
    return Py_TYPE(thing).tp_dictoffset != 0


def static_entry(function, managers_key, slow):
    """What stands in the place of a decorated function: the compiled path, else ``slow``.

    Parameters
    ----------
    function : callable
        Undecorated.
    managers_key : str
        Attribute of a link that holds its managers by function.
    slow : callable
        Serves every call; ``slow(args, kwargs)``.
    """
    cdef Entry entry = Entry.__new__(Entry)

    def call(*args, **kwargs):
        return entry.serve(args, kwargs, False)

    entry.function, entry.managers_key, entry.slow, entry.call = function, managers_key, slow, call
    entry.given = WeakValueDictionary()
    update_wrapper(call, function)
    call._sdbr_serves = entry  # not that of a static function that `function` is wrapped around
    return call


def is_static(call):
    """Whether this is what `static_entry` has made: ``functools.wraps`` copies its attributes."""
    entry = getattr(call, "_sdbr_serves", None)
    return type(entry) is Entry and (<Entry> entry).call is call


def link_call(call):
    """A ``__call__`` for links whose ``forward`` is `call`: past the hooks when there are none."""
    cdef Entry entry = call._sdbr_serves

    def __call__(*args, **kwargs):
        cdef dict d
        if not args:
            raise TypeError("__call__() missing 1 required positional argument: 'self'")
        d = sdbr_attributes(args[0], NULL)
        if "_local_link_hooks" in d or "forward" in d or not hooks_are_off():
            return _Link.__call__(*args, **kwargs)
        return entry.serve(args, kwargs, True)

    __call__._sdbr_link_call = __call__
    return __call__
