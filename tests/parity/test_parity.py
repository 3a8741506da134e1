"""Every op of the table, on every backend, against the NumPy reference."""

import itertools
import os

import sdbr.backends
from sdbr.backends.cpu import _kernels
from sdbr.ops.table import BY_NAME, OPS

import numpy as np
import pytest

from . import array_cases, ctc_cases, loss_cases, pooling_cases
from .generators import cases_of, generator
from .harness import Case, Prepared, assert_parity, execute
from .values import blank, whole

#: `cython` must be there; others take part where they are available.
BACKENDS = sorted({"cython", *sdbr.backends.available()} - {"numpy"})
NAMES = [op.name for op in OPS if op.family != "control"]
#: Modules with cases that must be refused: a label out of range.
TAKE_LABELS = (array_cases, ctc_cases, loss_cases, pooling_cases)
REDUCED = int(os.environ.get("SDBR_TEST_EVERY", "1"))  # take every n-th case only


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_op(backend, name, dtype):
    cases = cases_of(name, dtype)
    assert cases
    assert_parity(cases[::REDUCED], backend)


def test_every_op_has_cases_and_a_reference():
    assert [name for name in NAMES if generator(BY_NAME[name]) is None] == []
    assert [op.name for op in OPS if op.formula is None] == ["python"]


@pytest.mark.parametrize("name", NAMES)
def test_cases_use_the_op_as_the_table_says(name):
    op = BY_NAME[name]
    shared = set()
    for case in cases_of(name, "f4"):
        assert op.takes(len(case.ints), len(case.floats))
        shared |= {k for k, x in enumerate(case.ins) if x is case.outs[0]}
    assert shared >= set(op.inplace) - ({0} if name == "copy" else set())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
@pytest.mark.parametrize("wrong", [5, -6, 1000])
def test_labels_out_of_range(backend, dtype, wrong):
    cases = [m.out_of_range(np.dtype(dtype), wrong) for m in TAKE_LABELS]
    for case in itertools.chain(*cases):
        prepared = Prepared([case], backend)
        with pytest.raises(IndexError) as caught:
            prepared.executable.run()
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert f"index {wrong} at position 2 is out of range for 5 entries" in text, text
        assert case.op in text and "float" in text, text
        for out in case.outs:
            after = prepared.arrays[id(out)]
            assert after.tobytes() == out.base.tobytes(), f"{case} wrote before it raised"


@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
def test_running_again_sees_new_contents_and_new_arrays(backend):
    case = Case("negative", "", [whole(np.ones(5, "f4"))], [blank((5,), "f4")])
    prepared = Prepared([case], backend)
    x, y = prepared.arrays[id(case.ins[0])], prepared.arrays[id(case.outs[0])]
    prepared.executable.run()
    assert (y == -1).all()
    x[...] = 2
    prepared.executable.run()
    assert (y == -2).all()
    slots = {s.name: s for s in prepared.program.slots}
    assert len(slots) == 1  # both are called operand; the first is the input
    prepared.memory.bind(prepared.program.slots[0].index, np.full(5, 3, "f4"))
    prepared.executable.run()
    assert (y == -3).all() and (x == 2).all()


@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
def test_two_runs_draw_different_masks(backend):
    case = Case(
        "dropout", "", [whole(np.ones(64, "f4"))], [blank(64, "f4"), blank(64, "f4")], (), (0.5,)
    )
    prepared = Prepared([case], backend)
    mask = prepared.arrays[id(case.outs[1])]
    np.random.seed(3)
    prepared.executable.run()
    first = mask.copy()
    prepared.executable.run()
    np.random.seed(3)
    draws = np.random.rand(128).reshape(2, 64)
    assert (first == (draws[0] >= 0.5) * 2).all() and (mask == (draws[1] >= 0.5) * 2).all()


def test_reference_leaves_the_error_state_alone():
    before = np.geterr()
    with np.errstate(all="raise"):
        case = Case("log", "", [whole(np.array([-1, 0], "f4"))], [blank((2,), "f4")])
        execute([case], "numpy")
        assert set(np.geterr().values()) == {"raise"}
    assert np.geterr() == before


def test_simd_level_is_the_one_asked_for():
    asked = os.environ.get("SDBR_SIMD")
    if asked:
        assert _kernels.simd_level() == asked
    else:
        assert _kernels.simd_level() in _kernels.build_info()["levels"]
