"""The compiled executor: memory, errors, threads, random draws, choice of kernels."""

import os
import pickle
import subprocess
import sys
import threading

from sdbr import _executor
from sdbr.backends import make_executable
from sdbr.backends.cpu import _kernels
from sdbr.backends.cpu import product as products
from sdbr.base import limits
from sdbr.base.errors import BackendError, ValidationError
from sdbr.ops import fused
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.memory import plan
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness.threads import LIMIT, gets_in, in_threads
from tests.tolerances import CONTRACT


def assembled(b, name="test"):
    return assemble(b.instructions, b.table, name, plan(b.instructions, b.table))


def run_op(name, ins, outs, ints=(), floats=()):
    """One op on bound arrays; an array in both `ins` and `outs` is one row. Returns the program."""
    b = Builder()
    rows = {id(a): b.table.bound(a.shape, a.dtype, f"a{i}") for i, a in enumerate([*ins, *outs])}
    b.emit(name, [rows[id(a)] for a in ins], [rows[id(a)] for a in outs], ints, floats)
    program = assembled(b)
    memory = Memory(len(b.table.slots), 1)
    for a in [*ins, *outs]:
        memory.bind(rows[id(a)].slot.index, a)
    make_executable(program, memory).run()
    return program


def doubled():
    b = Builder()
    x, y = b.table.bound((4,), "f4", "x"), b.table.bound((4,), "f4", "y")
    h = b.elementwise("mul_constant", x, floats=(2.0,))
    b.copy_to(h, y)
    return b, x.slot.index, y.slot.index


# --- memory --------------------------------------------------------------------------------------
def test_bind_says_what_does_not_fit():
    memory = Memory(2, 0)
    with pytest.raises(BackendError, match=r"slot 5 does not exist; there are 2"):
        memory.bind(5, np.zeros(3))
    with pytest.raises(BackendError, match="slot 0 takes an ndarray, got list"):
        memory.bind(0, [1.0])
    with pytest.raises(BackendError, match=r"C-contiguous.*shape \(3, 2\)"):
        memory.bind(0, np.zeros((2, 3)).T)
    with pytest.raises(BackendError, match="native byte order"):
        memory.bind(0, np.zeros(3, ">f4"))
    with pytest.raises(BackendError, match="slot -1"):
        memory.array(-1)


def test_control_block_is_checked():
    memory = Memory(0, 2)
    memory.set_control(1, 0.25)
    assert memory.get_control(1) == 0.25
    for index in (-1, 2):
        with pytest.raises(IndexError, match="has 2"):
            memory.set_control(index, 1.0)
        with pytest.raises(IndexError, match="has 2"):
            memory.get_control(index)


def test_grow_keeps_what_is_there():
    memory = Memory(1, 1)
    array = np.zeros(3)
    memory.bind(0, array)
    memory.set_control(0, 1.5)
    memory.grow(100, 100)
    memory.grow(1, 1)
    assert (memory.n_slots, memory.n_control) == (100, 100)
    assert memory.array(0) is array and memory.array(99) is None and memory.get_control(0) == 1.5


def test_memory_keeps_arrays_alive_and_lets_them_go():
    memory = Memory(1, 0)
    array = np.zeros(3)
    before = sys.getrefcount(array)
    memory.bind(0, array)
    memory.bind(0, array)
    assert sys.getrefcount(array) == before + 1
    memory.unbind(0)
    assert sys.getrefcount(array) == before and memory.array(0) is None
    memory.bind(0, array)
    del memory
    assert sys.getrefcount(array) == before


def test_unbound_and_small_slots_are_refused():
    b, x, y = doubled()
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    with pytest.raises(BackendError, match=r"'x'\) needs 16 bytes, nothing is bound"):
        executable.run()
    memory.bind(x, np.ones(4, "f4"))
    memory.bind(y, np.ones(3, "f4"))
    with pytest.raises(BackendError, match=r"'y'\) needs 16 bytes, the bound array has 12"):
        executable.run()
    out = np.zeros(4, "f4")
    memory.bind(y, out)
    executable.run()
    assert (out == 2).all()
    memory.unbind(x)
    with pytest.raises(BackendError, match="nothing is bound"):
        executable.run()


