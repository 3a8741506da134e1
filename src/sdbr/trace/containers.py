"""Lists and dicts among the arguments: a traced call gets lists and dicts of its own."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.trace.arrays.stripping import shown
from sdbr.trace.arrays.traced_float import plain_float
from sdbr.trace.code.rebuilding import rebuild
from sdbr.trace.structure import plain_key


class Handed:
    """What a traced call gets in the place of what the caller gave.

    Parameters
    ----------
    given : tuple
        ``(args, kwargs)`` of the caller.
    filled : tuple
        The same with traced arrays, in new containers; one that the caller gave twice becomes
        one here as well.
    """

    def __init__(self, given: tuple, filled: tuple):
        self._pairs: list = []
        self._made: dict = {}
        #: By id of what the call got: what the caller gave, and that.
        self.origins: dict[int, tuple] = {}
        self.plain = Plain(self.origins)
        self.arguments = tuple(map(self._hand, given, filled))

    def _hand(self, given, filled):
        if isinstance(given, (list, dict)):
            if id(given) in self._made:
                return self._made[id(given)]
            self._made[id(given)] = filled
            for i in range(len(given)) if isinstance(given, list) else given:
                filled[i] = self._hand(given[i], filled[i])
            self._pairs.append((given, filled, _contents(filled)))
        elif isinstance(given, tuple):
            filled = rebuild(filled, list(map(self._hand, given, filled)))
        self.origins[id(filled)] = (given, filled)  # `filled` keeps its id while it is here
        return filled

    def give_back(self) -> bool:
        """Change the caller's containers as the call has changed its own; whether it did.

        That a ``defaultdict`` was asked for what it has not is no change: it makes up the same
        again.
        """
        changed = False
        for given, filled in self._changed():
            changed = True
            if isinstance(given, dict):
                items = {key: self.plain.of(x) for key, x in filled.items()}
                given.clear()
                given.update(items)
            else:
                given[:] = [self.plain.of(x) for x in filled]
        return changed

    def changed(self) -> bool:
        """Whether the call has changed its own."""
        return any(True for _ in self._changed())

    def _changed(self) -> Iterator[tuple]:
        for given, filled, before in self._pairs:
            if hasattr(type(given), "default_factory"):
                now = _contents({key: filled[key] for key in given if key in filled})
            else:
                now = _contents(filled)
            if len(now) != len(before) or not all(map(_is, now, before)):
                yield given, filled


class Plain:
    """What define-by-run has in the place of what a traced call has made or got.

    Lists and dicts of the call stay the objects that they are: whoever holds one holds what the
    others hold.

    Parameters
    ----------
    origins : dict
        By id of what the call got: ``(what the caller gave, what the call got)``.
    """

    def __init__(self, origins: dict[int, tuple]):
        self._origins = origins
        self._done: dict[int, object] = {}

    def of(self, thing):
        """A list, tuple, dict, array or number without anything traced in it."""
        if id(thing) in self._origins:
            return self._origins[id(thing)][0]
        if isinstance(thing, tuple):
            items = [self.of(x) for x in thing]
            same = all(map(_is, items, thing))
            return thing if same else rebuild(thing, items)
        if not isinstance(thing, (list, dict)):
            return plain_float(shown(thing))
        if id(thing) not in self._done:
            self._done[id(thing)] = thing
            if isinstance(thing, dict):
                _give_plain_keys(thing)
            # Past the methods of the user's classes.
            kind = list if isinstance(thing, list) else dict
            for key, x in list(enumerate(thing) if kind is list else dict.items(thing)):
                found = self.of(x)
                if found is not x:
                    kind.__setitem__(thing, key, found)
        return thing


def _give_plain_keys(things: dict) -> None:
    keys = list(dict.keys(things))
    plain = list(map(plain_key, keys))
    if not all(map(_is, keys, plain)):
        items = list(zip(plain, things.values(), strict=True))
        things.clear()
        things.update(items)


def _contents(container) -> list:
    if isinstance(container, dict):
        return [*container, *container.values()]
    return list(container)


def _is(a, b) -> bool:
    return a is b
