"""What every executable does around its ops: control block, Python ops, steps, errors."""

import sdbr.backends
from sdbr.base.errors import BackendError, ValidationError
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.memory import plan
from sdbr.program.program import assemble

import numpy as np
import pytest

BACKENDS = sorted({"cython", *sdbr.backends.available()})
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def build(builder, backend, n_control=1):
    """Plan, assemble and bind the arena."""
    arena = plan(builder.instructions, builder.table)
    program = assemble(builder.instructions, builder.table, "test", arena)
    memory = Memory(len(builder.table.slots), n_control)
    memory.bind(arena.index, np.zeros(max(arena.nbytes, 1), np.uint8))
    return sdbr.backends.make_executable(program, memory, backend), memory


def scaled_sum(python=None):
    """y = sum over rows of 2 x + control 0, with a Python op in the middle on request."""
    b = Builder()
    x, y = b.table.bound((3, 4), "f4", "x"), b.table.owned((3,), "f4", "y")
    h = b.elementwise("mul_constant", x, floats=(2.0,))
    if python is not None:
        g = b.new((3, 4), "f4")
        b.label, b.line = "Twice", "model.py:12"
        b.emit("python", [h], [g], (0, 1), obj=python)
        h = g
    h = b.elementwise("add_constant", h, floats=(ControlSlot(0, 123.0),))
    b.copy_to(b.reduce("sum", h, [1]), y)
    return b, x, y


def test_control_block_is_read_at_every_run(backend):
    b, x, y = scaled_sum()
    executable, memory = build(b, backend)
    x_array, y_array = np.arange(12, dtype="f4").reshape(3, 4), np.zeros(3, "f4")
    memory.bind(x.slot.index, x_array)
    memory.bind(y.slot.index, y_array)
    for value in (1.0, -3.5):
        memory.set_control(0, value)
        executable.run()
        assert (y_array == (2 * x_array + value).sum(1)).all()


def test_step_runs_one_op_at_a_time(backend):
    b, x, y = scaled_sum()
    executable, memory = build(b, backend)
    y_array = np.zeros(3, "f4")
    memory.bind(x.slot.index, np.ones((3, 4), "f4"))
    memory.bind(y.slot.index, y_array)
    seen = []
    for i in executable.step():
        seen.append(i)
        assert (y_array == (8 if i == len(executable.program) - 1 else 0)).all()
    assert seen == list(range(4))


def test_python_op_gets_memory_and_views(backend):
    calls = []

    def twice(memory, ins, outs):
        calls.append(memory)
        assert [a.shape for a in (*ins, *outs)] == [(3, 4)] * 2
        outs[0][...] = 2 * ins[0]

    b, x, y = scaled_sum(twice)
    executable, memory = build(b, backend)
    assert (executable.native_ops, executable.python_ops) == (4, 1)
    y_array = np.zeros(3, "f4")
    memory.bind(x.slot.index, np.ones((3, 4), "f4"))
    memory.bind(y.slot.index, y_array)
    executable.run()
    executable.run()
    assert (y_array == 16).all() and calls == [memory, memory]


def test_error_in_a_python_op_keeps_its_type_and_names_the_op(backend):
    def fail(memory, ins, outs):
        raise KeyError("lost")

    b, x, y = scaled_sum(fail)
    executable, memory = build(b, backend)
    memory.bind(x.slot.index, np.ones((3, 4), "f4"))
    memory.bind(y.slot.index, np.zeros(3, "f4"))
    with pytest.raises(KeyError) as caught:
        executable.run()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    for part in ("lost", "1", "python", "Twice", "model.py:12", "float32[3,4]"):
        assert part in text, text


def test_python_ops_keep_the_error_state_of_the_caller(backend):
    seen = []
    b, x, y = scaled_sum(lambda memory, ins, outs: seen.append(np.geterr()["divide"]))
    executable, memory = build(b, backend)
    memory.bind(x.slot.index, np.ones((3, 4), "f4"))
    memory.bind(y.slot.index, np.zeros(3, "f4"))
    with np.errstate(divide="raise"):
        executable.run()
    assert seen == ["raise"]


def test_rebinding_between_runs(backend):
    b, x, y = scaled_sum()
    executable, memory = build(b, backend)
    memory.bind(x.slot.index, np.ones((3, 4), "f4"))
    first, second = np.zeros(3, "f4"), np.zeros(3, "f4")
    memory.bind(y.slot.index, first)
    executable.run()
    memory.bind(y.slot.index, second)
    memory.bind(x.slot.index, np.zeros((3, 4), "f4"))
    memory.set_control(0, 1.0)
    executable.run()
    assert (first == 8).all() and (second == 4).all()


def test_malformed_program_is_refused(backend):
    b, _, _ = scaled_sum()
    arena = plan(b.instructions, b.table)
    program = assemble(b.instructions, b.table, "test", arena)
    program.opcodes[1] = 9999
    with pytest.raises(ValidationError, match="9999"):
        sdbr.backends.make_executable(program, Memory(len(b.table.slots), 1), backend)


def test_unknown_backend_names_the_known_ones(backend):
    with pytest.raises(BackendError, match=backend):
        sdbr.backends.make_executable(None, None, "abacus")
