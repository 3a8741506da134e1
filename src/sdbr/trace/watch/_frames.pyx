"""Value stacks of frames that are about to execute an instruction."""

import opcode
from types import CodeType, FrameType, FunctionType

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject

cdef extern from "Python.h":
    int PyCompile_OpcodeStackEffectWithJump(int, int, int)

#: Whether frames of this Python are known.
KNOWN = FRAMES_KNOWN

#: Stands for NULL.
NULLS = type("Null", (), {"__repr__": lambda self: "NULL"})()

cdef enum Kind:
    STRAIGHT = 0
    MAY_JUMP = 1
    JUMPS = 2
    ENDS = 3

cdef int EXTENDED_ARG = opcode.EXTENDED_ARG
cdef int RETURN_GENERATOR = opcode.opmap.get("RETURN_GENERATOR", -1)
cdef int RESUME = opcode.opmap.get("RESUME", -1)
# From 3.12 on the instruction behind EXTENDED_ARG has an event of its own, before that it has none.
cdef bint BEHIND_PREFIX = VERSION >= 0x030C0000
cdef bint NOTED = VERSION < 0x030C0000
cdef int UNKNOWN_EFFECT = 0x7FFFFFFF

cdef char[256] kinds
cdef char[256] backward


cdef sort_opcodes():
    for name, op in opcode.opmap.items():
        if op > 255:  # only the compiler's own
            continue
        kinds[op] = STRAIGHT
        backward[op] = "BACKWARD" in name
        if op in opcode.hasjrel or op in opcode.hasjabs:
            kinds[op] = JUMPS if name.startswith("JUMP") else MAY_JUMP
        elif name.startswith(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")):
            kinds[op] = ENDS


sort_opcodes()


cdef class Layout:
    """What is the same in all frames of a code object.

    From 3.12 on the interpreter does not note how deep the stack is before an event, as CPython
    itself can tell it from the code: each instruction always finds it equally deep.

    Parameters
    ----------
    code : code

    Attributes
    ----------
    code : code
    """

    def __cinit__(self, code):
        if not FRAMES_KNOWN:
            raise NotImplementedError("frames of this Python are not known")
        cdef bytes units = code.co_code
        self.code, self.units, self.names = code, units, code.co_names
        self.first_free = len(code.co_cellvars)
        if VERSION >= 0x030B0000:
            self.first_free = len({*code.co_varnames, *code.co_cellvars})
        self.noted = NOTED
        self.n_units = len(units) // 2
        self.offsets = <int *>PyMem_Malloc((self.n_units + 1) * sizeof(int))
        self.seen = <PyObject **>PyMem_Calloc(self.n_units + 1, sizeof(PyObject *))
        if self.offsets == NULL or self.seen == NULL:
            raise MemoryError
        self.find_offsets(units)
        if not NOTED:
            self.depths = <short *>PyMem_Malloc((self.n_units + 1) * sizeof(short))
            if self.depths == NULL:
                raise MemoryError
            self.find_depths(units)

    def __dealloc__(self):
        PyMem_Free(self.offsets)
        PyMem_Free(self.depths)
        PyMem_Free(self.seen)

    cdef int find_offsets(self, bytes units) except -1:
        """Instructions by where their events come; nothing before a frame is entered by RESUME."""
        cdef const unsigned char *ops = <const unsigned char *>PyBytes_AS_STRING(units)
        cdef int i, at
        cdef bint entered = RESUME < 0
        for i in range(self.n_units):
            at = i
            if not BEHIND_PREFIX:
                while ops[2 * at] == EXTENDED_ARG:
                    at += 1
            if ops[2 * at] == RESUME:
                entered = True
            elif entered and ops[2 * at] != EXTENDED_ARG:
                self.offsets[i] = 2 * at
                continue
            self.offsets[i] = -1
        return 0

    cdef int find_depths(self, bytes units) except -1:
        """The depth of the stack before each code unit, on whichever way it is reached."""
        cdef const unsigned char *ops = <const unsigned char *>PyBytes_AS_STRING(units)
        cdef int i, op, arg, after, target, effect, depth
        cdef bint changed = True
        for i in range(self.n_units):
            self.depths[i] = -1
        self.depths[0] = 0
        for target, depth in handlers(self.code.co_exceptiontable):
            self.depths[target] = depth
        while changed:
            changed = False
            arg = 0
            i = 0
            while i < self.n_units:
                op, arg = ops[2 * i], arg << 8 | ops[2 * i + 1]
                after = i + 1
                while after < self.n_units and ops[2 * after] == 0:  # CACHE
                    after += 1
                depth = self.depths[i]
                if depth >= 0 and kinds[op] != ENDS:
                    if kinds[op] != JUMPS:
                        effect = PyCompile_OpcodeStackEffectWithJump(op, arg, 0)
                        if op == RETURN_GENERATOR:  # its value is for the caller
                            effect = 1  # what resumes the generator pushes what was sent
                        changed |= self.reach(after, depth, effect)
                    if kinds[op] != STRAIGHT:
                        effect = PyCompile_OpcodeStackEffectWithJump(op, arg, 1)
                        target = after - arg if backward[op] else after + arg
                        changed |= self.reach(target, depth, effect)
                if op != EXTENDED_ARG:
                    arg = 0
                i = after
        return 0

    cdef bint reach(self, int i, int depth, int effect) noexcept:
        """Note the depth that an instruction leads to; whether it was not known."""
        if effect == UNKNOWN_EFFECT or not 0 <= i < self.n_units or self.depths[i] >= 0:
            return False
        self.depths[i] = <short>(depth + effect)
        return self.depths[i] >= 0


cdef list handlers(bytes table):
    """(Code unit, depth when it is entered) of each exception handler."""
    cdef list found = []
    cdef list entry = []
    cdef int value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            entry.append(value)
            value = 0
            if len(entry) == 4:
                # Start, length, target, depth; the last bit says whether `lasti` is pushed too.
                # Then comes the exception.
                found.append((entry[2], (entry[3] >> 1) + (entry[3] & 1) + 1))
                entry = []
    return found


cdef PyObject *checked(frame) except NULL:
    if type(frame) is not FrameType:
        raise TypeError(f"{type(frame).__qualname__} is no frame")
    return <PyObject *>frame


cdef object or_none(PyObject *x):
    return None if x == NULL else <object>x


def operands(frame: FrameType, offset: int, layout: Layout | None = None) -> list:
    """What is on the value stack of a frame that is about to execute an instruction.

    Parameters
    ----------
    frame : frame
    offset : int
        Of the instruction that it executes next: for another one, what is read there may be what
        was on the stack once.
    layout : Layout, optional
        Of the frame's code object.

    Returns
    -------
    list
        From the bottom to the top; ``NULLS`` for NULL.
    """
    cdef PyObject *f = checked(frame)
    cdef Layout known = Layout(frame.f_code) if layout is None else layout
    cdef PyObject *x
    cdef int i, n
    cdef list found = []
    if not 0 <= offset < 2 * known.n_units:
        raise IndexError(offset)
    n = known.depth(f, offset)
    if n < 0:
        raise LookupError(f"no way leads to {offset} of {frame.f_code!r}")
    for i in range(n - 1, -1, -1):
        x = known.operand(f, offset, i)
        found.append(NULLS if x == NULL else <object>x)
    return found


def noted_depth(frame: FrameType) -> int:
    """The depth of its value stack that a frame itself has noted; -1 for none."""
    return frame_depth(checked(frame))


def function_of(frame: FrameType) -> FunctionType | None:
    """The function that a frame executes; None before Python 3.11."""
    return or_none(frame_function(checked(frame)))


def code_of(frame: FrameType) -> CodeType | None:
    """The code object of a frame."""
    return or_none(frame_code(checked(frame)))


def cells_of(frame: FrameType) -> list:
    """The cells of a frame's free variables."""
    cdef PyObject *f = checked(frame)
    return [or_none(frame_cell(f, i)) for i in range(len(frame.f_code.co_freevars))]
