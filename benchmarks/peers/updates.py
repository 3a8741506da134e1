"""One side of :mod:`benchmarks.update`: an optimizer and gradients; a line of JSON in, one out.

``python -m benchmarks.peers.updates sdbr|torch|optax``: as many threads as the variables say.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import machine

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))


def arrays(tensors: int, elements: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Parameters and gradients in float32, the same on every side."""
    rng = np.random.default_rng(0)
    size = elements // tensors
    every = rng.standard_normal((2, tensors, size), np.float32)
    return list(every[0]), list(every[1])


def sdbr_side(rule: str, params: list, grads: list) -> tuple[Callable, Callable, dict[str, str]]:
    """``optimizer.update()`` of a static optimizer."""
    import sdbr

    import chainer
    from chainer import optimizers

    rules: dict[str, Callable] = {
        "SGD": lambda: optimizers.SGD(0.01),
        "MomentumSGD": lambda: optimizers.MomentumSGD(0.01, 0.9),
        "AdaGrad": lambda: optimizers.AdaGrad(0.001, 1e-8),
        "AdaDelta": lambda: optimizers.AdaDelta(0.95, 1e-6),
        "Adam": optimizers.Adam,
        "AdamW": lambda: optimizers.AdamW(weight_decay_rate=1e-5),
        "RMSprop": optimizers.RMSprop,
    }
    model = chainer.Chain()
    with model.init_scope():
        for i, (p, g) in enumerate(zip(params, grads, strict=True)):
            parameter = chainer.Parameter(np.array(p))
            parameter.grad = np.array(g)
            setattr(model, f"p{i}", parameter)
    optimizer = sdbr.static_optimizer(rules[rule]()).setup(model)

    def run(times: int) -> None:
        update = optimizer.update
        for _ in range(times):
            update()

    def look() -> np.ndarray:
        done = optimizer.update_statistics
        assert done.native_calls and not done.python_updates, "the update is not native"
        return model.p0.array

    return run, look, {"chainer": chainer.__version__, "numpy": np.__version__}


def torch_side(rule: str, params: list, grads: list) -> tuple[Callable, Callable, dict[str, str]]:
    """PyTorch's optimizer of the kind; fused where it has that for processors."""
    import torch

    torch.set_num_threads(THREADS)
    optim = torch.optim
    rules: dict[str, Callable] = {
        "SGD": lambda p: optim.SGD(p, 0.01, fused=True),
        "MomentumSGD": lambda p: optim.SGD(p, 0.01, momentum=0.9, fused=True),
        "AdaGrad": lambda p: optim.Adagrad(p, 0.001, eps=1e-8, fused=True),
        "AdaDelta": lambda p: optim.Adadelta(p, 1.0, rho=0.95, eps=1e-6, foreach=True),
        "Adam": lambda p: optim.Adam(p, fused=True),
        "AdamW": lambda p: optim.AdamW(p, weight_decay=1e-2, fused=True),
        "RMSprop": lambda p: optim.RMSprop(p, foreach=True),
    }
    held = [torch.nn.Parameter(torch.from_numpy(p).clone()) for p in params]
    for parameter, g in zip(held, grads, strict=True):
        parameter.grad = torch.from_numpy(g).clone()
    optimizer = rules[rule](held)

    def run(times: int) -> None:
        step = optimizer.step
        for _ in range(times):
            step()

    return run, lambda: held[0].detach().numpy(), {"torch": torch.__version__}


def optax_side(rule: str, params: list, grads: list) -> tuple[Callable, Callable, dict[str, str]]:
    """The update of optax in one ``jit``, parameters and state donated."""
    import jax
    import optax

    rules: dict[str, Callable] = {
        "SGD": lambda: optax.sgd(0.01),
        "MomentumSGD": lambda: optax.sgd(0.01, 0.9),
        "AdaGrad": lambda: optax.adagrad(0.001, 0.0, 1e-8),
        "AdaDelta": lambda: optax.adadelta(1.0, 0.95, 1e-6),
        "Adam": lambda: optax.adam(1e-3),
        "AdamW": lambda: optax.adamw(1e-3, weight_decay=1e-2),
        "RMSprop": lambda: optax.rmsprop(0.01, 0.99, 1e-8),
    }
    rule_of = rules[rule]()
    given = [jax.numpy.array(g) for g in grads]
    held: list[Any] = [[jax.numpy.array(p) for p in params]]
    held.append(rule_of.init(held[0]))

    def make(params, state, grads):
        updates, state = rule_of.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    step = jax.jit(make, donate_argnums=(0, 1))

    def run(times: int) -> None:
        for _ in range(times):
            held[:] = step(*held, given)
        jax.block_until_ready(held)

    versions = {"jax": jax.__version__, "optax": optax.__version__}
    return run, lambda: np.asarray(held[0][0]), versions


SIDES = {"sdbr": sdbr_side, "torch": torch_side, "optax": optax_side}


def timed(run: Callable, times: int) -> float:
    """Microseconds of an update: of all processors' time with one thread, else of the clock."""
    clock = time.process_time if THREADS == 1 else time.perf_counter
    start = clock()
    run(times)
    return (clock() - start) / times * 1e6


def main(side: str) -> None:
    """Answer until there are no more questions."""
    machine.stay_on_cores()
    run: Callable = len
    for line in sys.stdin:
        what: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {}
        if "rule" in what:
            params, grads = arrays(what["tensors"], what["elements"])
            run, look, answer["versions"] = SIDES[side](what["rule"], params, grads)
            before = params[0][:8].astype(float)
            del params, grads
            run(what["check"])
            answer["moved"] = (look()[:8] - before).tolist()
        elif "times" in what:
            answer["us"] = timed(run, what["times"])
        else:
            run = look = len
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
