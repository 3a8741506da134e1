"""Random numbers that kernels make: ``sdbr_random = 'philox'``."""

from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import chainer
import numpy as np
import pytest

from tests.harness import device

LOW, HIGH = 2**32 - 1, 2**32


def philox(counter, key):
    """Four numbers of Philox4x32-10, by Python's own integers."""
    c, (low, high) = list(counter), key
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ low, b & LOW, a >> 32 ^ c[3] ^ high, a & LOW]
        low, high = (low + 0x9E3779B9) % HIGH, (high + 0xBB67AE85) % HIGH
    return c


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([LOW] * 4, [LOW] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_published_answers(counter, key, want):
    assert " ".join(f"{x:08x}" for x in philox(counter, key)) == want


def executable(op, n, floats):
    """A program of one op that draws, its arrays, and what runs it."""
    builder = Builder()
    names = {"dropout": "x y mask"}.get(op, "y").split()
    rows = [builder.table.bound((n,), "f4", name) for name in names]
    takes = len(rows) == 3
    builder.emit(op, rows[:takes], rows[takes:], (), floats)
    program, memory = assemble(builder.instructions, builder.table, "test"), Memory(len(rows), 0)
    arrays = [np.ones(n, "f") for _ in rows]
    for k, array in enumerate(arrays):
        memory.bind(k, array)
    return CudaExecutable(program, memory, device.device(), device.machine_code), arrays


def expected(seed, run, n):
    key = seed & LOW, seed >> 32
    run <<= 28
    drawn = [philox([k, 1, run & LOW, run >> 32], key) for k in range(-(-n // 4))]
    return np.array([(x >> 8) / 2**24 for four in drawn for x in four][:n])


@pytest.mark.parametrize("op", ["dropout", "keep_mask", "uniform"])
@pytest.mark.parametrize("n", [1, 10, 1003])
def test_kernels_draw_what_philox_says(op, n):
    np.random.seed(3)
    seed = int(np.random.randint(2**63, dtype=np.int64))
    np.random.seed(3)
    floats = (-1.0, 3.0) if op == "uniform" else (0.3,)
    with chainer.using_config("sdbr_random", "philox"):
        made, arrays = executable(op, n, floats)
    after = np.random.get_state()[1].copy()
    for run in (1, 2, 3, 4):
        made.run()
        drawn = expected(seed, run, n)
        want = -1 + 4 * drawn if op == "uniform" else drawn >= 0.3
        scale = np.float32(1 / (1 - 0.3)) if op == "dropout" else 1
        np.testing.assert_array_equal(arrays[-1], (want * scale).astype("f"))
    np.testing.assert_array_equal(np.random.get_state()[1], after)
    assert made.recorded == 1


def test_draws_are_even():
    with chainer.using_config("sdbr_random", "philox"):
        made, (_, _, mask) = executable("dropout", 40000, (0.3,))
    seen = []
    for _ in range(5):
        made.run()
        seen.append(mask > 0)
    seen = np.array(seen)
    assert abs(seen.mean() - 0.7) < 4 * np.sqrt(0.21 / seen.size)
    both = seen[1:] & seen[:-1]  # independent from run to run, and from element to element
    assert abs(both.mean() - 0.49) < 4 * np.sqrt(0.25 / both.size)
    both = seen[:, 1:] & seen[:, :-1]
    assert abs(both.mean() - 0.49) < 4 * np.sqrt(0.25 / both.size)


def test_a_wrong_name():
    wrong = "sdbr_random .*: expected one of define-by-run, philox"
    with pytest.raises(ValueError, match=wrong):
        chainer.using_config("sdbr_random", "mine")
