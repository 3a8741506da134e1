"""``python -m sdbr bench micro``: small measurements with spread, each in a fresh process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.conditions import Settings
from benchmarks.probe import ProbeError, ask
from benchmarks.stats import spread

FIRST_CASES = ("mlp_mnist", "deep_chain")
# Case and limit.
MEMORY_CASES = {
    "mlp_digits": 1.0,
    "mlp_mnist": 1.0,
    "deep_chain": 1.0,
    "lenet": 0.8,
    "infer_lenet": 0.8,
    "vgg_cifar": 0.8,
    "resnet50": 0.8,
    "lstm_ptb": 0.8,
    "transformer": 0.8,
    "dqn": 0.8,
}
FRESH = 5  # processes per figure
DISPATCH_LIMIT_NS = 20.0
FIRST_LIMIT = 3.0
FLAT = 2.0  # "flat" is at most twice the smallest


def main(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and print all sections; a section that fails is left out with a line saying why."""
    result: dict[str, Any] = {}
    for name, measure in (
        ("calls", _calls),
        ("ops", _ops),
        ("growth", _growth),
        ("dispatch", _dispatch),
        ("build", _build),
        ("first_call", _first),
        ("peak_memory", _memory),
    ):
        say(f"micro: {name}")
        try:
            result[name], lines = measure(settings)
        except ProbeError as error:
            result[name], lines = {"error": str(error)}, [f"{name}: left out: {error}"]
        say("")
        print("\n" + "\n".join(lines), flush=True)
    return result


def _calls(settings: Settings) -> tuple[Any, list[str]]:
    found = ask("calls", **_limits(settings))
    lines = [f"{'one call, microseconds':<52}{'median':>10}{'p10':>10}{'p90':>10}"]
    lines += [f"  {r['name']:<50}{_us(r)}" for r in found]
    return found, lines


def _us(r: dict[str, Any]) -> str:
    return "".join(f"{r[key]:>10,.3f}" for key in ("median_us", "p10_us", "p90_us"))


def _ops(settings: Settings) -> tuple[Any, list[str]]:
    found = ask("ops", **_limits(settings))
    lines = [
        f"{'one op, float32, microseconds':<32}{'elements':>10}{'median':>10}{'p10':>10}{'p90':>10}"
    ]
    lines += [f"  {r['name']:<30}{r['size']:>10,}{_us(r)}" for r in found]
    return found, lines


def _growth(settings: Settings) -> tuple[Any, list[str]]:
    found = ask("growth", **_limits(settings))
    lines = []
    for what, records in found.items():
        title = f"call against the number of {what}"
        lines.append(f"{title:<42}{'median':>10}{'p10':>10}{'p90':>10}{'us each':>10}")
        for r in records:
            lines.append(f"  {r['n']:>12,}{'':<28}{_us(r)}{r['median_us'] / r['n']:>10,.3f}")
    return found, lines


def _dispatch(settings: Settings) -> tuple[Any, list[str]]:
    found = ask("dispatch", **_limits(settings))
    lines = [
        "dispatch, nanoseconds per op: (program) - (C loop over the same kernel)",
        f"  {'op':<6}{'n':>10}{'dispatch':>12}{'p10':>10}{'p90':>10}{'kernel':>10}{'run()':>10}",
    ]
    for r in found:
        times = (
            f"{r['dispatch_ns']:>12.2f}{r['dispatch_p10_ns']:>10.2f}{r['dispatch_p90_ns']:>10.2f}"
        )
        lines.append(
            f"  {r['op']:<6}{r['n']:>10,}{times}{r['kernel_ns']:>10.2f}{r['run_ns']:>10.2f}"
        )
    # The whole run() is held against the limit: it holds the price of its one call, too.
    worst = max(r["run_ns"] - r["kernel_ns"] for r in found if r["op"] == "add")
    lines.append(
        f"  target: at most {DISPATCH_LIMIT_NS:.0f} ns per op from 10 to 100,000 adds, the call "
        f"included: {worst:.1f} ns, {_met(worst <= DISPATCH_LIMIT_NS)}"
    )
    return found, lines