def test_reserve_allocates_aligned_arenas_and_binds_constants():
    b = Builder()
    y = b.table.bound((3,), "f8", "y")
    h = b.elementwise("add", b.constant(np.arange(3.0)), b.constant(np.ones(3)))
    b.emit("multiply", [h, h], [y])
    memory = Memory()
    program = assembled(b)
    executable = make_executable(program, memory)
    out = np.zeros(3)
    memory.bind(y.slot.index, out)
    executable.run()
    assert out.tolist() == [1, 4, 9]
    [arena] = [s for s in program.slots if s.name == "arena"]
    assert memory.array(arena.index).ctypes.data % 64 == 0


# --- executables ---------------------------------------------------------------------------------
def test_programs_are_prepared_once():
    b, x, y = doubled()
    program = assembled(b)
    outs = []
    executables = []
    for value in (1, 5):
        memory = Memory()
        executables.append(make_executable(program, memory))
        outs.append(np.zeros(4, "f4"))
        memory.bind(x, np.full(4, value, "f4"))
        memory.bind(y, outs[-1])
    assert executables[0].prepared is executables[1].prepared
    for e in executables:
        e.run()
    assert outs[0].tolist() == [2] * 4 and outs[1].tolist() == [10] * 4


def test_a_checked_program_cannot_change_unseen():
    b, _, _ = doubled()
    program = assembled(b)
    make_executable(program, Memory())
    with pytest.raises(ValueError, match="read-only"):
        program.opcodes[0] = 9999
    program.opcodes = np.array([9999, 9999], np.int32)
    with pytest.raises(ValidationError, match="9999"):
        make_executable(program, Memory())


def test_a_prepared_program_can_be_pickled():
    b, x, y = doubled()
    program = assembled(b)
    first = make_executable(program, Memory())
    memory, out = Memory(), np.zeros(4, "f4")
    executable = make_executable(pickle.loads(pickle.dumps(program)), memory)
    assert executable.prepared is not first.prepared
    memory.bind(x, np.ones(4, "f4"))
    memory.bind(y, out)
    executable.run()
    assert (out == 2).all()


def test_counters():
    b, x, y = doubled()
    b.emit("python", [], [], (0, 0), obj=lambda memory, ins, outs: None)
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    memory.bind(x, np.ones(4, "f4"))
    memory.bind(y, np.ones(4, "f4"))
    executable.run()
    assert list(executable.step()) == list(range(len(executable.program)))
    times = executable.run_timed()
    assert times.shape == (len(executable.program),) and (times > 0).all()
    assert (executable.native_ops, executable.python_ops, executable.runs) == (2, 1, 3)


def test_an_executable_does_not_run_inside_itself():
    b = Builder()
    b.emit("python", [], [], (0, 0), obj=lambda memory, ins, outs: executable.run())
    executable = make_executable(assembled(b, "loop"), Memory())
    for _ in range(2):  # the error leaves it usable
        with pytest.raises(BackendError, match="'loop' is running already"):
            executable.run()
    assert executable.runs == 0


def test_python_ops_see_state_and_strided_views():
    b = Builder()
    x = b.table.bound((2, 3), "f4", "x")
    y = b.table.bound((3, 2), "f4", "y")

    def op(memory, ins, outs):
        memory.state["seen"] = ins[0].strides, ins[0].base is not None
        outs[0][...] = ins[0]

    b.emit("python", [b.transpose(x)], [y], (0, 1), obj=op)
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    array, out = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((3, 2), "f4")
    memory.bind(x.slot.index, array)
    memory.bind(y.slot.index, out)
    executable.run()
    assert (out == array.T).all() and memory.state["seen"] == ((4, 12), True)


def test_python_ops_may_not_write_read_only_arrays():
    b = Builder()
    x = b.table.bound((2,), "f4", "x")

    def op(memory, ins, outs):
        ins[0][...] = 1

    b.emit("python", [x], [], (0, 1), obj=op)
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    array = np.zeros(2, "f4")
    array.flags.writeable = False
    memory.bind(x.slot.index, array)
    with pytest.raises(ValueError, match="read-only"):
        executable.run()


