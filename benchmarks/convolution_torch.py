"""PyTorch's part of :mod:`benchmarks.convolution`: shapes come in as JSON, GFLOP/s go out.

Runs in an interpreter that need not have sdbr. The argument is the number of threads; a single one
is timed by its own clock, as our kernels are.
"""

from __future__ import annotations

import json
import sys
import time

import torch

THREADS = int(sys.argv[1])
clock = time.thread_time if THREADS == 1 else time.perf_counter


def best(function) -> float:
    """Seconds of the fastest of many runs."""
    function()
    seconds, start = [], time.perf_counter()
    while len(seconds) < 5 or time.perf_counter() - start < 0.15:
        before = clock()
        function()
        seconds.append(clock() - before)
    return min(seconds)


def rates(n, c, size, o, k, stride, pad) -> dict[str, float]:
    """GFLOP/s of the forward and both gradients."""
    x, w = torch.rand(n, c, size, size), torch.rand(o, c, k, k)
    y = torch.nn.functional.conv2d(x, w, stride=stride, padding=pad)
    gy = torch.rand_like(y)
    forward, backward = torch.nn.functional.conv2d, torch.ops.aten.convolution_backward
    options = (None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1)
    seconds = {
        "convolution": best(lambda: forward(x, w, stride=stride, padding=pad)),
        "convolution_grad_x": best(lambda: backward(gy, x, w, *options, [True, False, False])),
        "convolution_grad_w": best(lambda: backward(gy, x, w, *options, [False, True, False])),
    }
    flops = 2 * y.numel() * c * k * k
    return {op: flops / s / 1e9 for op, s in seconds.items()}


torch.set_num_threads(THREADS)
json.dump([rates(*shape) for shape in json.load(sys.stdin)], sys.stdout)
