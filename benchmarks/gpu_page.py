"""What ``sdbr gpu-check`` found, as a page: ``python -m benchmarks.gpu_page FILE.json [--write]``.

``--write`` keeps the figures as benchmarks/results/gpu.json, without what programs said and without
folders of that machine, and puts the tables of this file into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_targets
from benchmarks.gpu_targets import found
from benchmarks.page import ROOT, replace
from benchmarks.peers import OWN, of_device

PEERS = (OWN["cuda"], *(name for name in of_device("cuda") if name != OWN["cuda"]))
_MET = {True: "yes", False: "**no**", None: "not measured"}
_MOST = 160  # characters of an error
KEPT = ROOT / "benchmarks" / "results" / "gpu.json"
_TEXTS = ("said", "doctor", "samples")


def text(path: Path) -> str:
    """The whole page of a file."""
    result = json.loads(path.read_text())
    sections = {
        "GPU check": machine(result),
        "Parts": parts(result),
        "Targets": targets(result),
        "Cases": tables_of_cases(gpu_targets.benchmarks_of(result)),
        "Compiled": tables_of_cases(gpu_targets.benchmarks_of(result, "compiled")),
        "Launches": constants(result),
        "Products": products(result),
        "Large kernels": large(result),
        "Longest kernels": longest(result),
        "Threads": threads(result),
    }
    return "\n".join(f"## {title}\n\n{body}\n" for title, body in sections.items() if body)


def page(path: Path) -> str:
    """What docs/performance.md shows of it."""
    result = json.loads(path.read_text())
    cases = (tables_of_cases(gpu_targets.benchmarks_of(result, x)) for x in ("bench", "compiled"))
    bodies = (machine(result), targets(result), *cases, constants(result), large(result))
    return f"`{path.name}`:\n\n" + "\n\n".join(filter(None, bodies))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as Markdown; nothing where there are none."""
    if not rows:
        return ""
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if value is None:
        return "-"
    return str(value).replace("|", "/").replace("\n", " ")


def machine(result: Mapping[str, Any]) -> str:
    """What ran where."""
    device, facts = found(result, "rates").get("device", {}), found(result, "facts")
    rates = found(result, "rates")
    lines = [f"- `{result['command']}`, {result['date']}, sdbr {result['sdbr']}"]
    if device:
        lines.append(
            f"- {device['name']}, {device['multiprocessors']} multiprocessors, L2 "
            f"{device['l2_bytes'] / 2**20:.0f} MiB, driver for CUDA {device['driver']}"
        )
    versions = facts.get("versions", {})
    if versions:
        lines.append("- " + ", ".join(f"{k} {v}" for k, v in versions.items()))
    measured = [
        f"{name} {rates[key] / scale:.3g} {unit}"
        for name, key, scale, unit in (
            ("copies", "copy_bytes_per_s", 1e12, "TB/s (read and written)"),
            ("products in FP32", "fp32_flop_per_s", 1e12, "TFLOP/s"),
            ("in TF32", "tf32_flop_per_s", 1e12, "TFLOP/s"),
        )
        if isinstance(rates.get(key), float)
    ]
    return "\n".join([*lines, *([f"- rates: {', '.join(measured)}"] if measured else [])])


def parts(result: Mapping[str, Any]) -> str:
    """What became of each part, and of single things that failed."""
    rows = []
    for name, part in result["parts"].items():
        rows.append((name, part["state"], part.get("seconds"), part["limit_s"], _said(part)))
    return table(("part", "state", "seconds", "at most", ""), rows)


def _said(part: Mapping[str, Any]) -> str:
    texts = []
    for name, value in (part.get("found") or {}).items():
        if isinstance(value, str) and value.startswith("left out"):
            texts.append(value)
        if isinstance(value, Mapping) and value.get("counted"):
            texts.append(f"{name}: {value['counted']}")
        if isinstance(value, Mapping) and "error" in value:
            error = value["error"]
            last = error if isinstance(error, str) else (error or [""])[-1]
            texts.append(f"{name}: {last[:_MOST]}")
    if part["state"] == "died" and part.get("said"):
        texts.append(part["said"][-1][:_MOST])
    return "; ".join(texts)


def targets(result: Mapping[str, Any]) -> str:
    """Every target with what was measured."""
    verdicts = gpu_targets.judge(result)
    rows = [(v.name, v.limit, v.measured, _MET[v.met]) for v in verdicts]
    return table(("what", "at most", "measured", "met"), rows)


