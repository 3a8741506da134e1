"""What code does with the classes ``float`` and ``int``: calls, tests, and others."""

from __future__ import annotations

import dis
import functools
import sys
import types

#: Builtins that test for a class, to which the stand-in answers.
TESTS = frozenset({"isinstance", "issubclass"})
#: What puts a thing on the stack and does nothing else, but for tuples of what is there.
_SIMPLE = frozenset({
    "BUILD_TUPLE", "CACHE", "LOAD_ATTR", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST",
    "LOAD_FAST_BORROW",
})  # fmt: skip


@functools.lru_cache(maxsize=1024)
def tells_class(code: types.CodeType, name: str) -> bool:
    """Whether `code` compares the class of this name, ``float`` or ``int``, by identity."""
    if name in code.co_names:
        before = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "MATCH_CLASS" and name == "int":  # ``case int(x)``
                return True
            if instruction.opname == "IS_OP" and before == name:
                return True
            before = instruction.argval
    return any(tells_class(c, name) for c in code.co_consts if isinstance(c, types.CodeType))


@functools.lru_cache(maxsize=1024)
def passes_on(code: types.CodeType, name: str) -> int:
    """The line where `code` does with a class anything but call it and test for it; 0 if none."""
    line = code.co_firstlineno
    instructions = list(dis.get_instructions(code))
    for i, instruction in enumerate(instructions):
        line = instruction.starts_line if type(instruction.starts_line) is int else line
        if instruction.argval != name or instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
            continue
        if not (_is_called(instruction) or _is_tested(instructions, i)):
            return line
    inside = (passes_on(c, name) for c in code.co_consts if isinstance(c, types.CodeType))
    return next(filter(None, inside), 0)


def _is_called(instruction) -> bool:
    """Whether a global is read to be called; before Python 3.11 that does not show."""
    return (
        instruction.opname == "LOAD_GLOBAL"
        and sys.version_info >= (3, 11)
        and bool(instruction.arg & 1)
    )


def _is_tested(instructions: list, i: int) -> bool:
    """Whether the class loaded by instruction `i` is the second argument of a test, or in it."""
    before = i - 1
    while before >= 0 and _is_simple(instructions[before]):
        before -= 1
    after = i + 1
    while after < len(instructions) and _is_simple(instructions[after]):
        after += 1
    if before < 0 or after >= len(instructions):
        return False
    if instructions[after].opname == "PRECALL":
        after += 1
    test, call = instructions[before], instructions[after]
    tests = _is_called(test) and test.argval in TESTS
    return tests and call.opname == "CALL" and call.arg == 2


def _is_simple(instruction) -> bool:
    if instruction.opname == "LOAD_GLOBAL":
        return not _is_called(instruction)
    return instruction.opname in _SIMPLE