def _build(settings: Settings) -> tuple[Any, list[str]]:
    found = ask("build", **_limits(settings))
    lines = [f"{'build, microseconds per op':<30}{'n':>10}{'plan':>10}{'prepare':>10}{'total':>10}"]
    for r in found:
        times = "".join(f"{r[key]:>10.2f}" for key in ("plan_us", "prepare_us", "total_us"))
        lines.append(f"{'':<30}{r['n']:>10,}{times}")
    totals = [r["total_us"] for r in found]
    growth = max(totals) / min(totals)
    lines.append(
        f"  target: flat from 1,000 to 100,000 ops: x {growth:.2f}, {_met(growth <= FLAT)}"
    )
    return found, lines


def _first(settings: Settings) -> tuple[Any, list[str]]:
    lines = ["first call, milliseconds (median of fresh processes, after imports)"]
    found = []
    for case in FIRST_CASES:
        times: dict[str, list[dict[str, float]]] = {"plain": [], "sdbr:cython": []}
        for _ in range(FRESH):
            for style, records in times.items():
                records.append(ask("first", style, case, **_limits(settings)))
        medians = {
            style: {key: 1e3 * spread([r[key] for r in records]).median for key in records[0]}
            for style, records in times.items()
        }
        plain, static = medians["plain"], medians["sdbr:cython"]
        ratio = static["first"] / plain["first"]
        found.append({"case": case, "milliseconds": medians, "ratio": ratio})
        for label, m in (("chainer", plain), ("sdbr", static)):
            lines.append(
                f"  {case:<12}{label:<10}first {m['first']:>10.2f}  second {m['second']:>10.2f}"
                f"  later {m['later']:>10.3f}"
            )
        lines.append(
            f"  target: at most {FIRST_LIMIT:.0f} of Chainer's first call: "
            f"{ratio:.2f}, {_met(ratio <= FIRST_LIMIT)}"
        )
    return found, lines


def _memory(settings: Settings) -> tuple[Any, list[str]]:
    lines = [
        "peak memory, MiB above the imports (median of fresh processes); state: parameters, "
        "gradients and the optimizer's arrays, which both hold",
        f"  {'':<14}{'chainer':>10}{'sdbr':>10}{'state':>10}{'beyond it':>20}",
    ]
    found = []
    for case, limit in MEMORY_CASES.items():
        plain, static = (_peak(style, case, settings) for style in ("plain", "sdbr:cython"))
        state = plain["state"]
        beyond = plain["peak"] - state, static["peak"] - state
        ratio = static["peak"] / plain["peak"] if plain["peak"] > 0 else float("inf")
        rest = beyond[1] / beyond[0] if beyond[0] > 0 else float("inf")
        found.append(
            {
                "case": case,
                "chainer_mib": plain["peak"],
                "sdbr_mib": static["peak"],
                "state_mib": state,
                "ratio": ratio,
                "ratio_beyond_state": rest,
                "limit": limit,
            }
        )
        lines.append(
            f"  {case:<14}{plain['peak']:>10.2f}{static['peak']:>10.2f}{state:>10.2f}"
            f"{beyond[0]:>10.2f}{beyond[1]:>10.2f}  target: at most {limit:.1f} of the whole: "
            f"{ratio:.2f}, {_met(ratio <= limit)}; beyond the state {rest:.2f}"
        )
    return found, lines


def _peak(style: str, case: str, settings: Settings) -> dict[str, float]:
    """Return the median of the peaks of fresh processes, and the state."""
    records = [
        ask("memory", style, case, **_limits(settings)) for _ in range(min(FRESH, settings.rounds))
    ]
    peak = spread([record["mib"] for record in records]).median
    return {"peak": peak, "state": records[0]["state_mib"]}


def _limits(settings: Settings) -> dict[str, Any]:
    return {"cpus": settings.cpus, "timeout": settings.timeout}


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"
