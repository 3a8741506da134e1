"""What a call reads from outside, seen while it runs: what each instruction means."""

import collections
import opcode
import sys

from sdbr.trace.watch._flowing import by_value
from sdbr.trace.watch._frames import NULLS
from sdbr.trace.watch._looks import ATOMS, MISSING
from sdbr.trace.watch._meanings import MEANINGS  # which it fills

from cpython.object cimport PyObject

from sdbr.trace.watch cimport _containers as containers
from sdbr.trace.watch._attributes cimport (
    attribute,
    enter_context,
    match,
    super_attribute,
    write_attribute,
)
from sdbr.trace.watch._calling cimport (
    beside, call_all, call_of, called, gives_back, indexed, is_one)
from sdbr.trace.watch._containers cimport advance, through
from sdbr.trace.watch._escaping cimport escape, numbers, show
from sdbr.trace.watch._executed cimport Executed
from sdbr.trace.watch._flowing cimport each, own_cell
from sdbr.trace.watch._frames cimport VERSION, frame_globals
from sdbr.trace.watch._looks cimport is_a, item

ctypedef int (*Handler)(Executed, int, int) except -1

cdef bint BEFORE_311 = VERSION < 0x030B0000
cdef bint BEFORE_312 = VERSION < 0x030C0000
cdef bint BEFORE_313 = VERSION < 0x030D0000
cdef int EXTENDED_ARG = opcode.EXTENDED_ARG
cdef int WITH_SPEC = opcode.opmap.get("FORMAT_WITH_SPEC", -1)
cdef int STORE_SLICE = opcode.opmap.get("STORE_SLICE", -1)
cdef int SET_UPDATE = opcode.opmap["SET_UPDATE"]
cdef int CALL_FUNCTION_KW = opcode.opmap.get("CALL_FUNCTION_KW", -1)
cdef int LOAD_METHOD = opcode.opmap.get("LOAD_METHOD", -1)
cdef int IMPORT_FROM = opcode.opmap["IMPORT_FROM"]
# In 3.11 a call is two instructions: what it is has been looked at before the first.
cdef int SECOND = opcode.opmap["CALL"] if "PRECALL" in opcode.opmap else -1
cdef object Nulls = NULLS
cdef object Missing = MISSING
cdef tuple CHANGED_IN_PLACE = (list, set, dict, collections.deque)
cdef dict COMPARISONS = {
    "<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__",
}  # fmt: skip
cdef frozenset OF_DICTS = frozenset(opcode.opmap[name] for name in ("BUILD_MAP", "MAP_ADD"))
cdef frozenset ADDS = frozenset(opcode.opmap[name] for name in ("SET_ADD", "MAP_ADD"))
cdef frozenset DELETES = frozenset(op for name, op in opcode.opmap.items() if "DELETE" in name)
cdef Handler[256] handlers


cdef class Watch(Executed):
    """Watches one call: whatever an instruction is about to read from outside is noted."""

    cpdef int instruction(self, frame, int offset) except -1:
        cdef const unsigned char *units = self.layout.units
        cdef int op = units[offset], arg = units[offset + 1], i = offset - 2, shift = 8
        cdef Handler handler = handlers[op]
        while i >= 0 and units[i] == EXTENDED_ARG:
            arg |= units[i + 1] << shift
            i, shift = i - 2, shift + 8
        self.offset = offset
        self.n_instructions += 1
        if op != SECOND:
            self.callee = None
            self.look_at_top()
        if handler != NULL:
            handler(self, op, arg)
        return 0


# --- names --------------------------------------------------------------------------------------
cdef int read_global(Executed w, str name) except -1:
    space = (<object>w.top).f_globals
    holder = holder_of(space)
    value = item(space, name)
    if value is Missing:
        inner = space.get("__builtins__")
        value = item(inner if type(inner) is dict else inner.__dict__, name)
    w.read(holder, "global", name, value)
    return 0


cdef object holder_of(space):
    """The module that these globals are of, or themselves."""
    module = sys.modules.get(space.get("__name__"))
    return module if getattr(module, "__dict__", None) is space else space


cdef int m_global(Executed w, int op, int arg) except -1:
    cdef PyObject *space = frame_globals(w.top)
    name = w.name(arg if BEFORE_311 else arg >> 1)
    if not w.is_seen(space, name):
        read_global(w, name)
        w.see(space, name)  # which the frame's function keeps
    return 0


cdef int m_name(Executed w, int op, int arg) except -1:
    frame = <object>w.top
    name, space = w.name(arg), frame.f_locals
    if space is not frame.f_globals:
        containers.subscript(w, space, name)
        if name in space:
            return 0
    return read_global(w, name)


