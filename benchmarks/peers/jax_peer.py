"""JAX: the whole step in one jit, parameters and optimizer state donated.

On a GPU factors of products are not rounded (TF32), as Chainer does not.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cases import deep_chain, replay
from benchmarks.cases.base import Case, Weights
from benchmarks.peers import jax_networks
from benchmarks.peers.base import LeftOut, Runner


def make(case: Case, style: str, device: str = "cpu") -> Runner:
    """Return the runner of a case; the style is 'jit', or 'scan' for the deep chain."""
    if case.kind == "trainer":
        raise LeftOut("Chainer's Trainer is what this case is about")
    if device == "cuda":
        _use_gpu(case)
    if style == "scan":
        if case.kind != "chain":
            raise LeftOut("lax.scan needs layers that are all alike")
        return ScannedChain(case, device)
    runner = {"train": Train, "chain": DeepChain, "infer": Infer, "dqn": Dqn}[case.kind]
    return runner(case, device)


def _use_gpu(case: Case) -> None:
    if case.kind == "dqn":
        raise LeftOut("its environment and its data lie on the host")
    try:
        backend = jax.default_backend()
    except Exception as error:  # of many kinds
        backend = f"{type(error).__name__} {error}"
    if backend != "gpu":
        raise LeftOut(f"no GPU that JAX can use: {backend}")
    jax.config.update("jax_default_matmul_precision", "highest")


def perceptron(params, x):
    """Linear layers with ReLU between them."""
    *hidden, (weight, bias) = params
    for w, b in hidden:
        x = jax.nn.relu(x @ w.T + b)
    return x @ weight.T + bias


def placed(weights: Weights) -> Any:
    """Return weights as arrays of JAX."""
    if isinstance(weights, dict):
        return jax_networks.placed(weights)
    return [(jnp.array(w), jnp.array(b)) for w, b in weights]


def as_input(x: np.ndarray) -> np.ndarray:
    """Return images with their channels last, and anything else as it is."""
    return jax_networks.as_input(x) if x.ndim > 3 else x


def adam_start(params):
    """Return the first state: count, first and second moments."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return jnp.zeros((), jnp.int32), zeros, jax.tree.map(jnp.zeros_like, params)


def adam(params, state, grads, eps=1e-8):
    """Adam as Chainer writes it."""
    t, m, v = state
    t = t + 1
    step = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    m = jax.tree.map(lambda m, g: m + 0.1 * (g - m), m, grads)
    v = jax.tree.map(lambda v, g: v + 0.001 * (g * g - v), v, grads)
    params = jax.tree.map(lambda p, m, v: p - step * m / (jnp.sqrt(v) + eps), params, m, v)
    return params, (t, m, v)


class JaxRunner(Runner):
    """What all cases share."""

    def __init__(self, case: Case, device: str = "cpu"):
        super().__init__(case, device)
        self.unfinished: Any = ()
        self.network = jax_networks.NETWORKS.get(case.network, perceptron)
        self.weights = case.weights()
        self.reset()

    def reset(self) -> None:
        self.params = placed(self.weights)
        self.state = adam_start(self.params)

    def wait(self) -> None:
        jax.block_until_ready(self.unfinished)

    def prepare(self) -> None:
        self.run(self.case.parts[0], 1)
        self.wait()
        self.reset()

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__, "numpy": np.__version__}

    def facts(self) -> dict[str, Any]:
        return {"devices": [str(device) for device in jax.devices()]}


class Train(JaxRunner):
    """Softmax cross entropy, gradient and Adam in one jit."""

    def __init__(self, case: Case, device: str = "cpu"):
        super().__init__(case, device)
        self.batches = self.make_batches()
        self.ring = cycle(self.batches)
        self.step = jax.jit(self.make_step(), donate_argnums=(0, 1))

    def make_batches(self) -> list[tuple[Any, ...]]:
        x, t = as_input(self.case.inputs()), self.case.labels()
        return [(jnp.array(a), jnp.array(b)) for a, b in zip(x, t, strict=True)]

    def make_step(self) -> Any:
        network = self.network

        def loss_of(params, x, t):
            log_p = jax.nn.log_softmax(network(params, x))
            return -jnp.take_along_axis(log_p, t[:, None], axis=1).mean()

        def step(params, state, x, t):
            loss, grads = jax.value_and_grad(loss_of)(params, x, t)
            return *adam(params, state, grads), loss

        return step

    def run(self, part: str, n: int) -> None:
        step, params, state = self.step, self.params, self.state
        for batch in islice(self.ring, n):
            params, state, loss = step(params, state, *batch)
        self.params, self.state, self.unfinished = params, state, (params, loss)

    def check(self, part: str) -> list[float]:
        self.reset()
        losses = []
        for batch in self.batches[: self.case.check_steps]:
            self.params, self.state, loss = self.step(self.params, self.state, *batch)
            losses.append(float(loss))
        return losses


