"""Calls whose key is new: why it is, how often that happens, and where tracing is no use."""

from __future__ import annotations

import collections

from sdbr.base.reasons import Reason
from sdbr.call.cache_key import CallKey

_WINDOW = 8  # calls
_MANY = 5  # of them with a new key: keys keep changing
_KNOWN = 4  # of these with arguments as before: it is no warming up, something else changes
_SAME_PLACE = 4  # keys that were dynamic at one place: the others will be, too


class Misses:
    """The misses of one manager.

    Attributes
    ----------
    entries : list of (str, str)
        The part of the key that differed, and the user's line; the newest 100.
    """

    def __init__(self):
        self.entries: list[tuple[str, str]] = []
        self._calls: collections.deque = collections.deque(maxlen=_MANY)
        self._known: collections.deque = collections.deque(maxlen=_MANY)
        self._dynamic: dict[tuple, set] = {}
        self._static = False

    def note(self, call: int, known: bool = False) -> None:
        """Call number `call` had a new key, or one that is `known` and other state than before."""
        self._calls.append(call)
        self._known.append(known)

    def explain(self, differs: str, line: str) -> None:
        """Keep what differed from the nearest key, and the user's line."""
        self.entries.append((differs, line))
        del self.entries[:-100]

    def keep_coming(self, call: int) -> bool:
        """Whether five of the last eight calls had a new key, call number `call` included.

        The first calls of all have new keys without a reason to say so, unless the keys are known.
        """
        many = len(self._calls) == _MANY and call - self._calls[0] < _WINDOW
        return many and (call >= _WINDOW or sum(self._known) >= _KNOWN)

    def traced(self, key: CallKey, reason: Reason | None) -> None:
        """A call was traced; it was dynamic for this reason, or static for None."""
        if reason is None:
            self._static = True
        else:
            # Whether a call is static may depend on the configuration (`train`).
            self._dynamic.setdefault((key.config, reason), set()).add(key)

    def always_dynamic(self, key: CallKey) -> Reason | None:
        """Why a call with this new key will be dynamic: all before it were, at one place."""
        if self._static:
            return None
        for (config, reason), keys in self._dynamic.items():
            if config == key.config and len(keys) >= _SAME_PLACE:
                return reason
        return None

    def clear(self) -> None:
        """Forget all but the entries, which reports show."""
        self._calls.clear()
        self._known.clear()
        self._dynamic.clear()
        self._static = False
