"""What stands in the place of a decorated function."""

from functools import update_wrapper

import chainer

from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject

from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_attributes
from sdbr.call._conditions cimport hooks_are_off
from sdbr.call._runners cimport serve_fast

cdef object _Link = chainer.Link


cdef class Entry:
    """How the calls of one decorated function are served: compiled, else by `slow`."""

    cdef object function
    cdef object managers_key
    cdef object slow
    cdef object call              # what stands in the place of the function

    cdef object serve(self, tuple args, dict kwargs, bint unhooked):
        """One call; `unhooked` tells that there are no hooks, as the caller has just seen."""
        cdef PyObject *managers
        cdef PyObject *found
        cdef list runners
        # `isinstance` asks the metaclass first; what only claims to be a link goes the slow way.
        if args and PyObject_TypeCheck(args[0], <PyTypeObject *> _Link):
            owner = args[0]
            d = sdbr_attributes(owner, NULL)
            managers = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> self.managers_key)
            if managers != NULL and (<object> managers).owner_id == <size_t> <PyObject *> owner:
                found = PyDict_GetItemWithError(managers, <PyObject *> self.function)
                if found != NULL:
                    runners = (<object> found).runners
                    if runners:
                        result = serve_fast(runners, args[1:], kwargs, unhooked)
                        if result is not NotImplemented:
                            return result
        else:
            manager = self.call.schedule_manager
            if manager is not None:
                runners = manager.runners
                if runners:
                    result = serve_fast(runners, args, kwargs, unhooked)
                    if result is not NotImplemented:
                        return result
        return self.slow(args, kwargs)


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
