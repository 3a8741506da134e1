"""The flat arrays are the program: by hand, interpreted, refused when malformed, planned."""

import sdbr
import sdbr.backends
from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS
from sdbr.program._memory import Memory
from sdbr.program.buffers import BOUND
from sdbr.program.builder import Builder
from sdbr.program.memory import check_overlaps, plan
from sdbr.program.program import assemble

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import assert_near
from tests.harness.written_program import three_ops
from tests.tolerances import ANOTHER_ORDER, ELEMENTS, ROUNDINGS

BACKENDS = ["cython", "numpy"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_hand_written_program(backend):
    program = three_ops()
    memory = Memory(4, 0)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("f4") for s in ((2, 3), (4, 3)))
    y = np.zeros(4, "f4")
    arrays = {0: x, 1: w, 2: np.zeros(128, np.uint8), 3: y}
    for slot, array in arrays.items():
        memory.bind(slot, array)
    sdbr.backends.make_executable(program, memory, backend).run()
    np.testing.assert_allclose(
        y, (np.maximum(x @ w.T, 0) * 3).sum(0), rtol=ROUNDINGS, atol=ROUNDINGS
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_traced_program_runs_by_itself(backend):
    model = sdbr.static_graph(L.Linear(3, 2))
    x = np.random.rand(4, 3).astype("f")
    want = [model(x).array for _ in range(2)][-1]
    program = model.schedule_manager.static_schedule.programs["forward"]
    inputs = {"argument 0": x, "parameter /W": model.W.array, "parameter /b": model.b.array}
    arrays = [inputs[s.name] for s in program.slots if s.kind == BOUND]
    (got,) = program.run(arrays, backend)
    assert_near(got, want, ROUNDINGS, "values")
    lines = list(program.step(arrays, backend))
    assert lines == program.disassemble().split("\n")


def test_a_program_refuses_inputs_that_do_not_fit():
    program = three_ops()
    x, w, y = (np.zeros(s, "f") for s in ((2, 3), (4, 3), (4,)))
    with pytest.raises(ValueError, match=r"expected 3 arrays \(x, w, y\), got 2"):
        program.run([x, w])
    with pytest.raises(ValueError, match=r"w must be float32\[4, 3\], got float64\[4, 3\]"):
        program.run([x, w.astype("d"), y])
    assert program.run([x, w, y]) == []


def test_hand_written_program_disassembles():
    lines = three_ops().disassemble().splitlines()
    assert [line.split()[1] for line in lines] == ["linear", "mul_constant", "sum"]
    assert "%2:float32[2,4]" in lines[0] and "activation=1" in lines[0] and "value=3" in lines[1]


# --- an interpreter that knows the arrays and NumPy, nothing else --------------------------------
def log_sum_exp(x):
    return np.log(np.exp(x).sum(1))


def transposed(a, flag):
    return a.T if flag else a


def masked(product, y, activation):
    return product * {1: y > 0, 2: y * (1 - y), 3: 1 - y * y}[activation]


def cross_entropy(i, n, f):
    lse = log_sum_exp(i[0])
    picked = np.take_along_axis(i[0], i[1][:, None], 1)[:, 0] - lse
    return -picked.sum() / i[1].size, lse, 1 / i[1].size


def cross_entropy_grad(i, n, f):
    onehot = np.arange(i[0].shape[1])[None, :, None] == i[1][:, None]
    return ((np.exp(i[0] - i[2][:, None]) - onehot) * (i[3] * i[4]),)


ACTIVATIONS = [lambda x: x, lambda x: np.maximum(x, 0), lambda x: 1 / (1 + np.exp(-x)), np.tanh]
NUMPY = {
    "copy": lambda i, n, f: (i[0],),
    "fill": lambda i, n, f: (f[0],),
    "relu": lambda i, n, f: (np.maximum(i[0], 0),),
    "sigmoid": lambda i, n, f: (ACTIVATIONS[2](i[0]),),
    "tanh": lambda i, n, f: (np.tanh(i[0]),),
    "add": lambda i, n, f: (i[0] + i[1],),
    "multiply": lambda i, n, f: (i[0] * i[1],),
    "mul_constant": lambda i, n, f: (i[0] * f[0],),
    "relu_grad": lambda i, n, f: (np.where(i[0] > 0, i[1], 0),),
    "tanh_grad": lambda i, n, f: (i[1] * (1 - i[0] ** 2),),
    "sigmoid_grad": lambda i, n, f: (i[1] * i[0] * (1 - i[0]),),
    "sum": lambda i, n, f: (i[0].sum(1),),
    "linear": lambda i, n, f: (ACTIVATIONS[n[0]](i[0] @ i[1].T + (i[2] if len(i) > 2 else 0)),),
    "gemm_mask": lambda i, n, f: (masked(i[0] @ i[1], i[2], n[0]),),
    "softmax_cross_entropy": cross_entropy,
    "softmax_cross_entropy_grad": cross_entropy_grad,
    "accuracy": lambda i, n, f: ((i[0].argmax(1) == i[1]).mean(),),
    "sgd": lambda i, n, f: (i[1] - f[0] * i[0],),
}


def interpret(program, buffers, control=()):
    """Run `program` on one uint8 array per slot."""
    floats = program.float_attributes.copy()
    for at, source in program.control_references.tolist():
        floats[at] = control[source]

    def view(r):
        row = program.rows[r]
        start, middle = row["dims"], row["dims"] + row["ndim"]
        shape = program.dims[start:middle]
        strides = program.dims[middle : middle + row["ndim"]]
        dtype = DTYPES[row["type"]]
        return np.ndarray(shape, dtype, buffers[row["slot"]], row["offset"], strides)

    for i, opcode in enumerate(program.opcodes.tolist()):
        start, stop = program.operand_offsets[i : i + 2]
        operands = [view(r) for r in program.operands[start:stop]]
        cut = len(operands) - program.n_outputs[i]
        ins, outs = operands[:cut], operands[cut:]
        (a, b), (c, d) = program.attribute_offsets[i : i + 2]
        n, f = program.int_attributes[a:c].tolist(), floats[b:d].tolist()
        if OPS[opcode].name == "gemm":
            product = transposed(ins[0], n[0]) @ transposed(ins[1], n[1])
            outs[0][...] = outs[0] + product if n[2] else product
            continue
        for out, value in zip(outs, NUMPY[OPS[opcode].name](ins, n, f), strict=True):
            out[...] = value


def filled_slots(program, rng):
    """One uint8 array per slot: random numbers, labels 0 or 1, constants as they are."""
    dtypes = {}
    for row in program.rows:
        dtypes.setdefault(int(row["slot"]), DTYPES[row["type"]])
    buffers = []
    for s, slot in enumerate(program.slots):
        if slot.array is not None:
            array = slot.array.copy()
        elif dtypes[s].kind in "iu":
            array = rng.integers(0, 2, slot.nbytes // dtypes[s].itemsize).astype(dtypes[s])
        else:
            array = rng.standard_normal(-(-slot.nbytes // dtypes[s].itemsize)).astype(dtypes[s])
        buffers.append(array.reshape(-1).view(np.uint8))
    return buffers, dtypes


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a, self.b, self.c = L.Linear(5, 40), L.Linear(40, 7), L.Linear(7, 3)

    @sdbr.static_graph
    def __call__(self, x, t):
        h = F.tanh(self.b(F.relu(self.a(x))))
        return F.softmax_cross_entropy(self.c(h), t)


def traced_programs():
    """Forward and backward of one chain, the whole step of another."""
    rng = np.random.RandomState(0)
    x, t = rng.rand(6, 5).astype("f4"), rng.randint(0, 3, 6).astype("i")
    net = Net()
    for _ in range(3):
        net.cleargrads()
        net(x, t).backward()
    model = Net()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for _ in range(3):
        optimizer.update(model, x, t)
    programs = []
    for chain in (net, model):
        for schedules in chain.schedule_manager.schedules.values():
            for found in [p for s in schedules for p in s.programs.values()]:
                programs += found if isinstance(found, list) else [found]
    return programs


@pytest.fixture(scope="module")
def programs():
    return traced_programs()


@pytest.mark.parametrize("backend", BACKENDS)
def test_traced_programs_in_a_plain_interpreter(programs, backend):
    assert {p.name for p in programs} >= {"forward", "backward", "step"}
    assert all(p.python_ops == 0 for p in programs)
    rng = np.random.default_rng(1)
    for program in programs:
        buffers, dtypes = filled_slots(program, rng)
        memory = Memory()
        memory.reserve(program)
        copies = [memory.array(slot.index) for slot in program.slots]
        for s, slot in enumerate(program.slots):
            if copies[s] is None:
                copies[s] = buffers[s].copy()
                memory.bind(slot.index, copies[s])
            elif slot.array is None:
                copies[s][...] = buffers[s][: slot.nbytes]
        control = rng.uniform(0.01, 0.1, memory.n_control)
        for i, value in enumerate(control.tolist()):
            memory.set_control(i, value)
        interpret(program, buffers, control)
        sdbr.backends.make_executable(program, memory, backend).run()
        for s, slot in enumerate(program.slots):
            if slot.array is None:
                got = copies[s].reshape(-1).view(np.uint8)[: slot.nbytes].view(dtypes[s])
                want = buffers[s][: slot.nbytes].view(dtypes[s])
                np.testing.assert_allclose(
                    got, want, rtol=ELEMENTS, atol=ANOTHER_ORDER, err_msg=slot.name
                )


# --- the memory plan -----------------------------------------------------------------------------
def chain_of(n, shape=(50,)):
    b = Builder()
    x = b.table.bound(shape, "f4", "x")
    h, rows = x, []
    for _ in range(n):
        y = b.new(shape, "f4")  # of an op that cannot work in place
        b.emit("sum", [b.reshape(h, (1, 1, *shape))], [b.reshape(y, (1, *shape))])
        h = y
        rows.append(h)
    b.copy_to(h, b.table.owned(shape, "f4", "y"))
    return b, rows


@pytest.mark.parametrize("shape", [(50,), (5000,)])
def test_plan_reuses_memory_without_overlaps(shape):
    b, rows = chain_of(20, shape)
    arena = plan(b.instructions, b.table)
    assert check_overlaps(b.instructions) == []
    one = -(-rows[0].nbytes // 64) * 64
    assert arena.nbytes == 2 * one
    assert all(r.place % 64 == 0 for r in rows)


def test_plan_keeps_what_must_survive():
    b, rows = chain_of(20)
    plan(b.instructions, b.table, kept=[rows[3]])
    assert check_overlaps(b.instructions, kept=[rows[3]]) == []
    later = rows[4:]
    assert all(r.place != rows[3].place for r in later)


def test_plan_without_reuse_gives_every_buffer_its_own_memory():
    b, rows = chain_of(20)
    arena = plan(b.instructions, b.table, reuse=False)
    assert len({r.place for r in rows}) == 20 and arena.nbytes == 20 * 256


def test_overlap_checker_finds_a_wrong_plan():
    b, rows = chain_of(5)
    plan(b.instructions, b.table)
    rows[1].place = rows[2].place
    problems = check_overlaps(b.instructions)
    assert problems and "share memory" in problems[0]


def test_memory_plan_prints_every_row():
    b, _ = chain_of(3)
    arena = plan(b.instructions, b.table)
    text = assemble(b.instructions, b.table, "forward", arena).memory_plan()
    assert text.startswith(f"forward: arena of {arena.nbytes} bytes") and text.count("\n") == len(
        b.table.rows
    )


def test_elementwise_ops_keep_the_order_in_which_axes_lie():
    b = Builder()
    x, y = (b.table.bound((2, 3, 4), np.float32, name) for name in "xy")
    turned = b.transpose(x, (2, 0, 1))
    z = b.elementwise("add", turned, b.transpose(y, (2, 0, 1)))
    assert z.shape == (4, 2, 3) and z.strides == turned.strides
    assert all(row.is_contiguous for i in b.instructions for row in (*i.ins, *i.outs))
    row = b.table.bound((3,), np.float32, "row")
    assert b.elementwise("add", turned, row).strides == turned.strides
    other = b.table.bound((4, 2, 3), np.float32, "other")
    assert b.elementwise("add", turned, other).is_contiguous
    assert b.elementwise("absolute", b.slice(turned, slice(1, 3))).is_contiguous


def test_a_sum_with_a_transposed_matrix_is_a_transposed_result_as_in_numpy():

    @sdbr.static_graph
    def static(x):
        return F.transpose(x) + 1

    for step in range(4):
        x = chainer.Variable(np.random.default_rng(step).random((5, 3), np.float32))
        z = static(x)
        np.testing.assert_array_equal(z.array, x.array.T + 1)
        z.grad = gz = np.arange(15, dtype=np.float32).reshape(3, 5)
        z.backward()
        np.testing.assert_array_equal(x.grad, gz.T)
        z.array[...] = 0
    assert static.schedule_manager.statistics.replays == 3
    assert static.schedule_manager.statistics.python_ops == 0
    assert z.array.strides == (x.array.T + 1).strides
