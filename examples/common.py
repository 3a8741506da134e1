"""What the examples share: options, a progress bar, a picture, and the lines at the end.

Each example trains twice from one seed: static, and for fewer steps as plain Chainer
(``chainer.config.sdbr_backend = "off"``), so that losses and speed can be compared.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import sdbr

import chainer
import numpy as np
from threadpoolctl import threadpool_limits

#: Where losses are compared: later on rounding has grown, and a pole falls to the other side.
EARLY = 100


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 1, 8, 8) in [0, 1] and labels, for training, then for testing.

    Images have Chainer's dtype, float32 where nobody sets another one.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("the digits come with scikit-learn: pip install '.[examples]'")
    x, t = load_digits(return_X_y=True)
    dtype = chainer.get_dtype(map_mixed16=np.float32)
    x, t = (x / 16).astype(dtype).reshape(-1, 1, 8, 8), t.astype(np.int32)
    order = np.random.RandomState(0).permutation(len(x))
    train, test = order[360:], order[:360]
    return x[train], t[train], x[test], t[test]


def random_batches(size: int, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """For ever so many rows of each array, drawn by NumPy's global generator."""
    while True:
        order = np.random.permutation(len(arrays[0]))
        for i in range(0, len(order) - size + 1, size):
            yield tuple(array[order[i : i + size]] for array in arrays)


class Steps:
    """The steps of one training: iterate over it, and log the loss of each."""

    def __init__(self, n: int, label: str, silent: bool = False):
        self.n, self.label, self.silent = n, label, silent
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self._last = perf_counter()

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        try:
            from tqdm import tqdm
        except ImportError:
            tqdm = _PlainBar
        shown = perf_counter()
        tqdm.monitor_interval = 0  # no thread beside ours: audits see more
        with tqdm(total=self.n, desc=f"{self.label:>13}", unit="step", disable=self.silent) as bar:
            for i in range(self.n):
                start = perf_counter()
                yield i
                now = perf_counter()
                self.seconds.append(now - start)
                if self.losses and (now - shown > 0.1 or i == self.n - 1):
                    shown = now
                    bar.set_postfix(loss=f"{self.losses[-1]:.4f}", refresh=False)
                bar.update()

    def log(self, loss: Any) -> None:
        """Note a loss: a number, or an array or Variable of one."""
        self.losses.append(float(getattr(loss, "array", loss)))

    def count(self, trainer: Any, loss: str = "main/loss") -> None:
        """Log an iteration: an extension of Chainer's Trainer, instead of the two above."""
        now = perf_counter()
        self.seconds.append(now - self._last)
        self._last = now
        self.log(trainer.observation[loss])

    def say(self, text: str) -> None:
        """Print a line of what came of this training."""
        if not self.silent:
            print(f"{self.label}: {text}")

    @property
    def per_second(self) -> float:
        """Of the median step: tracing and building are in the first few."""
        return 1 / statistics.median(self.seconds)


class _PlainBar:
    """A line on standard error for each tenth, where tqdm is missing."""

    def __init__(self, total: int, desc: str, unit: str, disable: bool):
        self.total, self.desc, self.disable = total, desc, disable
        self.n, self.text = 0, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def set_postfix(self, refresh: bool, **values: str) -> None:
        self.text = ", ".join(f"{name}={value}" for name, value in values.items())

    def update(self) -> None:
        self.n += 1
        if not self.disable and self.n * 10 // self.total > (self.n - 1) * 10 // self.total:
            print(f"{self.desc}: {self.n}/{self.total} steps {self.text}", file=sys.stderr)


def main(
    train: Callable, draw: Callable, *, steps: int, plain: int, quick: int, silent: bool = False
) -> None:
    """Train, say what came of it, and write the picture.

    Parameters
    ----------
    train : callable
        ``train(steps)`` goes through `Steps` and returns a tuple: everything static that it made,
        and what `draw` wants besides.
    draw : callable
        ``draw(axes, trained)`` fills the right half of the picture.
    steps, plain, quick : int
        Steps of the static training, of plain Chainer, and of both with ``--quick``.
    silent : bool
        Train and say nothing: there is another process that does.
    """
    path = Path(train.__code__.co_filename)
    parser = argparse.ArgumentParser(description=f"See the head of {path.name}.")
    parser.add_argument("--steps", type=int, default=steps, metavar="N")
    parser.add_argument("--quick", action="store_true", help=f"{quick} steps, for tests")
    parser.add_argument("--explain", action="store_true", help="print sdbr.explain in the end")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")
    parser.add_argument("--out", type=Path, default="result", help="folder of the picture")
    options = parser.parse_args()
    if options.quick:
        options.steps = plain = quick

    static = Steps(options.steps, "static", silent)
    reference = Steps(min(plain, options.steps), "plain Chainer", silent)
    with threadpool_limits(1):  # small networks: threads of BLAS would only wait for each other
        np.random.seed(0)
        trained = train(static)
        np.random.seed(0)
        with chainer.using_config("sdbr_backend", "off"):
            train(reference)
    if silent:
        return

    found = facts(trained, static, reference)
    print(sentence(found))
    if options.explain:
        for each in _static(trained):
            print(sdbr.explain(each))
    found["picture"] = picture(options.out / f"{path.stem}.png", draw, trained, static, reference)
    if options.json:
        print(json.dumps(found))


def _static(trained: Sequence) -> list[Any]:
    return [each for each in trained if hasattr(each, "schedule_manager")]


def facts(trained: Sequence, static: Steps, reference: Steps) -> dict[str, Any]:
    """How the static calls were served, losses, and speed."""
    counts = [each.schedule_manager.statistics.to_dict() for each in _static(trained)]
    return {
        "statistics": {name: sum(count[name] for count in counts) for name in counts[0]},
        "losses": static.losses,
        "plain losses": reference.losses,
        "steps per second": static.per_second,
        "plain steps per second": reference.per_second,
    }


def sentence(found: dict[str, Any]) -> str:
    """The facts in three lines."""
    count = found["statistics"]
    fast, slow = found["steps per second"], found["plain steps per second"]
    n = min(EARLY, len(found["plain losses"]))
    return (
        f"calls {count['calls']}, of them replays {count['replays']}, of them whole steps "
        f"{count['steps']}; Python ops {count['python_ops']}\n"
        f"loss of step {n}: static {found['losses'][n - 1]:.6f}, "
        f"plain Chainer {found['plain losses'][n - 1]:.6f}\n"
        f"steps per second: static {fast:,.0f}, plain Chainer {slow:,.0f}: {fast / slow:.1f} times"
    )


def picture(path: Path, draw: Callable, trained: Sequence, static: Steps, plain: Steps) -> str:
    """Write the losses, and what `draw` makes; the path, or "" where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is missing (pip install '.[examples]')")
        return ""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(static.losses, label="static", linewidth=1)
    left.plot(plain.losses, label="plain Chainer", linewidth=1, linestyle="--")
    left.set(xlabel="step", ylabel="loss")
    left.legend()
    draw(right, trained)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"wrote {path}")
    return str(path)


def show_tiles(axes: Any, images: np.ndarray, columns: int, title: str) -> None:
    """Images (n, 8, 8) side by side."""
    rows = len(images) // columns
    tiles = np.pad(images.reshape(rows, columns, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    axes.imshow(tiles.swapaxes(1, 2).reshape(10 * rows, 10 * columns), cmap="gray")
    axes.set(title=title, xticks=[], yticks=[])
