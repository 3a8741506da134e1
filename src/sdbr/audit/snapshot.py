"""What a call may write, as it is at one moment, and putting it back."""

from __future__ import annotations

import random
from operator import is_
from typing import Any

from sdbr.audit.contents import checksums, copy_of, rewrite, same_bytes
from sdbr.audit.roots import Named, Roots, is_own
from sdbr.devices.arrays import ARRAYS, device_of

import numpy as np

MISSING = type("Missing", (), {"__repr__": lambda self: "nothing", "__slots__": ()})()


class Changes:
    """What is other than in a `Snapshot`.

    Attributes
    ----------
    entries : list of (Named, str, object)
        Entries of dictionaries, `MISSING` for those that went.
    contents : list of (Named, container)
    states : list of (Named, dict)
        Of update rules, with other arrays of the same kind; what these hold is among `arrays`.
    arrays : list of (Named, ndarray or None)
        None where the new contents were not kept.
    random : dict
        Names of generators whose state is another -> the state, and what sets it.
    inner : list of (Snapshot, Changes)
        What single function nodes have changed, in order, of what `Roots` may not lead to.
    """

    def __init__(self):
        self.entries: list[tuple[Named, str, Any]] = []
        self.contents: list[tuple[Named, Any]] = []
        self.states: list[tuple[Named, dict]] = []
        self.arrays: list[tuple[Named, np.ndarray | None]] = []
        self.random: dict[str, Any] = {}
        self.inner: list[tuple[Snapshot, Changes]] = []

    def put(self) -> None:
        """Make everything as it was when the changes were noted."""
        for _, changes in self.inner:
            changes.put()
        for place, name, value in self.entries:
            if value is MISSING:
                place.thing.pop(name, None)
            else:
                place.thing[name] = value
        for place, contents in self.contents:
            _refill(place.thing, contents)
        for place, contents in self.arrays:
            if contents is not None:
                rewrite(place.thing, contents)
        for state, put in self.random.values():
            put(state)


