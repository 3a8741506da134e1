"""Whole steps whose products cuBLASLt does, on a double of it that has no device."""

import gc

import sdbr
from sdbr.backends.cuda import products
from sdbr.base import settings
from sdbr.base.errors import BackendError

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.optimizer_hooks import GradientClipping

from tests.harness import device
from tests.harness.launched import LARGE, LSTM, large
from tests.harness.models import Net, data, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train


@pytest.fixture
def races():
    with device.by_library() as made:
        yield made


def does(executable):
    """What does the products of a program, and with which epilogue."""
    return [str(choice) for choice in executable.products.choices.values()]


@pytest.mark.parametrize(
    ("refused", "epilogues"),
    [
        (0, ["relu_aux_bias", "bias", "bgrad", "drelu"]),
        (2, ["bias", "bgrad", "no epilogue"]),
        (4, ["bgrad", "no epilogue"]),
        (8, ["relu_bias", "bias", "bgrad", "no epilogue"]),
        (128, ["relu_bias", "bias", "bgrad", "no epilogue"]),
        (512, ["relu_aux_bias", "bias", "drelu", "no epilogue"]),
        (2 | 4 | 512, ["no epilogue"]),
    ],
)
@pytest.mark.parametrize("chained", [False, True])
def test_epilogues(chained, refused, epilogues):
    """What the library does not take a kernel of ours does behind it."""
    with (
        device.by_library(refused=refused) as races,
        device.simulated(chained, races=races) as made,
    ):
        compare(large, LARGE, OPTIMIZERS["adam"], backend=device.NAME, steps=6)
    (step,) = made
    assert (len(step.parts), step.others) == (1, [])
    assert set(does(step)) == {f"cuBLASLt ({name})" for name in epilogues}
    assert len(does(step)) == 8
    assert all(text.startswith("cuBLASLt") for text in does(step))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("copied", [False, True])
def test_recurrent_networks(races, name, copied):
    """Products that are added to what is there; with memory that is not that of the host."""
    before = device.blas_setting("matmuls").value
    with device.simulated(copied=copied, races=races) as made:
        batch = data(labels(10, 3, 4), labels(10, 3, 4))
        compare(LSTM, batch, OPTIMIZERS[name], backend=device.NAME, steps=8)
    (step,) = made
    assert (len(step.parts), step.others) == (1, [])
    assert all(text.startswith("cuBLASLt") for text in does(step))
    assert device.blas_setting("matmuls").value > before + 7 * len(does(step))


def test_models_in_double(races):
    with device.simulated(races=races) as made, chainer.using_config("dtype", np.float64):
        batch = data(lambda rng: rng.randn(8, 4), labels(3, 8))
        compare(classifier, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=5)
    assert all(text.startswith("cuBLASLt") for text in does(made[0]))


def test_arrays_that_move(races):
    """The batch is another array in each step, and parameters and gradients are replaced."""

    def each(model, optimizer, i):
        if i in (3, 5, 7):
            p = model.predictor.l1.W
            p.array = p.array.copy()
        if i in (4, 8):
            for p in model.params():
                p.grad = p.grad.copy()

    with device.simulated(races=races) as made:
        compare(classifier, BATCH, OPTIMIZERS["sgd"], backend=device.NAME, steps=12, each=each)
    (step,) = made
    assert len(step.moving) == 3
    assert all(text.startswith("cuBLASLt") for text in does(step))


def test_arrays_that_are_hardly_aligned(races):
    """Algorithms are asked for by how addresses are aligned."""

    def batch(rng):
        x = np.empty(8 * 4 * 4 + 4, np.uint8)[4:].view("f").reshape(8, 4)
        x[...] = rng.randn(8, 4)
        return x, rng.randint(0, 3, 8).astype("i")

    with device.simulated(races=races) as made:
        compare(classifier, batch, OPTIMIZERS["sgd"], backend=device.NAME, steps=5)
    assert all(text.startswith("cuBLASLt") for text in does(made[0]))


