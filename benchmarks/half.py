"""A training step in half precision: ``python -m benchmarks.half [--rounds N]``.

The digits network (64-128-128-10, batch 64, Adam with ``use_fp32_update``): the static step in
float32 and in float16, and define-by-run in float16, in turns: processor time of a step, the least
of all turns. ``forward and backward`` is the native call of the float16 step, without its update.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import sdbr  # noqa: E402

import chainer  # noqa: E402
import numpy as np  # noqa: E402
from chainer import links as L  # noqa: E402

from benchmarks.examples.images import MLP  # noqa: E402

BATCHES = 16


def step_of(dtype: str, static: bool, updates: bool = True) -> Callable[[int], None]:
    """A function that makes step `i`."""
    rng = np.random.RandomState(0)
    xs = rng.standard_normal((BATCHES, 64, 64)).astype(dtype)
    ts = rng.randint(0, 10, (BATCHES, 64)).astype("i")
    with chainer.using_config("dtype", np.dtype(dtype)):
        model = L.Classifier(MLP(128, 10))
        model.predictor(xs[0])
    optimizer = chainer.optimizers.Adam()
    if dtype == "float16":
        optimizer.use_fp32_update()
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)

    def step(i: int) -> None:
        optimizer.update(model, xs[i % BATCHES], ts[i % BATCHES])

    def backward(i: int) -> None:
        model.cleargrads()
        model(xs[i % BATCHES], ts[i % BATCHES]).backward()

    return step if updates else backward


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    chainer.config.sdbr_audit = "off"
    steps = {
        "static, float32": (step_of("float32", True), 200),
        "static, float16": (step_of("float16", True), 100),
        "static, float16, forward and backward": (step_of("float16", True, False), 200),
        "define-by-run, float16": (step_of("float16", False), 4),
    }
    best = dict.fromkeys(steps, float("inf"))
    for step, _ in steps.values():
        for i in range(20):
            step(i)
    for _ in range(rounds):
        for name, (step, times) in steps.items():
            start = time.thread_time()
            for i in range(times):
                step(i)
            best[name] = min(best[name], (time.thread_time() - start) / times)
    for name, seconds in best.items():
        print(f"{name:40}{seconds * 1e6:10.1f} us")


if __name__ == "__main__":
    main()
