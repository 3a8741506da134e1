"""What is followed, and what is done at its events: without where events come from."""

from cpython.object cimport PyObject

from sdbr.trace.watch._frames cimport VERSION, Layout, frame_opcodes

# Before 3.12 each frame is asked for its instructions.
cdef bint BY_FRAME = VERSION < 0x030C0000


cdef class Followed:
    """Frames that are followed, from the outermost to the one that is executed.

    A subclass says by its methods what is followed and what is to be done at each event. Greenlets
    are not known: frames are left in the order of a stack.

    Attributes
    ----------
    layout : Layout
        Of the frame that an event is about: `Layout.operand` reads its value stack.
    """

    def __cinit__(self, *args, **kwargs):
        self.known = {}
        self.frames, self.layouts, self.were = [], [], []

    cpdef bint follows(self, code) except -1:
        """Whether frames of a code object are followed; asked once for each."""
        return False

    cpdef bint wants(self, frame) except -1:
        """Whether a frame is followed whose code is."""
        return True

    cpdef int entered(self, frame) except -1:
        """A followed frame begins, or goes on after a ``yield`` or ``await``."""
        return 0

    cpdef int instruction(self, frame, int offset) except -1:
        """The instruction is executed next; for one with EXTENDED_ARG, the offset behind that.

        Nothing comes for RESUME and what stands before it.
        """
        return 0

    cpdef int left(self, frame, value) except -1:
        """A followed frame returns or yields a value."""
        return 0

    cpdef int raised(self, frame, error) except -1:
        """A followed frame meets an exception: its own, or one out of what it has called.

        That a handler raises it again (RERAISE, a bare ``raise``, CLEANUP_THROW) is no event.
        """
        return 0

    cpdef int unwound(self, frame) except -1:
        """A followed frame is left by an exception."""
        return 0

    cdef Layout layout_of(self, PyObject *code):
        """The layout of a code object that is followed; None for another."""
        cdef size_t slot = (<size_t>code >> 6) % N_RECENT
        if self.recent[slot] != code:
            key = <size_t>code
            found = self.known.get(key)
            if found is None:
                # Equal code objects can be of different files: known by address, and kept for it.
                found = Layout(<object>code) if self.follows(<object>code) else <object>code
                self.known[key] = found
            self.recent[slot] = code
            self.recent_layouts[slot] = <PyObject *>found if type(found) is Layout else NULL
        return None if self.recent_layouts[slot] == NULL else <Layout>self.recent_layouts[slot]

    cdef int enter(self, PyObject *frame, Layout layout) except -1:
        if not self.wants(<object>frame):
            return 0
        self.frames.append(<object>frame)
        self.layouts.append(layout)
        self.were.append(frame_opcodes(frame, True) if BY_FRAME else False)
        self.top, self.layout = frame, layout
        self.entered(<object>frame)
        return 0

    cdef int meet(self, Event event, int at, PyObject *value) noexcept:
        """An event of the frame that was entered last: where, or with what."""
        cdef int offset
        frame = <object>self.top
        try:
            if event == INSTRUCTION:
                offset = self.layout.offset(at)
                if offset >= 0:
                    self.instruction(frame, offset)
                return 0
            if event == RAISED:
                self.raised(frame, <object>value)
                return 0
            if event == LEFT:
                self.left(frame, <object>value)
            else:
                self.unwound(frame)
            self.leave()
        except BaseException as error:
            self.fail(error)
        return 0

    cdef int leave(self) except -1:
        """Forget the frame that was entered last."""
        if not self.frames:  # a handler has ended the watch
            return 0
        frame = self.frames.pop()
        self.layouts.pop()
        was = self.were.pop()
        # A generator can be met by a debugger later.
        if BY_FRAME:
            frame_opcodes(<PyObject *>frame, was)
        if self.frames:
            self.top, self.layout = <PyObject *>self.frames[-1], <Layout>self.layouts[-1]
        else:
            self.top, self.layout = NULL, None
        return 0

    cdef int fail(self, error) noexcept:
        """Keep what a handler has raised, and nothing else."""
        self.on = False
        self.error = error
        self.leave_all()
        return 0

    cdef int leave_all(self) except -1:
        while self.frames:
            self.leave()
        return 0
