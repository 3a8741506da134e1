"""What sdbr has to reach, and whether it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.stats import Spread

SDBR = "sdbr-cython"


@dataclass(frozen=True)
class Target:
    """Of ``own`` at most ``limit`` times the fastest of ``against``."""

    case: str
    part: str
    limit: float
    against: tuple[str, ...]
    own: str = SDBR

    @property
    def text(self) -> str:
        """The target in words."""
        names = (
            self.against[0] if len(self.against) == 1 else f"the best of {', '.join(self.against)}"
        )
        who = "" if self.own == SDBR else f"{self.own} "
        return f"{who}at most {limit_as_text(self.limit)} of {names}"


SDBR_ALONE = "sdbr-own"  # without oneDNN
TORCH, EAGER, JAX = ("torch", "torch.compile"), ("torch",), ("jax",)
TARGETS = (
    Target("mlp_tiny", "step", 1 / 30, ("chainer",)),
    Target("mlp_tiny", "step", 0.33, JAX),
    Target("mlp_digits", "step", 0.75, JAX),
    Target("mlp_mnist", "step", 1.0, (*TORCH, *JAX)),
    Target("deep_chain", "step", 1 / 250, ("chainer",)),
    Target("deep_chain", "step", 1 / 15, JAX),
    Target("infer_tiny", "step", 0.25, JAX),
    Target("trainer_digits", "step", 0.15, ("chainer",)),
    Target("trainer_fed", "step", 0.08, ("chainer",)),
    Target("dqn_cartpole", "update", 1 / 10, ("chainer",)),
    Target("dqn_cartpole", "act", 1 / 10, ("chainer",)),
    Target("lenet", "step", 0.6, EAGER),
    Target("lenet", "step", 0.5, JAX),
    Target("lenet", "step", 0.7, EAGER, SDBR_ALONE),
    Target("infer_lenet", "step", 0.7, JAX),
    Target("vgg_cifar", "step", 1.0, EAGER),
    Target("vgg_cifar", "step", 1.5, EAGER, SDBR_ALONE),
    Target("resnet50", "step", 1.0, EAGER),
    Target("resnet50", "step", 1.5, EAGER, SDBR_ALONE),
    Target("lstm_ptb", "step", 0.95, ("torch.compile",)),
    Target("transformer", "step", 0.85, EAGER),
    Target("dqn", "update", 0.85, EAGER),
)


@dataclass(frozen=True)
class Verdict:
    """A target with the ratio that was measured; None where a side is absent."""

    target: Target
    ratio: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where it could not be measured."""
        return None if self.ratio is None else self.ratio <= self.target.limit


def judge(case: str, times: Mapping[tuple[str, str], Spread]) -> list[Verdict]:
    """Compare the medians of a case with its targets."""
    return [Verdict(target, _ratio(target, times)) for target in TARGETS if target.case == case]


def _ratio(target: Target, times: Mapping[tuple[str, str], Spread]) -> float | None:
    own = times.get((target.part, target.own))
    others = [
        times[target.part, name].median for name in target.against if (target.part, name) in times
    ]
    return own.median / min(others) if own and others else None


def limit_as_text(limit: float) -> str:
    """Return 1/30 for small limits, 0.75 for others."""
    inverse = round(1 / limit)
    return f"1/{inverse}" if limit < 0.3 and abs(inverse * limit - 1) < 1e-9 else f"{limit:.2f}"
