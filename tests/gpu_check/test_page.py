"""From the file to targets and pages; figures in it are made up."""

import copy
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is missing: not a source checkout"
)


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def case(name, batch=32, nodes=(3, 1), **medians):
    """A case with steps of so many microseconds; processors take a tenth of it."""
    times = [
        {"part": "step", "peer": peer.replace("_", "-"), "median": us, "samples": [us]}
        for peer, us in medians.items()
    ]
    graphs = [{"kernels": 2, "nodes": n} for n in nodes]
    programs = [{"name": "forward", "graphs": [{"nodes": 99}]}, {"name": "step", "graphs": graphs}]
    return {
        "case": name,
        "batch": batch,
        "times_us": times,
        "latency_us": [{**t, "median": 2 * t["median"]} for t in times],
        "processor_us": [{**t, "median": t["median"] / 10} for t in times],
        "facts": {"sdbr-cuda": {"programs": programs}},
        "left_out": {"torch.compile": "no time | was left"},
        "wrong": {},
    }


RESULT = {
    "command": "python -m sdbr gpu-check",
    "date": "2030-01-01 00:00 UTC",
    "sdbr": "0.1.0",
    "minutes": 8.0,
    "parts": {
        "facts": {"state": "done", "limit_s": 15.0, "seconds": 3.0,
                  "found": {"versions": {"numpy": "2.5.2"}, "doctor": ["/home/me/x.so"]}},
        "rates": {"state": "done", "limit_s": 15.0, "seconds": 4.0, "found": {
            "device": {"name": "a GPU", "multiprocessors": 132, "l2_bytes": 50 << 20,
                       "driver": "13.0"},
            "copy_bytes_per_s": 3e12, "fp32_flop_per_s": 5e13, "tf32_flop_per_s": 4e14}},
        "constants": {"state": "failed", "limit_s": 25.0, "seconds": 5.0, "said": ["at /a/b/c"],
                      "found": {
            "launch": {"processor_us": 2.0, "between_us": 3.0},
            "chain of 4": {"plain": {"nodes": 4, "processor_us": 5.0, "between_us": 6.0}},
            "draw": {"error": ["Traceback", "ModuleNotFoundError: No module named 'cupy'"]}}},
        "tests": {"state": "failed", "limit_s": 90.0, "seconds": 80.0, "found": {
            "kernels": {"exit_code": 1, "counted": "1 failed, 40 passed in 70s"}}},
        "memcheck": {"state": "done", "limit_s": 9.0, "seconds": 0.1,
                     "found": {"memcheck": "left out: compute-sanitizer was not found"}},
        "cases": {"state": "died", "limit_s": 200.0, "seconds": 20.0,
                  "said": ["one", "Segmentation fault"], "found": {"bench": {"cases": [
            case("mlp_tiny", sdbr_cuda=20.0, torch_graph=50.0, jax=100.0, chainer=1000.0),
            case("chain_50", sdbr_cuda=250.0),
            case("mlp_mnist", 100, sdbr_cuda=40.0, torch_graph=80.0),
        ]}, "compiled": {"cases": [case("mlp_digits", sdbr_cuda=30.0)]}}},
        "products": {"state": "done", "limit_s": 15.0, "seconds": 3.0, "found": {
            "32x64x64": {"own_us": 3.0, "library_us": 4.0},
            "64x64x64": {"own_us": 3.0, "library": "refused"}}},
        "large": {"state": "done", "limit_s": 15.0, "seconds": 2.0, "found": {
            "copy_bytes_per_s": 3e12, "add": {"us": 270.0, "bytes": 805306368, "of_copy": 1.01},
            "exp": {"us": 270.0, "bytes": 536870912, "of_copy": 1.5},
            "tanh": {"error": ["BackendError: no"]}}},
        "ncu": {"state": "done", "limit_s": 30.0, "seconds": 9.0, "found": {"mlp_mnist": {
            "launches": 3, "us": 11.0, "longest": [
                {"kernel": "linear_f4", "launches": 2, "us": 10.0, "bytes": 2e6, "registers": 42,
                 "warps_pct": 50.0}]}}},
        "threads": {"state": "done", "limit_s": 60.0, "seconds": 50.0, "found": {
            "1": {"cases": [
                {"case": "lenet", "times_us": [{"peer": "sdbr-cython", "median": 9e3}]}]},
            "2": {"error": ["it failed"]}}},
    },
}  # fmt: skip


