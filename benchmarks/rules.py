"""Steps of the digits network by each rule, hook and unusual part: ``python -m benchmarks.rules``.

64-128-128-10, batch 64, float32. One step of Chainer's, one of a static model and optimizer, and,
with ``--peer-python P``, one of PyTorch's optimizer of that kind (fused where it has it) around the
same network, in turns: processor time, the median of all rounds. Ratios are of these. A step counts
as whole where no graph was made; ``mixed`` where code of Python runs in its update.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sdbr

import chainer
import numpy as np
import threadpoolctl
from chainer import functions as F
from chainer import links as L
from chainer import optimizer_hooks, optimizers

from benchmarks import machine
from benchmarks.stats import spread

SIZES = (64, 128, 128, 10)
BATCH = 64
BATCHES = 16


@sdbr.update_rule
def Lion(param, grad, m, lr=1e-4, beta1=0.9, beta2=0.99, decay=0.0):
    """A rule of a user's that is made of its arithmetic."""
    update = np.sign(beta1 * m + (1 - beta1) * grad)
    return param - lr * (update + decay * param), beta2 * m + (1 - beta2) * grad


class LionRule(chainer.UpdateRule):
    """The same as people write it for Chainer."""

    def init_state(self, param: chainer.Parameter) -> None:
        """Momentum."""
        self.state["m"] = np.zeros_like(param.array)

    def update_core_cpu(self, param: chainer.Parameter) -> None:
        """One step of it."""
        h, m, grad = self.hyperparam, self.state["m"], param.grad
        update = np.sign(h.beta1 * m + (1 - h.beta1) * grad)
        param.array -= h.lr * (update + h.decay * param.array)
        m *= h.beta2
        m += (1 - h.beta2) * grad


class ChainersLion(Lion):
    """Lion's hyperparameters."""

    def create_update_rule(self) -> LionRule:
        """A rule of Python's."""
        return LionRule(self.hyperparam)


RULES: dict[str, Callable] = {
    "SGD": optimizers.SGD,
    "MomentumSGD": optimizers.MomentumSGD,
    "CorrectedMomentumSGD": optimizers.CorrectedMomentumSGD,
    "NesterovAG": optimizers.NesterovAG,
    "AdaGrad": optimizers.AdaGrad,
    "AdaDelta": optimizers.AdaDelta,
    "Adam": optimizers.Adam,
    "AdamW": optimizers.AdamW,
    "AMSGrad": optimizers.AMSGrad,
    "AdaBound": optimizers.AdaBound,
    "RMSprop": optimizers.RMSprop,
    "RMSpropGraves": optimizers.RMSpropGraves,
    "SMORMS3": optimizers.SMORMS3,
    "MSVAG": optimizers.MSVAG,
    "Lion, by sdbr.update_rule": Lion,
    "Lion, by chainer.UpdateRule": ChainersLion,
}
HOOKS: dict[str, Callable] = {
    "WeightDecay": lambda: optimizer_hooks.WeightDecay(1e-4),
    "Lasso": lambda: optimizer_hooks.Lasso(1e-5),
    "GradientClipping": lambda: optimizer_hooks.GradientClipping(1.0),
    "GradientHardClipping": lambda: optimizer_hooks.GradientHardClipping(-0.1, 0.1),
    "GradientLARS": lambda: optimizer_hooks.GradientLARS(),
    "GradientNoise": lambda: optimizer_hooks.GradientNoise(1e-4),
}


class Net(chainer.Chain):
    """The digits network; `links` are beside it."""

    def __init__(self, dtype: Any = np.float32, **links: chainer.Link) -> None:
        super().__init__()
        with chainer.using_config("dtype", dtype), self.init_scope():
            self.l1, self.l2, self.l3 = (L.Linear(*x) for x in itertools.pairwise(SIZES))
            for name, link in links.items():
                setattr(self, name, link)

    def forward(self, x: Any, t: Any) -> chainer.Variable:
        """The loss of a batch."""
        return F.softmax_cross_entropy(self.l3(F.relu(self.l2(F.relu(self.l1(x))))), t)


class OwnRule(type(optimizers.SGD().create_update_rule())):
    """A rule of a user's: two calls of NumPy."""

    def update_core(self, param: chainer.Parameter) -> None:
        """One step of it."""
        param.array -= self.hyperparam.lr * param.grad


def own_rule(optimizer: Any) -> None:
    """One parameter with a rule of a user's."""
    optimizer.target.l3.b.update_rule = OwnRule(optimizer.hyperparam)
    optimizer.target.l3.b.update_rule.hyperparam.lr = 0.01


def own_hook(optimizer: Any) -> None:
    """A hook of a user's, which looks at one gradient."""
    optimizer.add_hook(lambda optimizer: optimizer.target.l3.b.grad.sum(), "own")


