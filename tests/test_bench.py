"""The benchmarks' own arithmetic, their errors, and one short run. Nothing here is timed."""

import json
import sys
from pathlib import Path

from sdbr.cli import bench

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / bench.MARK).is_file(), reason="benchmarks/ is missing: not a source checkout"
)


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_without_a_checkout_one_line_says_where_to_run(monkeypatch, capsys):
    monkeypatch.setattr(bench, "find_checkout", lambda: None)
    assert bench.main([]) == 2
    error = capsys.readouterr().err
    assert "checkout" in error and error.count("\n") == 1


def test_the_checkout_is_found():
    assert bench.find_checkout() == ROOT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mlp_huge"], "no case 'mlp_huge'"),
        (["--peers", "chainer,tensorflow"], "no peer 'tensorflow'"),
        (["--rounds", "0"], "must be above 0"),
        (["--threads", "0"], "must be above 0"),
        (["--minutes", "0"], "must be above 0"),
        (["--device", "cuda", "--peers", "chainer,c"], "'c' does not run with --device cuda"),
        (["--peers", "sdbr-cuda"], "'sdbr-cuda' does not run with --device cpu"),
        (["--peer-python", "/no/such/python"], "no such program"),
        (["--json", "/no/such/directory/f.json"], "no such directory"),
    ],
)
def test_wrong_commands(capsys, arguments, message):
    assert bench.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_ways_and_rules_run_one_after_the_other(monkeypatch, tmp_path):
    from benchmarks import driver

    commands = []
    monkeypatch.setattr(driver.subprocess, "call", lambda c, **_: commands.append(c) or 1)
    arguments = ["--ways", "--rounds", "3", "--json", str(tmp_path / "found.json")]
    assert bench.main(arguments) == 1
    assert [c[2] for c in commands] == ["benchmarks.ways", "benchmarks.rules"]
    assert [Path(c[-1]).name for c in commands] == ["found-ways.json", "found-rules.json"]
    assert all("3" in c for c in commands) and "--product" in commands[1]


def test_every_case_and_its_numbers_are_the_same_each_time():
    import dataclasses

    from benchmarks import cases

    for name in cases.NAMES:
        case = cases.load(name)
        assert case.name == name
        case = dataclasses.replace(case, ring=2)
        assert case.inputs().shape == (2, case.batch, *case.sample_shape)
        assert (case.inputs() == case.inputs()).all()
        assert (case.labels() == case.labels()).all()
        assert case.labels().max() < case.n_classes
        if name != "resnet50":  # 25 million numbers
            first, second = (_arrays(case.weights()) for _ in range(2))
            assert all((a == b).all() for a, b in zip(first, second, strict=True))


def _arrays(weights):
    if isinstance(weights, dict):
        return list(weights.values())
    return [array for pair in weights for array in pair]


def test_chainer_has_a_place_for_every_weight_of_a_network():
    from benchmarks import cases
    from benchmarks.peers.chainer_networks import NETWORKS

    for name in cases.NAMES:
        case = cases.load(name)
        if case.network == "perceptron":
            continue
        network = NETWORKS[case.network]()
        have = {path[1:]: param.shape for path, param in network.namedparams()}
        assert have == {path: shape for path, shape, _ in case.specs()}


def test_the_replay_buffer_holds_samples_of_the_case():
    from benchmarks import cases
    from benchmarks.cases import replay

    for name in ("dqn_cartpole", "dqn"):
        case = cases.load(name)
        buffer = replay.buffer(case)
        assert buffer.obs.shape == buffer.obs_next.shape == (case.transitions, *case.sample_shape)
        rows = replay.Sampler(case).rows()
        assert rows.shape == (case.batch,) and (rows == replay.Sampler(case).rows()).all()


def test_threads_reach_the_workers():
    from benchmarks import machine, pool

    two = pool.environment(True, (0, 1), 2)
    assert two["OMP_NUM_THREADS"] == two["OPENBLAS_NUM_THREADS"] == "2"
    assert "intra_op_parallelism_threads=2" in two["XLA_FLAGS"]
    assert two["SDBR_BENCH_CPU"] == "0,1"
    assert "SDBR_BENCH_CPU" not in pool.environment(True, ())
    assert len(machine.last_cores(1)) <= 1


def test_the_deep_chain_keeps_its_signal():
    import numpy as np

    from benchmarks import cases

    case = cases.load("deep_chain")
    h = case.inputs()[0]
    for weight, bias in case.weights():
        h = np.maximum(h @ weight.T + bias, 0)
    assert (h > 1e-3).any()


def test_targets_name_cases_and_peers_that_exist():
    from benchmarks import cases, targets
    from benchmarks.peers import PEERS

    assert {targets.SDBR, targets.SDBR_ALONE} <= set(PEERS)
    for target in targets.TARGETS:
        assert target.part in cases.load(target.case).parts
        assert set(target.against) <= set(PEERS)


