"""What the code of a call tells the world outside of Python, or asks of it.

Lines that are printed, log records, files, the file system, threads: a replay would leave them out,
and what was read would be what it was when the call was traced. They are seen where compiled code
is called, and belong to the call when its own code, not Chainer's, is what led there.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
import types
import weakref
from collections.abc import Callable

from sdbr.base.reasons import Reason, Remedy
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import user_line
from sdbr.trace.code.profile_calls import chooses
from sdbr.trace.current import current

#: Of files.
_WRITING = frozenset({"write", "writelines", "truncate"})
_IN_MEMORY = (io.StringIO, io.BytesIO)
#: Of the operating system.
_CHANGING = frozenset({
    "write", "remove", "unlink", "rename", "replace", "mkdir", "rmdir", "system", "symlink", "link",
    "truncate", "ftruncate", "chmod", "utime", "kill", "chdir",
})  # fmt: skip
_ASKING = frozenset({"stat", "lstat", "listdir", "scandir", "access", "getcwd", "statvfs"})
_STARTING = frozenset({"start_new_thread", "start_joinable_thread", "start_new"})
#: Of the standard library: looks at files and threads for affairs of its own.
_OWN_AFFAIRS = frozenset({"warnings", "linecache", "importlib", "inspect", "zipimport"})
#: Ends reasons.
ONLY_TRACED = "would run only while the call is traced"


def made_by_call(frame) -> bool:
    """Whether `frame` runs because the user's code in the call wanted it.

    Other libraries are looked through. Not what Chainer and sdbr themselves do, and not warnings,
    which Python shows once for each line.
    """
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        root = name.partition(".")[0]
        if root in ("sdbr", "_frozen_importlib", "_frozen_importlib_external"):
            return False
        if root == "chainer" and not name.startswith("chainer.serializers"):
            return False
        if root in _OWN_AFFAIRS:
            return False
        if root in ("cupy", "cupyx") and not name.startswith("cupy._io"):
            return False  # it keeps the kernels that it compiles
        if is_users(name) and root != "chainer":
            return True
        frame = frame.f_back
    return False


@chooses
def _writes_or_asks(function):
    owner, name = function.__self__, function.__name__
    if isinstance(owner, types.ModuleType):
        return _of_module(owner.__name__, name)
    if isinstance(owner, io.IOBase):
        return _wrote if name in _WRITING else None
    if type(owner).__module__ == "_csv":
        return _wrote if name in ("writerow", "writerows") else None
    if type(owner).__name__ == "SimpleQueue":
        return _handed_on if name == "put" else None
    return None


def tells(function) -> Callable | None:
    """What notes on an object that code has told the world something: ``told`` is True then.

    A chooser for code that is not traced; what only asks is no matter there.
    """
    return _tells if _writes_or_asks(function) in (_called, _wrote, _started, _handed_on) else None


def _tells(listener, function) -> None:
    frame = sys._getframe(1)
    if function.__name__ == "put" and frame.f_globals.get("__name__", "")[:10] != "concurrent":
        return
    if made_by_call(frame):
        listener.told = True


def _of_module(module: str, name: str):
    if module == "builtins":
        return _called if name in ("print", "input") else None
    if (module == "io" or module == "_io") and name == "open":
        return _called
    if module == "_pickle":
        return _called if name in ("dump", "load") else None
    if module in ("posix", "nt"):
        if name in _CHANGING:
            return _called
        return _asked if name in _ASKING else None
    if module == "_thread":
        if name in _STARTING:
            return _started
        return _asked_who if name in ("get_ident", "get_native_id") else None
    return None


def _called(recorder, function) -> None:
    if made_by_call(sys._getframe(1)):
        recorder.mark_dynamic(f"{function.__name__}(...) {ONLY_TRACED}", Remedy.RUN_EVERY_TIME)


def _wrote(recorder, function) -> None:
    if not made_by_call(sys._getframe(1)):
        return
    stream = function.__self__
    text = f"{function.__name__}(...) of a {type(stream).__name__} {ONLY_TRACED}"
    if isinstance(stream, _IN_MEMORY):
        # One that the call itself has made and thrown away is nobody's business.
        reason = Reason(text, Remedy.RUN_EVERY_TIME, user_line())
        recorder.streams.setdefault(id(stream), (weakref.ref(stream), reason))
    else:
        recorder.mark_dynamic(text, Remedy.RUN_EVERY_TIME)


def _asked(recorder, function) -> None:
    if made_by_call(sys._getframe(1)):
        recorder.mark_dynamic(
            f"os.{function.__name__}(...) asks the system only while the call is traced",
            Remedy.RUN_EVERY_TIME,
        )


def _started(recorder, function) -> None:
    if made_by_call(sys._getframe(1)):
        recorder.mark_dynamic(
            f"a thread is started, what it does is seen only in part; it {ONLY_TRACED}",
            Remedy.RUN_EVERY_TIME,
        )


def _handed_on(recorder, function) -> None:
    frame = sys._getframe(1)
    if frame.f_globals.get("__name__", "")[:10] == "concurrent" and made_by_call(frame):
        recorder.mark_dynamic(
            f"work is handed to another thread, which {ONLY_TRACED}", Remedy.RUN_EVERY_TIME
        )


def _asked_who(recorder, function) -> None:
    frame = sys._getframe(1)
    if frame.f_globals.get("__name__") == "threading":
        if frame.f_code.co_name != "current_thread" or frame.f_back is None:
            return
        frame = frame.f_back
    if is_users(frame.f_globals.get("__name__", "")):
        recorder.mark_dynamic(
            f"threading.{function.__name__} tells which thread makes the call",
            Remedy.USE_FUNCTIONS,
        )


def finish_streams(recorder) -> None:
    """After the call: texts in memory that somebody still holds were written for them."""
    for stream, reason in recorder.streams.values():
        if stream() is not None and recorder.trace.dynamic is None:
            recorder.trace.dynamic = reason


# --- what Python code does ------------------------------------------------------------------------
def _wrap_log(original):
    @functools.wraps(original)
    def handle(self, record):
        recorder = current()
        if recorder is not None and not recorder.depth and made_by_call(sys._getframe(1)):
            recorder.mark_dynamic(
                f"a record of the logger {self.name!r} {ONLY_TRACED}", Remedy.RUN_EVERY_TIME
            )
        return original(self, record)

    return handle


def register(patches) -> None:
    """Add the patches of this module to those that are in place while a call is traced."""
    patches.register(logging.Logger, "handle", _wrap_log)
