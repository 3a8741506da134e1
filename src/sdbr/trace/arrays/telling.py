"""What traced arrays tell the recorder of this thread: calls, and values that leave its sight."""

from __future__ import annotations

import sys

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays.stripping import PURE, holds_known, holds_unknown, is_traced, strip_nested
from sdbr.trace.code.foreign import foreign_caller
from sdbr.trace.current import current

import numpy as np


def unseen(recorder, function, *args, **kwargs):
    """Call what is no part of the traced call, or is recorded as a whole."""
    recorder.depth += 1
    try:
        return function(*args, **kwargs)
    finally:
        recorder.depth -= 1


def record(call, args, kwargs):
    """Make a call of NumPy or CuPy and tell the recorder of this thread."""
    recorder = current()
    if recorder is not None:
        call, args, kwargs = recorder.meeting.with_numbers(call, args, kwargs)
    try:
        plain = strip_nested(tuple(args)), strip_nested(kwargs)
        if recorder is None or not recorder.on_device or recorder.depth:
            result = call(*plain[0], **plain[1])
        else:  # CuPy may have to compile a kernel first, and keeps it in a file
            result = unseen(recorder, call, *plain[0], **plain[1])
    except Exception:
        if recorder is not None and not recorder.depth:
            name = getattr(call, "__name__", call)
            recorder.mark_dynamic(
                f"an error of numpy {name} was raised during the call", Remedy.CATCH_OUTSIDE
            )
        raise
    if recorder is None or recorder.depth:
        return result
    note_foreign(recorder, args, kwargs)
    if recorder.trace.dynamic is not None:
        return result
    if not holds_known((args, kwargs)):
        if holds_unknown((args, kwargs)):
            return result
        if type(result) is np.ndarray:
            recorder.memory.note_hidden_view(result, (*args, kwargs))
        return _made(recorder, result)
    other = _of_another_class(result)
    if other is not None:
        text = f"numpy {getattr(call, '__name__', call)} gave a {other.__name__}"
        recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        return result
    recorder.pause()  # all of what follows is ours
    try:
        return recorder.calls.numpy_call(call, args, kwargs, result)
    finally:
        recorder.go_on()


def _made(recorder, result):
    """What a NumPy call on pure arrays gives, as pure arrays."""
    if type(result) in PLAIN:
        return recorder.values.made(result)
    if type(result) in (tuple, list):  # such as numpy.meshgrid's
        return type(result)([_made(recorder, part) for part in result])
    return result


#: What is in a file is an array like any other.
_FOLLOWED = (*PLAIN, np.memmap)


def _of_another_class(result) -> type | None:
    """The class of an array that is none of NumPy's own, alone or in a tuple; None for no such."""
    for part in result if isinstance(result, (tuple, list)) else (result,):
        kind = type(part)
        if issubclass(kind, np.ndarray) and kind not in _FOLLOWED and not is_traced(part):
            return kind
    return None


def note_foreign(recorder, *things) -> None:
    """An array in the hands of a library's own code may go on into compiled code."""
    name = foreign_caller(sys._getframe(2))
    if name is not None and holds_known(things):
        recorder.mark_dynamic(
            f"an array went into {name}, which cannot be seen into", Remedy.COMPUTE_OUTSIDE
        )


def tell() -> None:
    """A text was made of a Variable, of which anything may be made."""
    recorder = current()
    if recorder is not None and not recorder.depth:
        recorder.mark_dynamic("a value left a Variable through str()", Remedy.STAY_ARRAYS)


def note_export(array) -> None:
    """Somebody has taken the memory of a traced array as a buffer."""
    recorder = current()
    if recorder is not None and array.origin is not None and array.origin is not PURE:
        recorder.mark_dynamic(
            "the memory of an array was read (memoryview, bytes and the like)", Remedy.STAY_ARRAYS
        )


#: What mends a change of an array in place: numbers that come again do not make it again.
_WRITING = (Remedy.NEW_ARRAY, Remedy.USE_FUNCTIONS, Remedy.CALL_METHOD)


def leave_by(text: str, remedy: Remedy, *things) -> None:
    """Values of `things` go where the recorder cannot see them."""
    recorder = current()
    if recorder is None or recorder.depth:
        return
    if remedy not in _WRITING and recorder.meeting.leave_numbers(things):
        return
    if holds_known(things):
        recorder.mark_dynamic(text, remedy)