def tables_of_cases(cases: Sequence[Mapping[str, Any]]) -> str:
    """Medians of all peers: steps waited for together, one by one, and the processor's time."""
    peers = [peer for peer in PEERS if any(peer in _peers(case) for case in cases)]
    kinds = (
        ("times_us", "us per step"),
        ("latency_us", "us per step, each waited for"),
        ("processor_us", "us of the calling thread per step"),
    )
    bodies = []
    for key, title in kinds:
        rows = [
            (f"{case['case']} [{case['batch']}]", *_medians(case, key, peers)) for case in cases
        ]
        if rows:
            bodies.append(table((title, *peers), rows))
    notes = [
        f"- {case['case']}, {peer}: {'computes something else: ' * (key == 'wrong')}{reason}"
        for case in cases
        for key in ("wrong", "left_out")
        for peer, reason in case[key].items()
    ]
    return "\n\n".join([*bodies, *(["\n".join(notes)] if notes else [])])


def _peers(case: Mapping[str, Any]) -> set[str]:
    return {*case["left_out"], *case["wrong"], *(t["peer"] for t in case["times_us"])}


def _medians(case: Mapping[str, Any], key: str, peers: Sequence[str]) -> Iterator[float | None]:
    times = {t["peer"]: t["median"] for t in case.get(key, ())}
    return (times.get(peer) for peer in peers)


def constants(result: Mapping[str, Any]) -> str:
    """What launches cost."""
    rows = [
        (name, of.get("nodes"), of["processor_us"], of["between_us"])
        for name, of in _times(found(result, "constants"))
    ]
    return table(("empty kernels", "nodes", "us of the processor", "us from one to the next"), rows)


def _times(of: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "between_us" in of:
        yield name, of
        return
    for key, value in of.items():
        if isinstance(value, Mapping):
            yield from _times(value, f"{name}, {key}" if name else key)


def products(result: Mapping[str, Any]) -> str:
    """Our own products against the library's."""
    rows = [
        (name, of.get("own_us"), of.get("library_us", of.get("library")))
        for name, of in found(result, "products").items()
        if isinstance(of, Mapping)
    ]
    return table(("product", "own kernel, us", "cuBLASLt, us"), rows)


def large(result: Mapping[str, Any]) -> str:
    """Large kernels against copies."""
    rows = [
        (name, of.get("us"), of.get("bytes", 0) / 2**20, of.get("of_copy"))
        for name, of in found(result, "large").items()
        if isinstance(of, Mapping)
    ]
    return table(("kernel", "us", "MiB", "of a copy"), rows)


def longest(result: Mapping[str, Any]) -> str:
    """What the profiler saw."""
    rows = [
        (case, row["kernel"], row["launches"], row["us"], row["us"] / of["us"],
         row["bytes"] / 1e6, row["registers"], row["warps_pct"])
        for case, of in found(result, "ncu").items()
        if isinstance(of, Mapping) and "longest" in of
        for row in of["longest"]
    ]  # fmt: skip
    head = ("case", "kernel", "launches", "us", "share", "MB of memory", "registers", "warps, %")
    return table(head, rows)


def threads(result: Mapping[str, Any]) -> str:
    """Cases on the processor by threads."""
    rows = []
    for n, of in found(result, "threads").items():
        for case in of.get("cases", ()) if isinstance(of, Mapping) else ():
            times = {t["peer"]: t["median"] for t in case["times_us"]}
            rows.append((case["case"], n, times.get(OWN["cpu"]), times.get("torch")))
    rows.sort(key=lambda row: row[0])
    return table(("case", "threads", f"{OWN['cpu']}, us", "torch, us"), rows)


def main(argv: list[str] | None = None) -> int:
    """Print the page of a file, or write it into docs/performance.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_page", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args(argv)
    if options.write:
        kept = figures(json.loads(options.file.read_text()))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        replace(ROOT / "docs" / "performance.md", "gpu", page(KEPT))
    else:
        print(text(options.file))
    return 0


def figures(of: Any) -> Any:
    """The same without what programs said, and without folders."""
    if isinstance(of, dict):
        return {name: figures(value) for name, value in of.items() if name not in _TEXTS}
    if isinstance(of, list):
        return [figures(value) for value in of]
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", of) if isinstance(of, str) else of


if __name__ == "__main__":
    sys.exit(main())
