"""The cases, by name, in the order in which they are reported."""

from __future__ import annotations

import importlib

from benchmarks.cases.base import Case

NAMES = (
    "mlp_tiny",
    "mlp_digits",
    "mlp_mnist",
    "deep_chain",
    "chain_50",
    "infer_tiny",
    "trainer_digits",
    "trainer_fed",
    "dqn_cartpole",
    "lenet",
    "infer_lenet",
    "vgg_cifar",
    "resnet50",
    "lstm_ptb",
    "transformer",
    "dqn",
)


def load(name: str) -> Case:
    """Return a case by name.

    Raises
    ------
    ValueError
        If there is no such case.
    """
    if name not in NAMES:
        raise ValueError(f"no case {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"benchmarks.cases.{name}").CASE
