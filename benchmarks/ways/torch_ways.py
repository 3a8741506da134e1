"""The same steps in PyTorch, in a process of its own that need not have sdbr.

Reads one JSON object per line, ``{"program": name, "n": steps}``, and answers with the processor
time of a step in seconds.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

torch.set_num_threads(1)
ROWS, RING = 64, 16


def net(n_in=64, n_out=10):
    """64-128-128-10."""
    return nn.Sequential(
        nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out)
    )


def adam(*modules):
    """Fused Adam with Chainer's defaults."""
    params = [p for module in modules for p in module.parameters()]
    return torch.optim.Adam(params, fused=True)


def batches():
    """Batches in turn."""
    return itertools.cycle(
        [(torch.randn(ROWS, 64), torch.randint(0, 10, (ROWS,))) for _ in range(RING)]
    )


def step():
    """The usual four lines."""
    model, data = net(), batches()
    optimizer = adam(model)

    def run():
        x, t = next(data)
        loss = functional.cross_entropy(model(x), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def two():
    """Two optimizers."""
    model, data = net(), batches()
    first, second = adam(model[0]), adam(model[2], model[4])

    def run():
        x, t = next(data)
        loss = functional.cross_entropy(model(x), t)
        first.zero_grad()
        second.zero_grad()
        loss.backward()
        first.step()
        second.step()

    return run


def gradients():
    """No update."""
    model, data = net(), batches()

    def run():
        x, t = next(data)
        model.zero_grad()
        functional.cross_entropy(model(x), t).backward()

    return run


def update():
    """From gradients that are there."""
    model, data = net(), batches()
    x, t = next(data)
    functional.cross_entropy(model(x), t).backward()
    return adam(model).step


def accumulation():
    """Four batches to an update."""
    model, data = net(), batches()
    optimizer = adam(model)

    def run():
        optimizer.zero_grad()
        for _ in range(4):
            x, t = next(data)
            functional.cross_entropy(model(x), t).backward()
        optimizer.step()

    return run


def agent():
    """Actor and critic."""
    actor, critic, data = net(), net(n_out=1), batches()
    both = adam(actor), adam(critic)

    def run():
        x, t = next(data)
        loss = functional.cross_entropy(actor(x), t) + (critic(x) ** 2).mean()
        for optimizer in both:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in both:
            optimizer.step()

    return run


def adversaries():
    """Two backwards through one graph, whose weights PyTorch lets nobody change in between."""
    gen, dis, data = net(n_out=64), net(n_out=1), batches()
    of_gen, of_dis = adam(gen), adam(dis)
    z = torch.randn(ROWS, 64)

    def run():
        x, _ = next(data)
        y_real = dis(x)
        y_fake = dis(gen(z))
        loss = functional.softplus(-y_real).sum() / ROWS + functional.softplus(y_fake).sum() / ROWS
        of_dis.zero_grad()
        loss.backward(retain_graph=True)
        loss = functional.softplus(-y_fake).sum() / ROWS
        of_gen.zero_grad()
        loss.backward()
        of_dis.step()
        of_gen.step()

    return run


def main() -> None:
    """Serve until the input ends."""
    made: dict = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["program"]
        if name not in made:
            made[name] = globals()[name]()
            for _ in range(20):
                made[name]()
        start = time.thread_time()
        for _ in range(request["n"]):
            made[name]()
        print((time.thread_time() - start) / request["n"], flush=True)


if __name__ == "__main__":
    main()
