"""An event before each instruction that followed code executes, with the frame that executes it.

Before 3.12 by a trace function in C, from 3.12 on by ``sys.monitoring``, whose events for
instructions are those of single code objects: what is not followed runs as fast as ever.
"""

import sys

cimport cython
from cpython.object cimport PyObject

from sdbr.trace.watch._followed cimport INSTRUCTION, LEFT, RAISED, UNWOUND, Followed
from sdbr.trace.watch._frames cimport FRAMES_KNOWN, VERSION, Layout, frame_code, frame_lasti

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030C0000
    #define SDBR_TRACE_FUNCTION() (PyThreadState_Get()->c_tracefunc)
    #define SDBR_TRACE_OBJECT() (PyThreadState_Get()->c_traceobj)
    #else
    #define SDBR_TRACE_FUNCTION() ((Py_tracefunc)NULL)
    #define SDBR_TRACE_OBJECT() ((PyObject *)NULL)
    #endif
    """
    ctypedef struct PyFrameObject
    ctypedef int (*Py_tracefunc)(PyObject *, PyFrameObject *, int, PyObject *) noexcept
    Py_tracefunc trace_function "SDBR_TRACE_FUNCTION"()
    PyObject *trace_object "SDBR_TRACE_OBJECT"()

cdef extern from "Python.h":
    void set_trace "PyEval_SetTrace"(Py_tracefunc, PyObject *)
    PyObject *current_frame "(PyObject *)PyEval_GetFrame"() noexcept
    void *current_thread "PyThreadState_Get"() noexcept
    const int CALL "PyTrace_CALL"
    const int EXCEPTION "PyTrace_EXCEPTION"
    const int RETURN "PyTrace_RETURN"
    const int OPCODE "PyTrace_OPCODE"

cdef bint MONITORED = VERSION >= 0x030C0000
cdef str NAME = "sdbr"

# Tools that nobody has by convention, and that of optimizers.
cdef tuple TOOLS = (4, 3, 5)
# Those that have to be asked for everywhere, and those of code objects that are followed.
cdef tuple GLOBAL = ("PY_START", "PY_RESUME", "PY_THROW", "PY_UNWIND", "RAISE")
cdef tuple LOCAL = ("INSTRUCTION", "PY_RETURN", "PY_YIELD")
cdef tuple CALLBACKS = (
    (("PY_START", "PY_RESUME", "PY_THROW"), "_begin"),
    (("INSTRUCTION",), "_instruction"),
    (("PY_RETURN", "PY_YIELD"), "_leave"),
    (("RAISE",), "_raise"),
    (("PY_UNWIND",), "_unwind"),
)


cdef class Events(Followed):
    """What happens in followed code, in the thread that started the watch.

    Handlers are not watched themselves. An exception that one of them raises ends the watch, not
    the program: `stop` raises it; where a handler is Python code, that may be one of a signal or of
    recursion. Frames that were entered before the watch are not followed; generators that were, are
    from when they are resumed. What a call gives that is not followed lies on top of the value
    stack at the next instruction.
    """

    def __cinit__(self, *args, **kwargs):
        self.instrumented = []

    def start(self) -> str | None:
        """Begin to watch the calling thread.

        Returns
        -------
        str or None
            Why it cannot be watched. That is no error: under a debugger, or while the coverage of
            a test is measured, it is to be expected.
        """
        if self.thread != NULL:
            raise RuntimeError("this watch has been started already")
        reason = self.obstacle()
        if reason is not None:
            return reason
        self.error, self.called, self.paused, self.hushed = None, False, 0, False
        self.take_tool() if MONITORED else self.take_hook()
        self.on = True
        return None

    def obstacle(self) -> str | None:
        """Why the calling thread cannot be watched."""
        if not FRAMES_KNOWN:
            version = sys.version.split()[0]
            return f"frames of Python {version} ({sys.implementation.cache_tag}) are not known"
        if MONITORED:
            names = [sys.monitoring.get_tool(tool) for tool in TOOLS]
            taken = ", ".join(map(str, names))
            return None if None in names else f"no tool of sys.monitoring is free ({taken})"
        if trace_function() == NULL:
            return None
        owner = None if trace_object() == NULL else <object>trace_object()
        kind = getattr(owner, "__qualname__", None) or type(owner).__qualname__
        module = getattr(owner, "__module__", None) or type(owner).__module__
        return f"{module}.{kind} has the trace function of this thread"

    def stop(self) -> str | None:
        """End the watch and give everything back.

        Returns
        -------
        str or None
            Why events may be missing: someone has set a trace function of his own, which stays, or
            has taken the events away.

        Raises
        ------
        BaseException
            What a handler has raised.
        """
        if self.thread == NULL:
            return None
        if self.is_other():
            raise RuntimeError("a watch is stopped by the thread that it was started by")
        self.on = False
        try:
            reason = self.give_tool_back() if MONITORED else self.give_hook_back()
        finally:
            self.thread = NULL
            self.leave_all()
        error, self.error = self.error, None
        if error is not None:
            raise error
        return reason

    cpdef int pause(self) except -1:
        """Let nothing that this thread does count until `go_on`; may be nested."""
        if not self.is_other():
            self.paused += 1
            self.on = False
            # Python runs slower where there is a trace function, even one that does nothing.
            if not MONITORED and trace_object() == <PyObject *>self:
                set_trace(NULL, NULL)
                self.hushed = True
        return 0

    cpdef int go_on(self) except -1:
        """After `pause`."""
        if not self.is_other():
            self.paused -= 1
            self.on = self.paused == 0 and self.error is None
            if self.on and self.hushed:
                self.hushed = False
                if trace_function() == NULL:
                    set_trace(traced, <PyObject *>self)
        return 0

    cpdef int give_up(self) except -1:
        """The code is about to set a trace function: `stop` will say so."""
        if not MONITORED:
            self.on = False
            self.leave_all()
        return 0

    cdef bint is_other(self) noexcept:
        """Whether this is another thread than the one that is watched."""
        return current_thread() != self.thread

    # Before 3.12: the trace function of the thread.

    def __call__(self, frame, event, arg):
        """Only who has asked for the trace function, set another and put it back comes here."""
        self.called = True

    cdef int take_hook(self) except -1:
        self.thread = current_thread()
        set_trace(traced, <PyObject *>self)
        return 0

    cdef str give_hook_back(self):
        cdef bint ours = trace_function() == <Py_tracefunc>traced
        cdef bint own = trace_object() == <PyObject *>self
        if own:
            set_trace(NULL, NULL)
        if (ours and own or self.hushed and trace_function() == NULL) and not self.called:
            return None
        return "the code has set a trace function of its own"

    # From 3.12 on: a tool of sys.monitoring.

    cdef int take_tool(self) except -1:
        monitoring = sys.monitoring
        tool = [tool for tool in TOOLS if monitoring.get_tool(tool) is None][0]
        monitoring.use_tool_id(tool, NAME)
        self.monitoring, self.tool, self.thread = monitoring, tool, current_thread()
        try:
            set_callbacks(monitoring, tool, self)
            monitoring.set_events(tool, bits(monitoring, GLOBAL))
        except BaseException:
            self.give_tool_back()
            self.thread = NULL
            raise
        return 0

    cdef str give_tool_back(self):
        cdef Layout layout
        monitoring, self.monitoring = self.monitoring, None
        tool = self.tool
        instrumented, self.instrumented = self.instrumented, []
        for layout in instrumented:
            layout.instrumented = False
        owner = monitoring.get_tool(tool)
        if owner is None:  # events and callbacks stay when a tool is freed
            monitoring.use_tool_id(tool, NAME)
        elif owner is not NAME:
            return "the code has taken the tool of sys.monitoring away"
        whole = owner is NAME and monitoring.get_events(tool) == bits(monitoring, GLOBAL)
        monitoring.set_events(tool, 0)
        for layout in instrumented:
            monitoring.set_local_events(tool, layout.code, 0)
        whole &= set_callbacks(monitoring, tool, None)
        monitoring.free_tool_id(tool)
        return None if whole else "the code has changed events of sys.monitoring"

    cdef int instrument(self, Layout layout) except -1:
        """Ask for the events of a code object."""
        if self.monitoring.get_tool(self.tool) is NAME:  # else `stop` says so
            self.monitoring.set_local_events(self.tool, layout.code, bits(self.monitoring, LOCAL))
            layout.instrumented = True
            self.instrumented.append(layout)
        return 0

    @cython.binding(False)
    def _begin(self, code, offset, thrown=None):
        """PY_START, PY_RESUME, PY_THROW."""
        cdef Layout layout
        if not self.on or self.is_other():
            return
        try:
            layout = self.layout_of(<PyObject *>code)
            if layout is not None:
                if not layout.instrumented:
                    self.instrument(layout)
                self.enter(current_frame(), layout)
        except BaseException as error:
            self.fail(error)

    @cython.binding(False)
    def _instruction(self, code, int offset):
        """INSTRUCTION."""
        if self.is_about_top():
            self.meet(INSTRUCTION, offset, NULL)

    @cython.binding(False)
    def _leave(self, code, offset, value):
        """PY_RETURN, PY_YIELD."""
        if self.is_about_top():
            self.meet(LEFT, 0, <PyObject *>value)

    @cython.binding(False)
    def _raise(self, code, offset, error):
        """RAISE."""
        if self.is_about_top():
            self.meet(RAISED, 0, <PyObject *>error)

    @cython.binding(False)
    def _unwind(self, code, offset, error):
        """PY_UNWIND."""
        if self.is_about_top():
            self.meet(UNWOUND, 0, NULL)

    cdef bint is_about_top(self) noexcept:
        return self.on and not self.is_other() and current_frame() == self.top


cdef int traced(PyObject *watch, PyFrameObject *traced_frame, int what, PyObject *arg) noexcept:
    """The trace function; it never fails, as that would raise an error in the code."""
    cdef Events self = <Events>watch
    cdef PyObject *frame = <PyObject *>traced_frame
    cdef Layout layout
    if not self.on:
        return 0
    if what == CALL:
        try:
            layout = self.layout_of(frame_code(frame))
            if layout is not None:
                self.enter(frame, layout)
        except BaseException as error:
            self.fail(error)
    elif frame == self.top:
        if what == OPCODE:
            self.meet(INSTRUCTION, frame_lasti(frame), NULL)
        elif what == RETURN:
            self.meet(UNWOUND if arg == NULL else LEFT, 0, arg)
        elif what == EXCEPTION:
            self.meet(RAISED, 0, <PyObject *>(<tuple>arg)[1])
    return 0


cdef int bits(monitoring, tuple names) except -1:
    """These events in one number."""
    cdef int events = 0
    for name in names:
        events |= getattr(monitoring.events, name)
    return events


cdef bint set_callbacks(monitoring, int tool, Events watch) except -1:
    """Let all events come to a watch, or to nobody; whether they came to one before."""
    cdef bint had = True
    for names, method in CALLBACKS:
        callback = None if watch is None else getattr(watch, method)
        for name in names:
            event = getattr(monitoring.events, name)
            before = monitoring.register_callback(tool, event, callback)
            had &= isinstance(getattr(before, "__self__", None), Events)
    return had
