"""What each part finds: on the driver without a device, on a machine that seems to have a GPU."""

import json
import os
import sys

from sdbr.base.errors import BackendError
from sdbr.cli.gpu_check import (
    cases,
    constants,
    demo,
    job,
    large,
    launched,
    memcheck,
    products,
    profiles,
    rates,
    suite,
    threads,
    timing,
)
from sdbr.ops.table import BY_NAME

import numpy as np
import pytest

from tests.harness import device, pretended
from tests.harness.comparison import assert_near
from tests.tolerances import SUMS


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Small sizes on the driver without a device; does a part, and gives the job."""
    monkeypatch.setattr(job, "open_device", lambda ordinal: device.device(ordinal))
    monkeypatch.setattr(job, "machine_code", lambda _, source: device.machine_code(*source))
    for module in (rates, products):
        monkeypatch.setattr(module, "cublaslt", lambda newest: device.cublaslt())
    for module, sizes in {
        constants: {"LAUNCHES": 2, "NODES": (1, 3), "IN_BRANCHES": 8, "BRANCHES": (1, 2)},
        rates: {"COPIED": 1 << 12, "SIDE": 16, "COPIES": 2},
        products: {"SIZES": ((3, 5, 7),), "LAUNCHES": 1, "IN_A_GRAPH": 2},
        large: {"ELEMENTS": 1 << 10, "ROW": 32, "LAUNCHES": 1},
        timing: {"ROUNDS": 1},
    }.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)

    def do(module, seconds=100.0):
        made = job.Job(tmp_path / "found.json", seconds)
        module.measure(made)
        assert json.loads(made.path.read_text()) == made.found
        return made

    return do


def test_constants(small):
    before = device.balance(), device.setting("programmatic").value
    done = small(constants)
    assert done.failed == ["draw"]  # there is no CuPy here: test_draws
    assert "No module named 'cupy'" in done.found["draw"]["error"][-1]
    assert set(done.found["chain of 3"]) == {"plain", "programmatic", "overlapping"}
    assert all(way["nodes"] == 3 for way in done.found["chain of 3"].values())
    assert device.setting("programmatic").value == before[1] + 2 * (1 + 3)
    assert done.found["8 kernels in 2 branches"]["nodes"] == 8
    copies = done.found["copy of pinned memory in a graph"]
    assert (copies["copy and kernel"]["nodes"], copies["kernel"]["nodes"]) == (2, 1)
    assert set(done.found["events"]) == {
        "record and wait", "with a new event", "two kernels on two streams",
    }  # fmt: skip
    assert done.found["launch"]["processor_us"] > 0 < done.found["launch"]["between_us"]
    assert device.balance() == before[0]


def test_one_thing_that_fails_leaves_the_others(small):
    with device.failing("cuLaunchKernelEx", 1, 1):
        done = small(constants)
    assert done.failed == ["chain of 1", "draw"]
    assert "cuLaunchKernelEx" in done.found["chain of 1"]["error"][-1]
    assert done.found["chain of 3"]["overlapping"]["nodes"] == 3


def test_rates(small):
    done = small(rates)
    assert done.failed == []
    assert done.found["device"]["name"] == "fake 0"
    assert all(
        done.found[name] > 0 for name in ("copy_bytes_per_s", "fp32_flop_per_s", "tf32_flop_per_s")
    )


def test_rates_without_the_library(small, monkeypatch):
    def missing(newest):
        raise BackendError("cuBLASLt was not found: pip install it")

    for module in (rates, products):
        monkeypatch.setattr(module, "cublaslt", missing)
    done = small(rates)
    assert done.failed == ["fp32_flop_per_s", "tf32_flop_per_s"]
    assert done.found["copy_bytes_per_s"] > 0
    found = small(products).found["3x5x7"]
    assert found["own_us"] > 0 and found["library"] == "cuBLASLt was not found: pip install it"


def test_products(small):
    found = small(products).found
    assert set(found["3x5x7"]) == {"own_us", "library_us"}


def test_large_kernels(small):
    done = small(large)
    assert done.failed == []
    rows = {name: row for name, row in done.found.items() if isinstance(row, dict)}
    assert len(rows) == len(large.cases(1 << 10, 32)) == len({x.name for x in large.cases(64, 8)})
    assert rows["add"]["bytes"] == 3 * 4 << 10 and rows["adam"]["bytes"] == 7 * 4 << 10
    assert rows["where"]["bytes"] == 13 << 10 and rows["sum of all"]["bytes"] == (4 << 10) + 4
    assert rows["lstm"]["bytes"] == (4 << 10) + 4 * 256 + 6 * 4 * 256
    families = {BY_NAME[case.op].family for case in large.cases(64, 8)}
    assert families >= {"elementwise", "fused", "data", "array", "reduction", "loss", "update"}


@pytest.mark.parametrize("case", large.cases(256, 16), ids=lambda case: case.name)
def test_large_kernels_compute_what_the_op_does(case, small):
    gpu = device.device()
    with gpu.current():
        ins = launched.Operands(gpu, case.ins, case.below)
        outs = launched.Operands(gpu, case.outs)
        launch = launched.launcher(gpu, BY_NAME[case.op], ins, outs, case.ints, case.floats)
        stream = gpu.stream()
        given, got = [read(stream, x) for x in (ins, outs)]
        launch(stream)
        got = read(stream, outs)
    assert all(np.any(x) for x in given)  # never zeros
    wanted = [np.empty_like(x) for x in got]
    result = BY_NAME[case.op].compute(given, wanted, attributes(case))
    for ours, theirs in zip(got, result if isinstance(result, tuple) else wanted, strict=True):
        assert_near(ours, np.asarray(theirs, ours.dtype), SUMS, case.name)


def attributes(case):
    return BY_NAME[case.op].attributes(case.ints, case.floats)


def read(stream, operands) -> list:
    """What lies there now, as the op sees it."""
    from sdbr.base.dtypes import DTYPES

    found = []
    for (code, shape, strides), buffer in zip(operands.operands, operands.buffers, strict=True):
        flat = np.empty(buffer.nbytes // DTYPES[code].itemsize, DTYPES[code])
        stream.to_host(flat, buffer.address)
        stream.synchronize()
        found.append(np.ndarray(shape, flat.dtype, flat, 0, strides))
    return found


# --- parts that start programs --------------------------------------------------------------------
@pytest.fixture
def there(monkeypatch, tmp_path):
    """A machine that seems to have a GPU, for what parts start; does a part."""
    with pretended.machine(tmp_path / "machine") as environment:
        for name in set(os.environ) - set(environment):
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        made = job.Job(tmp_path / "found.json", 300.0)
        yield lambda module: (module.measure(made), made)[1]


def pretend_tool(monkeypatch, tmp_path, name, text=""):
    folder = tmp_path / "bin"
    pretended.tool(folder, name, sys.executable, text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_suites(there, monkeypatch):
    """Tests of both kinds run; those that fail are named."""
    label = "tests/steps/test_gpu.py::test_labels_out_of_range"
    digits = "tests/on_cupy/test_digits.py"
    monkeypatch.setattr(
        suite, "SUITES",
        {
            "kernels": (("-m", "gpu", label), {}, 0.5),
            "arrays": ((digits,), {"SDBR_TESTS_ON": "gpu"}, 0.5),
            "wrong": (("-m", "no such mark", label), {}, 1.0),
        },
    )  # fmt: skip
    done = there(suite)
    assert done.failed == ["wrong"]
    for name in ("kernels", "arrays"):
        assert done.found[name]["exit_code"] == 0
        assert done.found[name]["counted"].startswith("1 passed"), done.found[name]
    assert done.found["wrong"]["exit_code"] in (3, 4) and done.found["wrong"]["said"]


def test_warnings_of_other_versions_are_no_errors(monkeypatch):
    given = []
    monkeypatch.setattr(suite, "run", lambda words, *_: (given.extend(words), []))
    suite.suite(None, (), {}, 10.0)
    assert given[given.index("-W") + 1] == "default"


def test_failures_of_suites_are_listed(monkeypatch):
    lines = [
        "FAILED tests/a.py::test_a[1] - AssertionError", "ERROR tests/b.py - ImportError",
        "=== 1 failed, 3 passed, 1 error in 2.5s ===",
    ]  # fmt: skip
    monkeypatch.setattr(suite, "run", lambda *_: (1, lines))
    found = suite.suite(None, (), {}, 10.0)
    assert found["failures"] == lines[:2] and found["said"] == lines
    assert found["counted"] == "1 failed, 3 passed, 1 error in 2.5s"


def test_suites_that_are_ended_are_counted(monkeypatch):
    """With processes of pytest-xdist, and without."""
    lines = [
        "[gw0] [ 10%] PASSED tests/a.py::test_a[1] ", "[gw1] [ 20%] FAILED tests/a.py::test_a[2] ",
        "tests/b.py::test_b PASSED        [ 30%]", "some 3 passed words",
        "tests/b.py::test_c ERROR         [ 30%]",
    ]  # fmt: skip
    monkeypatch.setattr(suite, "run", lambda *_: (None, lines))
    found = suite.suite(None, (), {}, 10.0)
    assert found["counted"] == "ended before all had run: 2 passed, 1 failed, 1 error"
    assert found["failures"] == [lines[1], lines[4]] and found["exit_code"] is None


def test_memcheck(there, monkeypatch, tmp_path):
    monkeypatch.setattr(memcheck, "TESTS", 1)
    summary = "========= ERROR SUMMARY: 0 errors"
    pretend_tool(monkeypatch, tmp_path, "compute-sanitizer", summary)
    done = there(memcheck)
    assert done.found["memcheck"]["errors"] == [summary]
    assert any("1 passed" in line for line in done.found["memcheck"]["said"])
    assert done.failed == []


def test_tools_that_are_missing_are_named(there, monkeypatch):
    for module in (memcheck, profiles):
        monkeypatch.setattr(module, "find", lambda name: None)
    assert there(memcheck).found["memcheck"] == "left out: compute-sanitizer was not found"
    done = there(profiles)
    assert done.found["ncu"] == "left out: ncu was not found" and done.failed == []


TABLE = """==PROF== Disconnected from process 1
"ID","Kernel Name","{}","{}","{}","{}"
"","","ns","byte","register/thread","%"
"0","linear_f4(sdbr_device_op)","5,200","100","40","50.5"
"1","linear_f4(sdbr_device_op)","4,800","100","42","49.5"
"2","adam_together_f4(sdbr_device_op)","1,000","300","32","80"
""".format(*profiles.METRICS)


def test_profiles(there, monkeypatch, tmp_path):
    monkeypatch.setattr(profiles, "CASES", ("mlp_tiny",))
    pretend_tool(monkeypatch, tmp_path, "ncu", TABLE)
    done = there(profiles)
    assert done.failed == []
    found = done.found["mlp_tiny"]
    assert (found["launches"], found["us"]) == (3, 11.0)
    first, second = found["longest"]
    assert first == {
        "kernel": "linear_f4", "launches": 2, "us": 10.0, "bytes": 200.0, "registers": 42,
        "warps_pct": 50.0,
    }  # fmt: skip
    assert second["kernel"] == "adam_together_f4"


def test_a_profiler_that_says_nothing(there, monkeypatch, tmp_path):
    monkeypatch.setattr(profiles, "CASES", ("mlp_tiny",))
    pretend_tool(monkeypatch, tmp_path, "ncu", "==ERROR== no permission")
    done = there(profiles)
    assert done.failed == ["mlp_tiny"]
    assert done.found["mlp_tiny"]["error"] == "the profiler printed no table"
    assert "==ERROR== no permission" in done.found["mlp_tiny"]["said"]


def test_demo(there, monkeypatch):
    """An epoch is too few for it."""
    monkeypatch.setattr(demo, "ARGUMENTS", ("--epochs", "1", "--units", "8", "--batch-size", "500"))
    done = there(demo)
    assert (done.failed, done.found["demo"]["exit_code"]) == (["demo"], 1)
    said = done.found["demo"]["said"]
    assert any("device @cupy:0" in line for line in said)
    assert any("0 define by run calls" in line and "0 python ops" in line for line in said)
    assert "static accuracy" in said[-1] and "is below" in said[-1]


def test_cases(there, monkeypatch):
    monkeypatch.setattr(cases, "CASES", ("infer_tiny",))
    monkeypatch.setattr(cases, "COMPILED", ("mlp_tiny",))
    monkeypatch.setattr(cases, "ROUNDS", 1)
    done = there(cases)
    assert done.failed == []
    (case,), (compiled,) = (done.found[name]["cases"] for name in ("bench", "compiled"))
    assert {t["peer"] for t in case["times_us"]} == {"chainer", "sdbr-cuda", "sdbr-uncaptured"}
    assert {t["peer"] for t in compiled["times_us"]} == {"chainer", "sdbr-cuda"}
    assert set(compiled["left_out"]) == {"torch.compile"}
    assert [x.name for x in done.path.parent.glob("*.json")] == [done.path.name]


def test_cases_that_cannot_be_measured(there, monkeypatch):
    monkeypatch.setattr(cases, "CASES", ("no_such_case",))
    monkeypatch.setattr(cases, "COMPILED", ("infer_tiny",))
    done = there(cases)
    assert done.failed == ["bench"] and done.found["compiled"]["cases"]
    failed = done.found["bench failed"]
    assert failed["exit_code"] == 2 and "no case 'no_such_case'" in failed["said"][-1]


def test_threads(there, monkeypatch):
    monkeypatch.setattr(threads, "CASES", ("infer_tiny",))
    monkeypatch.setattr(threads, "THREADS", (1, 1 << 20))
    monkeypatch.setattr(threads, "SECONDS", 0.01)
    done = there(threads)
    assert done.failed == [] and list(done.found) == ["1"]
    assert done.found["1"]["settings"]["threads"] == 1
