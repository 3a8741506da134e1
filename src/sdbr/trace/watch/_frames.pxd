"""Frame objects of CPython from inside: the one place that knows how they lie in memory.

Declared here as far as it is read, since the headers of CPython that have it are internal ones:
within 3.11, 3.12 and 3.13 it is the same in each release. A free-threaded build is not known.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    #include <stdint.h>
    #include "frameobject.h"

    #if PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
      #define SDBR_FRAMES_KNOWN 0
    #else
      #define SDBR_FRAMES_KNOWN 1
    #endif

    #define SDBR_F(f) ((PyFrameObject *)(f))

    #if PY_VERSION_HEX >= 0x030B0000 && SDBR_FRAMES_KNOWN
    typedef struct sdbr_inner {
      #if PY_VERSION_HEX < 0x030C0000
        PyObject *function, *globals, *builtins, *locals, *code;
        PyFrameObject *frame;
        struct sdbr_inner *previous;
        void *instruction;
        int top;
        char is_entry, owner;
      #else
        PyObject *code;
        struct sdbr_inner *previous;
        PyObject *function, *globals, *builtins, *locals;
        PyFrameObject *frame;
        void *instruction;
        int top;
        uint16_t return_offset;
        char owner;
      #endif
        PyObject *values[1];
    } sdbr_inner;

    typedef struct {
        PyObject_HEAD
        PyFrameObject *back;
        sdbr_inner *inner;
        PyObject *trace;
        int line;
        char trace_lines, trace_opcodes;
    } sdbr_outer;

    #define SDBR_INNER(f) (((sdbr_outer *)(f))->inner)
    #define SDBR_N_FIXED(f) (((PyCodeObject *)SDBR_INNER(f)->code)->co_nlocalsplus)
    #endif

    #if PY_VERSION_HEX < 0x030B0000
    #define SDBR_LOCALS(f) (SDBR_F(f)->f_localsplus)
    #define SDBR_GLOBALS(f) (SDBR_F(f)->f_globals)
    #elif SDBR_FRAMES_KNOWN
    #define SDBR_LOCALS(f) (SDBR_INNER(f)->values)
    #define SDBR_GLOBALS(f) (SDBR_INNER(f)->globals)
    #else
    #define SDBR_LOCALS(f) ((PyObject **)NULL)
    #define SDBR_GLOBALS(f) ((PyObject *)NULL)
    #endif

    /* Objects that the collector knows are in lists, by when they were made. */
    #define SDBR_MADE_BEFORE(o) \
        ((PyObject *)((((uintptr_t *)(o))[-1] & ~(uintptr_t)3) + 2 * sizeof(uintptr_t)))

    #if !SDBR_FRAMES_KNOWN
    static inline PyObject *sdbr_frame_code(PyObject *f) { return NULL; }
    static inline PyObject *sdbr_frame_function(PyObject *f) { return NULL; }
    static inline PyObject *sdbr_frame_cell(PyObject *f, int i) { return NULL; }
    static inline PyObject **sdbr_frame_stack(PyObject *f) { return NULL; }
    static inline int sdbr_frame_depth(PyObject *f) { return -1; }
    static inline int sdbr_frame_lasti(PyObject *f) { return -1; }
    static inline int sdbr_frame_opcodes(PyObject *f, int on) { return 0; }
    #elif PY_VERSION_HEX < 0x030B0000
    static inline PyObject *sdbr_frame_code(PyObject *f) { return (PyObject *)SDBR_F(f)->f_code; }
    static inline PyObject *sdbr_frame_function(PyObject *f) { return NULL; }
    static inline PyObject *sdbr_frame_cell(PyObject *f, int i) {
        PyCodeObject *code = SDBR_F(f)->f_code;
        return SDBR_F(f)->f_localsplus[code->co_nlocals + PyTuple_GET_SIZE(code->co_cellvars) + i];
    }
    static inline PyObject **sdbr_frame_stack(PyObject *f) { return SDBR_F(f)->f_valuestack; }
    static inline int sdbr_frame_depth(PyObject *f) { return SDBR_F(f)->f_stackdepth; }
    static inline int sdbr_frame_lasti(PyObject *f) { return 2 * SDBR_F(f)->f_lasti; }
    static inline int sdbr_frame_opcodes(PyObject *f, int on) {
        int was = SDBR_F(f)->f_trace_opcodes;
        SDBR_F(f)->f_trace_opcodes = (char)on;
        return was;
    }
    #else
    static inline PyObject *sdbr_frame_code(PyObject *f) { return SDBR_INNER(f)->code; }
    static inline PyObject *sdbr_frame_function(PyObject *f) { return SDBR_INNER(f)->function; }
    static inline PyObject *sdbr_frame_cell(PyObject *f, int i) {
        PyObject *function = SDBR_INNER(f)->function;
        PyObject *closure = function ? ((PyFunctionObject *)function)->func_closure : NULL;
        return closure ? PyTuple_GET_ITEM(closure, i) : NULL;
    }
    static inline PyObject **sdbr_frame_stack(PyObject *f) {
        return SDBR_INNER(f)->values + SDBR_N_FIXED(f);
    }
    static inline int sdbr_frame_depth(PyObject *f) {
        int top = SDBR_INNER(f)->top;
        return top < 0 ? -1 : top - SDBR_N_FIXED(f);
    }
    static inline int sdbr_frame_lasti(PyObject *f) { return PyFrame_GetLasti(SDBR_F(f)); }
    static inline int sdbr_frame_opcodes(PyObject *f, int on) {
        int was = ((sdbr_outer *)f)->trace_opcodes;
        ((sdbr_outer *)f)->trace_opcodes = (char)on;
        return was;
    }
    #endif
    """
    const bint FRAMES_KNOWN "SDBR_FRAMES_KNOWN"
    const int VERSION "PY_VERSION_HEX"

    # Borrowed references, all of them; NULL where the frame does not have it.
    PyObject *frame_code "sdbr_frame_code"(PyObject *) noexcept
    # NULL before 3.11.
    PyObject *frame_function "sdbr_frame_function"(PyObject *) noexcept
    # The cell of a free variable, by its place in `co_freevars`.
    PyObject *frame_cell "sdbr_frame_cell"(PyObject *, int) noexcept
    # Local variables, by their place in `co_varnames`; cells in their place where they are shared.
    PyObject **frame_locals "SDBR_LOCALS"(PyObject *) noexcept
    PyObject *frame_globals "SDBR_GLOBALS"(PyObject *) noexcept
    # The object before one that the collector knows, in the order in which they were made; before
    # the first of a list its head, which is no object, and then the last.
    PyObject *made_before "SDBR_MADE_BEFORE"(PyObject *) noexcept
    # The bottom of the value stack.
    PyObject **frame_stack "sdbr_frame_stack"(PyObject *) noexcept
    # As the frame has noted it; -1 where the interpreter alone knows it, as it runs.
    int frame_depth "sdbr_frame_depth"(PyObject *) noexcept
    # Where the instruction lies that is executed, or is about to be.
    int frame_lasti "sdbr_frame_lasti"(PyObject *) noexcept
    # Sets `f_trace_opcodes`, gives what it was.
    bint frame_opcodes "sdbr_frame_opcodes"(PyObject *, bint) noexcept