cdef int m_name_or_global(Executed w, int op, int arg) except -1:
    return 0 if w.name(arg) in w.at(0) else read_global(w, w.name(arg))


cdef int m_cell(Executed w, int op, int arg) except -1:
    cell = w.cell(arg)
    if cell is None or w.is_own(cell):
        return own_cell(w, arg, False) if cell is None else 0
    code = w.layout.code
    try:
        value = cell.cell_contents
    except ValueError:
        value = Missing
    if not w.is_written(cell, "cell", None):
        name = code.co_freevars[arg - w.layout.first_free]
        w.place("cell", w.root(cell), None, value, name)
    return 0


cdef int m_store_cell(Executed w, int op, int arg) except -1:
    cell = w.cell(arg)
    if cell is None:
        own_cell(w, arg, True)
    else:
        m_cell(w, op, arg) if op in DELETES else None
        w.wrote(cell, "cell", None, False, w.layout.code.co_freevars[arg - w.layout.first_free])
    return 0


cdef int m_store_global(Executed w, int op, int arg) except -1:
    space = (<object>w.top).f_globals
    name = w.name(arg)
    if op in DELETES:
        read_global(w, name)
    w.wrote(holder_of(space), "attribute", name, item(space, name) is Missing)
    return 0


cdef int m_store_name(Executed w, int op, int arg) except -1:
    frame = <object>w.top
    if frame.f_locals is frame.f_globals:
        return m_store_global(w, op, arg)
    w.wrote(frame.f_locals, "item", w.name(arg))
    return 0


cdef int m_import(Executed w, int op, int arg) except -1:
    name = w.name(arg)
    if w.at(1) == 0:
        for name in (name.partition(".")[0], name):
            w.place("module", None, name, sys.modules.get(name, Missing))
    return 0


# --- attributes and items -----------------------------------------------------------------------
cdef int m_attribute(Executed w, int op, int arg) except -1:
    w.binds = op == LOAD_METHOD if BEFORE_312 else op != IMPORT_FROM and arg & 1
    return read_attribute(w, w.name(arg if BEFORE_312 or op == IMPORT_FROM else arg >> 1))


cdef int read_attribute(Executed w, str name) except -1:
    w.show_owner(name)
    cdef PyObject *thing = w.operand(0)
    if w.is_seen(thing, name) or type(<object>thing) in ATOMS:
        return 0
    attribute(w, <object>thing, name)
    if <size_t>thing in w.homes and name != "__dict__":
        w.see(thing, name)
    return 0


cdef int m_super(Executed w, int op, int arg) except -1:
    thing = w.at(0)
    kind = thing if is_a(thing, (type,)) and issubclass(thing, w.at(1)) else type(thing)
    super_attribute(w, w.at(1), thing, kind, w.name(arg >> 2))
    return 0


cdef int m_subscript(Executed w, int op, int arg) except -1:
    indexed(w, 1, w.at(0))
    w.second = w.operand(1)
    containers.subscript(w, w.at(1), w.at(0))
    return 0


cdef int m_slice(Executed w, int op, int arg) except -1:
    w.show(2, True)
    containers.subscript(w, w.at(2), slice(w.at(1), w.at(0)))
    return 0


cdef int m_store_attribute(Executed w, int op, int arg) except -1:
    write_attribute(w, w.at(0), w.name(arg), op in DELETES, w.at(1))
    return 0


cdef int m_store_item(Executed w, int op, int arg) except -1:
    cdef int at = 2 if op == STORE_SLICE else 1
    w.show_written(at)
    key = slice(None) if op == STORE_SLICE else w.at(0)
    containers.write_item(w, w.at(at), key, op in DELETES, w.at(at + 1))
    return 0


# --- operators ----------------------------------------------------------------------------------
cdef int m_compare(Executed w, int op, int arg) except -1:
    cdef int i, shift = 0 if BEFORE_312 else 4 if BEFORE_313 else 5
    w.second = w.operand(1)
    for i in range(2):
        if type(w.at(i)) not in ATOMS:
            w.special(w.at(i), COMPARISONS[opcode.cmp_op[arg >> shift]])
    beside(w)
    containers.equal(w, w.at(0), w.at(1))
    return 0


cdef int m_hash(Executed w, int op, int arg) except -1:
    """Elements of a set or keys of a dict: a literal, a comprehension."""
    cdef int i, step = 2 if op in OF_DICTS else 1
    if op in ADDS:
        containers.identify(w, w.at(step - 1))
    else:
        for i in range(step - 1, arg * step, step):
            containers.identify(w, w.at(i))
    return 0


cdef int m_contains(Executed w, int op, int arg) except -1:
    w.second = w.operand(1)
    containers.contains(w, w.at(0), w.at(1))
    return 0


