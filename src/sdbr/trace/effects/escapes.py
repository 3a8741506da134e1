"""Who holds what a traced call has made, when the call is over.

A result that somebody holds whom the recorder does not know would be lost in replays. It shows in
the number of references to it; only then the holders are looked for, which goes over every object
there is.
"""

from __future__ import annotations

import collections
import gc
import sys
import threading
import time
import types
from collections.abc import Iterator

from sdbr.base.forks import reentrant_lock
from sdbr.trace.arrays.stripping import is_traced
from sdbr.trace.code.reading import get
from sdbr.trace.code.referrers import referrers

import chainer
from chainer import reporter

# What code passes things on in; how many of them in each other are followed.
_PASSING = (
    tuple, list, zip, map, filter, enumerate, reversed, type(iter([])), type(iter(())),
)  # fmt: skip
_STEPS_UP = 6
#: Seconds after which it is looked again where other threads run: one that looks at all stacks, as
#: profilers do, holds what is in them for a moment, and does not outlive the call.
_PAUSES = (0.001, 0.01)
#: One thread at a time: who looks for holders holds what it meets, of other calls as well.
_LOOKING = reentrant_lock()


class References:
    """The references to what a call was given and has made."""

    def __init__(self):
        self._given: list = []
        self._at_start: list[int] = []
        self._holders: set[int] = set()  # who was seen to hold them then, where that matters
        self._held: list = []

    def count(self, given: list) -> None:
        """Count the references to the arguments, before the call."""
        self._given = given
        if given and _others_run():
            with _LOOKING:
                self._holders = {id(x) for x in referrers(given)}
        self._at_start = _counts(given)

    def _is_new(self, holder) -> bool:
        """Whether `holder` holds an argument since the call began, and stays.

        Where other threads run, the number of references tells nothing: they pass arguments on.
        """
        return id(holder) not in self._holders and not _passes_on(holder)

    def counted(self, thing) -> bool:
        """Whether `thing` was there before the call."""
        return any(thing is x for x in self._given)

    def held(self, tree) -> None:
        """Note a place that holds the things in `tree`, and is known."""
        self._held.append(tree if isinstance(tree, _TREES) else id(tree))

    def unknown(self, made: list, leaves: list, containers: dict, recorder) -> list[tuple]:
        """Things that are held by something unknown, each with who holds it.

        Parameters
        ----------
        made : list
            Variables and traced arrays of the call that are alive.
        leaves : list
            The Variables and arrays in the result.
        containers : dict
            Lists, tuples and dicts in the result, by identity.
        recorder : Recorder

        Returns
        -------
        list of (str, object)
        """
        with _LOOKING:
            if not self._found(made, leaves, containers, recorder):
                return []
        # Inner functions that name each other hold each other until the collector comes.
        gc.collect()
        pauses = iter(_PAUSES if _others_run() else ())
        while True:
            with _LOOKING:
                found = self._found(made, leaves, containers, recorder)
                if _others_run():
                    found = [x for x in found if not self.counted(x[0]) or self._is_new(x[1])]
                pause = next(pauses, None)
                if not found or pause is None:
                    # Those who pass an argument on hold it, too, in tuples and lists.
                    passing = (tuple, list)
                    found.sort(key=lambda x: passing.count(type(x[1])) * self.counted(x[0]))
                    return [(_described(holder), thing) for thing, holder in found]
                found.clear()
            time.sleep(pause)

    def _found(self, made: list, leaves: list, containers: dict, recorder) -> list[tuple]:
        """Pairs of a thing and who holds it and is not known; to be asked under the lock."""
        suspects = self._suspects(made, leaves, containers, recorder)
        if not suspects:
            return []
        known = {*containers, *map(id, (made, leaves, suspects, self._given))}
        known.update(map(id, _known_holders(recorder)))
        return list(_holders(suspects, known))

    def _suspects(self, made: list, leaves: list, containers: dict, recorder) -> list:
        expected: collections.Counter = collections.Counter(map(id, leaves))
        if not containers:
            expected.update(map(id, leaves))  # the result itself
        # One that lies in two places holds what is in it once. All live as long as their
        # identities are told apart, and no longer: they hold things, too, as do variables.
        holders = [*containers.values(), *self._held, *_known_holders(recorder)]
        seen: set = set()
        for i in range(len(holders)):
            expected.update(
                [holders[i]] if type(holders[i]) is int else map(id, _leaves(holders[i], seen))
            )
        del holders
        made.append(object())
        *counts, usual = _counts(made)
        made.pop()
        found = [x for x, n in zip(made, counts, strict=True) if n - usual > expected[id(x)]]
        for x, n, before in zip(self._given, _counts(self._given), self._at_start, strict=True):
            more = n - before - expected[id(x)]
            # Who held an argument before the call is not told from who holds it since: they count.
            if more > 0 and more > _remade(x):
                found.append(x)
        return found


