"""What more ranks would give: ``python -m benchmarks.scaling FILE``.

FILE is of `python -m benchmarks.ranks --json FILE`. A model, not a measurement: a step takes the
time of a whole step, what averaging costs a rank by itself, and a ring's collective,
`2 (p - 1) (alpha + bytes / p / beta)`, which nothing overlaps.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

RANKS = (2, 4, 8, 16, 64, 256, 1024)
#: Bytes per second and seconds of a message; those of networks are assumed.
LINKS = {
    "10 Gbit/s": (10e9 / 8, 30e-6),
    "25 Gbit/s": (25e9 / 8, 20e-6),
    "100 Gbit/s": (100e9 / 8, 5e-6),
    "NVLink": (300e9, 5e-6),
}
#: Parameters and seconds of a step of ResNet-50 with a batch of 4 on one core: docs/performance.md.
RESNET50 = (25_557_032, 0.849)


def fitted(collectives: list[tuple[int, float]], ranks: int) -> tuple[float, float]:
    """Bytes per second and seconds per message that explain collectives, large and small."""
    rounds = 2 * (ranks - 1)
    alpha = min(time for _, time in collectives) / rounds
    # The least squares of ratios, so that small ones count as much.
    sizes, times = np.array(collectives, float).T
    large = sizes >= 1 << 16
    a = (rounds * sizes / ranks / times)[large]
    b = (1 - rounds * alpha / times)[large]
    return float(a @ a / (a @ b)), alpha


def step(compute: float, nbytes: float, ranks: int, link: tuple[float, float]) -> float:
    """Seconds of a step of so many ranks."""
    beta, alpha = link
    return compute + 2 * (ranks - 1) * (alpha + nbytes / ranks / beta)


def speedups(found: list[dict[str, Any]]) -> str:
    """The table: how many times the examples of one rank in a second."""
    alone, two = (result["networks"] for result in found)
    rows = []
    for name in alone:
        if name.startswith("mlp"):
            continue
        extra = max(0.0, two[name]["static"] - two[name]["whole step"] - two[name]["allreduce"])
        rows.append((name, alone[name]["parameters"], alone[name]["whole step"], extra))
    copies = 2 * RESNET50[0] * 4 / fitted(two_collectives(found), 2)[0]  # in and out of the buffer
    rows.append(("ResNet-50", *RESNET50, copies))
    lines = [
        f"| network | link | {' | '.join(map(str, RANKS))} |",
        f"| --- | --- |{' ---: |' * len(RANKS)}",
    ]
    for name, parameters, compute, extra in rows:
        for link, constants in LINKS.items():
            shown = [
                f"{n * compute / step(compute + extra, 4 * parameters, n, constants):,.2f}"
                for n in RANKS
            ]
            lines.append(f"| {name} | {link} | {' | '.join(shown)} |")
    return "\n".join(lines)


def two_collectives(found: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """Bytes and seconds of those of two ranks."""
    return [tuple(pair) for pair in found[1]["collectives"]]


def main() -> None:
    """Print constants and table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", metavar="FILE")
    with open(parser.parse_args().file) as file:
        found = json.load(file)["results"]
    beta, alpha = fitted(two_collectives(found), 2)
    print(f"measured between two ranks here: {alpha * 1e6:.2f} us, {beta / 1e9:.2f} GB/s\n")
    for size, time in two_collectives(found):
        by_model = step(0, size, 2, (beta, alpha))
        print(f"{size:>10,} bytes {time * 1e6:12,.1f} us, model {by_model * 1e6:12,.1f}")
    print("\n" + speedups(found))


if __name__ == "__main__":
    main()