def zerograds(optimizer: Any) -> None:
    """Gradients are zero before the backward, not None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.use_cleargrads(False)


#: What is unusual about a step: how its model and its optimizer are made.
PARTS: dict[str, tuple[Callable, Callable]] = {
    "own rule": (Net, own_rule),
    "own hook": (Net, own_hook),
    "unused lazy link": (lambda: Net(lazy=L.Linear(None, 4)), lambda o: None),
    "loss scale": (Net, lambda o: o.set_loss_scale(128.0)),
    "dynamic loss scale": (Net, lambda o: o.loss_scaling(interval=1000)),
    "zerograds": (Net, zerograds),
}


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Callable, Callable, Callable]]:
    """Name, model, optimizer and what prepares it."""
    for name, rule in RULES.items():
        yield name, Net, rule, lambda o: None
    for rule in RULES if options.product else ("Adam",):
        for name, hook in HOOKS.items():
            yield f"{rule}, {name}", Net, RULES[rule], lambda o, hook=hook: o.add_hook(hook())
    for name, (make, prepare) in PARTS.items():
        yield f"Adam, {name}", make, optimizers.Adam, prepare


class Way:
    """A training of Chainer's, or a static one."""

    def __init__(self, make: Callable, rule: Callable, prepare: Callable, static: bool) -> None:
        np.random.seed(0)
        self.model = make()
        self.optimizer = rule()
        if static:
            sdbr.static_graph(self.model)
            sdbr.static_optimizer(self.optimizer)
        self.optimizer.setup(self.model)
        prepare(self.optimizer)
        rng = np.random.RandomState(0)
        self.batches = itertools.cycle(
            [
                (rng.rand(BATCH, SIZES[0]).astype("f"), rng.randint(0, 10, BATCH).astype("i"))
                for _ in range(BATCHES)
            ]
        )

    def steps(self, n: int) -> float:
        """Microseconds of processor time of a step."""
        update, model = self.optimizer.update, self.model
        given = list(itertools.islice(self.batches, n))
        start = time.thread_time()
        for x, t in given:
            update(model, x, t)
        return (time.thread_time() - start) / n * 1e6


class Torch:
    """PyTorch in a process of its own, by :mod:`benchmarks.peers.torch_rules`."""

    def __init__(self, python: str) -> None:
        command = [python, "-m", "benchmarks.peers.torch_rules"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )

    def ask(self, **what: Any) -> Any:
        """What it answers."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def measure(name, make, rule, prepare, options, torch: Torch | None) -> dict[str, Any]:
    """One case."""
    plain, static = (Way(make, rule, prepare, x) for x in (False, True))
    static.steps(20)
    plain.steps(3)
    has_peer = torch is not None and torch.ask(rule=name)
    times: dict[str, list[float]] = {"chainer": [], "sdbr": [], "torch": []}
    done = static.model.schedule_manager.statistics
    before, mixed = done.steps, static.optimizer.update_statistics.mixed_updates
    gc.collect()
    for _ in range(options.rounds):
        times["chainer"].append(plain.steps(options.times))
        times["sdbr"].append(static.steps(4 * options.times))
        if has_peer:
            times["torch"].append(torch.ask(steps=2 * options.times))
    n = 4 * options.times * options.rounds
    found: dict[str, Any] = {k: statistics.median(v) for k, v in times.items() if v}
    found["spread"] = {k: [spread(v).p10, spread(v).p90] for k, v in times.items() if v}
    found["whole steps"] = (done.steps - before) / n
    found["mixed"] = (static.optimizer.update_statistics.mixed_updates - mixed) / n
    return found


def row(name: str, found: dict[str, Any], plain_step: float) -> str:
    """A line of the table."""
    times = [found.get(k) for k in ("chainer", "torch")]
    ratios = [f"{found['sdbr'] / t:8.3f}" if t else " " * 8 for t in times]
    return (
        f"{name:40} {found['sdbr']:8.1f} {found['chainer']:9.1f} {ratios[0]} {ratios[1]} "
        f"{found['sdbr'] / plain_step:8.2f} {found['whole steps']:6.2f} {found['mixed']:6.2f}"
    )


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", type=int, default=20, help="steps of a round")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--product", action="store_true", help="each hook with each rule")
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    torch = Torch(options.peer_python) if options.peer_python else None
    heads = ("us", "Chainer", "ratio", "of torch", "of Adam")
    print(" " * 40 + "".join(f" {x:>{9 if x == 'Chainer' else 8}}" for x in heads), " whole  mixed")
    threadpoolctl.threadpool_limits(1)
    results: dict[str, Any] = {}
    adam = measure("Adam", Net, optimizers.Adam, lambda o: None, options, None)["sdbr"]
    for name, make, rule, prepare in cases(options):
        if options.only not in name:
            continue
        results[name] = measure(name, make, rule, prepare, options, torch)
        print(row(name, results[name], adam), flush=True)
    if options.json:
        machine.save(options.json, steps_us=results, adam_us=adam)


if __name__ == "__main__":
    main()