def verdicts(result):
    from benchmarks import gpu_targets

    return {(v.name, v.limit): (v.measured, v.met) for v in gpu_targets.judge(result)}


def test_targets_are_judged():
    found = verdicts(RESULT)
    assert found["mlp_tiny, processor per step", "12 us"] == ("2 us", True)
    assert found["chain_50, processor per step", "20 us"] == ("25 us", False)
    assert found["mlp_tiny, nodes of the graph", "12"] == ("4", True)
    assert found["mlp_tiny, a step", "25 us"] == ("20 us", True)
    assert found["mlp_tiny, a step", "0.6 of torch-graph"] == ("0.4", True)
    assert found["mlp_tiny, a step", "0.5 of jax"] == ("0.2", True)
    assert found["mlp_tiny, a step", "1/60 of chainer"] == ("1/50", False)
    assert found["deep_chain, a step", "1600 us"] == ("-", None)
    assert found["lstm_ptb, a step", "1 of torch-graph"] == ("-", None)
    assert found["large: add", "1.2 of a copy"] == ("1.01", True)
    assert found["large: exp", "1.2 of a copy"] == ("1.5", False)
    assert found["large: tanh", "1.2 of a copy"] == ("-", None)
    assert len(found) == 14 + 3


def test_targets_are_those_of_cases_and_peers_that_exist():
    from benchmarks import cases, gpu_targets
    from benchmarks.peers import of_device

    from sdbr.cli.gpu_check.cases import CASES  # isort: skip

    assert {target.case for target in gpu_targets.TARGETS} <= set(CASES) <= set(cases.NAMES)
    peers = {target.against for target in gpu_targets.TARGETS} - {"", gpu_targets.FLOOR}
    assert peers <= set(of_device("cuda"))


def test_the_floor_of_a_step():
    from benchmarks import cases, gpu_targets

    mnist = cases.load("mlp_mnist")
    forward = [2 * 100 * 784 * 1000, 2 * 100 * 1000 * 1000, 2 * 100 * 1000 * 10]
    parameters = 784 * 1000 + 1000 * 1000 + 1000 * 10 + 2010
    rates = {"fp32_flop_per_s": 1e12, "copy_bytes_per_s": 1e15}
    products = 1e6 * (3 * sum(forward) - forward[0]) / 1e12
    assert gpu_targets.floor(mnist, rates) == pytest.approx(products)
    rates = {"fp32_flop_per_s": 1e15, "copy_bytes_per_s": 1e12}
    assert gpu_targets.floor(mnist, rates) == pytest.approx(1e6 * 28 * parameters / 1e12)
    assert gpu_targets.floor(mnist, {"copy_bytes_per_s": {"error": "no"}}) is None
    ratio, met = verdicts(RESULT)["mlp_mnist, a step", "2 of floor"]
    at_its_rate = products * 1e12 / RESULT["parts"]["rates"]["found"]["fp32_flop_per_s"]
    assert at_its_rate > 1e6 * 28 * parameters / 3e12
    assert (ratio, met) == (f"{40 / at_its_rate:.3g}", False)


def test_nothing_but_what_was_measured_is_judged():
    """Parts that did not run, or died before they found anything."""
    for parts in ({}, {name: {**part, "found": {}} for name, part in RESULT["parts"].items()}):
        assert all(met is None for _, met in verdicts({**RESULT, "parts": parts}).values())
    nodes = copy.deepcopy(RESULT)
    found = nodes["parts"]["cases"]["found"]["bench"]["cases"][0]["facts"]["sdbr-cuda"]
    found["programs"][1]["graphs"][0]["nodes"] = None  # launched one by one
    assert verdicts(nodes)["mlp_tiny, nodes of the graph", "12"] == ("-", None)


