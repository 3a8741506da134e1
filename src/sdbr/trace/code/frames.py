"""The frames and lines of user code, as it runs."""

from __future__ import annotations

import dis
import functools
import sys
import types

from sdbr.trace.code.foreign import is_users

_NOTHING = ("CACHE", "NOT_TAKEN", "EXTENDED_ARG", "NOP")
#: Loads of keys.
_AT_HAND = (
    "LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_SMALL_INT", "LOAD_FAST_BORROW",
)  # fmt: skip


def user_frames(last=None):
    """The frames of user code, innermost first, up to but without `last`."""
    frame = sys._getframe(1)
    while frame is not None and frame is not last:
        if is_users(frame.f_globals.get("__name__", "")):
            yield frame
        frame = frame.f_back


def user_line() -> str:
    """``file:line in function`` of the innermost frame of user code.

    That is outside Chainer, sdbr, NumPy, CuPy, other compiled packages and the standard library.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if is_users(name) and name.partition(".")[0] != "cupy":
            return line_of(frame)
        frame = frame.f_back
    return ""


def is_by_chainer() -> bool:
    """Whether code of Chainer's own, and not the user's, has called what runs now."""
    frame = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("sdbr", "numpy"):
            return package == "chainer"
        frame = frame.f_back
    return False


def in_backward() -> bool:
    """Whether Chainer's own code of a gradient runs."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_globals.get("__name__", "")):
        if frame.f_code.co_name == "backward" and frame.f_globals["__name__"][:7] == "chainer":
            return True
        frame = frame.f_back
    return False


def is_compared_with_none(frame) -> bool:
    """Whether `frame` asks for an attribute now to see that it is not None, and for no more."""
    return frame.f_lasti in _compared_with_none(frame.f_code)


@functools.lru_cache(maxsize=1024)
def _compared_with_none(code: types.CodeType) -> frozenset[int]:
    """Where the code loads such attributes."""
    every = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    found = set()
    for load, then, after in zip(every, every[1:], every[2:], strict=False):
        jumps = then.opname.startswith("POP_JUMP") and then.opname.endswith("NONE")
        tells = then.opname == "LOAD_CONST" and then.argval is None and after.opname == "IS_OP"
        if load.opname == "LOAD_ATTR" and (jumps or tells):
            found.add(load.offset)
    return frozenset(found)


def written_into(frame, name: str) -> str | None:
    """The method that `frame` calls of the attribute `name`, which it loads now.

    ``__setitem__`` where it assigns to a key that it has at hand; None where it may do anything
    else with the attribute.
    """
    loaded = _written_into(frame.f_code).get(frame.f_lasti)
    return loaded[1] if loaded is not None and loaded[0] == name else None


@functools.lru_cache(maxsize=1024)
def _written_into(code: types.CodeType) -> dict[int, tuple[str, str]]:
    """Where the code loads such attributes, their names and what is done with them."""
    every = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    found = {}
    for load, then, after in zip(every, every[1:], every[2:], strict=False):
        if load.opname != "LOAD_ATTR":
            continue
        if then.opname == "LOAD_METHOD" or (then.opname == "LOAD_ATTR" and _is_method(then.arg)):
            found[load.offset] = (load.argval, then.argval)
        elif then.opname in _AT_HAND and after.opname == "STORE_SUBSCR":
            found[load.offset] = (load.argval, "__setitem__")
    return found


def _is_method(argument: int) -> bool:
    """Whether a ``LOAD_ATTR`` is that of a call (Python 3.12 and later)."""
    return sys.version_info >= (3, 12) and bool(argument & 1)


def line_of(frame) -> str:
    """``file:line in function`` of a frame."""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def stack_level() -> int:
    """The ``stacklevel`` of a warning that the caller issues: the first frame that called us."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "sdbr",
        "chainer",
    ):
        frame = frame.f_back
        level += 1
    return level + 1


#: Parts of Chainer that only pass arrays on, and do not compute with them.
_MACHINERY = frozenset({
    'variable', 'function_node', 'function', '_backprop', '_backprop_utils', 'backend',
    '_backend', 'backends', 'link', 'optimizer', 'device_resident', 'initializers',
    'initializer', 'testing', 'utils.type_check', 'types',
})  # fmt: skip


def makes_parameters(frame) -> bool:
    """Whether machinery runs in `frame` by itself, and not an initializer that the user calls."""
    while frame.f_globals.get("__name__", "").startswith("chainer.initializer"):
        frame = frame.f_back
    return called_by_machinery(frame)


def called_by_machinery(frame) -> bool:
    """Whether `frame` belongs to the parts of Chainer that only pass arrays on, or to SciPy, whose
    compiled code takes arrays of NumPy's own alone."""
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    if package != "chainer":
        return package == "scipy"
    if frame.f_code.co_name == "_initialize_params":
        return True  # parameters get their first values in the first call
    return rest.partition(".")[0] in _MACHINERY or rest in _MACHINERY
