"""Value stacks: as deep as `dis` and CPython itself say, and what lies there is what is used."""

from __future__ import annotations

import dis
import gc
import shutil
import subprocess
import sys
import sysconfig
import types
from pathlib import Path

from sdbr.trace.watch._events import Events
from sdbr.trace.watch._frames import (
    KNOWN,
    NULLS,
    Layout,
    cells_of,
    code_of,
    function_of,
    noted_depth,
    operands,
)

import pytest

from .programs import PROGRAMS
from .programs import __file__ as PROGRAMS_FILE

VERSION = sys.version_info[:2]
MONITORED = VERSION >= (3, 12)
pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


class Watch(Events):
    """Operands of each instruction in some files, or in some code objects."""

    def __init__(self, *files):
        self.files = files
        self.steps = []  # (frame's number, offset, operands), None in place of both at an exception
        self.numbers = {}

    def follows(self, code):
        return code.co_filename in self.files

    def instruction(self, frame, offset):
        number = self.numbers.setdefault(id(frame), (len(self.numbers), frame))[0]
        self.steps.append((number, frame.f_code, offset, operands(frame, offset, self.layout)))
        return 0

    def raised(self, frame, error):
        number = self.numbers.setdefault(id(frame), (len(self.numbers), frame))[0]
        self.steps.append((number, frame.f_code, None, None))
        return 0


def watched(function, *files):
    """(Result, steps) of a call."""
    watch = Watch(*(files or (function.__code__.co_filename,)))
    assert watch.start() is None
    try:
        result = function()
    finally:
        reason = watch.stop()
    assert reason is None
    return result, watch.steps


def instructions(code):
    """Offset -> instruction, and offset -> the one behind it, at its prefixes."""
    known, behind, last, start = {}, {}, None, None
    for one in dis.get_instructions(code):
        if start is None:
            start = one.offset
        if one.opname == "EXTENDED_ARG":
            continue
        if last is not None:
            behind[last] = one.offset
        known[one.offset], last, start = one, one.offset, None
    return known, behind


def effect(one, jumped):
    """What an instruction does to the depth of the stack, where `dis` speaks of the compiler's."""
    if VERSION == (3, 11) and one.opname in ("PRECALL", "CALL"):
        return 0 if one.opname == "PRECALL" else -1 - one.arg
    if one.opname == "YIELD_FROM" and jumped:
        return 0  # the same again, with what was sent
    if one.opname == "FOR_ITER" and jumped and MONITORED:
        return -1  # END_FOR, which it jumps past, has the rest
    arg = one.arg if one.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(one.opcode, arg, jump=jumped)


@pytest.mark.parametrize("warm", (False, True))
@pytest.mark.parametrize("name", PROGRAMS)
def test_depth_moves_as_dis_says(name, warm):
    program = PROGRAMS[name]
    plain = program()
    for _ in range(40 if warm else 0):  # specialized instructions, superinstructions
        program()
    result, steps = watched(program)
    if name not in ("classes", "handlers", "unpacking"):  # those give objects of their own
        assert result == plain
    last, tables, n_compared = {}, {}, 0
    for number, code, offset, stack in steps:
        if offset is None:
            last.pop(number, None)
            continue
        if id(code) not in tables:
            tables[id(code)] = instructions(code)
        known, behind = tables[id(code)]
        before = last.get(number)
        if before is not None and known[before[0]].opname != "RERAISE":
            jumped = behind.get(before[0]) != offset
            wanted = before[1] + effect(known[before[0]], jumped)
            assert len(stack) == wanted, (code.co_name, known[before[0]], known[offset])
            n_compared += 1
        last[number] = offset, len(stack)
        assert len(stack) <= code.co_stacksize
    assert n_compared > 20


def a_line_each(code):
    """A code object as it was, but with a line for each instruction."""
    entries = []
    units = code.co_code
    i = 0
    while i < len(units) // 2:
        n = 1
        while 2 * (i + n) < len(units) and units[2 * (i + n)] == 0:  # CACHE
            n += 1
        i += n
        while n:
            entries += [0x80 | 13 << 3 | min(n, 8) - 1, 2]  # no columns, the next line
            n -= min(n, 8)
    consts = tuple(a_line_each(x) if isinstance(x, types.CodeType) else x for x in code.co_consts)
    return code.replace(co_linetable=bytes(entries), co_consts=consts, co_firstlineno=1)


