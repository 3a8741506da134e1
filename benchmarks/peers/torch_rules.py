"""PyTorch's side of :mod:`benchmarks.rules`: a line of JSON in, one out."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

torch.set_num_threads(1)

#: PyTorch's optimizer of the kind; fused where it has that for processors.
RULES: dict[str, Callable] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.01, fused=True),
    "MomentumSGD": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, fused=True),
    "CorrectedMomentumSGD": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, fused=True),
    "NesterovAG": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True, fused=True),
    "AdaGrad": lambda p: torch.optim.Adagrad(p, 0.001, fused=True),
    "AdaDelta": lambda p: torch.optim.Adadelta(p, foreach=True),
    "Adam": lambda p: torch.optim.Adam(p, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, fused=True),
    "AMSGrad": lambda p: torch.optim.Adam(p, amsgrad=True, fused=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, foreach=True),
    "RMSpropGraves": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True, foreach=True),
    "Adam, WeightDecay": lambda p: torch.optim.Adam(p, weight_decay=1e-4, fused=True),
}


class Training:
    """The digits network and an optimizer."""

    def __init__(self, rule: Callable) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
        self.optimizer = rule(self.model.parameters())
        self.batches = itertools.cycle(
            [(torch.rand(64, 64), torch.randint(0, 10, (64,))) for _ in range(16)]
        )

    def steps(self, n: int) -> float:
        """Microseconds of processor time of a step."""
        given = list(itertools.islice(self.batches, n))
        start = time.thread_time()
        for x, t in given:
            loss = functional.cross_entropy(self.model(x), t)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        return (time.thread_time() - start) / n * 1e6


def main() -> None:
    """Answer until there are no more questions."""
    training: Training | None = None
    for line in sys.stdin:
        what: dict[str, Any] = json.loads(line)
        answer: Any
        if "rule" in what:
            rule = RULES.get(what["rule"])
            training = None if rule is None else Training(rule)
            if training is not None:
                training.steps(10)
            answer = training is not None
        else:
            assert training is not None
            answer = training.steps(what["steps"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
