# cython: language_level=3
"""Reads of links and Variables while a call is traced, compiled: a dozen for each layer."""

import sys

from cpython.object cimport PyObject

from sdbr.base.reasons import Remedy
from sdbr.trace.code.frames import is_compared_with_none
from sdbr.trace.code.frames import called_by_machinery
from sdbr.trace.current import _local
from sdbr.trace.effects._own_forwards cimport OwnForwards
from sdbr.trace.values import ABSENT, Read

import chainer

cdef extern from "Python.h":
    object PyObject_GenericGetAttr(object, object)

cdef object _Link = chainer.Link
cdef object _Parameter = chainer.Parameter
#: Of any link, and nothing that a call depends on.
INTERNAL = frozenset({
    '_params', '_persistent', '_children', '_within_init_scope', '_device', 'name', '_cpu',
    'schedule_manager', 'static_schedule', '_sdbr_managers', 'printable_specs',
    '_local_link_hooks', 'update_enabled', '_overridden_to_methods', '_visitor_to_methods',
    '_DeviceResident__overridden'                        '_to_methods',
})  # fmt: skip
cdef frozenset _MORE_THAN_NOTED = frozenset({"_params", "_children", "name"})
cdef frozenset _NOTED = INTERNAL


cdef class SeenReads:
    """Reads that a recorder has noted, and that are nothing new when they are made again.

    What an attribute still holds, as it did before the call: parameters and children, flags and
    texts; and what the class gives where the link has no such attribute of its own, nor had one.
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
            if before[name] is thing and (
                isinstance(thing, _Parameter) or isinstance(thing, _Link)
            ):
                self.things[_key(link), name] = thing
        elif name not in fields:
            self.absent.add((_key(link), name))

    def forget(self, link, names):
        """Attributes of a link have got their first values: reads of them are new."""
        for name in names:
            self.things.pop((_key(link), name), None)

    cdef bint has(self, link, name, thing):
        key = (_key(link), name)
        if key in self.absent:
            return name not in <dict> PyObject_GenericGetAttr(link, "__dict__")
        return self.things.get(key, self) is thing

    cdef bint noted(self, recorder, link, name, thing) except -1:
        """Note a first read of ``link.name`` where no more is to be done; False where there is."""
        if name in _MORE_THAN_NOTED:
            return False
        known = (<dict> recorder.attributes.links).get(_key(link))
        cdef dict before = recorder.attributes.watch(link) if known is None else known[1]
        kind = type(thing)
        if name == "_n_local_link_hooks":
            if kind is not int or thing:
                return False
        elif name not in before:
            if name in <dict> PyObject_GenericGetAttr(link, "__dict__"):
                return False
            if name not in _NOTED:
                _note(recorder, link, name, ABSENT)
            self.absent.add((_key(link), name))
            return True
        elif before[name] is not thing:
            return False
        elif name in _NOTED:
            return True
        elif kind is _Parameter:
            recorder.outside.note_extras(thing)
        elif not (kind is bool or kind is str or thing is None):
            return False
        elif (_key(link), name) in <set> recorder.attributes.written:
            return True  # written by this call, though the same was there before
        _note(recorder, link, name, thing)
        self.things[_key(link), name] = thing
        return True


cdef int _note(recorder, link, name, thing) except -1:
    cdef set seen = recorder.attributes.noted
    key = (_key(link), name)
    if key not in seen:
        seen.add(key)
        recorder.trace.reads.append(Read(link, name, thing))
    return 0


cdef inline size_t _key(link) noexcept:
    return <size_t> <PyObject *> link


def containers_of(dict fields not None) -> list:
    """Names and containers among the attributes of a link whose contents a call depends on."""
    return [
        (name, thing)
        for name, thing in fields.items()
        if isinstance(thing, (list, dict, set)) and name not in _NOTED
    ]


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
                recorder.attributes.note_absent(self, name)
            raise
        if name[:2] == "__":
            if name == "__dict__":
                recorder.attributes.open_fields(self)
            return thing
        if recorder._depth:
            pending = recorder.attributes.pending_writes
            if pending and (id(self), name) in pending:
                # A replay writes attributes after the program has run.
                recorder.mark_dynamic(
                    f"attribute {name!r}, written during the call, was read in static_code",
                    Remedy.PASS_NUMBERS,
                )
            return thing
        forwards = recorder.own_forwards
        if recorder.attributes.effect_writes or not _is_noted(recorder, self, name, thing):
            if forwards is not None:
                (<OwnForwards> forwards).watch.pause()
            try:
                thing = recorder.attributes.read_attribute(self, name, thing)
            finally:
                if forwards is not None:
                    (<OwnForwards> forwards).watch.go_on()
        if name == "forward" and forwards is not None:
            return (<OwnForwards> forwards).of(self, thing)
        return thing

    return __getattribute__


cdef inline bint _is_noted(recorder, link, name, thing) except -1:
    cdef SeenReads seen = recorder.attributes.seen_reads
    return seen.has(link, name, thing) or seen.noted(recorder, link, name, thing)


def extras_of(variable, frozenset own not None) -> dict:
    """What the user has put on a Variable, and the name that it was given.

    Parameters
    ----------
    variable : chainer.Variable
    own : frozenset
        The names of attributes that every Variable has.
    """
    cdef dict found = {}
    for name, thing in (<dict> variable.__dict__).items():
        if name not in own:
            found[name] = thing
    given = variable._node.name
    if given is not None and not isinstance(variable, _Parameter):
        found["name"] = given
    return found


def array_reader(getter):
    """The getter of ``Variable.array``, which gives user code what shows where it comes from."""

    def read(self):
        array = getter(self)
        recorder = getattr(_local, "recorder", None)
        if recorder is None or recorder._depth:
            return array
        frame = sys._getframe(0)
        if called_by_machinery(frame):
            return array
        return recorder.calls.read_array(self, array, is_compared_with_none(frame))

    return read
