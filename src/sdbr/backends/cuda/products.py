"""Products by cuBLASLt: which, and what runs around them.

Addresses are part of what is recorded, and the library knows no faults. So an operand that moves is
copied to memory of the program first; and what outlives the run, or moves, is made in such memory
and written by a kernel of this package, which no fault lets go on.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator

from sdbr.backends.cpu.tuning.wanted import tune
from sdbr.backends.cuda.launch import DeviceOp, Launch, teams_for
from sdbr.backends.cuda.masks import RELU, pairs
from sdbr.backends.cuda.races import Layout, Races, Room
from sdbr.backends.cuda.team import by_dtype
from sdbr.backends.cuda.together import Unit
from sdbr.backends.numpy.executable import explain_error
from sdbr.base.errors import BackendError
from sdbr.devices.choices import tf32
from sdbr.devices.cublaslt import MOST_SIZE, Algorithm, Matmul, Product, Refused
from sdbr.devices.driver import Borrowed
from sdbr.ops.table import OPS
from sdbr.program.program import Program

#: Multiply-adds from which a product is one for the library: the smallest that ``gpu-check`` times,
#: of which all are the library's on an H200.
LEAST = 1 << 17
_BIAS, _MASK, _ADD = 1, 2, 4  # SDBR_END, as in kernels/device/product.cuh


@dataclasses.dataclass(frozen=True)
class Choice:
    """What does a product, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


@dataclasses.dataclass(frozen=True)
class Address:
    """Where an operand lies.

    Attributes
    ----------
    number : int
        Of the operand; where it moves, of the word that has its address.
    moves : bool
    """

    number: int
    moves: bool = False

    @property
    def alignment(self) -> int:
        """Bytes, 256 at most."""
        return min(256, self.number & -self.number or 256)


@dataclasses.dataclass
class Kernel:
    """One of this package's kernels around a product.

    Attributes
    ----------
    launch : Launch
    operands : list of Address or int
        An integer: how far from the beginning of the memory of the program.
    is_lasting : bool
        Whether it writes what outlives the run.
    """

    launch: Launch
    operands: list[Address | int]
    is_lasting: bool = False

    def op(self, room: int, number: int, fault: int) -> DeviceOp:
        """What the kernel gets: see `Recipe.run`."""
        found = [x if isinstance(x, Address) else Address(room + x) for x in self.operands]
        made = self.launch.op([x.number for x in found], 0, fault, number)
        made.moving = sum(x.moves << k for k, x in enumerate(found))
        made.is_lasting = self.is_lasting
        return made


@dataclasses.dataclass
class Recipe:
    """A product as it is recorded.

    Attributes
    ----------
    unit : Unit
    matmul : Matmul
    algorithm : Algorithm
    operands : dict
        By the names of `Matmul.run`; as those of a kernel.
    nbytes : int
        Memory of the program that it needs while it runs.
    before, after : Kernel or None
        What is launched around it.
    launches : tuple of (Unit, Launch)
        Kernels of ops of the unit that are apart.
    """

    unit: Unit
    matmul: Matmul
    algorithm: Algorithm
    operands: dict[str, Address | int]
    nbytes: int
    before: Kernel | None
    after: Kernel | None
    launches: tuple[tuple[Unit, Launch], ...] = ()

    def run(
        self, stream: Borrowed, room: int, number: int, fault: int
    ) -> Iterator[tuple[Launch, DeviceOp]]:
        """Record it; what is launched around the product, each at its turn.

        Parameters
        ----------
        stream : Borrowed
        room, fault : int
            Addresses: of the memory that it needs, and of the `Fault`.
        number : int
            Of the op.
        """
        if self.before is not None:
            yield self.before.launch, self.before.op(room, number, fault)
        places = {
            name: x.number if isinstance(x, Address) else room + x
            for name, x in self.operands.items()
        }
        self.matmul.run(stream, self.algorithm, **places)
        if self.after is not None:
            yield self.after.launch, self.after.op(room, number, fault)


@dataclasses.dataclass(frozen=True)
class _Way:
    """An epilogue, and what is left for the kernel behind the product."""

    epilogue: str = ""
    what: int = 0
    activation: int = 0
    sums: bool = False  # left for their own launches
    mask: int | None = None  # the op that notes it


