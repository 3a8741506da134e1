"""Parts are processes of their own: whatever becomes of one, the others run; all is recorded."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from sdbr.cli.gpu_check import conduct, tools
from sdbr.cli.gpu_check.conduct import LOG, RESULT, Conductor
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.parts import Part

import pytest

from tests.harness.fed import is_running
from tests.harness.threads import attempts

ROOT = Path(__file__).resolve().parents[2]
FINDS = "import json, pathlib, sys, time, os; f = pathlib.Path(sys.argv[1]); "
PROGRAMS = {
    "right": "f.write_text(json.dumps({'a': 1}))",
    "wrong": "f.write_text(json.dumps({'a': {'error': ['x']}})); print('one thing'); sys.exit(1)",
    "dies": "f.write_text(json.dumps({'a': 2})); print('before', flush=True); os.abort()",
    "raises": "1 / 0",
    "hangs": "f.write_text(json.dumps({'a': 3})); f.with_suffix('.more.json').touch(); "
    "print('waits', flush=True); time.sleep(1000)",
    "spoils": "f.write_text('{')",
    "last": "f.write_text(json.dumps({'seconds': float(sys.argv[2])}))",
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs programs as parts, of so many seconds; what the file says then."""
    monkeypatch.setattr(conduct, "_LOOK", 0.05)
    monkeypatch.setattr(conduct, "_GRACE", 0.0)

    def command(part, path, seconds):
        words = [FINDS + PROGRAMS[part.name], str(path), str(seconds)]
        return [sys.executable, "-c", *words]

    def made(*names, seconds=600.0, shares=None):
        shares = shares or [1.0] * len(names)
        conductor = Conductor(tmp_path / "out", {"of": "all"}, command)
        chosen = [Part(name, name, name, share) for name, share in zip(names, shares, strict=True)]
        conductor.run(chosen, seconds)
        return json.loads((tmp_path / "out" / RESULT).read_text())

    return made


def test_what_becomes_of_parts(run, tmp_path):
    result = run("right", "wrong", "dies", "raises", "spoils", "last")
    assert result["of"] == "all"
    states = {name: part["state"] for name, part in result["parts"].items()}
    assert states == {
        "right": "done", "wrong": "failed", "dies": "died", "raises": "failed", "spoils": "done",
        "last": "done",
    }  # fmt: skip
    found = {name: part["found"] for name, part in result["parts"].items()}
    assert found["right"] == {"a": 1} and found["dies"] == {"a": 2} and found["spoils"] == {}
    assert result["parts"]["dies"]["exit_code"] == -signal.SIGABRT
    assert "before" in result["parts"]["dies"]["said"]
    assert result["parts"]["raises"]["said"][-1] == "ZeroDivisionError: division by zero"
    assert "said" not in result["parts"]["right"]
    log = (tmp_path / "out" / LOG).read_text()
    assert "== wrong\none thing\n== dies\nbefore" in log
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [RESULT, LOG]


@pytest.mark.alone
def test_a_part_that_takes_too_long_is_ended(run, tmp_path):
    """Before that it has to begin, for which the limit leaves some seconds."""
    result = run("hangs", "last", seconds=80.0, shares=[1, 15])
    first, last = result["parts"].values()
    assert (first["state"], first["found"]) == ("out of time", {"a": 3})
    assert first["limit_s"] == 5.0 and 5.0 <= first["seconds"] < 65.0  # it would take 1000
    assert "waits" in first["said"]
    assert last["state"] == "done" and last["found"]["seconds"] < 75.0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [RESULT, LOG]


def test_what_is_left_is_for_those_behind(run):
    result = run("right", "last", seconds=1000.0, shares=[9, 1])
    assert result["parts"]["right"]["limit_s"] == 900.0
    assert result["parts"]["last"]["found"]["seconds"] > 900.0


def test_without_time_nothing_begins(run):
    result = run("right", "last", seconds=0.0)
    assert [part["state"] for part in result["parts"].values()] == ["out of time"] * 2


def test_all_that_a_part_has_started_ends_with_it(run, tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    program = f"""
        import subprocess
        one = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        open({str(pid)!r}, "w").write(str(one.pid))
    """
    monkeypatch.setitem(PROGRAMS, "right", "\n" + textwrap.dedent(program))
    run("right")
    number = int(pid.read_text())
    for _ in attempts("what the part has started ends"):
        if not is_running(number):
            break
        time.sleep(0.05)


def test_the_file_is_written_while_a_part_runs(tmp_path):
    """Whoever ends the check itself keeps what was found, and ends what it has started."""
    program = f"""
        import signal, sys
        from pathlib import Path
        from sdbr.cli.gpu_check import conduct
        from sdbr.cli.gpu_check.parts import Part
        conduct._LOOK = 0.05
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        code = {FINDS + PROGRAMS["hangs"]!r}
        made = conduct.Conductor(
            Path({str(tmp_path)!r}), {{}}, lambda part, path, _: [sys.executable, "-c", code, path]
        )
        made.run([Part("hangs", "", "", 1)], 600.0)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT)
    path = tmp_path / RESULT
    try:
        for _ in attempts("what a part has found is in the file"):
            time.sleep(0.05)
            found = json.loads(path.read_text())["parts"] if path.exists() else {}
            if found.get("hangs", {}).get("found"):
                break
        assert found["hangs"]["state"] == "running" and found["hangs"]["found"] == {"a": 3}
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.terminate()  # killed, it would leave what hangs behind
        process.wait(60)


@pytest.mark.alone
def test_programs_of_parts_are_heard_and_ended(capfd):
    """What hangs has said before what it has to say, for which the limit leaves some seconds."""
    code, said = tools.run(tools.python("-c", "print('a'); print('b')"), 60.0)
    assert (code, said) == (0, ["a", "b"])
    words = "import os, time; print(os.environ['X'], flush=True); time.sleep(1000)"
    code, said = tools.run(tools.python("-c", words), 5.0, environment={"X": "seen"})
    assert (code, said) == (None, ["seen"])
    assert capfd.readouterr().out == "a\nb\nseen\n"


def test_tools_are_found_where_cuda_puts_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "_FOLDERS", (str(tmp_path / "cuda-*" / "bin"),))
    monkeypatch.setenv("PATH", "")
    assert tools.find("ncu") is None
    for version in ("12", "13"):
        path = tmp_path / f"cuda-{version}" / "bin" / "ncu"
        path.parent.mkdir(parents=True)
        path.touch(0o755)
    assert tools.find("ncu") == str(path)
    path.chmod(0o644)
    assert tools.find("ncu").endswith("cuda-12/bin/ncu")


def test_a_job_without_time_measures_no_more(tmp_path):
    job = Job(tmp_path / "found.json", 0.0)
    assert job.measure("thing", lambda: pytest.fail("it was measured")) is None
    assert json.loads(job.path.read_text()) == {"thing": {"error": "no time was left for it"}}
