"""Operands that an op does not take: refused by the op table, on every backend, or by the kernels.

What is wrong about shapes and dtypes the table says; what there is no kernel for, the CPU does.
"""

from sdbr.backends.cpu import ctc, integer, loss, random
from sdbr.base.dtypes import DTYPE_CODES, DTYPES
from sdbr.base.errors import BackendError, ValidationError
from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import c_strides
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from .harness import Case, Prepared
from .values import blank, whole


def operand(dtype, *shape, strides=None):
    """An operand as a prepare function sees it."""
    dtype = np.dtype(dtype)
    return DTYPE_CODES[dtype], shape, strides or c_strides(shape, dtype.itemsize)


def path(dtype="f4", times=4, batch=2, labels=5, length=3, **other):
    """The operands of ``ctc`` by name, some of them replaced."""
    places = 2 * length + 1
    operands = {
        "x": operand(dtype, times, batch, labels),
        "n": operand("i4", batch),
        "m": operand("i4", batch),
        "t": operand("i4", batch, length),
        "loss": operand(dtype, batch),
        "y": operand(dtype, times, batch, labels),
        "paths": operand(dtype, times, batch, places),
        "scratch": operand(dtype, 4 * (places + 2)),
        **other,
    }
    rows = list(operands.values())
    return rows[:4], rows[4:]


X, T = operand("f4", 4, 5), operand("i4", 4)
CASES = {
    "ctc, int64 labels": (ctc, "ctc", *path(t=operand("i8", 2, 3)), (0,)),
    "ctc, another batch": (ctc, "ctc", *path(n=operand("i4", 3)), (0,)),
    "ctc, too few places": (ctc, "ctc", *path(paths=operand("f4", 4, 2, 6)), (0,)),
    "ctc, too little scratch": (ctc, "ctc", *path(scratch=operand("f4", 9)), (0,)),
    "ctc, mixed dtypes": (ctc, "ctc", *path(y=operand("f8", 4, 2, 5)), (0,)),
    "ctc, a blank that is no label": (ctc, "ctc", *path(), (5,)),
    "ctc, no times": (ctc, "ctc", *path(times=0), (0,)),
    "ctc, gaps": (ctc, "ctc", *path(x=operand("f4", 4, 2, 5, strides=(80, 40, 8))), (0,)),
    "negate_item, other labels": (loss, "negate_item", [X, operand("i4", 5)], [X], ()),
    "negate_item, another shape": (loss, "negate_item", [X, T], [operand("f4", 5, 4)], ()),
    "uniform, integers": (random, "uniform", [], [operand("i4", 4)], ()),
    "keep_mask, gaps": (random, "keep_mask", [], [operand("f4", 4, strides=(8,))], ()),
    "compare, no bool": (integer, "compare", [X, X], [X], (0,)),
    "compare, mixed dtypes": (integer, "compare", [T, operand("i8", 4)], [operand("?", 4)], (0,)),
    "compare, small integers": (
        integer,
        "compare",
        [operand("i1", 4)] * 2,
        [operand("?", 4)],
        (0,),
    ),
    "integer, floats": (integer, "integer", [X, X], [X], (0,)),
    "integer, sum of bools": (integer, "integer", [operand("?", 4)] * 2, [operand("?", 4)], (0,)),
    "integer, another shape": (integer, "integer", [T, T], [operand("i4", 5)], (0,)),
}


#: Of these, what the table has nothing against.
NO_KERNEL = {
    "ctc, int64 labels",
    "ctc, gaps",
    "keep_mask, gaps",
    "compare, small integers",
    "integer, floats",
    "integer, sum of bools",
}


def problem(op, ins, outs, ints):
    layouts = [[(DTYPES[code], shape) for code, shape, _ in operands] for operands in (ins, outs)]
    return BY_NAME[op].problem(*layouts, ints, ())


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    module, op, ins, outs, ints = CASES[name]
    if name not in NO_KERNEL:
        assert "got " in problem(op, ins, outs, ints)
        return
    assert problem(op, ins, outs, ints) == ""
    with pytest.raises(BackendError, match=op):
        module.prepare(op, ins, outs, ints)