def test_index_error_names_op_value_bound_and_line():
    b = Builder()
    x, t = b.table.bound((3, 4), "f4", "x"), b.table.bound((3,), "i4", "t")
    y = b.table.bound((3,), "f4", "y")
    b.emit("nop", [], [])
    b.label, b.line = "SelectItem", "model.py:7"
    b.emit("select_item", [x, t], [y])
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    labels, out = np.array([0, 9, 1], "i4"), np.zeros(3, "f4")
    memory.bind(x.slot.index, np.arange(12, dtype="f4").reshape(3, 4))
    memory.bind(t.slot.index, labels)
    memory.bind(y.slot.index, out)
    with pytest.raises(IndexError) as caught:
        executable.run()
    for part in ("9", "4 entries", "op 1 ", "select_item", "int32[3]", "SelectItem", "model.py:7"):
        assert part in str(caught.value)
    labels[1] = 3
    executable.run()
    assert out.tolist() == [0, 7, 9]


def test_control_values_reach_kernels():
    b = Builder()
    x = b.table.bound((2,), "f8", "x")
    b.emit("add_constant", [x], [x], floats=(ControlSlot(3, 0.0),))
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    array = np.zeros(2)
    memory.bind(x.slot.index, array)
    memory.set_control(3, 0.5)
    executable.run()
    memory.set_control(3, 2.0)
    executable.run()
    assert array.tolist() == [2.5, 2.5]


# --- threads and random numbers ------------------------------------------------------------------
def test_threads_run_at_the_same_time():
    """Each thread runs its own executable; a Python op in each waits for the other one."""
    barrier = threading.Barrier(2, timeout=LIMIT)

    def work(value):
        b, x, y = doubled()
        b.emit("python", [], [], (0, 0), obj=lambda memory, ins, outs: barrier.wait())
        memory = Memory()
        executable = make_executable(assembled(b), memory)
        out = np.zeros(4, "f4")
        memory.bind(x, np.full(4, value, "f4"))
        memory.bind(y, out)
        for _ in range(50):
            executable.run()
        return out.tolist()

    assert in_threads(2, work) == [[0] * 4, [2] * 4]


def test_the_gil_is_released():
    """Another thread gets in while a program runs."""
    b = Builder()
    x = b.table.bound((1 << 20,), "f8", "x")
    b.emit("exp", [x], [x])
    memory = Memory()
    executable = make_executable(assembled(b), memory)
    memory.bind(x.slot.index, np.zeros(1 << 20))
    assert gets_in(executable.run)


def test_dropout_draws_what_numpy_would_have_drawn():
    x = np.ones((5, 7), "f4")
    y, mask = np.zeros_like(x), np.zeros_like(x)
    np.random.seed(3)
    run_op("dropout", [x], [y, mask], floats=(0.4,))
    after = np.random.rand()
    np.random.seed(3)
    want = (np.random.rand(5, 7) >= 0.4) * np.float32(1 / 0.6)
    assert (mask == want).all() and (y == want).all() and after == np.random.rand()


def test_draws_follow_a_replaced_generator():
    x = np.ones((5, 7), "f4")
    y, mask = np.zeros_like(x), np.zeros_like(x)
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(5))
    try:
        run_op("dropout", [x], [y, mask], floats=(0.4,))
    finally:
        np.random.set_bit_generator(before)
    want = np.random.RandomState(np.random.PCG64(5)).random_sample((5, 7)) >= 0.4
    assert ((mask != 0) == want).all()


# --- matrix products -----------------------------------------------------------------------------
SIZES = [(1, 8, 8), (1, 37, 65), (7, 1, 9), (5, 33, 1), (3, 2, 40), (16, 5, 7), (33, 47, 70),
         (64, 10, 128), (17, 64, 300), (0, 3, 4), (3, 0, 4), (4, 3, 0)]  # fmt: skip


@pytest.fixture(params=["own", "blas"])
def way(request, monkeypatch):
    """Own kernels for every size, or BLAS for every size."""
    blas = request.param == "blas"
    monkeypatch.setattr(products, "_large", lambda n, m, k: blas and n * m * k > 0)
    return request.param


