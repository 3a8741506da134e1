"""Kernels of users that are given arrays to write into: which these are, and what is made of it."""

import sdbr
from sdbr.trace.on_device.filling import pointers

import chainer
import chainer.functions as F
import cupy
import numpy as np
import pytest
from chainer.backends import cuda

from .programs import Way, assert_alike, normal, seen

CALLS = 6
SCALE = cupy.ElementwiseKernel("T x, T a", "T y", "y = a * x + y", "scale_and_add")
NOTHING = cupy.ElementwiseKernel("T x", "T y", "y = 2 * x", "gives_nothing", no_return=True)
AS_TUPLE = cupy.ElementwiseKernel("T x", "T y", "y = 3 * x", "gives_a_tuple", return_tuple=True)
NEXT = cupy.ElementwiseKernel("raw T x, int32 n", "T y", "y = x[(i + 1) % n]", "next_ones")
RAW = """
extern "C" __global__ void {name}({const} float *x, int n, float *y) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + 1;
}}
"""
CONST = cupy.RawKernel(RAW.format(name="doubled", const="const"), "doubled")
MODULE = cupy.RawModule(code=RAW.format(name="kept", const="const"))
RUNNING = """
extern "C" __global__ void running(const float *x, int n, float *y) {
    for (int i = 1; i < n; i++) y[i] = y[i] + x[i - 1];
}
"""
SUMS = cupy.RawKernel(RUNNING, "running")
MAY_WRITE = cupy.RawKernel(RAW.format(name="may_write", const=""), "may_write")


def launch(kernel, x, y):
    kernel((1,), (64,), (x, np.int32(x.size), y))


def same_array_in_and_out(x):
    y = x * 1
    assert SCALE(y, 0.5, y) is y
    return F.relu(y)


def what_a_kernel_gives(x):
    y, z, w = cupy.zeros_like(x), cupy.zeros_like(x), cupy.zeros_like(x)
    assert NOTHING(x, y) is None
    (again,) = AS_TUPLE(y, z)
    assert again is z
    w += SCALE(x, 2, y)
    return F.relu(y + again + w)


def part_of_an_array(x):
    y = x * 1
    SCALE(x[1:], 0.5, y[:-1])
    SCALE(x.T, 0.5, y.T)
    return F.relu(y)


def raw_input_that_is_written(x):
    y = x.ravel() * 1
    z = cupy.empty_like(y)
    NEXT(y, y.size, z)
    NEXT(z, y.size, y)
    return F.relu(y)


def raw_kernel_of_const_input(x):
    y = cupy.empty((4, 3), "f")
    launch(CONST, x, y)
    return F.relu(y)


def what_it_reads_and_writes(x):
    y = x * 1
    SUMS((1,), (1,), (y, np.int32(y.size), y))
    return F.relu(y)


def kernel_by_another_name(x):
    y = cupy.empty((4, 3), "f")
    kernel = CONST
    launch(kernel, x, y)
    raw = cuda.raw(RAW.format(name="of_chainer", const="const"), "of_chainer")
    launch(raw, y, y)
    module = cupy.RawModule(code=RAW.format(name="of_module", const="const"))
    launch(module.get_function("of_module"), y * 1, y)
    launch(MODULE.get_function("kept"), y * 1, y)
    return F.relu(y)


def universal_functions(x):
    y = cupy.empty_like(x)
    assert cupy.exp(x, y) is y
    assert np.add(y, x, out=y) is y
    q, r = cupy.empty_like(x), cupy.empty_like(x)
    whole = cupy.modf(y, out=(q, r))
    assert whole[0] is q and whole[1] is r
    return F.relu(q * r)


def functions_with_out(x):
    y, z = cupy.empty(3, "f"), cupy.empty((4, 3), "f")
    assert cupy.sum(x, 0, None, y) is y
    assert x.max(axis=0, out=y) is y
    cupy.concatenate([x[:2], x[2:]], axis=0, out=z)
    cupy.take(x, cupy.asarray([1, 0, 2, 2]), axis=0, out=z)
    return F.relu(z * y)


def from_a_list(x):
    y = cupy.zeros((4, 3), "f")
    launch(LISTED[0], x, y)
    return F.relu(y)


def hidden_before_a_write(x):
    y = x * 1
    HIDDEN["raw"]((1,), (64,), (y, np.int32(y.size), y))
    y[0] = 1
    return F.relu(y)


def through_an_object(x):
    y = x * 1
    Holder.kernel(x, 0.5, y)
    Holder.writes(y)
    return F.relu(y)


class Holder:
    kernel = SCALE

    @staticmethod
    def writes(y):
        HIDDEN["raw"]((1,), (64,), (y, np.int32(y.size), y))


HIDDEN, LISTED = {"raw": CONST}, [CONST]


