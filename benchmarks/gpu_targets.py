"""What sdbr has to reach on a GPU, and whether it did: from the file of ``sdbr gpu-check``.

Times are those of many steps that are waited for together. Besides them count the time that a
processor needs to launch a step, the nodes of its graphs, and how far large kernels are from a
copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import cases
from benchmarks.cases.base import Case
from benchmarks.peers import OWN

SDBR, GRAPH, JAX, CHAINER = OWN["cuda"], "torch-graph", "jax", "chainer"
FLOOR = "floor"
#: Adam reads gradient, parameter and two moments, and writes the last three; four bytes each.
ADAM_BYTES = 4 * 7


@dataclass(frozen=True)
class Target:
    """At most so much of something.

    Attributes
    ----------
    case : str
    what : str
        ``'step'`` and ``'processor'`` (microseconds), ``'nodes'``.
    limit : float
    against : str
        A peer, or `FLOOR`: the limit is a ratio; empty: it is absolute.
    """

    case: str
    what: str
    limit: float
    against: str = ""


TARGETS = (
    Target("mlp_tiny", "processor", 12),
    Target("chain_50", "processor", 20),  # a hundred parameters
    Target("mlp_tiny", "nodes", 12),
    Target("mlp_tiny", "step", 25),
    Target("mlp_tiny", "step", 0.6, GRAPH),
    Target("mlp_tiny", "step", 0.5, JAX),
    Target("mlp_tiny", "step", 1 / 60, CHAINER),
    Target("mlp_digits", "step", 30),
    Target("mlp_digits", "step", 0.6, GRAPH),
    Target("mlp_mnist", "step", 0.8, GRAPH),
    Target("mlp_mnist", "step", 2.0, FLOOR),
    Target("deep_chain", "step", 1600),
    Target("deep_chain", "step", 0.3, GRAPH),
    Target("lstm_ptb", "step", 1.0, GRAPH),
)
OF_COPY = 1.2  # large kernels: as long as a copy of their bytes, at most


@dataclass(frozen=True)
class Verdict:
    """A target, and what was measured; None where it was not."""

    name: str
    limit: str
    measured: str
    met: bool | None


def judge(result: Mapping[str, Any]) -> list[Verdict]:
    """Compare what was found with all targets.

    Parameters
    ----------
    result : mapping
        What ``gpu-check.json`` holds.
    """
    of_cases = {case["case"]: case for case in benchmarks_of(result)}
    rates = found(result, "rates")
    verdicts = [_judge(target, of_cases.get(target.case), rates) for target in TARGETS]
    return [*verdicts, *_large(found(result, "large"))]


def found(result: Mapping[str, Any], part: str) -> dict[str, Any]:
    """What a part has found."""
    return result.get("parts", {}).get(part, {}).get("found") or {}


def benchmarks_of(result: Mapping[str, Any], run: str = "bench") -> Sequence[Mapping[str, Any]]:
    """The cases that were measured in one run of the benchmarks, of several."""
    of_run = found(result, "cases").get(run)
    return of_run.get("cases", ()) if isinstance(of_run, Mapping) else ()


def _judge(target: Target, case: Mapping[str, Any] | None, rates: Mapping[str, Any]) -> Verdict:
    name = f"{target.case}, {_WORDS[target.what]}"
    limit = (
        f"{limit_as_text(target.limit)} of {target.against}"
        if target.against
        else (f"{target.limit:g}{'' if target.what == 'nodes' else ' us'}")
    )
    value = None if case is None else measured(case, target.what, SDBR)
    if value is None:
        return Verdict(name, limit, "-", None)
    if not target.against:
        unit = "" if target.what == "nodes" else " us"
        return Verdict(name, limit, f"{value:.4g}{unit}", value <= target.limit)
    other = (
        floor(cases.load(target.case), rates)
        if target.against == FLOOR
        else measured(case, target.what, target.against)
    )
    if other is None:
        return Verdict(name, limit, "-", None)
    return Verdict(name, limit, limit_as_text(value / other), value / other <= target.limit)


_WORDS = {"step": "a step", "processor": "processor per step", "nodes": "nodes of the graph"}


def measured(case: Mapping[str, Any], what: str, peer: str) -> float | None:
    """A figure of a peer in a case: microseconds, or nodes of the graphs of a step."""
    if what == "nodes":
        programs = case["facts"].get(peer, {}).get("programs", ())
        steps = [program["graphs"] for program in programs if program["name"] == "step"]
        if not steps or any(graph["nodes"] is None for graph in steps[-1]):
            return None
        return sum(graph["nodes"] for graph in steps[-1])
    times = case.get("times_us" if what == "step" else f"{what}_us", ())
    return next((t["median"] for t in times if t["peer"] == peer), None)


def floor(case: Case, rates: Mapping[str, Any]) -> float | None:
    """Microseconds that a step of a perceptron takes at least, at the rates that were measured.

    The larger one counts of what its products take in FP32, and what the update moves.
    """
    flops, copies = rates.get("fp32_flop_per_s"), rates.get("copy_bytes_per_s")
    if not isinstance(flops, float) or not isinstance(copies, float):
        return None
    layers = list(zip(case.sizes[:-1], case.sizes[1:], strict=True))
    products = [2 * case.batch * n_in * n_out for n_in, n_out in layers]
    # Going forward, the gradients of the weights, and of all inputs but the first.
    operations = 3 * sum(products) - products[0]
    parameters = sum(math.prod(layer) + layer[1] for layer in layers)
    return 1e6 * max(operations / flops, ADAM_BYTES * parameters / copies)


def _large(of_kernels: Mapping[str, Any]) -> Iterator[Verdict]:
    limit = f"{OF_COPY:g} of a copy"
    for name, row in of_kernels.items():
        if isinstance(row, Mapping) and "of_copy" in row:
            ratio = row["of_copy"]
            if ratio is not None:
                yield Verdict(f"large: {name}", limit, f"{ratio:.3g}", ratio <= OF_COPY)
                continue
        if isinstance(row, Mapping):
            yield Verdict(f"large: {name}", limit, "-", None)


def limit_as_text(ratio: float) -> str:
    """Return 1/60 for small ratios, 0.6 for others."""
    return f"1/{1 / ratio:.3g}" if 0 < ratio < 0.1 else f"{ratio:.3g}"