class DeepChain(Train):
    """Sum, gradient and SGD in one jit; layers written out, as the network is."""

    def reset(self) -> None:
        super().reset()
        self.state = ()

    def make_batches(self) -> list[tuple[Any, ...]]:
        return [(jnp.array(x),) for x in self.case.inputs()]

    def apply(self, params, x):
        """Return the loss."""
        for w, b in params:
            x = jax.nn.relu(x @ w.T + b)
        return x.sum()

    def make_step(self) -> Any:
        def step(params, state, x):
            loss, grads = jax.value_and_grad(self.apply)(params, x)
            rate = deep_chain.LEARNING_RATE
            return jax.tree.map(lambda p, g: p - rate * g, params, grads), state, loss

        return step


class ScannedChain(DeepChain):
    """The same with all layers in two arrays under ``lax.scan``: the kindest form for XLA."""

    def reset(self) -> None:
        layers = self.case.weights()
        self.params = tuple(jnp.array(np.stack(arrays)) for arrays in zip(*layers, strict=True))
        self.state = ()

    def apply(self, params, x):
        def layer(x, pair):
            w, b = pair
            return jax.nn.relu(x @ w.T + b), None

        return jax.lax.scan(layer, x, params)[0].sum()


class Infer(JaxRunner):
    """A forward pass, waited for on a CPU, where others do it on this thread."""

    def __init__(self, case: Case, device: str = "cpu"):
        super().__init__(case, device)
        self.inputs = [jnp.array(x) for x in as_input(case.inputs())]
        self.ring = cycle(self.inputs)
        self.call = jax.jit(self.network)

    def run(self, part: str, n: int) -> None:
        call, params, waits = self.call, self.params, self.device == "cpu"
        for x in islice(self.ring, n):
            self.unfinished = call(params, x)
            if waits:
                self.unfinished.block_until_ready()

    def check(self, part: str) -> list[float]:
        outputs = [self.call(self.params, x) for x in self.inputs[: self.case.check_steps]]
        return np.concatenate(outputs).ravel().tolist()


class Dqn(JaxRunner):
    """Updates and greedy actions; the replay buffer is on the device, rows are drawn by NumPy."""

    def __init__(self, case: Case, device: str = "cpu"):
        self.sampler = replay.Sampler(case)
        super().__init__(case, device)
        b = replay.buffer(case)
        arrays = (as_input(b.obs), b.action, b.reward, b.done, as_input(b.obs_next))
        self.buffer = tuple(map(jnp.array, arrays))
        self.q_target = placed(replay.target_weights(case))
        # Laid out anew, as the other peers find them.
        self.observations = list(np.ascontiguousarray(arrays[0][: case.ring]))
        network = self.network
        self.step = jax.jit(_dqn_step(network), donate_argnums=(0, 1))
        self.q = jax.jit(network)
        self.greedy = jax.jit(lambda params, obs: network(params, obs[None])[0].argmax())

    def reset(self) -> None:
        super().reset()
        self.sampler.reset()

    def update(self) -> Any:
        """Sample and take one step; returns the loss."""
        rows = self.sampler.rows().astype(np.int32)
        self.params, self.state, loss = self.step(
            self.params, self.state, self.q_target, self.buffer, rows
        )
        return loss

    def run(self, part: str, n: int) -> None:
        if part == "act":
            greedy, params = self.greedy, self.params
            for obs in islice(cycle(self.observations), n):
                int(greedy(params, obs))
            return
        for _ in range(n):
            self.update()
        jax.block_until_ready(self.params)

    def check(self, part: str) -> list[float]:
        self.reset()
        if part == "act":
            actions = [int(self.greedy(self.params, obs)) for obs in self.observations]
            values = [self.q(self.params, obs[None]) for obs in self.observations]
            return [*actions, *np.concatenate(values).ravel().tolist()]
        return [float(self.update()) for _ in range(self.case.check_steps)]


def _dqn_step(network: Any) -> Any:
    def step(params, state, q_target, buffer, rows):
        obs, action, reward, done, obs_next = (a[rows] for a in buffer)
        best = network(params, obs_next).argmax(axis=1)[:, None]
        value = jnp.take_along_axis(network(q_target, obs_next), best, axis=1)[:, 0]
        target = reward + replay.GAMMA * (1 - done) * value

        def loss_of(params):
            value = jnp.take_along_axis(network(params, obs), action[:, None], axis=1)[:, 0]
            d = jnp.abs(value - target)
            return jnp.where(d < 1, 0.5 * d * d, d - 0.5).mean()

        loss, grads = jax.value_and_grad(loss_of)(params)
        return *adam(params, state, grads, replay.ADAM_EPS), loss

    return step
