"""The demo: what it prints and writes, and its exit codes."""

import argparse

from sdbr.base.errors import BackendError
from sdbr.cli import demo
from sdbr.cli.demo import datasets

import numpy as np
import pytest
from chainer.backends import cuda

from tests.tolerances import SUMS

pytest.importorskip("sklearn", reason="scikit-learn is missing")
pytest.importorskip("matplotlib", reason="matplotlib is missing")
pytest.importorskip("tqdm", reason="tqdm is missing")


def run(capsys, *arguments):
    code = demo.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One full default run, shared by the tests that look at its parts."""
    out = tmp_path_factory.mktemp("demo") / "picture.png"
    return demo.main(["--out", str(out)]), out


def test_the_default_run_meets_its_own_conditions(finished):
    code, out = finished
    assert code == 0
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert out.stat().st_size > 10_000


def test_the_table_has_every_row(capsys, tmp_path):
    code, out, err = run(capsys, "--epochs", 1, "--out", tmp_path / "p.png")
    for row in (
        "seconds per epoch",
        "microseconds per step",
        "test accuracy",
        "largest difference",
    ):
        assert row in out
    assert code == 1 and "below 0.97" in err


def test_the_static_run_replays_and_gives_the_same_curve():
    options = demo._parse(["--epochs", "2"])
    data = datasets.load("digits")
    device = demo._device("-1")
    plain = demo.train(data, options, device, static=False)
    static = demo.train(data, options, device, static=True)
    n_steps = 2 * -(-len(data.x_train) // options.batch_size)
    assert len(plain.step_seconds) == len(static.step_seconds) == n_steps
    assert demo.curve_difference(plain.epoch_losses, static.epoch_losses) < SUMS
    # Traces: a full batch, the smaller last batch, the test images; once more each at the most.
    assert static.counters["replays"] >= n_steps - 6
    assert not plain.counters


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "mnist"], "needs --data-dir"),
        (["--data-dir", "x"], "belongs to --dataset mnist"),
        (["--dataset", "mnist", "--data-dir", "/no/such/directory"], "no such directory"),
        (["--out", "/no/such/directory/p.png"], "no such directory"),
        (["--out", "picture.jpeg"], "ends in .png"),
        (["--batch-size", "5000"], "exceeds the"),
        (["--device", "no-such-device"], "not available"),
    ],
)
def test_commands_that_cannot_be_carried_out(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.skipif(cuda.available, reason="there is a GPU here")
@pytest.mark.parametrize("device", ["@cupy:0", "0"])
def test_without_a_gpu_it_says_what_is_missing_and_what_helps(capsys, device):
    code, out, err = run(capsys, "--device", device)
    assert code == 2 and not out
    assert f"sdbr demo: error: --device {device}: not available (" in err and err.count("\n") == 1
    assert "sdbr doctor" in err and "pip install '.[cuda13]'" in err
    _, _, err = run(capsys, "--device", "no-such-device")
    assert "doctor" not in err


def test_a_backend_that_cannot_run_says_so_before_the_training(capsys, monkeypatch):
    def refuse(backend, device):
        raise BackendError(f"backend {backend!r} cannot run here")

    monkeypatch.setattr(demo, "_check_backend", refuse)
    monkeypatch.setattr(demo, "train", lambda *arguments: pytest.fail("the training began"))
    code, _, err = run(capsys, "--backend", "cuda")
    assert code == 2 and err == "sdbr demo: error: backend 'cuda' cannot run here\n"


@pytest.mark.parametrize("arguments", [["--epochs", "0"], ["--units", "x"], ["--backend", "fast"]])
def test_bad_numbers_and_names_exit_with_two(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        demo.main(arguments)
    assert caught.value.code == 2


def test_an_output_directory_is_refused(capsys, tmp_path):
    (tmp_path / "d.png").mkdir()
    code, _, err = run(capsys, "--out", tmp_path / "d.png")
    assert code == 2 and "is a directory" in err


def make_run(losses=(1.0, 0.5), accuracy=0.98):
    return demo.Run("x", list(losses), [1.0], [1.0], accuracy)


@pytest.mark.parametrize(
    ("plain", "static", "n_failures"),
    [
        (make_run(), make_run(), 0),
        (make_run(), make_run((1.0, 0.502)), 1),
        (make_run(), make_run((1.0, 0.5005)), 0),
        (make_run(accuracy=0.969), make_run(), 1),
        (make_run(), make_run((float("nan"), 0.5), float("nan")), 2),
    ],
)
def test_judgement(plain, static, n_failures):
    difference = demo.curve_difference(plain.epoch_losses, static.epoch_losses)
    assert len(demo.judge(plain, static, difference)) == n_failures


def small_data(n=10, side=4):
    random = np.random.RandomState(0)
    x = random.rand(n, side * side).astype(np.float32)
    return datasets.Dataset(
        "small", x, np.arange(n, dtype=np.int32), x, np.arange(n, dtype=np.int32)
    )


@pytest.mark.parametrize("shift", [False, True])
def test_batches_cover_every_image_once_and_repeat_under_one_seed(shift):
    data = small_data()
    epochs = [list(demo.batches(data, 4, np.random.RandomState(1), shift)) for _ in range(2)]
    assert [len(t) for _, t in epochs[0]] == [4, 4, 2]
    assert sorted(np.concatenate([t for _, t in epochs[0]])) == list(range(10))
    for (x, t), (x2, t2) in zip(*epochs, strict=True):
        np.testing.assert_array_equal(x, x2)
        np.testing.assert_array_equal(t, t2)
        assert x.flags.c_contiguous and x.dtype == np.float32


def test_shifted_images_move_by_at_most_one_pixel():
    data = small_data(1)
    image = data.x_train.reshape(4, 4)
    frame = np.pad(image, 1)
    moved = [frame[i : i + 4, j : j + 4] for i in range(3) for j in range(3)]
    seen = set()
    order = np.random.RandomState(0)
    for _ in range(200):
        ((x, _),) = demo.batches(data, 1, order, True)
        matches = [k for k, m in enumerate(moved) if np.array_equal(m, x.reshape(4, 4))]
        assert matches
        seen.update(matches)
    assert len(seen) == 9


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as caught:
        demo.main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for option in (
        "--dataset",
        "--data-dir",
        "--backend",
        "--epochs",
        "--units",
        "--batch-size",
        "--device",
        "--out",
    ):
        assert option in out


def test_options_have_defaults_for_each_data_set():
    for name, (epochs, units, batch_size, _, _) in demo.DEFAULTS.items():
        options = demo._parse(["--dataset", name])
        assert isinstance(options, argparse.Namespace)
        assert (options.epochs, options.units, options.batch_size) == (epochs, units, batch_size)
