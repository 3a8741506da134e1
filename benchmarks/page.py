"""Writes measured results into performance.md, migration.md and README.md, between markers.

``python -m benchmarks.page benchmarks/results/FILE.json ...`` after ``sdbr bench --json``.
Each file has tables of its own: files may come from different machines.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.stats import threads_as_text

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("sdbr-own", "chainer", "chainer.static_graph", "torch", "torch.compile", "jax", "c")
OWN = "sdbr-cython"


def _text(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1000:
        return f"{us / 1000:.3g} ms"
    return f"{us:.3g} us"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.1 else f"1/{1 / value:.0f}"


def _name(case: dict[str, Any], part: str) -> str:
    # One observation is what an agent acts on.
    batch = 1 if part == "act" else case["batch"]
    return f"{case['case']}{'' if part == 'step' else ', ' + part} [{batch}]"


def cases_table(results: dict[str, Any]) -> str:
    """Medians of all peers, one row per case and part."""
    lines = ["| case | " + " | ".join((OWN, *PEERS)) + " |", "| --- " * (len(PEERS) + 2) + "|"]
    for case in results["cases"]:
        parts = list(dict.fromkeys(t["part"] for t in case["times_us"]))
        for part in parts:
            times = {t["peer"]: t["median"] for t in case["times_us"] if t["part"] == part}
            cells = [_text(times[p]) if p in times else "-" for p in (OWN, *PEERS)]
            lines.append(f"| {_name(case, part)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def targets_table(results: dict[str, Any]) -> str:
    """Every target with what was measured."""
    lines = ["| case | at most | measured | met |", "| --- | --- | --- | --- |"]
    for case in results["cases"]:
        for t in case["targets"]:
            name = case["case"] + ("" if t["part"] == "step" else f", {t['part']}")
            if t.get("own", OWN) != OWN:
                name += f" ({t['own']})"
            against = " / ".join(t["against"])
            met = {True: "yes", False: "**no**", None: "not measured"}[t["met"]]
            lines.append(
                f"| {name} | {_ratio(t['limit'])} of {against} | {_ratio(t['ratio'])} | {met} |"
            )
    return "\n".join(lines)


def readme_table(results: dict[str, Any]) -> str:
    """The short table of the README."""
    lines = [
        "| case | per step | Chainer | PyTorch | JAX | C loop |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case in results["cases"]:
        for part in dict.fromkeys(t["part"] for t in case["times_us"]):
            times = {t["peer"]: t["median"] for t in case["times_us"] if t["part"] == part}
            torch = min((times[p] for p in ("torch", "torch.compile") if p in times), default=None)
            row = [times[OWN], times.get("chainer"), torch, times.get("jax"), times.get("c")]
            cells = ["-" if v is None else _text(v) for v in row]
            lines.append(f"| {_name(case, part)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def static_table(results: dict[str, Any]) -> str:
    """What docs/migration.md compares; empty where Chainer's static graph was not measured."""
    lines = [
        "| case | plain Chainer | `chainer.static_graph` on the network | sdbr, the whole step |",
        "| --- | --- | --- | --- |",
    ]
    for case in results["cases"]:
        for part in dict.fromkeys(t["part"] for t in case["times_us"]):
            times = {t["peer"]: t["median"] for t in case["times_us"] if t["part"] == part}
            if part != "act" and "chainer.static_graph" in times:
                cells = [_text(times[p]) for p in ("chainer", "chainer.static_graph", OWN)]
                lines.append(f"| {_name(case, part)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def machine_text(results: dict[str, Any]) -> str:
    """Machine, versions and command, as a list."""
    machine = results["machine"]
    versions: dict[str, str] = {}
    for case in results["cases"]:
        for found in case["versions"].values():
            versions.update(found)
    return "\n".join(
        [
            f"- `{results['command']}`, {results['date']}",
            f"- {machine['processor']}, {machine['cores']} cores, {machine['system']}, "
            f"{machine['compiler']}; load at the start {results['load_at_start']}",
            "- " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())),
            f"- {results['settings']['rounds']} rounds in turn, "
            f"{threads_as_text(results['settings']['threads'])}, medians",
        ]
    )


def replace(path: Path, marker: str, text: str) -> None:
    """Put `text` between the two comments named `marker`.

    Raises
    ------
    ValueError
        If the page has no such comments.
    """
    page = path.read_text()
    pattern = rf"(<!-- {marker}:begin[^>]*-->\n).*?(<!-- {marker}:end -->)"
    found, n = re.subn(pattern, lambda m: m[1] + text + "\n\n" + m[2], page, count=1, flags=re.S)
    if not n:
        raise ValueError(f"{path.name} has no comments '<!-- {marker}:begin -->' and ':end'")
    path.write_text(found)


def together(paths: list[Path], text: Callable[[dict[str, Any]], str]) -> str:
    """The text of each file, behind its name where there are several."""
    parts = []
    for path in paths:
        name = f"`{path.name}`:\n\n" if len(paths) > 1 else ""
        parts.append(name + text(json.loads(path.read_text())))
    return "\n\n".join(parts)


def main(argv: list[str]) -> int:
    """Write the tables of result files into the pages."""
    paths = [Path(name) for name in argv]
    page = ROOT / "docs" / "performance.md"
    replace(page, "machine", together(paths, machine_text))
    replace(page, "cases", together(paths, cases_table))
    replace(page, "targets", together(paths, targets_table))
    replace(ROOT / "README.md", "figures", together(paths, readme_table))
    compared = [path for path in paths if static_table(json.loads(path.read_text()))]
    replace(ROOT / "docs" / "migration.md", "worth", together(compared, static_table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
