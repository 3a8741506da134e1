"""What other threads change while a call is traced: it is none of what the call leaves."""

from __future__ import annotations

import threading
from typing import Any

from sdbr.base.reasons import Reason, Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.traced_float import FOLLOWED

import chainer

_CONTAINERS = (list, tuple, dict, set)
#: In code that has one of these, a name that is stored need not stand there.
_ANY_NAME = frozenset(
    {"setattr", "delattr", "__setattr__", "__dict__", "vars", "globals", "exec", "eval", "update"}
)


def changed_elsewhere(stores, owner: Any, name: str, new: Any) -> bool:
    """Whether another thread has changed a global or an attribute of a class.

    That is so where there is one, and nothing that the call may run assigns to such a name.
    """
    return (
        threading.active_count() > 1
        and (isinstance(owner, type) or _is_globals(owner))
        and name not in stores.stored
        and type(new) not in FOLLOWED
        and not isinstance(new, (chainer.Variable, *ARRAYS, *_CONTAINERS))
        and not any(stores.loads_any(word) for word in _ANY_NAME)
    )


def _is_globals(owner: Any) -> bool:
    return isinstance(owner, dict) and "__builtins__" in owner


def reason_for(what: str) -> Reason:
    """Why a call is dynamic during which other threads change things each time."""
    return Reason(
        f"{what} changed during the call, which does not assign it: another thread did",
        Remedy.OTHER_THREADS,
    )