class Products:
    """The products of a program that a library does.

    Parameters
    ----------
    program : Program
    launches : sequence of Launches
        Of all ops of the program.
    races : Races or None
        Of the library; None: there is none.

    Attributes
    ----------
    choices : dict
        By op: `Choice`.
    """

    def __init__(self, program: Program, launches, races: Races | None) -> None:
        self.program, self.launches, self.races = program, launches, races
        self.choices: dict[int, Choice] = {}
        self.tf32 = races is not None and tf32()
        # Ops that may note masks, and where; for each gradient which of them; who does so now.
        self._masks: dict[int, Address] = {}
        self._sources: dict[int, int] = {}
        self._noted: set[int] = set()

    def pair(self, units: Iterable[Unit], places: Callable, allocate: Callable) -> None:
        """Find relus whose masks the library may note for their gradients, and memory for them.

        Parameters
        ----------
        units : iterable of Unit
        places : callable
            What an op reads and what it writes.
        allocate : callable
            See `Races.algorithm`.
        """
        taken = {x.ops[0]: x for x in units if x.launches and self.takes(x)}
        layout, begins = Layout(), {}
        for i, j in pairs(self.program, set(taken), places):
            ways = [_Way("relu_aux" + self._bias(i)), _Way("drelu")]
            if all(map(self._is_done, (taken[i], taken[j]), ways)):
                nbytes = self._made(taken[i], ways[0]).product.mask_bytes
                begins[i] = begins[i] if i in begins else layout.take(nbytes)
                self._sources[j] = i
        if begins:
            self._room = Room(allocate, layout.nbytes)
            self._masks = {i: Address(self._room.address + at) for i, at in begins.items()}

    def _bias(self, i: int) -> str:
        return "_bias" if len(self.program.operands_of(i)[0]) == 3 else ""

    def _made(self, unit: Unit, way: _Way) -> _Maker:
        """As if all lay as the library likes it best."""
        return _Maker(self.program, unit, lambda r: Address(256), False, way, self.tf32)

    def _is_done(self, unit: Unit, way: _Way) -> bool:
        try:
            matmul = self.races.handle.product(self._made(unit, way).product)
            return bool(matmul.algorithms(1))
        except Refused:
            return False

    def takes(self, unit: Unit) -> bool:
        """Whether a unit is one for the library: the one place where that is decided."""
        i, launch = unit.ops[0], unit.launches[0]
        if OPS[int(self.program.opcodes[i])].family != "product":
            return False
        n, m, depth, count = (*launch.ints[:3], launch.ints[7])
        if self.races is None:
            why = "no cuBLASLt"
        elif n * m * depth * count < max(LEAST, 1):
            why = "small"
        elif max(n, m, depth, count) > MOST_SIZE:
            why = "large"
        else:
            return True
        self.choices[i] = Choice("own kernel", why)
        return False

    def kernels(self, units: Iterable[Unit]) -> Iterator[Launch]:
        """What may be needed around the products that the library takes, or in their place."""
        for unit in units:
            if unit.launches and self.takes(unit):
                section = unit.launches[0].section
                yield by_dtype("product_begin", section, (), 1)
                yield by_dtype("product_end", section, (), 1)
                for i in unit.ops[1:]:
                    yield from self.launches[i]

    def recipes(
        self,
        taken: Iterable[Unit | None],
        place: Callable[[int], Address],
        guarded: frozenset[int],
        allocate: Callable,
        stream: Borrowed,
    ) -> list[Recipe | None]:
        """How the library does each of some units; None: it does not. As `recipe`."""

        def made(unit: Unit) -> Recipe | None:
            try:
                return self.recipe(unit, place, not guarded.isdisjoint(unit.ops), allocate, stream)
            except BackendError as error:
                explain_error(error, self.program, unit.ops[0])
                raise

        return [None if unit is None else made(unit) for unit in taken]

    def recipe(
        self,
        unit: Unit,
        place: Callable[[int], Address],
        is_guarded: bool,
        allocate: Callable,
        stream: Borrowed,
    ) -> Recipe | None:
        """How the library does a unit that it takes; None: it does not.

        Parameters
        ----------
        unit : Unit
        place : callable
            Where a row lies.
        is_guarded : bool
            Whether what it writes must not be written after a fault.
        allocate, stream
            See `Races.algorithm`.

        Raises
        ------
        BackendError
            If the library fails.
        """
        for way in self._ways(unit):
            made = _Maker(self.program, unit, place, is_guarded, way, self.tf32)
            try:
                matmul = self.races.handle.product(made.product)
                found = self.races.algorithm(matmul, allocate, stream, tune())
            except Refused:
                continue
            if found is None:
                continue
            left = unit.ops[1:] if way.sums else ()
            if way.mask is not None:
                made.mask = self._masks[way.mask]
                self._noted.add(way.mask)
            else:
                self._noted.discard(unit.ops[0])
            self.choices[unit.ops[0]] = Choice("cuBLASLt", way.epilogue or "no epilogue")
            apart = [Unit((i,), self.launches[i]) for i in left]
            return dataclasses.replace(
                made.recipe(matmul, found),
                launches=tuple((one, launch) for one in apart for launch in one.launches),
            )
        self._noted.discard(unit.ops[0])
        self.choices[unit.ops[0]] = Choice("own kernel", "refused by cuBLASLt")
        return None

    def _ways(self, unit: Unit) -> Iterator[_Way]:
        """From the one that leaves the least to be done."""
        i = unit.ops[0]
        name = OPS[int(self.program.opcodes[i])].name
        ints, _ = self.program.attributes_of(i)
        if name == "linear":
            bias, activation = self._bias(i), ints[0]
            if activation == RELU:
                if i in self._masks:
                    yield _Way("relu_aux" + bias, mask=i)
                yield _Way("relu" + bias)
            if bias or not activation:
                yield _Way(bias[1:], 0, activation)
            if bias or activation:
                yield _Way("", _BIAS * bool(bias), activation)
        elif name == "gemm_mask":
            if self._sources.get(i) in self._noted:
                yield _Way("drelu", mask=self._sources[i])
            yield _Way("", _MASK, ints[0])
        else:
            if len(unit.ops) > 1:
                yield _Way("bgrad")
            yield _Way(sums=len(unit.ops) > 1)