STATIC = [
    same_array_in_and_out, what_a_kernel_gives, part_of_an_array, raw_input_that_is_written,
    raw_kernel_of_const_input, what_it_reads_and_writes, kernel_by_another_name,
    universal_functions, functions_with_out, from_a_list, hidden_before_a_write, through_an_object,
]  # fmt: skip


@pytest.mark.parametrize("function", STATIC, ids=lambda function: function.__name__)
def test_replayed(function):
    static = sdbr.static_graph(lambda x: function(x), on_dynamic="raise")
    for k in range(CALLS):
        x = normal(4, 3, seed=k)
        assert_alike(seen(static(x)), seen(function(normal(4, 3, seed=k))))
        assert_alike(seen(x), seen(normal(4, 3, seed=k)))
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= CALLS - 2 and statistics.define_by_run_calls == 0


def test_kernels_in_attributes():
    found = []
    for way in (Way(False), Way(True)):

        def forward(self, x):
            y, z = cupy.empty((4, 3), "f"), cupy.empty(4, "f")
            launch(self.raw, x, y)
            self.reduction(y, out=z, axis=1)
            launch(self.module.get_function("kept"), x, y)
            self.elementwise(x, 0.5, y)
            return F.relu(y) * z[:, None]

        model = way.model(forward)
        model.raw, model.module, model.elementwise = CONST, MODULE, SCALE
        model.reduction = cupy.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
        found.append([seen(model(normal(4, 3, seed=k))) for k in range(CALLS)])
    assert_alike(*found)
    assert model.schedule_manager.statistics.replays == CALLS - 1


# --- dynamic ----------------------------------------------------------------------------------
def into_an_argument(x):
    SCALE(x, 0.5, x)
    return F.relu(x)


def perhaps_into_an_argument(x):
    y = cupy.empty((4, 3), "f")
    launch(MAY_WRITE, x, y)
    return F.relu(y)


def parts_that_overlap(x):
    y = x.ravel() * 1
    SCALE(y[1:], 0.5, y[:-1])
    return F.relu(y)


def raw_kernel_on_strides(x):
    y = (x * 1).T
    z = cupy.empty((3, 4), "f")
    launch(CONST, y, z)
    return F.relu(z)


DYNAMIC = {
    into_an_argument: "was written in place by cupy scale_and_add",
    perhaps_into_an_argument: "was written in place by cupy may_write",
    parts_that_overlap: "was written in place by cupy scale_and_add",
    raw_kernel_on_strides: "was written in place by cupy doubled",
}


@pytest.mark.parametrize("function", DYNAMIC, ids=lambda function: function.__name__)
def test_dynamic(function):
    static = sdbr.static_graph(lambda x: function(x))
    with pytest.warns(sdbr.SdbrWarning, match=DYNAMIC[function]):
        got = [seen(static(normal(4, 3, seed=k))) for k in range(4)]
    assert_alike(got, [seen(function(normal(4, 3, seed=k))) for k in range(4)])
    assert static.schedule_manager.statistics.replays == 0


def test_an_error_of_a_kernel_writes_nothing():
    def wrong(x):
        y = cupy.zeros(5, "f")
        SCALE(x, 0.5, y)
        return F.relu(y)

    static = sdbr.static_graph(wrong)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"mismatch|broadcast"):
            static(normal(4, 3))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("void k(const float* x, float const *y, float* z, int n) {}", [True, True, False, False]),
        ("void k(float *const x, const float *const *y) {}", [False, False]),
        ("void k(/* const */ float* x, // const int* n\n const double *__restrict__ y) {}",
         [False, True]),
        ("void kk(const float* x) {} void k(float* x) {}", [False]),
        ("void k(const float* x); void k(const float* x) {}", [True]),
        ("template <class T> __global__ void k(const T* x, T y) {}", [True, False]),
        ("void other(const float* x) {}", None),
        ("void k(void (*f)(int), const float* x) {}", None),
        (None, None),
    ],
)  # fmt: skip
def test_what_a_declaration_says(code, found):
    assert pointers(code, "k") == found


def test_a_kernel_is_compiled_while_a_call_is_traced():
    """CuPy keeps what it has compiled in files: no affair of the call's."""
    number = np.random.RandomState(int.from_bytes(chainer.__version__.encode(), "little") % 2**32)
    name = f"never_seen_before_{number.randint(2**30)}_{id(number)}"
    kernel = cupy.ElementwiseKernel("T x", "T y", f"y = x * 2 /* {name} */", name)

    def call(x):
        return F.relu(kernel(x))

    static = sdbr.static_graph(call, on_dynamic="raise")
    for k in range(3):
        static(normal(4, 3, seed=k))
    assert static.schedule_manager.statistics.replays == 2
