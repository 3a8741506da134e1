"""PyTorch: eager with fused optimizers, with the loss compiled, and as one CUDA graph.

On a GPU compiled code takes the mode ``reduce-overhead``, which makes graphs of it. No style rounds
factors of products (TF32), as Chainer does not.
"""

from __future__ import annotations

import copy
import os
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.cases import deep_chain, replay
from benchmarks.cases.base import Case, Layers, Weights
from benchmarks.peers import torch_networks
from benchmarks.peers.base import LeftOut, Runner

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


#: Compiling takes too long to do so for each case.
COMPILED_ON_GPU = ("mlp_tiny", "mlp_digits", "mlp_mnist")


def make(case: Case, style: str, device: str = "cpu") -> Runner:
    """Return the runner of a case; the style is 'eager', 'compiled', or 'graph' on a GPU."""
    if case.kind == "trainer":
        raise LeftOut("Chainer's Trainer is what this case is about")
    if device == "cuda":
        _use_gpu(case, style)
    runner = {"train": Train, "chain": DeepChain, "infer": Infer, "dqn": Dqn}[case.kind]
    return runner(case, style, device)


def _use_gpu(case: Case, style: str) -> None:
    if case.kind == "dqn":
        raise LeftOut("its environment and its data lie on the host")
    if style == "compiled" and case.name not in COMPILED_ON_GPU:
        raise LeftOut(f"it is compiled for {', '.join(COMPILED_ON_GPU)} only")
    if not torch.cuda.is_available():
        raise LeftOut("no GPU that PyTorch can use")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


class Recorded:
    """A function as one CUDA graph, on inputs that stay where they are: others are copied there.

    Parameters
    ----------
    function : callable
        Of tensors; gives a tensor, which later calls write again.
    example : tuple of torch.Tensor
        What it is called with here, some times as it is, and once to record it.
    """

    def __init__(self, function: Any, example: tuple[torch.Tensor, ...]):
        self.inputs = tuple(x.clone() for x in example)
        aside, now = torch.cuda.Stream(), torch.cuda.current_stream()
        aside.wait_stream(now)
        with torch.cuda.stream(aside):
            for _ in range(3):
                function(*self.inputs)
        now.wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = function(*self.inputs)

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        for place, x in zip(self.inputs, batch, strict=True):
            place.copy_(x)
        self.graph.replay()
        return self.output