cdef int m_operate(Executed w, int op, int arg) except -1:
    w.second = w.operand(1)
    if not BEFORE_311:  # one instruction for all of them, by numbers of `opcode._nb_ops`
        if arg == 6 or arg == 19:
            return m_modulo(w, op, arg)
        if arg >= 13:
            return m_inplace(w, op, arg)
    beside(w)
    containers.operate(w, w.at(1), w.at(0))
    return 0


cdef int m_modulo(Executed w, int op, int arg) except -1:
    beside(w)
    containers.operate(w, w.at(1), w.at(0), True)
    return 0


cdef int m_inplace(Executed w, int op, int arg) except -1:
    w.show_written(1)
    m_operate(w, op, 0)
    if is_a(w.at(1), CHANGED_IN_PLACE):
        w.wrote(w.at(1), "*", None)
    return numbers(w, w.at(1))


cdef int m_unary(Executed w, int op, int arg) except -1:
    w.show(0, True)
    return containers.operate(w, w.at(0), None) or 0


cdef int m_length(Executed w, int op, int arg) except -1:
    return containers.length(w, w.at(0)) or 0


cdef int m_iterate(Executed w, int op, int arg) except -1:
    w.show(0, op != SET_UPDATE)
    through(w, w.at(0))
    if op == SET_UPDATE:
        each(w, w.at(0), by_value)
    return 0


cdef int m_exception(Executed w, int op, int arg) except -1:
    error = w.at(1)  # before 3.11, its class
    return w.lineage(error if is_a(error, (type,)) else type(error)) or 0


cdef int m_next(Executed w, int op, int arg) except -1:
    advance(w, w.at(0))
    return 0


cdef int m_update(Executed w, int op, int arg) except -1:
    containers.all_of(w, w.at(0))
    return 0


cdef int m_text(Executed w, int op, int arg) except -1:
    show(w, w.at(0))
    if op == WITH_SPEC or arg & 4:
        show(w, w.at(1))
    return 0


cdef int m_escape(Executed w, int op, int arg) except -1:
    escape(w, w.at(0))
    escape(w, w.at(1)) if w.layout.depth(w.top, w.offset) > 1 else None
    return 0


cdef int m_with(Executed w, int op, int arg) except -1:
    enter_context(w, w.at(0))
    return 0


cdef int m_match_class(Executed w, int op, int arg) except -1:
    MEANINGS[id(isinstance)](w, [w.at(2), w.at(1)], {})
    match(w, w.at(2), w.at(1), arg, w.at(0))
    return 0


cdef int m_match_keys(Executed w, int op, int arg) except -1:
    for key in w.at(0):
        containers.subscript(w, w.at(1), key)
    return 0


cdef int m_unknown(Executed w, int op, int arg) except -1:
    """Of newer versions of Python, and of asynchronous code, which a loop in C drives."""
    w.mark_dynamic(f"has an instruction that is not looked at: {opcode.opname[op]}")
    return 0


# --- calls --------------------------------------------------------------------------------------
cdef int m_keywords(Executed w, int op, int arg) except -1:
    w.keywords = w.layout.code.co_consts[arg]
    return 0


cdef int m_call(Executed w, int op, int arg) except -1:
    names, w.keywords = w.keywords, ()
    return call_of(w, arg, names, 0)


cdef int m_call_keywords(Executed w, int op, int arg) except -1:
    return call_of(w, arg, w.at(0), 1)


cdef int m_call_alone(Executed w, int op, int arg) except -1:
    cdef int names = op == CALL_FUNCTION_KW
    return called(w, w.at(arg + names), Nulls, arg, w.at(0) if names else (), names)


cdef int m_call_all(Executed w, int op, int arg) except -1:
    return call_all(w, arg & 1)


# --- the table ----------------------------------------------------------------------------------
cdef enter(Handler handler, str names):
    """What instructions mean, those of every version of Python; NULL: nothing."""
    for name in names.split():
        if opcode.opmap.get(name, 256) < 256:
            handlers[opcode.opmap[name]] = handler


for i in range(256):
    handlers[i] = m_unknown