def close(got, want):
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    tolerance = CONTRACT[got.dtype.char][0]
    assert np.abs(got - want).max(initial=0) <= tolerance * scale


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("n", "m", "k"), SIZES)
def test_products(way, dtype, n, m, k):
    rng = np.random.default_rng(n * 31 + m * 7 + k)
    x, w, bias, y = (rng.uniform(-1, 1, s).astype(dtype) for s in ((n, k), (m, k), (m,), (n, m)))
    product = (x.astype("f8") @ w.T.astype("f8")).astype(dtype)
    activations = [lambda z: z, lambda z: np.maximum(z, 0), lambda z: 1 / (1 + np.exp(-z)), np.tanh]
    for code, activation in enumerate(activations):
        out = np.full((n, m), np.nan, dtype)
        run_op("linear", [x, w, bias], [out], (code,))
        close(out, activation(product + bias))
        run_op("linear", [x, w], [out], (code,))
        close(out, activation(product))
    for code, slope in ((1, y > 0), (2, y * (1 - y)), (3, 1 - y * y)):
        out = np.full((n, m), np.nan, dtype)
        run_op("gemm_mask", [x, w.T.copy(), y], [out], (code,))
        close(out, product * slope)
    for a, trans_a in ((x, 0), (x.T.copy(), 1)):
        for b, trans_b in ((w.T.copy(), 0), (w, 1)):
            out = np.full((n, m), np.nan, dtype)
            run_op("gemm", [a, b], [out], (trans_a, trans_b, 0))
            close(out, product)
            out = y.copy()
            run_op("gemm", [a, b], [out], (trans_a, trans_b, 1))
            close(out, product + y)
            stacked = [np.stack([v, 2 * v]) for v in (a, b)]
            out = np.full((2, n, m), np.nan, dtype)
            run_op("batch_matmul", stacked, [out], (trans_a, trans_b))
            close(out, np.stack([product, 4 * product]))


def test_relu_and_masks_treat_nan_as_numpy(way):
    x = np.array([[np.nan, 1.0], [2.0, -1.0]], "f4")
    w = np.ones((3, 2), "f4")
    out = np.zeros((2, 3), "f4")
    run_op("linear", [x, w], [out], (1,))
    assert np.isnan(out[0]).all() and (out[1] == 1).all()
    y = np.array([[1, 0, np.nan], [1, 0, -1]], "f4")
    run_op("gemm_mask", [x, w.T.copy(), y], [out], (1,))
    assert np.isnan(out[0]).all() and out[1].tolist() == [1, 0, 0]


def test_strided_products_are_refused():
    b = Builder()
    x, w = b.table.bound((3, 4), "f4", "x"), b.table.bound((5, 3), "f4", "w")
    y = b.table.bound((4, 5), "f4", "y")
    b.emit("linear", [b.transpose(x), w], [y], (0,))
    with pytest.raises(BackendError, match=r"'linear' takes C-contiguous operands.*op 0"):
        make_executable(assembled(b), Memory())


def test_blas_is_chosen_by_size_threads_and_level(monkeypatch):
    monkeypatch.setattr(products, "_level", lambda: "avx512")
    monkeypatch.setattr(products, "num_threads", lambda: 1)
    assert not products._large(100, 1000, 1000) and products._large(1000, 1000, 1000)
    monkeypatch.setattr(products, "num_threads", lambda: 4)
    assert not products._large(1000, 1000, 1000) and products._large(1000, 1000, 2000)
    monkeypatch.setattr(products, "_level", lambda: "baseline")
    assert not products._large(8, 8, 8) and products._large(64, 128, 128)


# --- the module ----------------------------------------------------------------------------------
def test_missing_kernel_names_the_op(monkeypatch):
    monkeypatch.setitem(products._PREPARE, "gemm", lambda ins, outs, ints: ("no_such", ()))
    with pytest.raises(BackendError, match=r"no kernel 'no_such_f4' at SIMD level .*gemm"):
        run_op("gemm", [np.ones((1, 1), "f4")] * 2, [np.ones((1, 1), "f4")], (0, 0, 0))


def test_build_info_and_kernel_names():
    info = _kernels.build_info()
    assert set(info) == {"compiler", "flags", "cython", "levels"} and "-std=c99" in info["flags"]
    assert _kernels.simd_level() in info["levels"]
    assert {"nop", "linear_f4", "adam_f8"} <= set(_kernels.kernel_names())


@pytest.mark.parametrize("level", ["baseline", "neon"])
def test_simd_level_from_the_environment(level):
    code = "import sdbr; from sdbr.backends.cpu import _kernels; print(_kernels.simd_level())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SDBR_SIMD": level},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if level == "baseline":
        assert done.stdout.strip() == "baseline", done.stderr
    else:
        assert "SDBR_SIMD: expected one of baseline, avx2, avx512, got 'neon'" in done.stderr


