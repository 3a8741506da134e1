"""A profile function in C: what compiled functions the code of one thread calls.

Python tells a profile function of every call. Nearly all of them are none of our business, and a
profile function in Python would double the time of a trace.
"""

import sys

from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyFrameObject:
        pass
    ctypedef struct PyMethodDef:
        pass
    ctypedef struct PyCFunctionObject:
        PyMethodDef *m_ml
    ctypedef int (*Py_tracefunc)(PyObject *, PyFrameObject *, int, PyObject *) except -1
    int PyTrace_C_CALL
    int PyCFunction_Check(PyObject *)
    void PyEval_SetProfile(Py_tracefunc, PyObject *)

# From Python 3.12 on it costs more to stop and start than to go on.
cdef bint CAN_PAUSE = sys.version_info < (3, 12)


cdef class CallWatch:
    """Tells of calls of compiled functions in this thread, between `start` and `stop`.

    Parameters
    ----------
    recorder : Recorder
        What handlers get.
    choose : callable
        ``choose(function)`` gives ``handler(recorder, function)``, or None for one that does not
        matter; asked once for all bound methods of one name and class.
    """

    cdef object recorder
    cdef object choose
    cdef dict handlers
    cdef bint active
    cdef int paused

    def __init__(self, recorder, choose):
        self.recorder = recorder
        self.choose = choose
        self.handlers = {}

    def start(self):
        """Begin; False when somebody else profiles this thread, whom nothing is taken from."""
        before = sys.getprofile()
        # One of ours was left behind by a trace that a signal has interrupted.
        if before is not None and type(before) is not CallWatch:
            return False
        self.active = True
        PyEval_SetProfile(_called, <PyObject *> self)
        return True

    def stop(self):
        """End, unless the code has put another profile function in the place of this one."""
        if sys.getprofile() is self:
            PyEval_SetProfile(NULL, NULL)
        self.active = False

    def pause(self):
        """See nothing until `go_on`; may be nested."""
        self.paused += 1
        if CAN_PAUSE and self.paused == 1 and self.active:
            if sys.getprofile() is self:
                PyEval_SetProfile(NULL, NULL)
            else:
                self.active = False

    def go_on(self):
        """After `pause`."""
        self.paused -= 1
        if CAN_PAUSE and self.paused == 0 and self.active:
            if sys.getprofile() is None:
                PyEval_SetProfile(_called, <PyObject *> self)
            else:
                self.active = False

    cdef int told(self, PyObject *function) except -1:
        if self.paused or not PyCFunction_Check(function):
            return 0
        key = <size_t> (<PyCFunctionObject *> function).m_ml
        handler = self.handlers.get(key, self)
        if handler is self:
            handler = self.handlers[key] = self.choose(<object> function)
        if handler is not None:
            handler(self.recorder, <object> function)
        return 0


cdef int _called(PyObject *watch, PyFrameObject *frame, int what, PyObject *function) except -1:
    if what == PyTrace_C_CALL:
        (<CallWatch> watch).told(function)
    return 0