@pytest.mark.parametrize("refused", [0, 512])
@pytest.mark.parametrize("chained", [False, True])
def test_labels_out_of_range_leave_everything_as_it_was(races, chained, refused):
    """The library knows no faults: what it makes is kept from gradients by a kernel behind it."""
    device.blas_setting("refused").value = refused
    rule = OPTIMIZERS["momentum_with_hooks"]
    with device.simulated(chained, races=races) as made:
        options = {"steps": 4, "static": True, "backend": device.NAME}
        _, model, optimizer = train(classifier, BATCH, rule, **options)
        x = np.ones((8, 4), "f")
        before = [p.array.copy() for p in model.params()]
        grads = [p.grad.copy() for p in model.params()]
        with pytest.raises(IndexError, match="index 3 at position 5 is out of range for 3"):
            optimizer.update(model, x, np.array([0, 1, 2, 0, 1, 3, 0, 1], "i"))
        for p, array, grad in zip(model.params(), before, grads, strict=True):
            np.testing.assert_array_equal(p.array, array)
            np.testing.assert_array_equal(p.grad, grad)
        optimizer.update(model, x, np.zeros(8, "i"))
    assert all(text.startswith("cuBLASLt") for text in does(made[0]))
    assert model.schedule_manager.statistics.replays == 4
    device.blas_setting("refused").value = 0


@pytest.mark.parametrize(("swallows", "name"), [(0, "relu_bias"), (7, "bias")])
def test_nan_stays_nan(swallows, name):
    """Where the library's relu would lose it, ours is launched behind the product."""
    plain = Net(lambda net, x: F.relu(net.l(x)), l=L.Linear(4, 3))
    x = np.ones((8, 4), "f")
    x[2, 0] = np.nan
    with device.by_library(swallows=swallows) as races, device.simulated(races=races) as made:
        static = sdbr.static_graph(plain.copy("copy"), backend=device.NAME, on_dynamic="raise")
        for _ in range(3):
            np.testing.assert_array_equal(np.isnan(static(x).array), np.isnan(plain(x).array))
    assert np.isnan(static(x).array[2]).all()
    assert static.schedule_manager.statistics.replays == 3
    assert f"cuBLASLt ({name})" in does(made[-1])


def test_a_refused_product_is_done_by_our_own_kernel():
    with device.by_library(refused=0xFFFF) as races, device.simulated(races=races) as made:
        compare(large, LARGE, OPTIMIZERS["adam"], backend=device.NAME, steps=4)
    assert set(does(made[0])) == {"own kernel (refused by cuBLASLt)"}


def test_without_the_library():
    with device.by_library(), device.simulated() as made:
        compare(large, LARGE, OPTIMIZERS["adam"], backend=device.NAME, steps=4)
    assert set(does(made[0])) == {"own kernel (no cuBLASLt)"}


def test_small_products_are_our_own_kernels():
    with device.by_library() as races, device.simulated(races=races) as made:
        products.LEAST = 37 * 131 * 70
        compare(large, LARGE, OPTIMIZERS["adam"], backend=device.NAME, steps=4)
    assert sorted(set(does(made[0]))) == [
        "cuBLASLt (bgrad)",
        "cuBLASLt (drelu)",
        "cuBLASLt (relu_aux_bias)",
        "cuBLASLt (relu_bias)",
        "own kernel (small)",
    ]


def test_explain_says_what_does_products(races):
    with device.simulated(races=races):
        _, model, _ = train(
            classifier, BATCH, OPTIMIZERS["sgd"], static=True, steps=3, backend=device.NAME
        )
        text = str(sdbr.explain(model))
    assert "chosen: cuBLASLt x 8 (linear, gemm_mask, gemm)" in " ".join(text.split())


