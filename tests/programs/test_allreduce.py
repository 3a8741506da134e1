"""The op that averages gradients over ranks, with a function of ours in MPI's place."""

import ctypes

import sdbr.backends
from sdbr.base.errors import BackendError, OtherAnswer
from sdbr.ops.table import BY_NAME
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder, Instruction
from sdbr.program.memory import plan
from sdbr.program.passes.overlap import overlap
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness.comparison import BACKENDS, assert_near
from tests.tolerances import PARITY

SHAPES = {"one": [(3, 5)], "several": [(3, 5), (), (7,), (0,), (2, 2)]}


class Pretended:
    """Adds what other ranks would have: twice the numbers, and one."""

    def __init__(self, dtype, wide, status=0):
        handle = ctypes.c_void_p if wide else ctypes.c_int
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, handle, handle, handle)
        self.dtype, self.status, self.calls = dtype, status, []
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def __call__(self, sent, data, n, *handles):
        self.calls.append((sent, n, *handles))
        ctype = np.ctypeslib.as_ctypes_type(self.dtype)
        numbers = np.ctypeslib.as_array((ctype * n).from_address(data))
        numbers[...] = 3 * numbers + 1
        return self.status


class Flight(Pretended):
    """The same by functions that begin, let go on and wait for collectives."""

    def __init__(self, dtype, wide):
        super().__init__(dtype, wide)
        handle = ctypes.c_void_p if wide else ctypes.c_int
        place, number = ctypes.c_void_p, ctypes.c_int
        request = place if wide else number
        self.under_way, self.type = {}, ctypes.POINTER(request)
        kinds = (number, place, place, number, handle, handle, handle, self.type)
        self.functions = (
            ctypes.CFUNCTYPE(*kinds)(self.begin),
            ctypes.CFUNCTYPE(number, self.type, ctypes.POINTER(number), place)(self.test),
            ctypes.CFUNCTYPE(number, self.type, place)(self.wait),
        )
        self.addresses = [ctypes.cast(f, place).value for f in self.functions]

    def begin(self, sent, data, n, *rest):
        *handles, request = rest
        request[0] = len(self.calls) + 1
        self.under_way[request[0]] = sent, data, n, *handles
        self.calls.append(("begin", n))
        return 0

    def test(self, request, done, state):
        self.calls.append(("test", request[0]))
        return 0

    def wait(self, request, state):
        number = request[0]
        self.calls.append(("wait", self.under_way[number][2]))
        return Pretended.__call__(Silent(self), *self.under_way.pop(number))


class Silent:
    """What adds up for a flight, which keeps calls of its own."""

    def __init__(self, flight):
        self.dtype, self.status, self.calls = flight.dtype, 0, []


