# cython: language_level=3
"""Reads of attributes of links while a call is traced, compiled: a dozen for each layer."""

from cpython.object cimport PyObject

from sdbr.base.reasons import Remedy
from sdbr.trace.current import _local

import chainer

cdef extern from "Python.h":
    object PyObject_GenericGetAttr(object, object)

cdef object _Link = chainer.Link
cdef object _Parameter = chainer.Parameter


cdef class SeenReads:
    """Reads that a recorder has noted, and that are nothing new when they are made again.

    Parameters and children that an attribute still holds, as it did before the call; and what the
    class gives where the link has no such attribute of its own, nor had one.
    """

    cdef dict things
    cdef set absent

    def __init__(self):
        self.things = {}
        self.absent = set()

    def note(self, link, name, thing, dict fields not None, dict before not None):
        """Note that the recorder has looked at a read of ``link.name``.

        Parameters
        ----------
        link : chainer.Link
        name : str
        thing : object
            What was read.
        fields, before : dict
            The attributes of the link now, and before the call.
        """
        if name in before:
            if before[name] is thing and isinstance(thing, (_Parameter, _Link)):
                self.things[_key(link), name] = thing
        elif name not in fields:
            self.absent.add((_key(link), name))

    cdef bint has(self, link, name, thing):
        key = (_key(link), name)
        if key in self.absent:
            return name not in <dict> PyObject_GenericGetAttr(link, "__dict__")
        return self.things.get(key, self) is thing


cdef inline size_t _key(link) noexcept:
    return <size_t> <PyObject *> link


def getattribute_of_link(original):
    """``__getattribute__`` that tells the recorder of what the call reads of a link."""

    def __getattribute__(self, name):
        recorder = getattr(_local, "recorder", None)
        if recorder is None:
            return PyObject_GenericGetAttr(self, name)
        try:
            thing = PyObject_GenericGetAttr(self, name)
        except AttributeError:
            if not recorder._depth and name[:2] != "__":
                recorder.note_absent(self, name)
            raise
        if name[:2] == "__":
            if name == "__dict__":
                recorder.open_fields(self)
            return thing
        if recorder._depth:
            if recorder.pending_writes and (id(self), name) in recorder.pending_writes:
                # A replay writes attributes after the program has run.
                recorder.mark_dynamic(
                    f"attribute {name!r}, written during the call, was read in static_code",
                    Remedy.PASS_NUMBERS,
                )
            return thing
        if not recorder.effect_writes and (<SeenReads> recorder.seen_reads).has(self, name, thing):
            return thing
        return recorder.read_attribute(self, name, thing)

    return __getattribute__
