"""Which algorithm of cuBLASLt a product gets: timed once, and what was found is kept on disk.

``<folder>/cuda/products-<digest>.json``, by device, driver, library and version of this package.
What cannot be read counts as empty; where it cannot be written each process times for itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

from sdbr.base.errors import BackendError
from sdbr.base.forks import reentrant_lock
from sdbr.base.version import VERSION
from sdbr.devices.compiled import replace
from sdbr.devices.cublaslt import Algorithm, Handle, Matmul, Product, Refused
from sdbr.devices.driver import Borrowed

import numpy as np

#: Algorithms that are timed, and how: the least of so many times of so many products in a row.
CANDIDATES, ROUNDS, IN_A_ROW = 8, 3, 4
ALIGNMENT = 256
_ALL_NAN = 0xFF  # each byte of a number that is none
_log = logging.getLogger("sdbr")


class Layout:
    """Places in memory, one behind the other.

    Attributes
    ----------
    nbytes : int
    """

    def __init__(self) -> None:
        self.nbytes = 0

    def take(self, nbytes: int) -> int:
        """A place of so many bytes: how far from the beginning."""
        at = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return at


class Room:
    """Memory of a device that begins where the library wants it to.

    Attributes
    ----------
    address, nbytes : int
    """

    def __init__(self, allocate: Callable | None = None, nbytes: int = 0) -> None:
        self.nbytes, self.address = nbytes, 0
        if allocate is not None:
            self._memory = allocate(nbytes + ALIGNMENT)
            self.address = -(-self._memory.address // ALIGNMENT) * ALIGNMENT


class Races:
    """The algorithms of a library on a device.

    Parameters
    ----------
    handle : Handle
    folder : pathlib.Path or None
        Of the cache; None keeps everything in memory.

    Attributes
    ----------
    timed : int
        Products that were timed by this process.
    """

    def __init__(self, handle: Handle, folder: Path | None) -> None:
        self.handle, self.timed = handle, 0
        device = handle.device
        self.about = {
            "device": f"{device.name} {device.architecture}",
            "driver": ".".join(map(str, device.driver.version)),
            "library": handle.library.name,
            "sdbr": VERSION,
        }
        text = json.dumps(self.about, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = None if folder is None else folder / "cuda" / f"products-{digest}.json"
        self.lock = reentrant_lock()
        self._ready: dict[tuple[str, bool], Algorithm | None] = {}

    def algorithm(
        self, matmul: Matmul, allocate: Callable, stream: Borrowed, timed: bool
    ) -> Algorithm | None:
        """What a product is done by; None: the library does not do it.

        It has run once, so nothing has to be loaded any more while a stream records.

        Parameters
        ----------
        matmul : Matmul
        allocate : callable
            Bytes to memory of the device, with its `address`.
        stream : Borrowed
            That does not record.
        timed : bool
            False: the first one that the library names; nothing is read from disk.

        Raises
        ------
        BackendError
            If the library fails.
        """
        key = (str(matmul.product), timed)
        with self.lock:
            if key not in self._ready:
                self._ready[key] = self._find(matmul, allocate, stream, timed)
            return self._ready[key]

    def _find(self, matmul, allocate, stream, timed) -> Algorithm | None:
        name = str(matmul.product)
        known = self._read() if timed else {}
        if name in known:
            algorithm = known[name]
            if algorithm is None or (
                matmul.takes(algorithm) and _Trial(matmul, [algorithm], allocate, stream).runs
            ):
                return algorithm
        trial = _Trial(matmul, matmul.algorithms(CANDIDATES), allocate, stream)
        if timed and len(trial.runs) > 1:
            best = trial.fastest()
            self.timed += 1
        else:
            best = trial.runs[0] if trial.runs else None
        if timed:
            self._write({**self._read(), name: best})
        return best

    def _read(self) -> dict[str, Algorithm | None]:
        if self.path is None:
            return {}
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["about"] != self.about:
                return {}
            return {str(name): _algorithm(one) for name, one in data["products"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            _log.info("%s is not used: %r", self.path, error)
            return {}

    def _write(self, products: dict[str, Algorithm | None]) -> None:
        if self.path is None:
            return
        written = {
            name: None if one is None else {"words": one.words, "workspace": one.workspace}
            for name, one in products.items()
        }
        text = json.dumps({"about": self.about, "products": written}, indent=1)
        with contextlib.suppress(OSError):
            replace(self.path, text.encode())


def _algorithm(one: dict | None) -> Algorithm | None:
    if one is None:
        return None
    words, workspace = tuple(map(int, one["words"])), int(one["workspace"])
    if len(words) != 8 or min(*words, workspace) < 0:
        raise ValueError(f"{one!r} is no algorithm")
    return Algorithm(words, workspace)


class _Trial:
    """Algorithms that have done a product once, on memory that is nobody's, full of NaN.

    Attributes
    ----------
    runs : list of Algorithm
        Those that did, and of which NaN came.
    """

    def __init__(self, matmul: Matmul, algorithms, allocate, stream: Borrowed) -> None:
        self.matmul, self.stream, self.runs = matmul, stream, []
        product: Product = matmul.product
        layout, size = Layout(), product.itemsize
        n, m, depth, count = product.n, product.m, product.depth, product.count
        sizes = [count * n * depth * size, count * depth * m * size, count * n * m * size]
        workspace = max((one.workspace for one in algorithms), default=0)
        sizes += [workspace, product.vector * size, product.has_mask * product.mask_bytes]
        places = [layout.take(nbytes) for nbytes in sizes]
        if not algorithms:
            return
        try:
            self._room = Room(allocate, layout.nbytes)
        except MemoryError as error:  # our own kernels need none
            raise Refused(f"{product}: no memory to try it in") from error
        self._places = [self._room.address + at for at in places]
        # The library refuses a product that is told of a vector which it neither adds nor makes.
        for k, has in ((4, product.vector), (5, product.has_mask)):
            self._places[k] *= bool(has)
        for one in algorithms:
            with contextlib.suppress(Refused):
                stream.fill(self._room.address, layout.nbytes, _ALL_NAN)
                stream.fill(self._places[2], size, 0)
                self._run(one)
                if self._keeps_nan():
                    self.runs.append(one)

    def _keeps_nan(self) -> bool:
        """Whether NaN has come of NaN: a relu may be one that makes zeros of it."""
        c = np.zeros(1, self.matmul.product.dtype)
        self.stream.to_host(c, self._places[2])
        self.stream.synchronize()
        return bool(np.isnan(c[0]))

    def _run(self, algorithm: Algorithm) -> None:
        try:
            self.matmul.run(self.stream, algorithm, *self._places)
        except Refused:
            raise
        except BackendError as error:
            raise BackendError(f"{self.matmul.product}: {error}") from error

    def fastest(self) -> Algorithm:
        """The algorithm that takes the least time."""
        device = self.matmul.owner.device
        begin, end = device.event(), device.event()
        least = dict.fromkeys(range(len(self.runs)), float("inf"))
        for _ in range(ROUNDS):
            for k, one in enumerate(self.runs):
                begin.record(self.stream)
                for _ in range(IN_A_ROW):
                    self._run(one)
                end.record(self.stream)
                least[k] = min(least[k], end.seconds_since(begin))
        return self.runs[min(least, key=least.__getitem__)]