def run(arrays, backend, pretended, wide, share):
    b = Builder()
    rows = [b.table.bound(x.shape, x.dtype, f"g{i}") for i, x in enumerate(arrays)]
    n = sum(x.size for x in arrays) if len(arrays) > 1 else 1
    flat = b.new((n,), arrays[0].dtype, "flat")
    ints = (pretended.address, 5, 6, 7, 1, int(wide))
    b.emit("allreduce", rows, [flat], ints=ints, floats=(share,))
    program = assemble(b.instructions, b.table, "sums", plan(b.instructions, b.table))
    memory = Memory(len(b.table.slots), 0)
    for row, x in zip(rows, arrays, strict=True):
        memory.bind(row.slot.index, x)
    memory.reserve(program)
    sdbr.backends.make_executable(program, memory, backend).run()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_one_collective_for_all(shapes, dtype, wide, backend):
    rng = np.random.RandomState(0)
    arrays = [np.asarray(rng.randn(*shape), dtype) for shape in SHAPES[shapes]]
    want = [(3 * x + 1) * np.dtype(dtype).type(0.3) for x in arrays]
    pretended = Pretended(np.dtype(dtype), wide)
    run(arrays, backend, pretended, wide, 0.3)
    for x, y in zip(arrays, want, strict=True):
        assert_near(x, np.asarray(y), PARITY[dtype], "average")
    # In place, all numbers together, and the handles in MPI's order.
    assert pretended.calls == [(1, sum(x.size for x in arrays), 6, 7, 5)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_the_library_is_said(backend):
    pretended = Pretended(np.dtype("f4"), True, status=15)
    with pytest.raises(BackendError, match=r"(?i)allreduce"):
        run([np.ones(3, "f4")], backend, pretended, True, 0.5)


def in_flight(b, groups, pretended, wide, share):
    """Emit collectives that go on, and what ends them."""
    function, *others = pretended.addresses
    ints = (function, 5, 6, 7, 1, int(wide), *others)
    flats = []
    for number, rows in enumerate(groups):
        size = sum(int(np.prod(row.shape)) for row in rows) if len(rows) > 1 else 1
        flats.append(b.new((size,), rows[0].dtype, "flat"))
        b.emit("allreduce_begin", rows, [flats[-1]], ints=(*ints, number))
    for number, (flat, rows) in enumerate(zip(flats, groups, strict=True)):
        b.emit("allreduce_end", [flat, *rows], [], ints=(number,), floats=(share,))


def executable_of(b, instructions, given, backend):
    """It, on arrays for the bound rows."""
    program = assemble(instructions, b.table, "sums", plan(instructions, b.table))
    memory = Memory(len(b.table.slots), 0)
    for row, x in given:
        memory.bind(row.slot.index, x)
    memory.reserve(program)
    return sdbr.backends.make_executable(program, memory, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_collectives_that_go_on(dtype, wide, backend):
    rng = np.random.RandomState(0)
    shapes = [(3, 5), (), (7,), (2, 2)]
    arrays = [np.asarray(rng.randn(*shape), dtype) for shape in shapes]
    want = [(3 * x + 1) * np.dtype(dtype).type(0.3) for x in arrays]
    b = Builder()
    rows = [b.table.bound(x.shape, x.dtype, f"g{i}") for i, x in enumerate(arrays)]
    flight = Flight(np.dtype(dtype), wide)
    in_flight(b, [rows[:1], rows[1:3], rows[3:]], flight, wide, 0.3)
    b.instructions.insert(1, Instruction(BY_NAME["allreduce_progress"], [], []))
    given = list(zip(rows, arrays, strict=True))
    executable = executable_of(b, b.instructions, given, backend)
    executable.run()
    for x, y in zip(arrays, want, strict=True):
        assert_near(x, np.asarray(y), PARITY[dtype], "average")
    sizes = [15, 8, 4]
    if backend == "cython":
        calls = [("begin", 15), ("test", 1), ("begin", 8), ("begin", 4)]
        assert flight.calls == calls + [("wait", n) for n in sizes]
    else:  # the formula waits at once
        assert flight.calls == [(name, n) for n in sizes for name in ("begin", "wait")]
    executable.run()
    assert not flight.under_way


@pytest.mark.parametrize("way", ["at once", "op by op", "left"])
def test_a_run_that_fails_waits_for_what_it_has_begun(way):
    b = Builder()
    rows = [b.table.bound((n,), np.float32, f"g{n}") for n in (3, 5)]
    asked = b.table.bound((), np.int64, "asked")
    flight = Flight(np.dtype("f4"), True)
    in_flight(b, [rows[:1], rows[1:]], flight, True, 0.5)
    b.instructions.insert(1, Instruction(BY_NAME["question"], [asked], [], (1, 0)))
    answer = np.array(1)
    given = [(row, np.ones(row.shape, "f4")) for row in rows]
    executable = executable_of(b, b.instructions, [*given, (asked, answer)], "cython")
    executable.run()
    assert [name for name, _ in flight.calls] == ["begin", "begin", "wait", "wait"]
    del flight.calls[:]
    answer[...] = 0
    steps = executable.step()
    if way == "left":
        next(steps)
        steps.close()
    else:
        with pytest.raises(OtherAnswer):
            executable.run() if way == "at once" else list(steps)
    assert flight.calls == [("begin", 3), ("wait", 3)]
    with pytest.raises(BackendError, match="not at the same place any more"):
        executable.run()


def names_of(instructions):
    """Ops by name, but for those that only let others go on."""
    names = [f"{x.op.name} {x.label}".strip() for x in instructions]
    return [name for name in names if not name.startswith("allreduce_progress")]


@pytest.mark.parametrize("between", ["nothing", "question"])
def test_collectives_begin_when_their_gradients_are_there(between):
    b = Builder()
    x = b.table.bound((3,), np.float32, "x")
    asked = b.table.bound((), np.int64, "asked")
    grads = [b.table.owned((3,), np.float32, f"g{i}") for i in range(4)]
    made = []
    for i in range(3):
        b.label = f"y{i}"
        made.append(b.elementwise("exp", x if i == 0 else made[-1]))
    if between == "question":
        b.label = ""
        b.emit("question", [asked], [], ints=(1, 0))
    for i in range(3):
        b.label = f"g{i}"
        b.emit("copy", [made[i]], [grads[i]])
    b.label = "g3"
    b.emit("fill", [], [grads[3]], floats=(0.0,))
    b.label = ""
    flight = Flight(np.dtype("f4"), True)
    in_flight(b, [grads[1:2], [grads[0], grads[3]], grads[2:3]], flight, True, 0.5)
    moved = overlap(list(b.instructions), set(), b.table)
    ends = ["allreduce_end"] * 3
    if between == "question":
        assert names_of(moved) == names_of(b.instructions)
    else:
        # The second one would be ready before the first, whose turn it is.
        assert names_of(moved) == [
            "fill g3", "exp y0", "copy g0", "exp y1", "copy g1",
            "allreduce_begin", "allreduce_begin", "exp y2", "copy g2", "allreduce_begin", *ends,
        ]  # fmt: skip
        tests = [i for i, x in enumerate(moved) if x.op.name == "allreduce_progress"]
        assert [moved[i - 1].label for i in tests] == ["y2", "g2"]
    given = np.arange(3, dtype="f4") / 8
    arrays = [np.zeros(3, "f4") for _ in grads]
    bound = [(x, given), (asked, np.array(1)), *zip(grads, arrays, strict=True)]
    executable_of(b, moved, bound, "cython").run()
    made = [np.exp(given), np.exp(np.exp(given)), np.exp(np.exp(np.exp(given))), 0 * given]
    for got, one in zip(arrays, made, strict=True):
        assert_near(got, (3 * one + 1) / 2, PARITY["f4"], "average")
