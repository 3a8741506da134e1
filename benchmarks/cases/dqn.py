"""Double DQN on made-up frames of Atari's shape."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, conv, linear

N_ACTIONS = 6


def specs() -> Iterator[Spec]:
    """Weights of three convolutions and two linear layers."""
    yield from conv("conv1", 4, 32, 8)
    yield from conv("conv2", 32, 64, 4)
    yield from conv("conv3", 64, 64, 3)
    yield from linear("fc1", 3136, 512)
    yield from linear("fc2", 512, N_ACTIONS)


CASE = NetworkCase(
    name="dqn",
    title="3 convolutions on 84x84x4, 512, 6, double DQN; update with 32 transitions, act with one",
    kind="dqn",
    batch=32,
    ring=16,
    shape=(4, 84, 84),
    classes=N_ACTIONS,
    specs=specs,
    parts=("update", "act"),
    transitions=96,
    check_steps=5,
    tolerance=1e-3,
    memory_steps=10,
)
