# cython: language_level=3
"""Putting patches in their places and taking them out again, compiled: every trace does so."""

import types

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

cdef object _ABSENT = object()


cdef class Patch:
    """One attribute, and what makes its replacement.

    Parameters
    ----------
    owner : class or module
    name : str
    factory : callable
        ``factory(original)`` gives the replacement.
    """

    cdef readonly object owner
    cdef readonly str name
    cdef readonly object factory
    cdef object attributes
    cdef readonly object first
    cdef object replacement
    cdef dict module

    def __init__(self, owner, str name, factory):
        self.owner = owner
        self.name = name
        self.factory = factory
        # Of a class it shows what the class has by then.
        self.attributes = vars(owner)
        # Whose replacement is kept: what is there at first, which lives as long as its owner. A
        # patch of somebody else's would be kept alive by it.
        self.first = self.attributes.get(name, getattr(owner, name, _ABSENT))
        self.replacement = _ABSENT
        # Most owners are modules, whose attributes are nothing but a dictionary.
        self.module = self.attributes if type(owner) is types.ModuleType else None

    cdef int put(self, thing) except -1:
        if self.module is not None:
            self.module[self.name] = thing
        else:
            setattr(self.owner, self.name, thing)
        return 0

    cdef object present(self):
        """What the owner itself has now, or `_ABSENT`."""
        cdef PyObject *found
        if self.module is None:
            return self.attributes.get(self.name, _ABSENT)
        found = PyDict_GetItemWithError(self.module, self.name)
        return _ABSENT if found is NULL else <object> found

    cpdef object of(self, original):
        """What to put in the place of `original`."""
        if original is not self.first:
            return self.factory(original)
        if self.replacement is _ABSENT:
            self.replacement = self.factory(original)
        return self.replacement


def install(list patches not None, list installed not None):
    """Put `patches` in their places, and what `remove` needs behind it into `installed`."""
    cdef Patch patch
    for patch in patches:
        own = patch.present()
        replacement = patch.of(getattr(patch.owner, patch.name) if own is _ABSENT else own)
        installed.append((patch, own, replacement))
        patch.put(replacement)


def remove(list installed not None):
    """Take out what `install` has put in its place, the last one first."""
    cdef Patch patch
    cdef tuple entry
    while installed:
        entry = <tuple> installed[len(installed) - 1]
        patch = <Patch> entry[0]
        # Else somebody patched on top of us (what they hold cannot be taken out from below),
        # or a signal came between.
        if patch.present() is entry[2]:
            if entry[1] is _ABSENT:
                delattr(patch.owner, patch.name)
            else:
                patch.put(entry[1])
        installed.pop()