enter(m_global, "LOAD_GLOBAL")
enter(m_name, "LOAD_NAME")
enter(m_name_or_global, "LOAD_FROM_DICT_OR_GLOBALS")
enter(m_cell, "LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF")
enter(m_attribute, "LOAD_ATTR LOAD_METHOD IMPORT_FROM")
enter(m_super, "LOAD_SUPER_ATTR")
enter(m_subscript, "BINARY_SUBSCR")
enter(m_slice, "BINARY_SLICE")
enter(m_compare, "COMPARE_OP")
enter(is_one, "IS_OP")
enter(m_exception, "CHECK_EXC_MATCH JUMP_IF_NOT_EXC_MATCH")
enter(m_hash, "BUILD_SET BUILD_MAP SET_ADD MAP_ADD")
enter(m_contains, "CONTAINS_OP")
enter(
    m_operate,
    "BINARY_OP BINARY_ADD BINARY_AND BINARY_FLOOR_DIVIDE BINARY_LSHIFT"
    " BINARY_MATRIX_MULTIPLY BINARY_MULTIPLY BINARY_OR BINARY_POWER BINARY_RSHIFT"
    " BINARY_SUBTRACT BINARY_TRUE_DIVIDE BINARY_XOR",
)
enter(m_modulo, "BINARY_MODULO INPLACE_MODULO")
enter(
    m_inplace,
    "INPLACE_ADD INPLACE_AND INPLACE_FLOOR_DIVIDE INPLACE_LSHIFT INPLACE_MATRIX_MULTIPLY"
    " INPLACE_MULTIPLY INPLACE_OR INPLACE_POWER INPLACE_RSHIFT INPLACE_SUBTRACT"
    " INPLACE_TRUE_DIVIDE INPLACE_XOR",
)
enter(gives_back, "RETURN_VALUE YIELD_VALUE")
enter(m_unary, "UNARY_INVERT UNARY_NEGATIVE UNARY_POSITIVE")
enter(
    m_length,
    "GET_LEN UNARY_NOT TO_BOOL JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP POP_JUMP_IF_FALSE"
    " POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE"
    " POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE",
)
enter(m_iterate, "GET_ITER GET_YIELD_FROM_ITER UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE")
enter(m_next, "FOR_ITER")
enter(m_update, "DICT_UPDATE DICT_MERGE")
enter(m_text, "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE")
enter(m_with, "BEFORE_WITH SETUP_WITH")
enter(m_import, "IMPORT_NAME")
enter(m_keywords, "KW_NAMES")
enter(m_call, "CALL CALL_METHOD PRECALL")
enter(m_call_keywords, "CALL_KW")
enter(m_call_alone, "CALL_FUNCTION CALL_FUNCTION_KW")
enter(m_call_all, "CALL_FUNCTION_EX")
enter(m_match_class, "MATCH_CLASS")
enter(m_match_keys, "MATCH_KEYS")
enter(m_store_attribute, "STORE_ATTR DELETE_ATTR")
enter(m_store_item, "STORE_SUBSCR DELETE_SUBSCR STORE_SLICE")
enter(m_store_global, "STORE_GLOBAL DELETE_GLOBAL")
enter(m_store_name, "STORE_NAME DELETE_NAME")
enter(m_store_cell, "STORE_DEREF DELETE_DEREF")
enter(m_escape, "IMPORT_STAR COPY_DICT_WITHOUT_KEYS")
# They move operands, jump, make objects, handle exceptions.
enter(
    NULL,
    "ASYNC_GEN_WRAP BUILD_CONST_KEY_MAP BUILD_LIST BUILD_SLICE"
    " BUILD_STRING BUILD_TUPLE CACHE CALL_INTRINSIC_1 CALL_INTRINSIC_2 CHECK_EG_MATCH"
    " CLEANUP_THROW COPY COPY_FREE_VARS DELETE_FAST DUP_TOP DUP_TOP_TWO"
    " END_ASYNC_FOR END_FOR END_SEND EXIT_INIT_CHECK EXTENDED_ARG GEN_START GET_AWAITABLE"
    " INTERPRETER_EXIT JUMP_ABSOLUTE JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD"
    " LIST_APPEND LIST_TO_TUPLE LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS"
    " LOAD_CLOSURE LOAD_CONST LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK"
    " LOAD_FAST_LOAD_FAST LOAD_LOCALS MAKE_CELL MAKE_FUNCTION MATCH_MAPPING"
    " MATCH_SEQUENCE NOP POP_BLOCK POP_EXCEPT POP_JUMP_BACKWARD_IF_NONE"
    " POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE"
    " POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_TOP PREP_RERAISE_STAR PRINT_EXPR PUSH_EXC_INFO"
    " PUSH_NULL RAISE_VARARGS RERAISE RESUME RETURN_CONST RETURN_GENERATOR"
    " ROT_FOUR ROT_N ROT_THREE ROT_TWO SEND SETUP_ANNOTATIONS SETUP_FINALLY"
    " SET_FUNCTION_ATTRIBUTE STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST SWAP"
    " WITH_EXCEPT_START YIELD_FROM",
)
if SECOND >= 0:
    handlers[SECOND] = NULL
