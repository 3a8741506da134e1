"""Kernels for GPUs, as far as no GPU is needed: on the host they are right."""

import ctypes
import os
import re
from unittest import mock

from sdbr.backends.cuda import launch, plan
from sdbr.backends.cuda.launch import DeviceOp, Fault, Launch
from sdbr.backends.cuda.machine import FAMILIES, NOT_YET
from sdbr.backends.cuda.plan import launches
from sdbr.backends.cuda.words import MOST, WordsStruct
from sdbr.devices.compiled import headers
from sdbr.ops.table import OPS

import numpy as np
import pytest

from tests.harness import device
from tests.harness.device import IN_TURN

from .generators import cases_of
from .harness import Case, Prepared, assert_parity, execute
from .values import Operand, blank, whole

NAMES = [op.name for op in OPS if op.family in FAMILIES and op.name not in (*NOT_YET, *IN_TURN)]


@pytest.fixture
def simulated():
    with device.simulated() as made:
        yield made


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_op(simulated, name, dtype):
    assert_parity(cases_of(name, dtype), "device-sim")
    assert all_in_one_graph(simulated)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", IN_TURN)
def test_op_in_turn(simulated, name, dtype):
    with device.one_thread():
        assert_parity(cases_of(name, dtype), "device-sim")
    assert all_in_one_graph(simulated)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "dropout"])
def test_op_beside_others(name, order):
    """Nothing waits but for what it must wait for, and begins before the rest has ended."""
    with device.in_order(order), device.simulated(form="programmatic branches") as made:
        assert_parity(cases_of(name, "f4"), "device-sim")
    assert all_in_one_graph(made)


def all_in_one_graph(executables):
    """Whether the programs ran as one graph each."""
    return executables and all(
        (len(x.parts), x.recorded, x.others) == (1, 1, []) for x in executables
    )


def test_what_kernels_get_is_what_they_read():
    made = ctypes.CDLL(os.fspath(device.every()[0]))
    for name, struct in (("device_op", DeviceOp), ("fault", Fault), ("words", WordsStruct)):
        bytes_of = ctypes.c_int64.in_dll(made, f"sdbr_{name}_bytes")
        assert bytes_of.value == ctypes.sizeof(struct)
    text = headers()["device/team.cuh"] + headers()["device/words.cuh"]
    wanted = {
        name: getattr(launch, name)
        for name in ("OPERANDS", "INTS", "AXES", "THREADS", "SCRATCH", "ROOM")
    }
    for name, number in {**wanted, "WORDS": MOST}.items():
        [value] = re.findall(rf"SDBR_DEVICE_{name} = (\d+)", text)
        assert int(value) == number


@pytest.mark.parametrize(("teams", "grid"), [(0, 1), (1, 1), (2, 2), (10**9, 1056)])
def test_grids(teams, grid):
    assert Launch("x", "", (), teams).grid == grid


def test_ops_without_a_kernel_are_nobodys_launch():
    """More axes than a kernel counts; ops that have none."""
    x = np.ones((3,) * 9, "f4")
    operand = Operand(x, x[(slice(None, None, 2),) * 9])
    many = Case("negative", "", [operand], [blank((2,) * 9, "f4")])
    others = [cases_of(name, "f4")[0] for name in sorted(NOT_YET | {"convolution", "ctc"})]
    assert set(launches(Prepared([many, *others], "numpy").program)) == {None}


def test_rows_are_added_by_many_threads(simulated):
    """To the same places, in whatever order."""
    rng = np.random.RandomState(0)
    rows = whole(rng.randint(-9, 9, (2, 50, 4)).astype("f4"))  # exact in any order
    t = whole(rng.randint(0, 3, 50))
    case = Case("scatter_add", "", [rows, t], [blank((2, 3, 4), "f4")], (0, 0, 0))
    assert_parity([case], "device-sim")
    assert all_in_one_graph(simulated)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_long_rows_are_taken_in_parts(simulated, name, dtype):
    x = np.random.RandomState(0).randn(3, 9001, 1).astype(dtype)
    cases = [Case(name, "", [whole(x)], [blank((3, 1), dtype)])]
    x = x.copy()
    x[1, 8000] = np.nan
    cases.append(Case(name, "nan", [whole(x)], [blank((3, 1), dtype)]))
    assert_parity(cases, "device-sim")
    assert all_in_one_graph(simulated)
    kernels = [x.kernel for unit in simulated[0].units[0] for x in unit.launches]
    assert kernels == [f"{name}_parts_{dtype}", f"{name}_of_parts_{dtype}"] * 2


def test_equal_fused_ops_share_a_kernel():
    cases = [case for case in cases_of("fused", "f4") if case.what == "in place"]
    kernels = {x.kernel for of_op in launches(Prepared(cases, "numpy").program) for x in of_op}
    assert len(cases) == 4 and len(kernels) == 1


