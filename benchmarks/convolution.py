"""Convolutions one by one: ``python -m benchmarks.convolution --peer-python PYTHON``.

Forward and both gradients of the shapes of four networks, in GFLOP/s: our own kernel, each way of
oneDNN (copies into its layouts and back included), and PyTorch where an interpreter has it. The
best of several runs, in turn; as many threads as BLAS has (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sdbr import _executor
from sdbr.backends.onednn.convolution import FORWARD, GRAD_W, GRAD_X, WAYS
from sdbr.backends.prepare import convolution
from sdbr.backends.tuning.race import operands
from sdbr.errors import BackendError
from sdbr.program.buffers import c_strides
from sdbr.program.convolution import sizes_of
from sdbr.program.program import DTYPE_CODES
from sdbr.threads import num_threads

import chainer
import numpy as np

from benchmarks import machine

#: name, batch, channels in, height and width, channels out, kernel, stride, padding
SHAPES = [
    ("vgg 1.1", 16, 3, 32, 64, 3, 1, 1),
    ("vgg 1.2", 16, 64, 32, 64, 3, 1, 1),
    ("vgg 2.1", 16, 64, 16, 128, 3, 1, 1),
    ("vgg 2.2", 16, 128, 16, 128, 3, 1, 1),
    ("vgg 3.1", 16, 128, 8, 256, 3, 1, 1),
    ("vgg 3.2", 16, 256, 8, 256, 3, 1, 1),
    ("vgg 4.1", 16, 256, 4, 512, 3, 1, 1),
    ("vgg 4.2", 16, 512, 4, 512, 3, 1, 1),
    ("vgg 5", 16, 512, 2, 512, 3, 1, 1),
    ("resnet 1", 4, 3, 224, 64, 7, 2, 3),
    ("resnet 2 reduce", 4, 256, 56, 64, 1, 1, 0),
    ("resnet 2 middle", 4, 64, 56, 64, 3, 1, 1),
    ("resnet 2 expand", 4, 64, 56, 256, 1, 1, 0),
    ("resnet 3 down", 4, 256, 56, 128, 1, 2, 0),
    ("resnet 3 side", 4, 256, 56, 512, 1, 2, 0),
    ("resnet 3 reduce", 4, 512, 28, 128, 1, 1, 0),
    ("resnet 3 middle", 4, 128, 28, 128, 3, 1, 1),
    ("resnet 3 expand", 4, 128, 28, 512, 1, 1, 0),
    ("resnet 4 reduce", 4, 1024, 14, 256, 1, 1, 0),
    ("resnet 4 middle", 4, 256, 14, 256, 3, 1, 1),
    ("resnet 4 expand", 4, 256, 14, 1024, 1, 1, 0),
    ("resnet 5 reduce", 4, 2048, 7, 512, 1, 1, 0),
    ("resnet 5 middle", 4, 512, 7, 512, 3, 1, 1),
    ("resnet 5 expand", 4, 512, 7, 2048, 1, 1, 0),
    ("lenet 1", 64, 1, 28, 20, 5, 1, 0),
    ("lenet 2", 64, 20, 12, 50, 5, 1, 0),
    ("dqn 1", 32, 4, 84, 32, 8, 4, 0),
    ("dqn 2", 32, 32, 20, 64, 4, 2, 0),
    ("dqn 3", 32, 64, 9, 64, 3, 1, 0),
]
OPS = (FORWARD, GRAD_X, GRAD_W)
COLUMNS = ("own", *WAYS, "torch")
PEER = Path(__file__).with_name("convolution_torch.py")


def kernels(op: str, shape: Sequence[int]) -> tuple[dict[str, tuple], list, int]:
    """The kernel and its integers for each way, arrays to run them on, and the operations."""
    n, c, size, o, k, stride, pad = shape
    out = (size + 2 * pad - k) // stride + 1
    x, w, y = (n, c, 1, size, size), (o, c, 1, k, k), (n, o, 1, out, out)
    numbers = (1, stride, stride, 0, pad, pad, 1, 1, 1, 1)
    scratch = (sizes_of((x, w, y), numbers).scratch(op, 4),)
    shapes = {FORWARD: (x, w, y), GRAD_X: (y, w, x), GRAD_W: (x, y, w)}[op]
    specs = [(DTYPE_CODES[np.dtype("f4")], s, c_strides(s, 4)) for s in (*shapes, scratch)]
    found = {}
    for way in ("own", *WAYS):
        with chainer.using_config("sdbr_onednn", "off" if way == "own" else way):
            try:
                kernel, ints, choice = convolution.prepare(op, specs[:2], specs[2:], (*numbers, 0))
            except BackendError:
                continue
            if choice.way == way:
                found[way] = (kernel, ints, choice)
    flops = 2 * n * o * out * out * c * k * k
    return found, operands([(s, np.float32) for s in (*shapes, scratch)]), flops


def measure(op: str, shape: Sequence[int], rounds: int) -> dict[str, float]:
    """GFLOP/s of each way."""
    found, arrays, flops = kernels(op, shape)
    best = dict.fromkeys(found, float("inf"))
    alone = num_threads() == 1
    for _ in range(rounds):
        for way, (kernel, ints, _) in found.items():
            seconds = _executor.kernel_seconds(kernel, ints, arrays, 0.02, 20, alone)
            best[way] = min(best[way], *seconds)
    return {way: flops / seconds / 1e9 for way, seconds in best.items()}


def torch_rates(python: str | None, shapes: list) -> dict[str, dict[str, float]]:
    """GFLOP/s of PyTorch by name of the shape and op; empty without an interpreter for it."""
    if python is None:
        return {}
    command = [python, str(PEER)]
    done = subprocess.run(command, input=json.dumps(shapes), capture_output=True, text=True)
    if done.returncode:
        print(f"PyTorch is left out: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout)


def table(records: list[dict]) -> str:
    """The figures as a Markdown table, the best of each row in bold."""
    lines = [f"| shape | op | {' | '.join(COLUMNS)} |", f"| --- | --- |{' --- |' * len(COLUMNS)}"]
    for record in records:
        rates = [record["gflops"].get(column) for column in COLUMNS]
        top = max(filter(None, rates))
        cells = [
            "-" if rate is None else f"**{rate:.0f}**" if rate == top else f"{rate:.0f}"
            for rate in rates
        ]
        lines.append(f"| {record['shape']} | {record['op']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of names of shapes; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch")
    arguments = parser.parse_args(argv)
    shapes = [s for s in SHAPES if not arguments.names or s[0].startswith(tuple(arguments.names))]
    torch = torch_rates(arguments.peer_python, shapes)
    records = []
    for name, *shape in shapes:
        for op in OPS:
            rates = measure(op, shape, arguments.rounds)
            if name in torch:
                rates["torch"] = torch[name][op]
            records.append({"shape": name, "sizes": shape, "op": op, "gflops": rates})
    print(table(records))
    if arguments.json:
        found = {"machine": machine.describe(), "load": machine.load(), "records": records}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