@pytest.mark.parametrize("backend", ["cython", "numpy"])
@pytest.mark.parametrize(
    ("op", "ins", "out", "ints", "text"),
    [
        ("linear", [(2, 3), (4, 5)], (2, 4), (0,), r"w\[m, k\] has shape \[4, 5\] where .*k = 3"),
        ("linear", [(2, 3), (4, 3), (4,), (4,)], (2, 4), (0,), "4 inputs, at most 3"),
        ("linear", [(2, 3), (4, 3)], (2, 4), (4,), r"activation 4, of \[0, 1, 2, 3\]"),
        ("gemm", [(2, 3), (3, 4)], (2, 4), (1, 0, 0), "has the shape of c"),
        ("add", [(2, 3), (3,)], (2, 3), (), r"y\[s\.\.\.\] has shape \[3\]"),
        ("sum", [(2, 3)], (2,), (), r"x\[outer, n, inner\] has shape \[2, 3\]"),
        ("max", [(2, 0, 3)], (2, 3), (), "of nothing"),
    ],
)
def test_every_backend_refuses_what_the_table_does(backend, op, ins, out, ints, text):
    case = Case(op, "", [whole(np.ones(s, "f4")) for s in ins], [blank(out, "f4")], ints)
    with pytest.raises(ValidationError, match=rf"op 0 \({op}\): .*{text}"):
        Prepared([case], backend)


def test_the_line_of_the_user_is_named():
    builder = Builder()
    builder.label, builder.line = "Sum", "model.py:7"
    x, y = (builder.table.bound(shape, "f4", "x") for shape in ((2, 3), (2,)))
    builder.emit("sum", [x], [y])
    with pytest.raises(ValidationError, match=r"got float32\[2, 3\] -> .*; Sum at model\.py:7$"):
        assemble(builder.instructions, builder.table).validate()


def test_what_fits_is_not_refused():
    assert problem("ctc", *path(), (0,)) == ""
    assert ctc.prepare("ctc", *path(), (0,))[0] == "ctc_f4"
    assert loss.prepare("negate_item", [X, T], [X], ())[0] == "negate_item_f4"
    assert integer.prepare("integer", [T, T], [T], (2,))[0] == "integer_mul_i4"


@pytest.mark.parametrize(("n_in", "n_out"), [(5, 3), (4, 4)])
def test_a_largest_moment_that_is_read_is_written(n_in, n_out):
    builder = Builder()
    rows = [builder.table.bound((3,), "f4", "x") for _ in range(n_in)]
    outs = [rows[1], rows[2], rows[3], rows[-1]][:n_out]
    builder.emit("adam", rows, outs, (), (0.1,) * 8)
    with pytest.raises(ValidationError, match="vhat and vhat_out come together"):
        assemble(builder.instructions, builder.table).validate()


NO_MPI = (0,) * 6


@pytest.mark.parametrize(
    ("op", "ins", "outs", "ints", "text"),
    [
        ("allreduce", [], [(1,)], NO_MPI, "0 gradients"),
        ("allreduce", [(3,), (4,)], [(6,)], NO_MPI, "flat of 6 elements, expected 7"),
        ("allreduce", [(3,), (4,)], [(8,)], NO_MPI, "flat of 8 elements, expected 7"),
        ("allreduce_begin", [(3,), (4,)], [(1,)], (*NO_MPI, 0, 0, 0), "expected 7"),
        ("allreduce_begin", [(3,)], [(1,)], (*NO_MPI, 0, 0, 64), "number is 64, expected 0 to 63"),
        ("allreduce_end", [(6,), (3,), (4,)], [], (0,), "flat of 6 elements, expected 7"),
        ("allreduce_end", [(1,), (3,)], [], (-1,), "number is -1, expected 0 to 63"),
        ("clip_norm", [], [()], (), "no gradients"),
        ("all_finite", [], [()], (), "no gradients"),
    ],
)
def test_ops_of_any_number_of_gradients_have_one_and_room_for_all(op, ins, outs, ints, text):
    builder = Builder()
    dtype = "f8" if op in ("clip_norm", "all_finite") else "f4"
    rows = [builder.table.bound(shape, "f4", "g") for shape in ins]
    made = [builder.table.bound(shape, dtype, "flat") for shape in outs]
    builder.emit(op, rows, made, ints, (0.5,) * len(BY_NAME[op].floats))
    with pytest.raises(ValidationError, match=text):
        assemble(builder.instructions, builder.table).validate()


@pytest.mark.parametrize("op", ["clip_norm", "allreduce"])
def test_gradients_that_are_written_share_no_memory(op):
    builder = Builder()
    g = builder.table.bound((6,), "f4", "g")
    parts = [builder.table.view(g, (3,), (4,), at) for at in (0, 12, 8)]
    shape, dtype, ints = ((6,), "f4", NO_MPI) if op == "allreduce" else ((), "f8", ())
    out = builder.table.bound(shape, dtype, "out")
    builder.emit(op, parts[:2], [out], ints, (0.5,))
    assemble(builder.instructions, builder.table).validate()
    builder.emit(op, parts[::2], [out], ints, (0.5,))
    with pytest.raises(ValidationError, match=r"op 1 .*: input 1 \(g\) overlaps input 0 \(g\)"):
        assemble(builder.instructions, builder.table).validate()