class Snapshot:
    """Everything among `Roots`, as it is now.

    Parameters
    ----------
    roots : Roots
    """

    def __init__(self, roots: Roots):
        self.roots = roots
        self.entries = [dict(place.thing) for place in roots.dicts]
        self.contents = [_shallow_copy(place.thing) for place in roots.containers]
        sums = iter(checksums([place.thing for place, copied in roots.arrays if not copied]))
        self.arrays: list[Any] = [
            copy_of(place.thing) if copied else next(sums) for place, copied in roots.arrays
        ]
        self.random = {name: get() for name, (get, _) in self._generators().items()}

    def changes(self, written: bool = False) -> Changes:
        """What is other now; with `written` also what the call writes, as it was or not."""
        known = self.roots.written if written else frozenset()
        written_dicts = {place[0] for place in known if isinstance(place, tuple)}
        found = Changes()
        # Copies are looked at: another thread may add and take entries between any two of these.
        for place, before in zip(self.roots.dicts, self.entries, strict=True):
            now, is_written = dict(place.thing), id(place.thing) in written_dicts
            if not is_written and _same_contents(now, before):
                continue
            for name in {**before, **now}:
                value, then = now.get(name, MISSING), before.get(name, MISSING)
                if value is not then and not _is_same(value, then):
                    is_other = True
                else:
                    is_other = is_written and (id(place.thing), name) in known
                if is_other and not is_own(name):
                    found.entries.append((place, name, value))
        for place, before in zip(self.roots.containers, self.contents, strict=True):
            now = _shallow_copy(place.thing)
            if not _same_contents(now, before) or id(place.thing) in known:
                if id(place.thing) in self.roots.states and _are_alike(now, before):
                    found.states.append((place, now))
                else:
                    found.contents.append((place, now))
        self._take_states(found)
        for (place, copied), unchanged in zip(self.roots.arrays, self._unchanged(), strict=True):
            if not unchanged or (copied and id(place.thing) in known):
                found.arrays.append((place, copy_of(place.thing) if copied else None))
        for name, (get, put) in self._generators().items():
            state = get()
            if not _same_state(state, self.random[name]):
                found.random[name] = (state, put)
        return found

    def _take_states(self, found: Changes) -> None:
        """Where a rule has put new arrays in the place of old ones, these count as written."""
        if not found.states:
            return
        index = {id(place.thing): i for i, (place, _) in enumerate(self.roots.arrays)}
        contents = {id(place.thing): i for i, place in enumerate(self.roots.containers)}
        pairs = []
        for place, now in found.states:
            before = self.contents[contents[id(place.thing)]]
            pairs += [(index.get(id(before[key])), value) for key, value in now.items()]
        pairs = [(i, value) for i, value in pairs if i is not None]
        same = same_bytes([(value, self.arrays[i]) for i, value in pairs])
        for (i, value), is_alike in zip(pairs, same, strict=True):
            if not is_alike:
                found.arrays.append((self.roots.arrays[i][0], copy_of(value)))

    def _unchanged(self) -> list[bool]:
        """Of each array: whether it holds what it held."""
        places = self.roots.arrays
        sums = iter(checksums([place.thing for place, copied in places if not copied]))
        pairs = zip(places, self.arrays, strict=True)
        same = iter(same_bytes([(p.thing, x) for (p, is_copied), x in pairs if is_copied]))
        return [
            next(same) if copied else next(sums) == before
            for (_, copied), before in zip(places, self.arrays, strict=True)
        ]

    def _generators(self) -> dict[str, tuple]:
        own = {
            f"{place.name} ({i})": _access(place.thing)
            for i, place in enumerate(self.roots.generators)
        }
        return {**_GENERATORS, **own}

    def held(self) -> dict[str, Any]:
        """What arrays held, as facts of a run that does not write them; of those with copies."""
        return {
            f"{place.name} in place": contents
            for (place, copied), contents in zip(self.roots.arrays, self.arrays, strict=True)
            if copied
        }

    def put_back(self, changes: Changes) -> list[str]:
        """Undo `changes`; the names of what cannot be undone, for its contents were not copied."""
        lost = []
        for snapshot, inside in reversed(changes.inner):
            snapshot.put_back(inside)
        index = {id(place.thing): i for i, place in enumerate(self.roots.dicts)}
        for place, name, _ in changes.entries:
            value = self.entries[index[id(place.thing)]].get(name, MISSING)
            if value is MISSING:
                place.thing.pop(name, None)
            else:
                place.thing[name] = value
        index = {id(place.thing): i for i, place in enumerate(self.roots.containers)}
        for place, _ in [*changes.contents, *changes.states]:
            _refill(place.thing, self.contents[index[id(place.thing)]])
        index = {id(place.thing): i for i, (place, _) in enumerate(self.roots.arrays)}
        for place, _ in changes.arrays:
            before = self.arrays[index[id(place.thing)]]
            if isinstance(before, int) or not rewrite(place.thing, before):
                lost.append(place.name)
        for name, (_, put) in changes.random.items():
            put(self.random[name])
        return lost

    def put_all_back(self) -> None:
        """Make everything as it was, whatever it is now: nothing is compared or copied."""
        for place, before in zip(self.roots.dicts, self.entries, strict=True):
            for name in list(place.thing):
                if name not in before and not is_own(name):
                    place.thing.pop(name, None)
            for name, value in before.items():
                if not is_own(name) and place.thing.get(name, MISSING) is not value:
                    place.thing[name] = value
        for place, before in zip(self.roots.containers, self.contents, strict=True):
            _refill(place.thing, before)
        for (place, copied), before in zip(self.roots.arrays, self.arrays, strict=True):
            if copied:
                rewrite(place.thing, before)
        for name, (_, put) in self._generators().items():
            put(self.random[name])


def _numpy_state() -> tuple:
    return np.random.get_state()


#: Generators whose state every audit looks at: how to get it and how to set it.
_GENERATORS = {
    "numpy.random": (_numpy_state, np.random.set_state),
    "random": (random.getstate, random.setstate),
}


def _access(generator) -> tuple:
    """How to get and to set the state of a generator."""
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, np.random.RandomState):
        return generator.get_state, generator.set_state
    bits = generator.bit_generator

    def put(state) -> None:
        bits.state = state[0]

    return (lambda: (bits.state,)), put


def _same_state(a: tuple, b: tuple) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else _is_alike(x, y)
        for x, y in zip(a, b, strict=True)
    )


def _is_alike(x, y) -> bool:
    """What a generator keeps: the text of hundreds of numbers takes longer than they do."""
    return x == y if isinstance(x, tuple) else repr(x) == repr(y)


def _is_same(a, b) -> bool:
    """Whether nobody can tell: of a number, replays may write the very object that they wrote."""
    return a is b or (type(a) is type(b) is float and repr(a) == repr(b))


def _shallow_copy(container):
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _same_contents(now, before) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return now == before
    if isinstance(now, dict):
        return all(map(is_, now, before)) and all(map(is_, now.values(), before.values()))
    return all(map(is_, now, before))


def _are_alike(now: dict, before: dict) -> bool:
    """Whether two states hold arrays of the same names, shapes and dtypes, in the same places."""
    return list(now) == list(before) and all(
        isinstance(a, ARRAYS)
        and isinstance(b, ARRAYS)
        and (a.shape, a.dtype, device_of(a)) == (b.shape, b.dtype, device_of(b))
        for a, b in zip(now.values(), before.values(), strict=True)
    )


def _refill(container, contents) -> None:
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(contents)
    else:
        container.extend(contents)
