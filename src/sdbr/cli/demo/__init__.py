"""``python -m sdbr demo``: train one digit classifier twice, define-by-run and static, and compare.

Both runs start from the same seed, see the same batches in the same order and use the same
optimizer, so that their loss curves have to lie on each other; what differs is the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from sdbr.base.advice import install
from sdbr.base.errors import SdbrError
from sdbr.base.options import BACKEND_NAMES
from sdbr.cli.demo import datasets

import numpy as np

MINIMUM_ACCURACY = 0.97
MAXIMUM_DIFFERENCE = 1e-3
# name: (epochs, units, batch size, Adam's alpha, images are shifted by up to a pixel at random)
DEFAULTS = {"digits": (40, 128, 64, 2e-3, False), "mnist": (10, 500, 200, 1e-3, True)}


class UsageError(Exception):
    """The command cannot be carried out as given; the message is one line."""


@dataclass
class Run:
    """What one training run left behind."""

    label: str
    epoch_losses: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    accuracy: float = float("nan")
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def seconds_per_epoch(self) -> float:
        """Median over the epochs: shuffling, batching, steps and reading the losses."""
        return statistics.median(self.epoch_seconds)

    @property
    def microseconds_per_step(self) -> float:
        """Median over all calls of ``optimizer.update``."""
        return 1e6 * statistics.median(self.step_seconds)


def main(argv: list[str] | None = None) -> int:
    """Run the demo.

    Returns
    -------
    int
        0; 1 when an accuracy is below 0.97 or the loss curves differ by more than 1e-3 of their
        largest value; 2 for a command that cannot be carried out, with one line on stderr.
    """
    options = _parse(argv)
    try:
        return _demo(options)
    except (UsageError, SdbrError) as error:
        message = " ".join(str(error).split())
        print(f"sdbr demo: error: {message}", file=sys.stderr)
        return 2


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sdbr demo", description=main.__doc__.split("\n")[0])
    parser.add_argument("--dataset", choices=sorted(DEFAULTS), default="digits")
    parser.add_argument("--data-dir", metavar="DIR", help="IDX files of MNIST, plain or .gz")
    parser.add_argument(
        "--backend", choices=BACKEND_NAMES, default="auto", help="of the static run"
    )
    parser.add_argument("--epochs", type=_positive, metavar="N")
    parser.add_argument("--units", type=_positive, metavar="N", help="width of both hidden layers")
    parser.add_argument("--batch-size", type=_positive, metavar="N")
    parser.add_argument("--device", default="-1", help="as in Chainer: -1, 0, @numpy, @cupy:0")
    parser.add_argument("--seed", type=_seed, default=0)
    parser.add_argument("--threads", type=_positive, default=1, help="BLAS threads of both runs")
    parser.add_argument("--out", default="demo.png", metavar="PNG")
    options = parser.parse_args(argv)
    epochs, units, batch_size, options.alpha, options.shift = DEFAULTS[options.dataset]
    options.epochs = options.epochs or epochs
    options.units = options.units or units
    options.batch_size = options.batch_size or batch_size
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"expected 0 to 2**32 - 1, got {number}")
    return number


def _demo(options: argparse.Namespace) -> int:
    _check_output(options.out)
    data = datasets.load(options.dataset, options.data_dir)
    if options.batch_size > len(data.x_train):
        raise UsageError(
            f"--batch-size {options.batch_size} exceeds the {len(data.x_train)} training images"
        )
    try:
        import matplotlib  # noqa: F401  before the training, not after it
        import tqdm  # noqa: F401
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise UsageError(f"the demo needs {error.name}: {install('demo')}") from None
    device = _device(options.device)
    _check_backend(options.backend, device)
    print(_heading(options, data, device))
    with threadpool_limits(options.threads):
        plain = train(data, options, device, static=False)
        static = train(data, options, device, static=True)
    difference = curve_difference(plain.epoch_losses, static.epoch_losses)
    print(_table(plain, static, difference))

    from sdbr.cli.demo import figure

    figure.draw_demo(options.out, plain, static, _network(options, data))
    print(f"wrote {options.out}")
    failures = judge(plain, static, difference)
    for failure in failures:
        print(f"sdbr demo: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _check_output(out: str) -> None:
    path = Path(out)
    if path.suffix.lower() != ".png":
        raise UsageError(f"--out {out}: expected a file name that ends in .png")
    if path.is_dir():
        raise UsageError(f"--out {out}: is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"--out {out}: no such directory as {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--out {out}: not writable")


_WHAT_HELPS = (
    f"; python -m sdbr doctor says what is there, and {install('cuda13')} (or those of cuda12) "
    "brings CuPy"
)


def _device(specifier: str) -> Any:
    import sdbr  # noqa: F401  (makes Chainer importable)

    import chainer

    try:
        device = chainer.get_device(specifier)
        device.use()
    except Exception as error:  # Chainer and CuPy raise many kinds here
        reason = " ".join(str(error).split())
        on_gpu = specifier.startswith("@cupy") or specifier.isdecimal()
        hint = _WHAT_HELPS if on_gpu and not chainer.backends.cuda.available else ""
        raise UsageError(f"--device {specifier}: not available ({reason}){hint}") from None
    return device


def _check_backend(backend: str, device: Any) -> None:
    """Let a backend that cannot run here say so before the first of the two trainings."""
    import sdbr

    import chainer
    import chainer.links as L

    model = sdbr.static_graph(L.Linear(1, 1))
    model.to_device(device)
    with chainer.using_config("sdbr_backend", backend), chainer.no_backprop_mode():
        model(device.send(np.zeros((1, 1), np.float32)))


def build_model(n_in: int, n_units: int, n_out: int) -> Any:
    """Return ``L.Classifier`` over a perceptron with two hidden layers, as plain Chainer code."""
    import sdbr  # noqa: F401

    import chainer
    import chainer.functions as F
    import chainer.links as L

    class MLP(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l1 = L.Linear(n_in, n_units)
                self.l2 = L.Linear(n_units, n_units)
                self.l3 = L.Linear(n_units, n_out)

        def forward(self, x):
            return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))

    return L.Classifier(MLP())


def train(data: datasets.Dataset, options: argparse.Namespace, device: Any, static: bool) -> Run:
    """Train from ``options.seed`` and return losses, times and the test accuracy.

    The only difference between the two modes is the pair of decorator calls.
    """
    import sdbr

    import chainer
    from tqdm import tqdm

    np.random.seed(options.seed)
    model = build_model(data.n_features, options.units, datasets.N_CLASSES)
    optimizer = chainer.optimizers.Adam(alpha=options.alpha)
    if static:
        model = sdbr.static_graph(model)
        optimizer = sdbr.static_optimizer(optimizer)
    model.to_device(device)
    optimizer.setup(model)

    run = Run("static" if static else "define-by-run")
    order = np.random.RandomState(options.seed)
    n_steps = -(-len(data.x_train) // options.batch_size)
    backend = options.backend if static else "off"
    with (
        chainer.using_config("sdbr_backend", backend),
        tqdm(total=options.epochs * n_steps, desc=f"{run.label:>13}", unit="step") as bar,
    ):
        for epoch in range(options.epochs):
            optimizer.alpha = options.alpha * (1 - epoch / options.epochs)
            _train_epoch(run, model, optimizer, device, data, options, order, bar)
            bar.set_postfix(loss=f"{run.epoch_losses[-1]:.4f}", refresh=False)
        run.accuracy = _test_accuracy(model, device, data)
    if static:
        run.counters = _counters(model)
    return run


def _train_epoch(run, model, optimizer, device, data, options, order, bar) -> None:
    synchronize = _synchronizer(device)
    losses = []
    n_shown = 0
    start = shown = perf_counter()
    for x, t in batches(data, options.batch_size, order, options.shift):
        x, t = device.send((x, t))
        before = perf_counter()
        optimizer.update(model, x, t)
        synchronize()
        after = perf_counter()
        run.step_seconds.append(after - before)
        losses.append(model.loss.array)
        if after - shown > 0.1:  # a bar that is redrawn at every step would be measured, too
            bar.update(len(losses) - n_shown)
            n_shown, shown = len(losses), after
    run.epoch_losses.append(float(np.mean([float(loss) for loss in losses])))
    run.epoch_seconds.append(perf_counter() - start)
    bar.update(len(losses) - n_shown)


def batches(data: datasets.Dataset, size: int, order: np.random.RandomState, shift: bool):
    """Yield the training images of one epoch in random order; the last batch may be smaller.

    With `shift`, every image moves by up to one pixel in each direction, drawn anew each epoch.
    """
    x, t = data.x_train, data.t_train
    permutation = order.permutation(len(x))
    if shift:
        side = round(data.n_features**0.5)
        shift = side * side == data.n_features
    if shift:
        framed = np.pad(x.reshape(-1, side, side), ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(framed, (side, side), axis=(1, 2))
        rows, columns = order.randint(0, 3, (2, len(x)))
    for start in range(0, len(x), size):
        index = permutation[start : start + size]
        images = windows[index, rows[index], columns[index]] if shift else x[index]
        yield np.ascontiguousarray(images.reshape(len(index), -1)), t[index]


def _synchronizer(device: Any):
    if device.xp is np:
        return lambda: None
    return lambda: device.xp.cuda.get_current_stream().synchronize()


def _test_accuracy(model: Any, device: Any, data: datasets.Dataset) -> float:
    import chainer

    x, t = device.send((data.x_test, data.t_test))
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x, t)
    return float(model.accuracy.array)


def _counters(model: Any) -> dict[str, int]:
    """Read the numbers of ``schedule_manager.statistics``."""
    counted = model.schedule_manager.statistics
    names = ("traces", "replays", "define_by_run_calls", "native_calls", "python_ops")
    return {name: int(getattr(counted, name)) for name in names if hasattr(counted, name)}


def curve_difference(first: list[float], second: list[float]) -> float:
    """Largest difference of two curves of epoch losses, divided by their largest value."""
    a, b = np.asarray(first), np.asarray(second)
    scale = np.abs(a).max()
    return float(np.abs(a - b).max() / scale) if scale > 0 else float(np.abs(a - b).max())


def judge(plain: Run, static: Run, difference: float) -> list[str]:
    """Say what the two runs missed, one line each; NaN counts as missed."""
    failures = [
        f"{run.label} accuracy {run.accuracy:.4f} is below {MINIMUM_ACCURACY}"
        for run in (plain, static)
        if not run.accuracy >= MINIMUM_ACCURACY
    ]
    if not difference <= MAXIMUM_DIFFERENCE:
        failures.append(
            f"the loss curves differ by {difference:.1e}, more than {MAXIMUM_DIFFERENCE:.0e}"
        )
    return failures


def _network(options: argparse.Namespace, data: datasets.Dataset) -> str:
    return f"{data.n_features}-{options.units}-{options.units}-{datasets.N_CLASSES}"


def _heading(options: argparse.Namespace, data: datasets.Dataset, device: Any) -> str:
    return (
        f"{data.name}: {len(data.x_train):,} training and {len(data.x_test):,} test images, "
        f"perceptron {_network(options, data)}, batch {options.batch_size}, Adam, float32\n"
        f"{options.epochs} epochs each, device {device}, backend {options.backend}, "
        f"BLAS threads {options.threads}, seed {options.seed}"
    )


def _table(plain: Run, static: Run, difference: float) -> str:
    lines = [f"{'':24}{plain.label:>15}{static.label:>15}{'speed-up':>12}"]
    for title, attribute, form in (
        ("seconds per epoch", "seconds_per_epoch", ",.4f"),
        ("microseconds per step", "microseconds_per_step", ",.1f"),
    ):
        a, b = getattr(plain, attribute), getattr(static, attribute)
        lines.append(f"{title:24}{a:>15{form}}{b:>15{form}}{a / b:>10.1f} x")
    lines.append(f"{'test accuracy':24}{plain.accuracy:>15.4f}{static.accuracy:>15.4f}")
    lines.append(
        f"largest difference of the loss curves: {difference:.1e} of their largest value "
        f"(at most {MAXIMUM_DIFFERENCE:.0e})"
    )
    if static.counters:
        counted = ", ".join(
            f"{n:,} {name.replace('_', ' ')}" for name, n in static.counters.items()
        )
        lines.append(f"static run: {counted}")
    return "\n".join(lines)
