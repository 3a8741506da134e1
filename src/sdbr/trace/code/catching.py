"""Whether an error that is raised in a frame now would be caught in that frame.

Found in the byte code: its exception table, or before Python 3.11 the blocks that it sets up.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from types import CodeType, FrameType

_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_ALWAYS = frozenset(
    {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}
)
#: What finds a name.
_LOADS = frozenset(
    f"LOAD_{kind}"
    for kind in ("GLOBAL", "NAME", "FAST", "FAST_CHECK", "FAST_BORROW", "DEREF", "CLASSDEREF",
                 "FROM_DICT_OR_GLOBALS")
)  # fmt: skip
#: Not in the expression that an error is compared with.
_NO_CLAUSE = frozenset({"POP_TOP", "RERAISE", "WITH_EXCEPT_START", "POP_EXCEPT"})
#: What stands between the clauses' names and does nothing to them.
_PLAIN = frozenset(
    {"NOP", "PUSH_EXC_INFO", "DUP_TOP", "CACHE", "NOT_TAKEN", "EXTENDED_ARG", "TO_BOOL"}
)


def has_handlers(code: CodeType) -> bool:
    """Whether there may be a handler anywhere in the code; nearly always there is none."""
    return bool(getattr(code, "co_exceptiontable", True))


def may_catch(frame: FrameType, errors: tuple[type, ...], others: bool = False) -> bool:
    """Whether an ``except`` around the present instruction takes one of `errors`.

    ``finally`` and ``with`` do not: they let errors pass.

    Parameters
    ----------
    frame : frame
        Of Python code, somewhere below the present one.
    errors : tuple of type
    others : bool
        Or any error that is no builtin one.
    """
    if not has_handlers(frame.f_code):
        return False
    blocks = _blocks(frame.f_code)
    seen = set()
    at = frame.f_lasti
    while at is not None and at not in seen:
        seen.add(at)
        handler = blocks(at)
        if handler is None:
            return False
        if _takes(frame, handler, errors, others):
            return True
        at = handler if sys.version_info >= (3, 11) else blocks.outer(at)
    return False


_OF_ARITHMETIC = (ArithmeticError, ZeroDivisionError, OverflowError, ValueError)


def catches_arithmetic(frame: FrameType | None, top: FrameType | None) -> bool:
    """Whether code between `frame` and `top`, which called it, catches what arithmetic raises."""
    while frame is not None and frame is not top:
        if may_catch(frame, _OF_ARITHMETIC):
            return True
        frame = frame.f_back
    return False


# --- which handler is next ------------------------------------------------------------------------
class _Table:
    """The handler around each instruction, and what is around that one."""

    def __init__(self, code: CodeType):
        self.entries = dis._parse_exception_table(code)

    def __call__(self, at: int) -> int | None:
        for entry in self.entries:
            if entry.start <= at < entry.end:
                return entry.target
        return None


class _Stacks:
    """The same where blocks are set up by instructions: found by walking every way through them."""

    def __init__(self, code: CodeType):
        instructions = list(dis.get_instructions(code))
        follows = {a.offset: b for a, b in itertools.pairwise(instructions)}
        by_offset = {i.offset: i for i in instructions}
        self.around: dict[int, tuple[int, ...]] = {}
        ways = [(0, ())]
        while ways:
            offset, stack = ways.pop()
            if offset in self.around:
                continue
            self.around[offset] = stack
            i = by_offset[offset]
            if i.opname in ("SETUP_FINALLY", "SETUP_WITH", "SETUP_ASYNC_WITH"):
                ways.append((i.argval, stack))
                stack = (*stack, i.argval)
            elif i.opname == "POP_BLOCK":
                stack = stack[:-1]
            elif i.opcode in _JUMPS:
                ways.append((i.argval, stack))
            if i.opname not in _ENDS | _ALWAYS and offset in follows:
                ways.append((follows[offset].offset, stack))

    def __call__(self, at: int) -> int | None:
        stack = self.around.get(at, ())
        return stack[-1] if stack else None

    def outer(self, at: int) -> int | None:
        """A place inside of the next block but one: where its handler is set up."""
        stack = self.around.get(at, ())
        return (
            next((o for o, s in self.around.items() if s == stack[:-1]), None)
            if stack[:-1]
            else None
        )


@functools.lru_cache(maxsize=256)
def _blocks(code: CodeType):
    return _Table(code) if sys.version_info >= (3, 11) else _Stacks(code)


# --- what it takes --------------------------------------------------------------------------------
@functools.lru_cache(maxsize=256)
def _instructions(code: CodeType) -> dict[int, tuple]:
    """By offset the instruction and the one behind it."""
    every = list(dis.get_instructions(code))
    pairs = itertools.zip_longest(every, every[1:])
    return {i.offset: (i, after) for i, after in pairs}


def _takes(frame: FrameType, at: int, errors: tuple[type, ...], others: bool) -> bool:
    """Whether one of the clauses from `at` on takes one of the errors."""
    every = _instructions(frame.f_code)
    stack: list = []
    known, begins = True, True
    for _ in range(10_000):
        i, after = every[at]
        name = i.opname
        if begins and name not in _PLAIN:
            if name == "POP_TOP":
                return True  # of every kind
            if not _is_clause(every, at):
                return False  # of a finally, of a with, or the end of the clauses
            begins = False
        if name in ("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"):
            if not known or _match(stack, errors, others):
                return True
            stack, known, begins = [], True, True
            while after is not None and "JUMP" not in i.opname:
                i, after = every[after.offset]
            at = i.argval
            continue
        if name == "CHECK_EG_MATCH":
            return True
        if name in _LOADS:
            found = _look_up(frame, i.argval)
            known = known and found is not None
            stack.append(found)
        elif name == "LOAD_ATTR":
            stack.append(getattr(stack.pop(), i.argval, None) if stack else None)
            known = known and stack[-1] is not None
        elif name == "BUILD_TUPLE":
            stack[len(stack) - i.arg :] = [tuple(stack[len(stack) - i.arg :])]
        elif name not in _PLAIN:
            known = False
        at = after.offset
    return True


def _is_clause(every, at: int) -> bool:
    """Whether an expression from here on ends in a comparison with the error."""
    for _ in range(30):
        i, after = every[at]
        name = i.opname
        if name in ("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH", "CHECK_EG_MATCH"):
            return True
        if after is None or name in _NO_CLAUSE or "JUMP" in name or name.startswith("STORE"):
            return False
        at = after.offset
    return False


def _look_up(frame: FrameType, name):
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in names:
            return names[name]
    return None


def _match(stack: list, errors: tuple[type, ...], others: bool) -> bool:
    taken = stack[-1] if stack else None
    for kind in taken if isinstance(taken, tuple) else (taken,):
        if not isinstance(kind, type) or any(issubclass(e, kind) for e in errors):
            return True
        if others and kind.__module__ != "builtins":
            return True
    return False