def spreads(**medians):
    from benchmarks.stats import spread

    return {("step", name.replace("_", ".")): spread([value]) for name, value in medians.items()}


def test_verdicts():
    from benchmarks import targets

    times = spreads(chainer=30.0, jax=2.0) | spreads(**{"sdbr-cython": 1.0})
    by_chainer, by_jax = targets.judge("mlp_tiny", times)
    assert by_chainer.met and by_chainer.ratio == pytest.approx(1 / 30)
    assert by_jax.met is False
    times = spreads(torch=3.0, torch_compile=2.0, jax=4.0) | spreads(**{"sdbr-cython": 2.1})
    (best,) = targets.judge("mlp_mnist", times)
    assert best.ratio == pytest.approx(1.05) and not best.met
    times = spreads(torch=2.0) | spreads(**{"sdbr-cython": 1.5, "sdbr-own": 1.3})
    verdicts = targets.judge("lenet", times)
    ratios = {(v.target.own, *v.target.against): v.ratio for v in verdicts}
    assert ratios["sdbr-cython", "torch"] == pytest.approx(0.75)
    assert ratios["sdbr-own", "torch"] == pytest.approx(0.65)
    (absent, _) = targets.judge("mlp_tiny", spreads(jax=2.0))
    assert absent.ratio is None and absent.met is None


def test_limits_read_as_in_the_table():
    from benchmarks.targets import limit_as_text

    assert [limit_as_text(x) for x in (1 / 30, 0.33, 0.75, 1.0, 1 / 4)] == [
        "1/30", "0.33", "0.75", "1.00", "1/4",
    ]  # fmt: skip


def test_differences_between_peers():
    from benchmarks.measure import relative_difference

    assert relative_difference([1.0, -2.0], [1.0, -2.2]) == pytest.approx(0.1)
    assert relative_difference([1.0], [1.0, 2.0]) == float("inf")
    assert relative_difference([1.0], [float("nan")]) == float("inf")
    assert relative_difference([0.0], [0.0]) == 0.0


def test_times_have_a_fitting_unit():
    from benchmarks.stats import seconds_as_text

    texts = [seconds_as_text(x) for x in (2.5, 0.0125, 12.3e-6, 1234e-9, 5e-9)]
    assert texts == ["2.5 s", "12.5 ms", "12.3 us", "1.23 us", "5 ns"]


def test_the_command_holds_no_directory():
    from benchmarks.report import command

    arguments = ["mlp_tiny", "--peer-python", "/some/where/bin/python", "--json", "./a/b.json"]
    assert command(arguments) == (
        "python -m sdbr bench mlp_tiny --peer-python python --json b.json"
    )


def test_the_floor_of_a_step(monkeypatch):
    from benchmarks import floor

    # The peer sets its backend for good.
    monkeypatch.setattr(floor.chainer.global_config, "sdbr_backend", "cython", raising=False)
    monkeypatch.setattr(floor, "gemm_rate", lambda: 1e9)
    monkeypatch.setattr(floor, "stream_rate", lambda: 1e9)
    found = floor.measure("mlp_tiny")
    layers = [2 * 32 * n_in * n_out for n_in, n_out in ((4, 64), (64, 64), (64, 2))]
    # Going forward, the gradients of the weights, and of all inputs but the first.
    expected = 3 * sum(layers) - layers[0]
    assert sum(found["operations"].values()) == expected
    params = 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2
    assert found["floor"]["sum"] == pytest.approx(1e-9 * (expected + 28 * params))
    assert {"linear", "adam"} <= {entry["op"] for entry in found["ops"]}
    assert "measured" in floor.text(found)