cdef class Layout:
    cdef readonly object code
    cdef readonly bytes units
    cdef readonly tuple names
    cdef int n_units
    cdef int first_free       # of `STORE_DEREF` and the like: where free variables begin
    cdef bint noted          # frames note the depth of their stack before an event
    cdef short *depths       # by code unit, else
    cdef int *offsets        # by code unit; -1: no event for it
    cdef PyObject **seen     # by code unit: what the watch has noted a read of; borrowed
    cdef bint instrumented   # the watch that made it gets events of the code object

    cdef int find_offsets(self, bytes units) except -1
    cdef int find_depths(self, bytes units) except -1
    cdef bint reach(self, int i, int depth, int effect) noexcept

    cdef inline int offset(self, int at) noexcept:
        """Of the instruction whose event came at `at`; -1 where it is to be passed over."""
        return self.offsets[at >> 1] if 0 <= at >> 1 < self.n_units else -1

    cdef inline int depth(self, PyObject *frame, int offset) noexcept:
        """How many operands are on the value stack when this instruction is executed."""
        return frame_depth(frame) if self.noted else self.depths[offset >> 1]

    cdef inline PyObject *operand(self, PyObject *frame, int offset, int i) noexcept:
        """The operand that is `i`-th from the top (0); NULL where there is none.

        CPython has NULL among operands as well, beside callables.
        """
        cdef int depth = self.depth(frame, offset)
        return frame_stack(frame)[depth - 1 - i] if 0 <= i < depth else NULL

    cdef inline int put(self, PyObject *frame, int offset, int i, thing) except -1:
        """Let another be the operand that is `i`-th from the top."""
        cdef PyObject **place = frame_stack(frame) + self.depth(frame, offset) - 1 - i
        cdef PyObject *before = place[0]
        Py_INCREF(thing)
        place[0] = <PyObject *>thing
        Py_XDECREF(before)
        return 0