def test_dispatch_helpers():
    b = Builder()
    for _ in range(100):
        b.emit("nop", [], [])
    executable = make_executable(assembled(b), Memory())
    assert _executor.dispatch_baseline(executable, 3) > 0 < _executor.loop_seconds(executable, 3)
    b = Builder()
    b.emit("python", [], [], (0, 0), obj=print)
    executable = make_executable(assembled(b), Memory())
    for helper in (_executor.dispatch_baseline, _executor.loop_seconds):
        with pytest.raises(BackendError, match="takes a program"):
            helper(executable)


STUB = """
import ctypes, sys, types
import sdbr
from sdbr.base import limits
from sdbr.base.errors import BackendError, ValidationError
from sdbr.ops import fused
from sdbr.backends.cpu import product as products
stub = types.ModuleType("scipy.linalg.cython_blas")
stub.__pyx_capi__ = {}
sys.modules["scipy.linalg.cython_blas"] = stub
import scipy.linalg
scipy.linalg.cython_blas = stub
sys.path.insert(0, TESTS)
import numpy as np
from test_executor import run_op
def product(n=2, m=2, k=2):
    a = np.arange(n * k, dtype=float).reshape(n, k)
    b = np.arange(m * k, dtype=float).reshape(k, m)
    out = np.zeros((n, m))
    run_op("gemm", [a, b], [out], (0, 0, 0))
    return out, a @ b
"""


def run_with_stub(code):
    """Run `code` in a process in which scipy.linalg.cython_blas offers nothing at first."""
    code = f"TESTS = {os.path.dirname(__file__)!r}\n{STUB}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scipy_without_usable_blas_is_an_error_only_where_it_is_needed():
    out = run_with_stub("""
got, want = product()
assert (got == want).all()
products._large = lambda n, m, k: True
try:
    product()
except BackendError as error:
    print(error)
""")
    assert "scipy.linalg.cython_blas is not usable: KeyError" in out


@pytest.mark.parametrize("integer", ["c_int32", "c_int64"])
def test_blas_may_have_integers_of_32_or_64_bits(integer):
    out = run_with_stub(f"""
products._large = lambda n, m, k: True
integer = ctypes.POINTER(ctypes.{integer})
number = ctypes.POINTER(ctypes.c_double)
flag = ctypes.POINTER(ctypes.c_char)
@ctypes.CFUNCTYPE(None, flag, flag, integer, integer, integer, number, number, integer, number,
                  integer, number, number, integer)
def dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    assert (ta[0], tb[0], alpha[0], beta[0]) == (b"N", b"N", 1, 0)
    m, n, k = m[0], n[0], k[0]
    assert (lda[0], ldb[0], ldc[0]) == (m, k, m)
    for j in range(n):
        for i in range(m):
            c[i + j * m] = sum(a[i + l * m] * b[l + j * k] for l in range(k))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule = new(ctypes.cast(dgemm, ctypes.c_void_p), b"void (...)", None)
stub.__pyx_capi__.update(dict.fromkeys(["sgemm", "dgemm", "sgemv", "dgemv"], capsule))
got, want = product(3, 5, 4)
assert (got == want).all(), (got, want)
print("right")
""")
    assert out.strip() == "right"


@pytest.mark.parametrize("name", sorted(_kernels.limits()))
def test_a_number_that_the_kernels_do_not_share_is_an_error(name, monkeypatch):
    """Else memory is set aside for other kernels than those that run."""
    limits.compare(_kernels.limits())
    monkeypatch.setattr(limits, name, getattr(limits, name) - 1)
    with pytest.raises(BackendError, match=f"other sources: {name} is .* in Python"):
        limits.compare(_kernels.limits())


def test_a_number_that_one_side_does_not_have_is_an_error(monkeypatch):
    monkeypatch.setattr(limits, "LAST", 1, raising=False)
    with pytest.raises(BackendError, match="LAST is 1 in Python, None in the kernels"):
        limits.compare(_kernels.limits())


def test_registers_of_a_fused_op():
    # Each operand may be loaded into a buffer of its own.
    most = 2 * fused.MAX_OPERANDS + fused.MAX_TEMPORARIES
    assert most <= limits.FUSED_REGISTERS