def test_a_short_run_checks_measures_and_writes(tmp_path, capsys):
    out = tmp_path / "figures.json"
    arguments = ["infer_tiny", "--peers", "chainer,sdbr-cython,torch", "--rounds", "2"]
    assert bench.main([*arguments, "--seconds", "0.001", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "left out: torch: no --peer-python" in printed
    assert "target step: at most 1/4 of jax: not measured" in printed
    result = json.loads(out.read_text())
    (case,) = result["cases"]
    assert {r["peer"] for r in case["times_us"]} == {"chainer", "sdbr-cython"}
    assert all(len(r["samples"]) == 2 for r in case["times_us"])
    # What was timed as static were replays.
    (counted,) = case["facts"]["sdbr-cython"]["statistics"]
    assert counted["replays"] > 0 and counted["define_by_run_calls"] == 0
    assert str(Path(sys.prefix)) not in out.read_text()


def test_a_tree_against_itself(tmp_path, capsys):
    from benchmarks import against
    from benchmarks.pool import ROOT

    out = tmp_path / "turns.json"
    arguments = ["infer_tiny", "--pairs", "2", "--rounds", "3", "--seconds", "0.001"]
    assert against.main([str(ROOT), *arguments, "--json", str(out)]) == 0
    assert "infer_tiny step" in capsys.readouterr().out
    (case,) = json.loads(out.read_text())["cases"]
    assert len(case["other_us"]) == len(case["this_us"]) == 6
    assert case["best"] == pytest.approx(min(case["this_us"]) / min(case["other_us"]))
    assert str(ROOT) not in out.read_text()


def test_a_row_of_an_example(capsys):
    from benchmarks.examples import __main__ as examples

    assert examples.main(["glance", "--rounds", "1", "--seconds", "0.001"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "glance" in line]
    assert "| model, optimizer | 1, " in row and row.count("|") == 8
    names = [example.name for example in examples.EXAMPLES]
    assert len(set(names)) == len(names) > 30
    with pytest.raises(SystemExit):
        examples.main(["no such example"])


def test_a_tree_that_is_none(tmp_path, capsys):
    from benchmarks import against

    with pytest.raises(SystemExit):
        against.main([str(tmp_path), "infer_tiny"])
    assert "TREE: expected the root of a checkout" in capsys.readouterr().err


def test_a_peer_that_computes_something_else_is_not_timed(monkeypatch):
    from benchmarks import measure

    monkeypatch.setattr(
        measure, "relative_difference", lambda expected, found: 1.0 if expected != found else 0.0
    )
    outcome = measure.Outcome("infer_tiny")

    class Fake:
        def __init__(self, values):
            self.values = values

        def ask(self, **request):
            return {"values": self.values}

        def close(self):
            pass

    from benchmarks import cases

    workers = {"torch": Fake([2.0]), "chainer": Fake([1.0])}
    measure._check(cases.load("infer_tiny"), workers, outcome, lambda text: None, None)
    assert list(workers) == ["chainer"]
    assert "differs from chainer" in outcome.wrong["torch"]


def test_every_native_function_is_timed():
    from sdbr.functions.registry import function_of, registered

    import chainer
    import numpy as np

    from benchmarks.ops.__main__ import CASES
    from benchmarks.ops.case import Size
    from benchmarks.ops.timing import Runner
    from tests.equivalence.cases import CASES as KNOWN

    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    native = {case.name for case in KNOWN if case.native} - {"composite", "operator"}
    assert not native - {name.partition(" ")[0] for name in names}
    seen = set()

    class Classes(chainer.FunctionHook):
        name = "Classes"

        def forward_preprocess(self, function, in_data):
            kind = type(function_of(function))
            seen.add(f"{kind.__module__}.{kind.__qualname__}")

    with np.errstate(all="ignore"), Classes():
        for case in CASES:
            Runner(case.call, case.arrays(Size("small", 1024), "f"), []).run()
    assert not set(registered()) - seen


def test_functions_against_chainers(tmp_path, capsys):
    from benchmarks.ops import __main__ as ops

    out = tmp_path / "ops.json"
    arguments = ["--only", "sum axis 0,~pad im", "--sizes", "cache", "--seconds", "0.001"]
    assert ops.main([*arguments, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert [row["case"] for row in found["records"]][-1] == "pad images"
    for row in found["records"]:
        both = row["both"]
        assert both["ratio"] == pytest.approx(both["static_us"] / both["plain_us"], abs=2e-3)
    text = capsys.readouterr().out
    assert "| pad images | cache |" in text and "| cache | " in text
    with pytest.raises(SystemExit):
        ops.main(["--only", "no such function"])


def test_lengths_of_an_odd_size_are_primes_and_its_arrays_are_off_alignment():
    import numpy as np

    from benchmarks.ops.case import SIZES, Case, prime_below
    from tests.equivalence.arguments import N

    assert [prime_below(n) for n in (1, 2, 4, 64, 97)] == [2, 2, 3, 61, 97]
    case = Case("case", abs, lambda s: [N(s.rows(s(64)), s(64))])
    (even,), (odd,) = (case.arrays(SIZES[name], "f") for name in ("cache", "odd"))
    assert even.shape == (64, 64) and odd.shape == (4297, 61)
    assert odd.__array_interface__["data"][0] % 16 != 0 and np.isfinite(odd).all()


def test_wild_programs_are_many_and_a_few_run(capsys):
    from benchmarks.wild import __main__ as wild

    assert len(wild.PROGRAMS) >= 40
    wild.main(["siamese", "history", "lsgan", "--calls", "6", "--rounds", "1", "--double"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["siamese", "history", "lsgan"]
    assert "replays" in lines[1] and "replays" in lines[3]
    assert "numbers differ: none" in lines[-1]


def test_wild_programs_that_differ_are_found():
    import numpy as np

    from benchmarks.wild.__main__ import difference, numbers

    a = numbers((np.ones(3), 2.0))
    assert difference(a, numbers([np.ones(3), 2.0])) == 0
    assert difference(a, numbers([np.ones(3), 2.5])) == 0.25
    assert difference(a, numbers([np.ones(3), np.nan])) == float("inf")
    assert difference(a, numbers([np.ones(2), 2.0])) == float("inf")
