"""What needs a fresh process: the first call, and the peak of memory."""

from __future__ import annotations

import dataclasses
import resource
import sys
from time import perf_counter
from typing import Any

from benchmarks import cases


def first(style: str, name: str) -> dict[str, Any]:
    """Time the first calls of a training step, after all imports and after building the model.

    For sdbr the first call is trace + build + run; the second is returned too, so that nothing
    can hide there.
    """
    from benchmarks.peers import chainer_peer

    runner = chainer_peer.make(cases.load(name), style)
    _warm_up_blas()
    seconds = []
    for batch in runner.batches[:6]:
        start = perf_counter()
        runner.optimizer.update(runner.model, *batch)
        seconds.append(perf_counter() - start)
    return {"first": seconds[0], "second": seconds[1], "later": min(seconds[2:])}


def memory(style: str, name: str) -> dict[str, Any]:
    """Peak resident memory of some training steps less its value after imports, in MiB.

    The first weights, which only the benchmark needs, are forgotten; there are but few batches.
    """
    from benchmarks.peers import chainer_peer

    _warm_up_blas()
    before = _peak()
    case = cases.load(name)
    if case.network != "perceptron":
        case = dataclasses.replace(case, ring=2, transitions=case.batch)
    runner = chainer_peer.make(case, style)
    del runner.first
    runner.run(case.parts[0], case.memory_steps)
    return {"mib": _peak() - before, "before_mib": before}


def _peak() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _warm_up_blas() -> None:
    # BLAS allocates its own buffers at the first product; both sides use the same library.
    import numpy as np
    from scipy.linalg import blas

    a = np.ones((64, 64), np.float32)
    np.dot(a, a)
    blas.sgemm(1.0, a, a)