@pytest.mark.skipif(not MONITORED, reason="frames note the depth themselves")
@pytest.mark.parametrize("name", PROGRAMS)
def test_depth_is_what_cpython_notes_before_a_line(name):
    """Frames note the depth before events of lines, which may jump: an independent witness."""
    namespace = {"__name__": "lines", "__file__": PROGRAMS_FILE}
    source = compile(Path(PROGRAMS_FILE).read_text(), "lines", "exec", dont_inherit=True)
    exec(a_line_each(source), namespace)
    program = namespace["PROGRAMS"][name]
    if name == "many":
        program = types.FunctionType(a_line_each(program.__code__), {})
    program.__code__ = program.__code__.replace(co_filename="lines")
    layouts, wrong, seen = {}, [], set()

    def line(code, number):
        if code.co_filename != "lines":
            return
        frame = sys._getframe(1)
        if id(code) not in layouts:
            layouts[id(code)] = Layout(code)
        offset = frame.f_lasti
        found = len(operands(frame, offset, layouts[id(code)]))
        seen.add((id(code), offset))
        if found != noted_depth(frame):
            wrong.append((code.co_name, offset, found, noted_depth(frame)))

    events = sys.monitoring.events
    sys.monitoring.use_tool_id(3, "lines")
    try:
        sys.monitoring.register_callback(3, events.LINE, line)
        sys.monitoring.set_events(3, events.LINE)
        program()
    finally:
        sys.monitoring.set_events(3, 0)
        sys.monitoring.register_callback(3, events.LINE, None)
        sys.monitoring.free_tool_id(3)
    assert not wrong
    assert len(seen) >= 30


class Number:
    def __init__(self, n):
        self.n = n

    def __add__(self, other):
        return Number(self.n + other.n)

    def plus(self, other):
        return self.n + other.n


def at(steps, *names):
    """Operands, without NULL, at each instruction of these names in the outermost frame."""
    return [
        [x for x in stack if x is not NULLS]
        for number, code, offset, stack in steps
        if number == 0 and offset is not None and dis.opname[code.co_code[offset]] in names
    ]


ADD = ("BINARY_ADD", "BINARY_OP")
CALL = ("CALL", "CALL_FUNCTION", "CALL_METHOD", "CALL_KW")


def test_operands_are_the_objects_themselves():
    a, b, keep = Number(1), Number(2), []

    def program():
        c = a + b
        keep.append(c)
        return keep[0]

    c, steps = watched(program)
    [found] = at(steps, *ADD)
    assert found[-2] is a and found[-1] is b
    [call] = at(steps, *CALL)
    assert call[-1] is c
    [subscript] = at(steps, "BINARY_SUBSCR")
    assert subscript[0] is keep and subscript[1] == 0
    [value] = at(steps, "RETURN_VALUE")
    assert value[0] is c


def test_a_call_has_callable_and_arguments():
    a, b = Number(1), Number(2)

    def helper(x, y):
        return x

    def program():
        helper(a, b)
        a.plus(b)
        return max(3, 4)

    _, steps = watched(program)
    calls = at(steps, *CALL)
    assert [x is y for x, y in zip(calls[0], (helper, a, b), strict=True)] == [True] * 3
    assert calls[1][-2] is a and calls[1][-1] is b
    assert calls[2] == [max, 3, 4]


def test_what_a_call_gave_lies_on_the_stack_next():
    def program():
        made = sorted({3, 1})  # compiled code gives it, no frame
        return made

    made, steps = watched(program)
    [store] = at(steps, "STORE_FAST")
    assert store[-1] is made


def test_reading_keeps_no_references():
    class Thing:
        pass

    thing = Thing()

    def program():
        pair = [thing, thing]
        return len(pair)

    before = sys.getrefcount(thing)
    watched(program)
    gc.collect()
    assert sys.getrefcount(thing) == before


def test_function_cells_and_code_of_a_frame():
    a, b, frames = 1, [2], []

    def program():
        frames.append(sys._getframe())
        found = function_of(frames[0]), code_of(frames[0]), cells_of(frames[0])
        return found, a, b

    (function, code, cells), *_ = program()
    assert function is (program if VERSION >= (3, 11) else None)
    assert code is program.__code__
    assert [x is y for x, y in zip(cells, program.__closure__, strict=True)] == [True] * 3


@pytest.mark.skipif(VERSION < (3, 11), reason="declared in public headers")
def test_declarations_are_those_of_the_internal_headers(tmp_path):
    compiler = shutil.which("cc")
    include = Path(sysconfig.get_path("include"))
    if compiler is None or not (include / "internal" / "pycore_frame.h").exists():
        pytest.skip("needs a C compiler and the internal headers")
    source = Path(__file__).parents[2] / "src" / "sdbr" / "trace" / "watch" / "_frames.pxd"
    declared = source.read_text().split('"""')[3]
    names = {"frame": "frame_obj", "top": "stacktop", "values": "localsplus", "owner": "owner"}
    names["function"] = "f_func" if VERSION == (3, 11) else "f_funcobj"
    names["code"] = "f_executable" if VERSION >= (3, 13) else "f_code"
    pairs = [("sdbr_inner", ours, "_PyInterpreterFrame", its) for ours, its in names.items()]
    outer = {"inner": "f_frame", "trace_opcodes": "f_trace_opcodes"}
    pairs += [("sdbr_outer", ours, "struct _frame", its) for ours, its in outer.items()]
    asserts = [
        f'_Static_assert(offsetof({a}, {x}) == offsetof({b}, {y}), "{x}");' for a, x, b, y in pairs
    ]
    head = "#define Py_BUILD_CORE 1\n#include <Python.h>\n#include <internal/pycore_frame.h>\n"
    path = tmp_path / "check.c"
    path.write_text(head + declared + "\n".join(asserts))
    command = [compiler, "-std=gnu11", "-fsyntax-only", f"-I{include}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
