"""What needs a fresh process: the first call, and the peak of memory."""

from __future__ import annotations

import dataclasses
import resource
import sys
from time import perf_counter
from typing import Any

from benchmarks import cases

CONVOLUTIONAL = ("lenet", "vgg_cifar", "resnet50", "dqn")


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

    Libraries have been used once before, as with an import: what BLAS and oneDNN need for
    themselves is no part of it. The first weights, which only the benchmark needs, are forgotten;
    there are but few batches.
    """
    from benchmarks.peers import chainer_peer

    case = cases.load(name)
    if case.network != "perceptron":
        case = dataclasses.replace(case, ring=2, transitions=case.batch)
    _warm_up_blas()
    if style.startswith("sdbr") and case.network in CONVOLUTIONAL:
        _warm_up_convolutions(style)
    before = _peak()
    runner = chainer_peer.make(case, style)
    del runner.first
    runner.run(case.parts[0], case.memory_steps)
    return {"mib": _peak() - before, "before_mib": before, "state_mib": _state(runner)}


def _state(runner: Any) -> float:
    """What training cannot do without: parameters, gradients and the optimizer's arrays, in MiB."""
    import numpy as np

    arrays = {}
    for link in runner.managed():
        for param in link.params():
            state = (param.update_rule.state or {}) if param.update_rule is not None else {}
            for array in (param.array, param.grad, *state.values()):
                if isinstance(array, np.ndarray):
                    arrays[id(array)] = array.nbytes
    return sum(arrays.values()) / 2**20


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


def _warm_up_convolutions(style: str) -> None:
    # As small as it can be, but through whatever library the style may use.
    import sdbr

    import chainer
    import chainer.functions as F
    import numpy as np

    way = "off" if style.endswith("own") else "always"
    call = sdbr.static_graph(lambda x, w: F.convolution_2d(x, w))
    x, w = np.ones((1, 16, 5, 5), np.float32), np.ones((16, 16, 3, 3), np.float32)
    with chainer.using_config("sdbr_onednn", way):
        for _ in range(3):
            call(x, w)