def _others_run() -> bool:
    """Whether there are other threads."""
    return threading.active_count() > 1


def _passes_on(holder) -> bool:
    """Whether only code that is running, in another thread, leads to `holder`.

    What a running function holds is not seen by the collector: the way up ends there.
    """
    level = [holder]
    for _ in range(_STEPS_UP):
        if not all(isinstance(x, _PASSING) for x in level):
            return False
        above = []
        for x in referrers(level):  # no comprehension: its variables would be holders
            if x is not level and x is not above and not _is_ours(x, holder):
                above.append(x)
        if not above:
            return True
        level = above
    return False


def _is_ours(thing, holder) -> bool:
    """Whether this module holds `holder` by `thing`: a pair of what was found, or a frame."""
    if isinstance(thing, types.FrameType):
        return True
    return type(thing) is tuple and len(thing) == 2 and thing[1] is holder


def _remade(thing) -> int:
    """How many holders of `thing` come anew in every replay."""
    return sum(_is_remade(holder) for holder in gc.get_referrers(thing))


def _counts(things: list) -> list[int]:
    return [sys.getrefcount(x) for x in things]


_TREES = (list, tuple, dict, collections.deque)
#: Most of what attributes of links hold.
_NO_TREES = frozenset({bool, float, int, set, str, type(None)})


def _leaves(tree, seen: set | None = None) -> Iterator:
    """Variables and traced arrays in lists, tuples, dicts, deques and what is made of these."""
    seen = set() if seen is None else seen
    if is_traced(tree) or isinstance(tree, chainer.Variable):
        yield tree
    elif isinstance(tree, _TREES) and id(tree) not in seen:  # one may hold itself
        seen.add(id(tree))
        # Another thread may write there.
        for x in list(tree.values() if isinstance(tree, dict) else tree):
            if type(x) not in _NO_TREES:
                yield from _leaves(x, seen)


def _known_holders(recorder) -> Iterator[dict]:
    for link, _ in recorder.attributes.links.values():
        yield link.__dict__
    for write in recorder.trace.writes:
        if not isinstance(write.link, chainer.Link):
            yield {write.name: write.link.__dict__[write.name]}
    for one in reporter._get_reporters():
        observation = getattr(one, "observation", None)
        if isinstance(observation, dict):
            yield observation


def _holders(suspects: list, known: set) -> Iterator[tuple]:
    """Pairs of a suspect and who holds it and is not known; None where that cannot be found."""
    by_id = {id(x): x for x in suspects}
    seen = set()
    for holder in referrers(suspects):
        if holder is by_id or id(holder) in known or isinstance(holder, types.FrameType):
            continue
        for thing in gc.get_referents(holder):
            if id(thing) in by_id:
                seen.add(id(thing))
                if not _is_remade(holder):
                    yield thing, holder
    for key, thing in by_id.items():
        # An array of another class may be the memory of views that nobody has to know.
        if key not in seen and isinstance(thing, chainer.Variable):
            yield thing, None


def _owner(holder: dict):
    """Whose attributes lie in a dictionary; None where it is a plain one."""
    for x in gc.get_referrers(holder):
        if not isinstance(x, types.FrameType) and get(x, "__dict__") is holder:
            return x
    return None


def _is_remade(holder) -> bool:
    """Whether what `holder` has comes anew in every replay."""
    kinds = (
        chainer.FunctionNode, chainer.Function, chainer.Variable, chainer.variable.VariableNode,
    )  # fmt: skip
    return isinstance(_owner(holder) if type(holder) is dict else holder, kinds)


def _described(holder) -> str:
    """Words for a holder."""
    if holder is None:
        return "something that cannot be looked into"
    if type(holder) is dict:
        owner = _owner(holder)
        return "a dictionary" if owner is None else f"a {type(owner).__name__}"
    if isinstance(holder, types.CellType):
        return "a variable of an enclosing function"
    return f"a {type(holder).__name__}"