def perceptron(layers: Layers, last_relu: bool = False) -> nn.Sequential:
    """Return linear layers with ReLU between them, from given weights."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*(modules if last_relu else modules[:-1]))


class TorchRunner(Runner):
    """What all cases share."""

    model: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    last_relu = False

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, device)
        self.style = style
        self.model = self.network(case.weights()).to(device)
        self.first = copy.deepcopy(self.model.state_dict())

    def network(self, weights: Weights) -> nn.Module:
        """Build the network of the case."""
        if isinstance(weights, dict):
            return torch_networks.build(self.case.network, weights)
        return perceptron(weights, self.last_relu)

    def compiled(self, function: Any) -> Any:
        """Compile a function, where the style is that."""
        if self.style != "compiled":
            return function
        mode = "reduce-overhead" if self.device == "cuda" else None
        return torch.compile(function, mode=mode)

    def recorded(self, function: Any, example: tuple[torch.Tensor, ...]) -> Any:
        """Record a function as a graph, where the style is that."""
        return Recorded(function, example) if self.style == "graph" else function

    def on_device(self, array: np.ndarray) -> torch.Tensor:
        """Return the batches in an array, on the device."""
        return torch.from_numpy(array).to(self.device)

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prepare(self) -> None:
        self.run(self.case.parts[0], 3)
        self.wait()
        self.reset()

    def reset(self) -> None:
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                value.copy_(self.first[name])
            if self.optimizer is not None:
                for state in self.optimizer.state.values():
                    for value in state.values():
                        if isinstance(value, torch.Tensor):
                            value.zero_()

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__, "numpy": np.__version__}

    def facts(self) -> dict[str, Any]:
        if self.device == "cuda":
            return {"gpu": torch.cuda.get_device_name()}
        return {"threads": torch.get_num_threads()}


class Train(TorchRunner):
    """Loss, backward, fused Adam."""

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, style, device)
        self.optimizer = self.make_optimizer()
        self.batches = self.make_batches()
        self.ring = cycle(self.batches)
        self.loss = self.compiled(self.make_loss())
        self.step = self.recorded(self.eager_step, self.batches[0])

    def make_optimizer(self) -> torch.optim.Optimizer:
        trained = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.Adam(trained, fused=True, capturable=self.style == "graph")

    def make_batches(self) -> list[tuple[torch.Tensor, ...]]:
        labels = self.on_device(self.case.labels()).long()
        return list(zip(self.on_device(self.case.inputs()), labels, strict=True))

    def make_loss(self) -> Any:
        model = self.model

        def loss(x, t):
            return functional.cross_entropy(model(x), t)

        return loss

    def eager_step(self, *batch: torch.Tensor) -> torch.Tensor:
        """One training step."""
        loss = self.loss(*batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, part: str, n: int) -> None:
        step = self.step
        for batch in islice(self.ring, n):
            step(*batch)

    def check(self, part: str) -> list[float]:
        self.reset()
        losses = []
        for t, batch in enumerate(self.batches[: self.case.check_steps], 1):
            _place_eps_as_chainer_does(self.optimizer, 1e-8, t)
            losses.append(self.step(*batch).item())
        _place_eps_as_chainer_does(self.optimizer, 1e-8, None)
        return losses


class DeepChain(Train):
    """Sum, backward, fused SGD."""

    last_relu = True

    def make_optimizer(self) -> torch.optim.Optimizer:
        rate = deep_chain.LEARNING_RATE
        return torch.optim.SGD(self.model.parameters(), lr=rate, fused=True)

    def make_batches(self) -> list[tuple[torch.Tensor, ...]]:
        return [(x,) for x in self.on_device(self.case.inputs())]

    def make_loss(self) -> Any:
        model = self.model
        return lambda x: model(x).sum()


class Infer(TorchRunner):
    """A forward pass without gradients."""

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, style, device)
        self.inputs = list(self.on_device(case.inputs()))
        self.ring = cycle(self.inputs)
        with torch.inference_mode():
            self.call = self.recorded(self.compiled(self.model), (self.inputs[0],))

    def run(self, part: str, n: int) -> None:
        call = self.call
        for x in islice(self.ring, n):
            with torch.inference_mode():
                call(x)

    def check(self, part: str) -> list[float]:
        with torch.inference_mode():
            # Those of graphs are written again.
            outputs = [self.call(x).clone() for x in self.inputs[: self.case.check_steps]]
        return torch.cat(outputs).ravel().tolist()


class Dqn(TorchRunner):
    """Updates and greedy actions; the replay buffer is tensors."""

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, style, device)
        compiler = self.compiled
        self.q_target = self.network(replay.target_weights(case))
        self.optimizer = torch.optim.Adam(self.model.parameters(), eps=replay.ADAM_EPS, fused=True)
        b = replay.buffer(case)
        self.buffer = [
            torch.from_numpy(a)
            for a in (b.obs, b.action.astype(np.int64), b.reward, b.done, b.obs_next)
        ]
        self.sampler = replay.Sampler(case)
        self.observations = list(b.obs[: case.ring])
        q, q_target = self.model, self.q_target

        def targets(reward, done, obs_next):
            best = q(obs_next).argmax(1, keepdim=True)
            value = q_target(obs_next).gather(1, best).squeeze(1)
            return reward + replay.GAMMA * (1 - done) * value

        def loss(obs, action, target):
            value = q(obs).gather(1, action[:, None]).squeeze(1)
            return functional.huber_loss(value, target)

        self.targets, self.loss, self.q = compiler(targets), compiler(loss), compiler(q)

    def reset(self) -> None:
        super().reset()
        self.sampler.reset()

    def update(self) -> torch.Tensor:
        """Sample, compute the targets, and take one step."""
        rows = torch.from_numpy(self.sampler.rows())
        obs, action, reward, done, obs_next = (a[rows] for a in self.buffer)
        with torch.no_grad():
            target = self.targets(reward, done, obs_next)
        loss = self.loss(obs, action, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def act(self, obs: np.ndarray) -> int:
        """Return the greedy action for one observation."""
        with torch.inference_mode():
            return int(self.q(torch.from_numpy(obs)[None])[0].argmax())

    def run(self, part: str, n: int) -> None:
        if part == "act":
            for obs in islice(cycle(self.observations), n):
                self.act(obs)
            return
        for _ in range(n):
            self.update()

    def check(self, part: str) -> list[float]:
        self.reset()
        if part == "act":
            actions = [self.act(obs) for obs in self.observations]
            with torch.inference_mode():
                values = [self.q(torch.from_numpy(obs)[None]) for obs in self.observations]
            return [*actions, *torch.cat(values).ravel().tolist()]
        losses = []
        for t in range(1, self.case.check_steps + 1):
            _place_eps_as_chainer_does(self.optimizer, replay.ADAM_EPS, t)
            losses.append(self.update().item())
        _place_eps_as_chainer_does(self.optimizer, replay.ADAM_EPS, None)
        return losses


def _place_eps_as_chainer_does(optimizer: Any, eps: float, t: int | None) -> None:
    # PyTorch adds eps after the correction of the second moment, Chainer before it: the same
    # cost, but not the same numbers. Only for the check; t = None restores what is timed.
    for group in optimizer.param_groups:
        if "eps" in group:
            group["eps"] = eps if t is None else eps / (1 - 0.999**t) ** 0.5