class _Maker:
    """Makes a recipe: which operands lie where, and what has to be done about it."""

    def __init__(self, program, unit, place, is_guarded, way, uses_tf32) -> None:
        self.unit, self.way, self.is_guarded, self.room = unit, way, is_guarded, Layout()
        i, launch = unit.ops[0], unit.launches[0]
        name = OPS[int(program.opcodes[i])].name
        ints, _ = program.attributes_of(i)
        trans_a, trans_b, accumulate = (0, 1, 0) if name == "linear" else (0, 0, 0)
        if name in ("gemm", "batch_matmul"):
            trans_a, trans_b, accumulate = (*ints, 0)[:3]
        ins, outs = program.operands_of(i)
        n, m, depth, count = (*launch.ints[:3], launch.ints[7])
        self.elements, self.m, self.dtype = count * n * m, m, launch.section
        self.a, self.b, self.c = place(ins[0]), place(ins[1]), place(outs[0])
        self.third = place(ins[2]) if len(ins) == 3 else None  # bias, or y
        vector = None
        if way.epilogue == "bgrad":
            vector = place(program.operands_of(unit.ops[1])[1][0])
        elif "bias" in way.epilogue:
            vector = self.third
        self.is_staged = is_guarded or self.c.moves
        if way.epilogue == "bgrad":
            self.is_staged |= vector.moves
        self.adds = bool(accumulate) and self.is_staged
        self.sizes = {"a": count * n * depth, "b": count * depth * m, "vector": m}
        self.vector, self.n = vector, n
        self.mask: Address | None = None
        itemsize = int(self.dtype[1:])
        steps = [itemsize * x if count > 1 else 0 for x in (n * depth, depth * m, n * m)]
        self.product = Product(
            self.dtype, n, m, depth, bool(trans_a), bool(trans_b), count,
            bool(accumulate) and not self.is_staged, way.epilogue,
            uses_tf32 and self.dtype == "f4", self._alignment(steps),
        )  # fmt: skip

    def _alignment(self, sizes: Iterable[int]) -> tuple[int, int, int, int]:
        """Of operands, and of matrices that lie behind the first ones: `sizes` bytes each."""
        staged = 256
        places = [staged if x.moves else x.alignment for x in (self.a, self.b)]
        places.append(staged if self.is_staged else self.c.alignment)
        a, b, c = map(math.gcd, places, sizes)
        vector = self.vector
        if vector is None or vector.moves or (self.way.epilogue == "bgrad" and self.is_staged):
            return a, b, c, staged
        return a, b, c, vector.alignment

    def recipe(self, matmul: Matmul, algorithm: Algorithm) -> Recipe:
        itemsize, room, way = self.product.itemsize, self.room, self.way
        operands: dict[str, Address | int] = {"a": self.a, "b": self.b, "c": self.c}
        operands["workspace"] = room.take(algorithm.workspace)
        if self.vector is not None:
            operands["vector"] = self.vector
        if self.mask is not None:
            operands["mask"] = self.mask
        copies, counts = [], []
        sums = way.epilogue == "bgrad"
        for name, size in self.sizes.items():
            x = operands.get(name)
            if isinstance(x, Address) and x.moves and not (name == "vector" and sums):
                operands[name] = room.take(size * itemsize)
                copies += [x, operands[name]]
                counts.append(size)
        after = None
        if self.is_staged:
            operands["c"] = room.take(self.elements * itemsize)
            if sums:
                operands["vector"] = room.take(self.n * itemsize)
        if self.is_staged or way.what or way.activation:
            after = self._after(operands)
        before = None
        if copies:
            launch = by_dtype("product_begin", self.dtype, counts, teams_for(max(counts)))
            before = Kernel(launch, copies)
        return Recipe(self.unit, matmul, algorithm, operands, room.nbytes, before, after)

    def _after(self, operands: dict[str, Address | int]) -> Kernel:
        way, nothing = self.way, Address(0)
        what = way.what | (_ADD if self.adds else 0)
        has_sums = way.epilogue == "bgrad" and self.is_staged
        ints = (self.elements, self.m, way.activation, what, self.n if has_sums else 0)
        given = [operands["c"], self.c, nothing, nothing]
        if what & (_BIAS | _MASK):
            given[2 if what & _BIAS else 3] = self.third
        if has_sums:
            given += [operands["vector"], self.vector]
        launch = by_dtype("product_end", self.dtype, ints, teams_for(self.elements))
        return Kernel(launch, given, self.is_guarded)