@pytest.mark.parametrize(
    ("name", "x", "t", "outs", "ints"),
    [
        ("take", (1, 3, 2), [0, 1, 3, -4], [(1, 4, 2)], (0, 0)),
        ("put", (1, 4, 2), [0, 1, 3, -4], [(1, 3, 2)], (0, 0)),
        ("scatter_add", (1, 4, 2), [0, -1, 3, 3], [(1, 3, 2)], (0, 0, 0)),
        ("scatter_add", (1, 4, 2), [0, -1, -4, 3], [(1, 3, 2)], (1, 1, -1)),
        ("select_item", (4, 3), [0, 1, 3, 2], [(4,)], ()),
        ("negate_item", (4, 3), [0, 1, 3, 2], [(4, 3)], ()),
        ("select_item_grad", (), [0, 1, 3, 2], [(4, 3)], ()),
        ("softmax_cross_entropy", (4, 3, 1), [[0], [-1], [3], [2]], [(), (4, 1), ()], (1, -1)),
        ("softmax_cross_entropy_no_reduce", (4, 3, 1), [[0], [-1], [3], [2]],
         [(4, 1), (4, 1)], (-1,)),
    ],
)  # fmt: skip
def test_labels_out_of_range(simulated, name, x, t, outs, ints):
    """The first one that a thread came to is noted, and nothing beyond the operands is touched."""
    labels = whole(np.asarray(t))
    operands = [whole(np.ones(x, "f4")), labels]
    if name == "select_item_grad":
        operands = [labels, whole(np.ones(4, "f4"))]
    case = Case(name, "", operands, [blank(shape, "f4") for shape in outs], ints)
    with pytest.raises(IndexError, match=r"index (3|-4) at position [23] is out of range for 3"):
        execute([case], "device-sim")
    assert all_in_one_graph(simulated)


#: Of two launches each.
TWICE = ("clip_norm", "lars", "all_finite")


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("name", [op.name for op in OPS if op.updates and op.family != "control"])
def test_nothing_is_updated_after_a_fault(name, chained):
    """The last of the labels of an op before it, which not the first thread looks at, is wrong."""
    t = whole(np.array([0, 1, 2, 0, 1, 7]))
    wrong = Case("select_item", "", [whole(np.ones((6, 3), "f4")), t], [blank((6,), "f4")])
    with device.simulated(chained) as made:
        for case in cases_of(name, "f4")[: 2 if chained else None]:
            check_nothing_is_updated(wrong, t, case)
    lengths = [max(len(call.links) for call in x.calls[0]) for x in made]
    assert max(lengths) == (1 if not chained else 3 if name in TWICE else 2)


def check_nothing_is_updated(wrong, t, case):
    prepared = Prepared([wrong, case], "device-sim")
    before = {key: x.copy() for key, x in prepared.arrays.items()}
    with pytest.raises(IndexError, match="index 7 at position 5") as caught:
        prepared.executable.run()
    assert "select_item" in "".join(getattr(caught.value, "__notes__", caught.value.args))
    for operand in case.operands:
        key = id(operand)
        assert np.array_equal(before[key], prepared.arrays[key], True)
    prepared.arrays[id(t)][...] = 1
    prepared.executable.run()  # as if nothing had been


def test_a_loss_into_arrays_of_the_users_is_a_launch_of_its_own(simulated):
    """Nobody knows whether one of these is another one, which a launch may still read."""
    rng = np.random.RandomState(0)
    x = whole(rng.randn(40, 5, 1).astype("f4"))
    t = whole(rng.randint(0, 5, (40, 1)))
    outs = [blank(shape, "f4") for shape in ((), (40, 1), ())]
    loss = Case("softmax_cross_entropy", "", [x, t], outs, (1, -1))
    accuracy = Case("accuracy", "", [x, t], [blank((), "f4")], (0, 0))
    assert_parity([loss, accuracy], "device-sim")
    assert [len(unit.ops) for unit in simulated[0].units[0]] == [1, 1]


def test_copies_into_arrays_of_the_users_are_launches_of_their_own(simulated):
    """Nobody knows whether one of these is another one."""
    arrays = [np.random.RandomState(k).randn(40).astype("f4") for k in range(2)]
    cases = [Case("copy", "", [whole(x)], [blank((40,), "f4")], exact=True) for x in arrays]
    assert_parity(cases, "device-sim")
    assert [len(unit.ops) for unit in simulated[0].units[0]] == [1, 1]


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_copies_with_any_strides_are_one_kernel(dtype, chained):
    """As if the arrays were no user's."""
    with (
        mock.patch.object(plan, "lasting", lambda program: frozenset()),
        device.simulated(chained) as made,
    ):
        assert_parity(cases_of("copy", dtype), "device-sim")
    sizes = [len(unit.ops) for unit in made[0].units[0]]
    assert sum(sizes) > 20 and max(sizes) > 5
