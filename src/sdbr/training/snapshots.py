"""Snapshots in Chainer's format: whole when they are there, and loaded as a whole."""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from sdbr.base.errors import SnapshotError
from sdbr.training import archive

import chainer
import numpy as np
from chainer import serializer
from chainer.serializers import npz


def save_snapshot(file: str | os.PathLike | IO[bytes], obj: Any, compression: bool = True) -> None:
    """Save as ``chainer.serializers.save_npz`` does, at once or not at all.

    The file is written under no name, or under another one, is on the disk, and then takes its
    place: whoever reads it finds the old one or the new one, also after a crash.

    Parameters
    ----------
    file : str, path or file object
    obj : object with ``serialize``, or dict
        A link, an optimizer, a trainer; a dictionary of arrays, as writers of snapshots give.
    compression : bool
    """
    if not isinstance(file, (str, os.PathLike)):
        npz.save_npz(file, obj, compression)
        return
    archive.write(file, lambda f: npz.save_npz(f, obj, compression))


def load_snapshot(
    file: str | os.PathLike | IO[bytes], obj: Any, path: str = "", strict: bool = True
) -> None:
    """Load what ``save_snapshot`` or ``chainer.serializers.save_npz`` has saved, as a whole.

    All of the file is read, and names, shapes, dtypes and checksums are compared, before anything
    is copied. Nothing is unpickled but None.

    Parameters
    ----------
    file : str, path or file object
    obj : object with ``serialize``
    path : str
        Where in the file it begins.
    strict : bool
        Whether everything has to be in the file.

    Raises
    ------
    SnapshotError
        If the file is not complete, is one of something else, or holds pickled objects. It names
        the key, what was expected and what was found. Nothing has changed then.
    """
    arrays = archive.read(file)
    with _undone(obj, path):
        problems: list[Problem] = []
        for part, where in _parts(obj, path):
            _check(part, Checking(arrays, where, strict, problems))
        if problems:
            raise _error(problems)
        npz.NpzDeserializer(arrays, path=path, strict=strict).load(obj)