def test_a_page(tmp_path, capsys):
    from benchmarks import gpu_page

    path = tmp_path / "found.json"
    path.write_text(json.dumps(RESULT))
    assert gpu_page.main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "- a GPU, 132 multiprocessors, L2 50 MiB, driver for CUDA 13.0",
        "- numpy 2.5.2",
        "- rates: copies 3 TB/s (read and written), products in FP32 50 TFLOP/s, in TF32 400 "
        "TFLOP/s",
        "| constants | failed | 5 | 25 | draw: ModuleNotFoundError: No module named 'cupy' |",
        "| tests | failed | 80 | 90 | kernels: 1 failed, 40 passed in 70s |",
        "| memcheck | done | 0.1 | 9 | left out: compute-sanitizer was not found |",
        "| cases | died | 20 | 200 | Segmentation fault |",
        "| mlp_tiny, a step | 1/60 of chainer | 1/50 | **no** |",
        "| lstm_ptb, a step | 1 of torch-graph | - | not measured |",
        "| us per step | sdbr-cuda | chainer | torch-graph | torch.compile | jax |",
        "| mlp_tiny [32] | 20 | 1,000 | 50 | - | 100 |",
        "| mlp_tiny [32] | 2 | 100 | 5 | - | 10 |",
        "| us per step, each waited for | sdbr-cuda | torch.compile |",
        "| mlp_digits [32] | 60 | - |",
        "- mlp_tiny, torch.compile: no time | was left",
        "| chain of 4, plain | 4 | 5 | 6 |",
        "| 64x64x64 | 3 | refused |",
        "| add | 270 | 768 | 1.01 |",
        "| tanh | - | 0 | - |",
        "| mlp_mnist | linear_f4 | 2 | 10 | 0.909 | 2 | 42 | 50 |",
        "| lenet | 1 | 9,000 | - |",
    ):
        assert line in lines, line
    assert len([line for line in lines if line.startswith("## ")]) == 10


def test_a_page_of_hardly_anything(tmp_path):
    from benchmarks import gpu_page

    path = tmp_path / "found.json"
    running = {"facts": {"state": "running", "limit_s": 1.0}}
    for parts in ({}, running):
        path.write_text(json.dumps({**RESULT, "parts": parts}))
        assert "## GPU check" in gpu_page.text(path)


def test_figures_that_are_kept(tmp_path, monkeypatch):
    """Without what programs said, and without folders; the page shows them."""
    from benchmarks import gpu_page

    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "performance.md").write_text("a\n<!-- gpu:begin -->\nold\n<!-- gpu:end -->\nb\n")
    monkeypatch.setattr(gpu_page, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_page, "KEPT", tmp_path / "gpu.json")
    path = tmp_path / "found.json"
    found = copy.deepcopy(RESULT)
    found["parts"]["tests"]["found"]["kernels"]["failures"] = ["in /some/where/a.py: 1/2 x"]
    path.write_text(json.dumps(found))
    assert gpu_page.main([str(path), "--write"]) == 0
    kept = json.loads((tmp_path / "gpu.json").read_text())
    assert kept["parts"]["tests"]["found"]["kernels"]["failures"] == ["in a.py: 1/2 x"]
    assert "said" not in json.dumps(kept) and "/home/me" not in json.dumps(kept)
    assert verdicts(kept) == verdicts(RESULT)
    page = (docs / "performance.md").read_text()
    assert page.startswith("a\n<!-- gpu:begin -->\n`gpu.json`:\n\n- `python -m sdbr gpu-check`")
    assert page.endswith("<!-- gpu:end -->\nb\n") and "old" not in page
    assert "| mlp_tiny [32] | 20 |" in page
