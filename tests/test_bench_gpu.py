"""The benchmarks on a GPU: on a machine that seems to have one, and PyTorch without one."""

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.harness import pretended
from tests.tolerances import RESULTS

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is missing: not a source checkout"
)


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two cases by all peers: what was printed, and the file."""
    folder = tmp_path_factory.mktemp("bench")
    words = ["bench", "infer_tiny", "mlp_tiny", "--device", "cuda", "--rounds", "2"]
    words += ["--seconds", "0.001", "--json", str(folder / "found.json")]
    words += ["--peer-python", sys.executable]
    with pretended.machine(folder / "machine") as environment:
        done = subprocess.run(
            [sys.executable, "-m", "sdbr", *words],
            env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((folder / "found.json").read_text())


def test_what_is_measured(measured):
    text, result = measured
    assert result["device"] == "cuda" and "fake 0, sm_90" in result["machine"]["gpu"]
    for case in result["cases"]:
        for key in ("times_us", "latency_us", "processor_us", "process_us"):
            found = {t["peer"]: t["median"] for t in case[key]}
            assert set(found) == {"chainer", "sdbr-cuda", "sdbr-uncaptured"}
            assert min(found.values()) > 0
        assert all(len(t["samples"]) == 2 for t in case["times_us"])
        assert {"torch", "torch-graph", "torch.compile", "jax"} == set(case["left_out"])
    assert "latency: chainer" in text and "left out: jax: " in text


def test_what_is_timed_are_replays_on_the_gpu(measured):
    for case in measured[1]["cases"]:
        for peer, one_by_one in (("sdbr-cuda", False), ("sdbr-uncaptured", True)):
            facts = case["facts"][peer]
            (counted,) = facts["statistics"]
            assert counted["replays"] + counted["steps"] > 0
            assert counted["define_by_run_calls"] == 0
            programs = {program["name"]: program for program in facts["programs"]}
            last = programs["forward" if case["case"] == "infer_tiny" else "step"]
            assert last["python_ops"] == 0 and len(last["graphs"]) == 1
            assert (last["graphs"][0]["nodes"] is None) == one_by_one


def test_time_that_is_over():
    """What has begun is finished with few rounds; what has not is left out."""
    from benchmarks import driver, measure
    from benchmarks.conditions import Settings

    settings = Settings(end=-math.inf, peers=("chainer",), device="cuda")
    assert settings.left() == 0 and settings.patience() == 1
    result = {}
    options = driver._parse(["mlp_tiny", "infer_tiny", "--device", "cuda"])[0]
    outcomes = driver._measure_all(options, settings, result)
    assert [outcome.left_out for outcome in outcomes] == [
        {"chainer": "no time was left for it"}
    ] * 2
    assert [case["case"] for case in result["cases"]] == ["mlp_tiny", "infer_tiny"]
    asked = []

    class Counts:
        def ask(self, **request):
            asked.append(request["do"])
            return {"n": 1, "seconds": 1.0}

    outcome = measure.Outcome("infer_tiny", "cuda")
    rounds = dataclasses.replace(settings, rounds=100)
    case = type("Case", (), {"name": "infer_tiny"})
    measure._time(case, "step", {"chainer": Counts()}, rounds, outcome, lambda text: None, None)
    assert asked.count("time") == measure.FEWEST
    assert len(outcome.more["latency", "step", "chainer"].samples) == measure.FEWEST


class Dies:
    """Workers of a peer that ends with the first case."""

    made = 0

    def __init__(self, peer, case, *_, device):
        type(self).made += 1
        self.case, self.timeout, self.is_closed = case, 0.0, False

    def send(self, do, case):
        self.case = case

    def receive(self):
        from benchmarks.pool import WorkerError

        if self.made == 1:
            raise WorkerError("the worker ended with exit code -9")
        return {"ready": True, "versions": {}}

    def close(self, patience=5.0):
        self.is_closed = True


def test_a_worker_that_dies_is_a_new_one_in_the_next_case(monkeypatch):
    from benchmarks import crew
    from benchmarks.conditions import Settings
    from benchmarks.measure import Outcome

    monkeypatch.setattr(crew, "Worker", Dies)
    made = crew.Crew(Settings(peers=("chainer",), device="cuda"), None)
    first, second, third = (
        Outcome(name, "cuda") for name in ("mlp_tiny", "infer_tiny", "chain_50")
    )
    assert made.take_up("mlp_tiny", first, print) == {}
    assert first.left_out == {"chainer": "the worker ended with exit code -9"}
    (worker,) = made.take_up("infer_tiny", second, print).values()
    made.end_of_case()
    assert worker.case == "infer_tiny" and not worker.is_closed
    assert made.take_up("chain_50", third, print) == {"chainer": worker}  # it goes on
    assert worker.case == "chain_50" and Dies.made == 2
    made.close()
    assert worker.is_closed


def test_on_a_cpu_each_case_has_workers_of_its_own(monkeypatch):
    from benchmarks import crew
    from benchmarks.conditions import Settings
    from benchmarks.measure import Outcome

    monkeypatch.setattr(crew, "Worker", Dies)
    monkeypatch.setattr(Dies, "made", 1)
    made = crew.Crew(Settings(peers=("chainer",)), None)
    (worker,) = made.take_up("mlp_tiny", Outcome("mlp_tiny"), print).values()
    made.end_of_case()
    assert worker.is_closed and not made.workers


def test_a_worker_goes_from_case_to_case():
    from benchmarks.peers import PEERS
    from benchmarks.pool import Worker

    with tempfile.TemporaryFile() as log:
        worker = Worker(PEERS["chainer"], "mlp_tiny", sys.executable, (), 1, 60.0, log)
        try:
            assert "chainer" in worker.receive()["versions"]
            first = worker.ask(do="check", part="step")["values"]
            assert "ready" in worker.ask(do="load", case="infer_tiny")
            assert worker.ask(do="check", part="step")["values"] != first
            answer = worker.ask(do="latency", part="step", n=2)
            assert answer["seconds"] > 0
            answer = worker.ask(do="processor", part="step", n=100)
            assert 0 < answer["seconds"] <= answer["process"] * 1.5
        finally:
            worker.close()


def interpreter_of_peers() -> str | None:
    """The one that benchmarks/peers_env.py makes, or that is named."""
    here = ROOT / ".venv-peers" / "bin" / "python"
    named = os.environ.get("SDBR_BENCH_PEER_PYTHON")
    return named or (str(here) if here.exists() else None)


needs_peers = pytest.mark.skipif(
    interpreter_of_peers() is None,
    reason="torch and jax are missing (benchmarks/peers_env.py brings them)",
)
NAMES = ("mlp_tiny", "infer_tiny", "chain_50")


def answer_of_peers(module: str) -> dict:
    """What a module of the harness prints, run by the interpreter that has torch and jax."""
    done = subprocess.run(
        [interpreter_of_peers(), "-m", f"tests.harness.{module}", *NAMES],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert tuple(found) == NAMES
    return found


@needs_peers
def test_jax_as_on_a_gpu():
    """Its first steps are compared; none is waited for before it is asked to."""
    for name, found in answer_of_peers("jax_without_gpu").items():
        on_cpu, on_gpu = found["checked"]
        assert len(on_gpu) == (3 * 2 if name == "infer_tiny" else 3)
        assert on_gpu == pytest.approx(on_cpu[: len(on_gpu)], rel=RESULTS)
        assert min(each["seconds"] for each in found["times"].values()) > 0


@needs_peers
def test_steps_that_pytorch_records_are_those_that_it_does():
    """With graphs of Python functions in the place of CUDA's."""
    found = answer_of_peers("torch_without_gpu")
    for eager, graph in found.values():
        assert len(eager) >= 3 and eager[0] != eager[1]
        assert graph == pytest.approx(eager, rel=RESULTS)