def _parts(obj: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Links and optimizers, and where they are in a file."""
    if isinstance(obj, (chainer.Link, chainer.Optimizer)):
        yield obj, path
    elif isinstance(obj, chainer.training.Trainer):
        yield from _parts(obj.updater, f"{path}updater/")
    elif isinstance(obj, chainer.training.Updater):
        for name, optimizer in obj.get_all_optimizers().items():
            yield optimizer, f"{path}optimizer:{name}/"
            yield optimizer.target, f"{path}model:{name}/"


class Problem(NamedTuple):
    """What is not as expected."""

    key: str
    expected: str
    found: str
    near: str


class _Missing(KeyError):
    """Nothing of that name; who asks may do without."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.key)
        self.problem = problem


class Checking(serializer.Deserializer):
    """Compares what is asked for with what is in a file.

    Arrays are given back as they are; of everything else what the file has, as in loading.

    Parameters
    ----------
    arrays : dict of str to ndarray
    path : str
    strict : bool
    problems : list of Problem
        Gets what differs.
    """

    def __init__(
        self, arrays: dict[str, np.ndarray], path: str, strict: bool, problems: list[Problem]
    ) -> None:
        self.arrays, self.path, self.strict, self.problems = arrays, path, strict, problems
        self._loading = npz.NpzDeserializer(arrays, path, strict)

    def __getitem__(self, key: str) -> Checking:
        return Checking(self.arrays, f"{self.path}{key.strip('/')}/", self.strict, self.problems)

    def __call__(self, key: str, value: Any) -> Any:
        problem = self.expect(key, value)
        if problem is None:
            is_array = isinstance(value, chainer.get_array_types())
            return value if is_array else self._loading(key, value)
        if problem.found == "nothing" and value is None:
            raise _Missing(problem)
        self.problems.append(problem)
        return value

    def expect(self, key: str, value: Any) -> Problem | None:
        """What stands against loading it into `value`, or None."""
        name = self.path + key.lstrip("/")
        found = self.arrays.get(name)
        if found is None:
            if not self.strict:
                return None
            return Problem(name, _kind(value), "nothing", _near(name, self.arrays))
        if value is None or found[()] is None or self._fits(found, value, key):
            return None
        return Problem(name, _kind(value), _kind(found), "")

    def _fits(self, found: np.ndarray, value: Any, key: str) -> bool:
        if isinstance(value, chainer.get_array_types()):
            return found.shape == value.shape and np.can_cast(found.dtype, value.dtype, "same_kind")
        if isinstance(value, str):
            return found.shape == () and found.dtype.kind in "US"
        try:
            self._loading(key, value)
        except (TypeError, ValueError):
            return False
        return True


def _error(problems: list[Problem]) -> SnapshotError:
    """The first by name: links give their parameters in an order of chance."""
    key, expected, found, near = min(problems)
    more = f" ({len(problems) - 1} more are not as expected)" if len(problems) > 1 else ""
    text = f"{key!r}: expected {expected}, found {found}{near}{more}"
    return SnapshotError(text, key=key, expected=expected, found=found)


def _kind(value: Any) -> str:
    if isinstance(value, (np.ndarray, *chainer.get_array_types())):
        text = "text" if value.dtype.kind in "US" else value.dtype.name
        return f"{text}{list(value.shape)}" if value.shape else text
    return "something" if value is None else type(value).__name__


def _near(name: str, arrays: dict[str, np.ndarray]) -> str:
    near = difflib.get_close_matches(name, arrays, 3)
    return f"; the file has {', '.join(map(repr, near or sorted(arrays)[:3]))}" if arrays else ""


def _check(part: Any, checking: Checking) -> None:
    new = [
        (name, parameter)
        for name, parameter in _parameters(part, chainer.Optimizer)
        if parameter.update_rule.state is None
    ]
    try:
        part.serialize(checking)
    except _Missing as error:
        checking.problems.append(error.problem)
    except Exception:
        if not checking.problems:  # else these are why
            raise
    for name, parameter in new:
        rule = parameter.update_rule
        rule._state = None
        if parameter.array is not None:
            _check_new_state(rule, parameter, checking[name])


def _check_new_state(rule: Any, parameter: chainer.Parameter, check: Checking) -> None:
    """A state that is not there yet becomes what is in the file, whatever that is."""
    try:
        rule._state = {}
        rule.init_state(parameter)
        state = rule._state
    finally:
        rule._state = None
    for name, value in state.items():
        if check.path + name in check.arrays:
            problem = check.expect(name, value)
            if problem is not None:
                check.problems.append(problem)


def _parameters(part: Any, kind: type) -> list[tuple[str, chainer.Parameter]]:
    """Parameters with update rules of a link or of the target of an optimizer, with names."""
    if not isinstance(part, kind):
        return []
    link = getattr(part, "target", part)
    return (
        []
        if link is None
        else [(name, p) for name, p in link.namedparams() if p.update_rule is not None]
    )


def _serialized(obj: Any) -> dict[str, np.ndarray]:
    """What an object would save, copied."""
    starts = isinstance(obj, chainer.training.Trainer) and obj._start_at is None
    if starts:  # one that has not begun to run cannot tell how long it has
        obj._start_at = time.perf_counter()
    try:
        return {name: np.array(value) for name, value in npz.serialize(obj).items()}
    finally:
        if starts:
            obj._start_at = None


def _put_back(obj: Any, arrays: dict[str, np.ndarray]) -> None:
    """Load what `_serialized` gave. An extension that takes nothing keeps no other from it."""
    deserializer = npz.NpzDeserializer(arrays, strict=False)
    if not isinstance(obj, chainer.training.Trainer):
        deserializer.load(obj)
        return
    parts = [(obj.updater, "updater"), (obj.stop_trigger, "stop_trigger")]
    for name, entry in obj._extensions.items():
        parts.append((entry.extension, f"extensions/{name}"))
        parts.append((entry.trigger, f"extension_triggers/{name}"))
    for part, path in parts:
        if hasattr(part, "serialize"):
            with contextlib.suppress(Exception):
                part.serialize(deserializer[path])


@contextlib.contextmanager
def _undone(obj: Any, path: str) -> Iterator[None]:
    """Put back what an object had serialized, where an error comes out of the block."""
    before = _serialized(obj)
    parts = [part for part, _ in _parts(obj, path)]
    links = [part for part in parts if isinstance(part, chainer.Link)]
    kinds = (chainer.Link, chainer.Optimizer)
    rules = [p.update_rule for part in parts for _, p in _parameters(part, kinds)]
    new = [rule for rule in rules if rule.state is None]
    missing = [p for link in links for p in link.params() if p.array is None]
    kept = [(p, dict(p.__dict__), list(p._data)) for p in missing]
    elapsed = getattr(obj, "_snapshot_elapsed_time", None)
    try:
        yield
    except BaseException as error:
        _put_back(obj, before)
        if elapsed is not None:
            obj._snapshot_elapsed_time = elapsed
        for parameter, attributes, data in kept:
            parameter.__dict__.update(attributes)
            parameter._data[:] = data
        for rule in new:
            rule._state = None
        if isinstance(error, SnapshotError) or not isinstance(error, Exception):
            raise
        raise SnapshotError(f"what the file holds could not be loaded: {error}") from error
