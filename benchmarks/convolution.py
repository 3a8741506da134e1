"""Convolutions one by one: ``python -m benchmarks.convolution --peer-python PYTHON``.

Forward and both gradients of the shapes of four networks, in GFLOP/s: our own kernel, each way of
oneDNN (copies into its layouts and back included), and PyTorch where an interpreter has it. *kept*
is the best way if activations lay in its layout already: what a schedule could gain that keeps
them there, if everything between convolutions could work on them for nothing. The best of several
runs, in turn; as many threads as BLAS has (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sdbr.backends.cpu import _kernels, convolution
from sdbr.backends.cpu.onednn import _onednn, library, primitives
from sdbr.backends.cpu.onednn import convolution as onednn
from sdbr.backends.cpu.onednn.convolution import FORWARD, GRAD_W, GRAD_X, WAYS
from sdbr.backends.cpu.prepare.blocking import blocking_of
from sdbr.backends.cpu.tuning.race import operands
from sdbr.base.dtypes import DTYPE_CODES
from sdbr.base.errors import BackendError
from sdbr.base.threads import num_threads
from sdbr.program.buffers import c_strides

import chainer
import numpy as np

from benchmarks import machine, page


class Shape(NamedTuple):
    """A convolution of a network, and how often the network has it."""

    network: str
    name: str
    count: int
    batch: int
    n_in: int
    size: int
    n_out: int
    kernel: int
    stride: int
    pad: int


SHAPES = [
    Shape("vgg_cifar", "1.1", 1, 16, 3, 32, 64, 3, 1, 1),
    Shape("vgg_cifar", "1.2", 1, 16, 64, 32, 64, 3, 1, 1),
    Shape("vgg_cifar", "2.1", 1, 16, 64, 16, 128, 3, 1, 1),
    Shape("vgg_cifar", "2.2", 1, 16, 128, 16, 128, 3, 1, 1),
    Shape("vgg_cifar", "3.1", 1, 16, 128, 8, 256, 3, 1, 1),
    Shape("vgg_cifar", "3.2", 2, 16, 256, 8, 256, 3, 1, 1),
    Shape("vgg_cifar", "4.1", 1, 16, 256, 4, 512, 3, 1, 1),
    Shape("vgg_cifar", "4.2", 2, 16, 512, 4, 512, 3, 1, 1),
    Shape("vgg_cifar", "5", 3, 16, 512, 2, 512, 3, 1, 1),
    Shape("resnet50", "1", 1, 4, 3, 224, 64, 7, 2, 3),
    Shape("resnet50", "2 first", 1, 4, 64, 56, 64, 1, 1, 0),
    Shape("resnet50", "2 reduce", 2, 4, 256, 56, 64, 1, 1, 0),
    Shape("resnet50", "2 middle", 3, 4, 64, 56, 64, 3, 1, 1),
    Shape("resnet50", "2 expand", 4, 4, 64, 56, 256, 1, 1, 0),
    Shape("resnet50", "3 down", 1, 4, 256, 56, 128, 1, 2, 0),
    Shape("resnet50", "3 side", 1, 4, 256, 56, 512, 1, 2, 0),
    Shape("resnet50", "3 reduce", 3, 4, 512, 28, 128, 1, 1, 0),
    Shape("resnet50", "3 middle", 4, 4, 128, 28, 128, 3, 1, 1),
    Shape("resnet50", "3 expand", 4, 4, 128, 28, 512, 1, 1, 0),
    Shape("resnet50", "4 down", 1, 4, 512, 28, 256, 1, 2, 0),
    Shape("resnet50", "4 side", 1, 4, 512, 28, 1024, 1, 2, 0),
    Shape("resnet50", "4 reduce", 5, 4, 1024, 14, 256, 1, 1, 0),
    Shape("resnet50", "4 middle", 6, 4, 256, 14, 256, 3, 1, 1),
    Shape("resnet50", "4 expand", 6, 4, 256, 14, 1024, 1, 1, 0),
    Shape("resnet50", "5 down", 1, 4, 1024, 14, 512, 1, 2, 0),
    Shape("resnet50", "5 side", 1, 4, 1024, 14, 2048, 1, 2, 0),
    Shape("resnet50", "5 reduce", 2, 4, 2048, 7, 512, 1, 1, 0),
    Shape("resnet50", "5 middle", 3, 4, 512, 7, 512, 3, 1, 1),
    Shape("resnet50", "5 expand", 3, 4, 512, 7, 2048, 1, 1, 0),
    Shape("lenet", "1", 1, 64, 1, 28, 20, 5, 1, 0),
    Shape("lenet", "2", 1, 64, 20, 12, 50, 5, 1, 0),
    Shape("dqn", "1", 1, 32, 4, 84, 32, 8, 4, 0),
    Shape("dqn", "2", 1, 32, 32, 20, 64, 4, 2, 0),
    Shape("dqn", "3", 1, 32, 64, 9, 64, 3, 1, 0),
]
OPS = (FORWARD, GRAD_X, GRAD_W)
CHOSEN = ("own", *WAYS)
COLUMNS = (*CHOSEN, "kept", "torch")
PEER = Path(__file__).with_name("convolution_torch.py")
MARKER = "convolutions"


class Problem:
    """One op on one shape: the kernels that compute it, and arrays to run them on."""

    def __init__(self, op: str, shape: Shape):
        _, _, _, n, c, size, o, k, stride, pad = shape
        out = (size + 2 * pad - k) // stride + 1
        x, w, y = (n, c, 1, size, size), (o, c, 1, k, k), (n, o, 1, out, out)
        numbers = (1, stride, stride, 0, pad, pad, 1, 1, 1, 1, 0)
        scratch = (blocking_of((x, w, y), numbers).scratch(op, 4),)
        shapes = [*{FORWARD: (x, w, y), GRAD_X: (y, w, x), GRAD_W: (x, y, w)}[op], scratch]
        rows = [(DTYPE_CODES[np.dtype("f4")], s, c_strides(s, 4)) for s in shapes]
        self.op = op
        self.flops = 2 * n * o * out * out * c * k * k
        self.arrays = operands([(s, np.float32) for s in shapes])
        self.held: list[Any] = []  # what kernels read when they run
        self.kernels: dict[str, tuple] = {}
        for way in CHOSEN:
            with chainer.using_config("sdbr_onednn", "off" if way == "own" else way):
                try:
                    kernel, ints, choice = convolution.prepare(op, rows[:2], rows[2:], numbers)
                except BackendError:
                    continue
            if choice.way == way:
                self.kernels[way] = (kernel, ints)
                self.held.append(choice)
        for choice in [c for c in self.held if c.sequence is not None and c.way != "plain"]:
            sequence = self._without_copies(choice.problem, choice.way)
            self.kernels[f"kept {choice.way}"] = ("foreign", (sequence.address,))
            self.held.append(sequence)

    def _without_copies(self, problem, way: str):
        """The sequence of a way without its copies of activations."""
        found, _ = library.find()
        weights = primitives.operand(2 if self.op == GRAD_W else 1)

        def make(threads):
            steps, scratch = found.with_threads(
                threads, lambda: onednn._steps(found, problem.flat(), way)
            )
            copies = {primitives.SRC, primitives.DST}
            left = [
                (primitive, arguments)
                for primitive, arguments in steps
                if {key for key, _, _ in arguments} - {primitives.SCRATCHPAD} != copies
                or weights in [place for _, _, place in arguments]
            ]
            return left, scratch

        return _onednn.Sequence(make, num_threads())

    def rates(self, rounds: int) -> dict[str, float]:
        """GFLOP/s of each way, and of the best one if activations were in its layout."""
        best = dict.fromkeys(self.kernels, float("inf"))
        alone = num_threads() == 1
        for _ in range(rounds):
            for way, (kernel, ints) in self.kernels.items():
                seconds = _kernels.kernel_seconds(kernel, ints, self.arrays, 0.02, 20, alone)
                best[way] = min(best[way], *seconds)
        found = {way: self.flops / best[way] / 1e9 for way in CHOSEN if way in best}
        found["kept"] = self.flops / min(best.values()) / 1e9
        return found


def torch_rates(python: str | None, shapes: list[Shape]) -> list[dict[str, float]] | None:
    """GFLOP/s of PyTorch by op for each shape; None without an interpreter for it."""
    if python is None:
        return None
    command = [python, str(PEER), str(num_threads())]
    asked = json.dumps([shape[3:] for shape in shapes])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"PyTorch is left out: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def measure(shapes: list[Shape], rounds: int, python: str | None) -> list[dict[str, Any]]:
    """One record per shape and op."""
    torch = torch_rates(python, shapes)
    records = []
    for i, shape in enumerate(shapes):
        for op in OPS:
            problem = Problem(op, shape)
            rates = problem.rates(rounds)
            if torch is not None:
                rates["torch"] = torch[i][op]
            # The gradient of a network's input is not computed.
            count = 0 if op == GRAD_X and shape.name.split(".")[-1] == "1" else shape.count
            record = {**shape._asdict(), "op": op, "count": count, "flops": problem.flops}
            records.append({**record, "gflops": rates})
    return records


def rates_table(records: list[dict[str, Any]]) -> str:
    """GFLOP/s, the best of the ways that can be chosen in bold."""
    lines = [f"| network | shape | op | {' | '.join(COLUMNS)} |"]
    lines.append("| --- " * (len(COLUMNS) + 3) + "|")
    for record in records:
        rates = record["gflops"]
        top = max(rates[way] for way in CHOSEN if way in rates)
        cells = []
        for column in COLUMNS:
            text = f"{rates[column]:.0f}" if column in rates else "-"
            bold = column in CHOSEN and rates.get(column) == top
            cells.append(f"**{text}**" if bold else text)
        op = record["op"].removeprefix("convolution").lstrip("_") or "forward"
        name = f"| {record['network']} | {record['name']} | {op} | "
        lines.append(name + " | ".join(cells) + " |")
    return "\n".join(lines)


def totals_table(records: list[dict[str, Any]]) -> str:
    """Milliseconds of all convolutions of a training step."""
    columns = ("own", "chosen", "kept", "torch")
    lines = [f"| network | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for network in dict.fromkeys(record["network"] for record in records):
        sums = dict.fromkeys(columns, 0.0)
        for record in records:
            if record["network"] == network:
                rates = record["gflops"]
                best = max(rates[way] for way in CHOSEN if way in rates)
                for column in columns:
                    rate = best if column == "chosen" else rates.get(column, float("nan"))
                    sums[column] += record["count"] * record["flops"] / rate / 1e6
        cells = ["-" if s != s else f"{s:.3g} ms" for s in sums.values()]
        lines.append(f"| {network} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write the JSON file and the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch")
    arguments = parser.parse_args(argv)
    shapes = [s for s in SHAPES if not arguments.networks or s.network in arguments.networks]
    records = measure(shapes, arguments.rounds, arguments.peer_python)
    totals = totals_table(records)
    print(f"{totals}\n\n{rates_table(records)}")
    if arguments.json:
        found = {
            "machine": machine.describe(),
            "load": machine.load(),
            "threads": num_threads(),
            "oneDNN": library.find()[1].split(",")[0],
            "records": records,
        }
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.page:
        page.replace(page.ROOT / "docs" / "performance.md", MARKER, totals)
    return 0


if __name__ == "__main__":
    sys.exit(main())
