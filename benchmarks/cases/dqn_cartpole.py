"""Reinforcement learning: double DQN on made-up transitions of CartPole's shape."""

from benchmarks.cases.base import Case

CASE = Case(
    name="dqn_cartpole",
    title="4-100-100-2, double DQN; update with 64 transitions, act with one observation",
    kind="dqn",
    sizes=(4, 100, 100, 2),
    batch=64,
    parts=("update", "act"),
)
