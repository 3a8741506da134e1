"""Products by cuBLASLt, on a double of it that has no device: right, whatever it refuses."""

from sdbr.ops.table import OPS
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness import device
from tests.harness.comparison import assert_near
from tests.tolerances import GRADIENTS

from .generators import cases_of
from .harness import assert_parity

NAMES = [op.name for op in OPS if op.family == "product"]


@pytest.mark.parametrize("refused", [0, 2, 4, 2 | 4])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_op(name, dtype, refused):
    """Each case that has any elements, with each epilogue that the library does not take."""
    cases = cases_of(name, dtype)
    with device.by_library(refused=refused) as races, device.simulated(races=races) as made:
        assert_parity(cases, device.NAME)
    (one,) = made
    assert (len(one.parts), one.recorded, one.others) == (1, 1, [])
    does = [i for i, choice in one.products.choices.items() if choice.name == "cuBLASLt"]
    assert len(does) == sum(all(x.view.size for x in case.operands) for case in cases)


@pytest.mark.parametrize("moving", range(4))
def test_sums_of_a_factor(moving):
    """A gradient of weights and one of a bias, of which one lies elsewhere in the second run."""
    builder = Builder()
    a, b = builder.table.bound((6, 3), "f4", "a"), builder.table.bound((6, 5), "f4", "b")
    c, sums = builder.table.bound((3, 5), "f4", "c"), builder.table.bound((3, 1), "f4", "sums")
    builder.emit("gemm", [a, b], [c], (1, 0, 0), ())
    x = builder.table.view(a, (1, 6, 3), (72, 12, 4))
    total = builder.table.view(sums, (1, 3), (12, 4))
    builder.emit("sum", [x], [total], (), ())
    program = assemble(builder.instructions, builder.table, "test")
    memory = Memory(4, 0)
    rng = np.random.RandomState(0)
    arrays = [rng.randn(6, 3).astype("f"), rng.randn(6, 5).astype("f")]
    arrays += [np.zeros((3, 5), "f"), np.zeros((3, 1), "f")]
    for k, array in enumerate(arrays):
        memory.bind(k, array)
    with device.by_library() as races:
        executable = device.SimExecutable(program, memory, races=races)
        for _ in range(3):
            executable.run()
            assert_near(arrays[2], arrays[0].T @ arrays[1], GRADIENTS, "c")
            assert_near(arrays[3][:, 0], arrays[0].sum(0), GRADIENTS, "sums")
            kept = arrays[moving].copy()
            arrays[moving] = rng.randn(*kept.shape).astype("f")
            memory.bind(moving, arrays[moving])
        assert kept.any()
    assert [str(x) for x in executable.products.choices.values()] == ["cuBLASLt (bgrad)"]
    assert (executable.recorded, executable.moving) == (2, {moving})


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("overwritten", ["", "y", "a part of y"])
def test_masks_of_relu(overwritten, has_bias):
    """A gradient reads what the relu's product has noted, unless its output is another one then."""
    builder = Builder()
    shapes = {"x": (6, 3), "w": (131, 3), "bias": (131,), "y": (6, 131), "gy": (6, 4)}
    shapes |= {"v": (4, 131), "gx": (6, 131), "z": (6, 131)}
    rows = {name: builder.table.bound(shape, "f4", name) for name, shape in shapes.items()}
    given = [rows[name] for name in ("x", "w", "bias")[: 2 + has_bias]]
    builder.emit("linear", given, [rows["y"]], (1,), ())
    z, y = rows["z"], rows["y"]
    if overwritten == "a part of y":
        z, y = (builder.table.view(row, (2, 5), (524, 4), 4 * 131 + 8) for row in (z, y))
    if overwritten:
        builder.emit("negative", [z], [y], (), ())
    builder.emit("gemm_mask", [rows["gy"], rows["v"], rows["y"]], [rows["gx"]], (1,), ())
    program = assemble(builder.instructions, builder.table, "test")
    memory, rng = Memory(len(shapes), 0), np.random.RandomState(0)
    arrays = {name: rng.randn(*shape).astype("f") for name, shape in shapes.items()}
    for k, array in enumerate(arrays.values()):
        memory.bind(k, array)
    with device.by_library() as races:
        executable = device.SimExecutable(program, memory, races=races)
        for _ in range(2):
            executable.run()
            want = arrays["gy"] @ arrays["v"] * (arrays["y"] > 0)
            assert_near(arrays["gx"], want, GRADIENTS, "gx")
            arrays["x"][...] = rng.randn(6, 3)
    names = [choice.why for choice in executable.products.choices.values()]
    aux = "relu_aux_bias" if has_bias else "relu_aux"
    plain = "relu_bias" if has_bias else "relu"
    assert names == ([plain, "no epilogue"] if overwritten else [aux, "drelu"])