def test_errors_name_the_op():
    with (
        device.by_library(fails=13) as races,
        device.simulated(races=races),
        pytest.raises(BackendError, match="CUBLAS_STATUS_EXECUTION_FAILED") as caught,
    ):
        train(classifier, BATCH, OPTIMIZERS["sgd"], static=True, steps=3, backend=device.NAME)
    notes = "".join(getattr(caught.value, "__notes__", caught.value.args))
    assert "linear" in notes and "float32[8,4]" in notes


@pytest.mark.parametrize(
    ("variable", "entry", "compute"),
    [(None, None, 68), ("0", None, 68), ("1", None, 77), ("1", False, 68), (None, True, 77)],
)
def test_tf32_only_where_it_is_asked_for(races, monkeypatch, variable, entry, compute):
    monkeypatch.delenv("CUPY_TF32", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUPY_TF32", variable)
    monkeypatch.delattr(chainer.global_config, "sdbr_tf32")
    settings.enter()
    if entry is not None:
        chainer.global_config.sdbr_tf32 = entry
    with device.simulated(races=races):
        compare(classifier, BATCH, OPTIMIZERS["sgd"], backend=device.NAME, steps=3)
    assert device.blas_setting("compute").value == compute


def test_tf32_is_part_of_the_key(races):
    """Each has a schedule of its own."""
    with device.simulated(races=races):
        model = sdbr.static_graph(classifier(), backend=device.NAME)
        for i in range(4):
            for flag, compute in ((False, 68), (True, 77)):
                with chainer.using_config("sdbr_tf32", flag):
                    model(*BATCH(np.random.RandomState(0)))
                assert i == 0 or device.blas_setting("compute").value == compute
    assert model.schedule_manager.statistics.traces == 2
    with pytest.raises(ValueError, match="sdbr_tf32"), chainer.using_config("sdbr_tf32", "yes"):
        products.tf32()


def test_nothing_is_allocated_or_asked_in_replays(races):
    names = ("bytes", "graphs", "modules", "streams", "events")
    with device.simulated(races=races):
        _, model, optimizer = train(
            classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME
        )
        rng = np.random.RandomState(0)
        before = [device.setting(name).value for name in names]
        asked = [device.blas_setting(name).value for name in ("asked", "descriptors")]
        done = device.blas_setting("matmuls").value
        for _ in range(50):
            optimizer.update(model, *BATCH(rng))
        assert [device.setting(name).value for name in names] == before
        assert [device.blas_setting(name).value for name in ("asked", "descriptors")] == asked
        assert device.blas_setting("matmuls").value == done + 50 * 8


def test_what_is_let_go_is_given_back(races):
    gc.collect()
    names = ("bytes", "graphs", "modules", "streams", "events")
    before = [device.setting(name).value for name in names]
    described = device.blas_setting("descriptors").value
    with device.simulated(races=races) as made:
        train(classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME)
        made.clear()
    gc.collect()
    assert [device.setting(name).value for name in names] == before
    assert device.blas_setting("descriptors").value == described


def test_products_do_not_work_in_memory_of_others():
    """Algorithms that need memory lose what is there: it is nobody's else."""
    costs = device.blas_settings("costs")
    before = list(costs)
    costs[:3] = [9, 9, 1]
    try:
        with (
            device.by_library() as races,
            device.simulated(races=races) as made,
            chainer.using_config("sdbr_tune", True),
        ):
            ran = device.blas_settings("ran")[2]
            compare(LSTM, data(labels(10, 3, 4), labels(10, 3, 4)), OPTIMIZERS["adam"],
                    backend=device.NAME, steps=6)  # fmt: skip
            assert device.blas_settings("ran")[2] > ran
    finally:
        costs[:] = before
    (step,) = made
    assert step.launching.rooms[0][-1].nbytes >= 1 << 16


def test_clipped_gradients(races):
    """Sums of squares come after the kernels behind the products."""

    def setup(model):
        optimizer = OPTIMIZERS["adam"](model)
        optimizer.add_hook(GradientClipping(0.1))
        return optimizer

    with device.simulated(races=races):
        compare(classifier, BATCH, setup, backend=device.NAME, steps=6)
