"""Two ranks by MPI: whichever way each goes, they stay alike; one that fails ends the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import ranks

FAILING = Path(__file__).with_name("failing_ranks.py")
MIXED = Path(__file__).with_name("mixed_ranks.py")


@ranks.with_mpi
@pytest.mark.parametrize(
    "ways",
    [
        ("static", "static"),
        ("static", "define-by-run"),
        ("late", "static"),
        ("off", "by hand"),
    ],
    ids=" and ".join,
)
@pytest.mark.parametrize("overlap", ["0", "1"])
def test_ranks_may_go_different_ways(ways, overlap, monkeypatch):
    monkeypatch.setenv("SDBR_OVERLAP", overlap)
    done = ranks.start(2, MIXED, "float16,float32,float64", *ways)
    assert done.returncode == 0, done.stderr
    for dtype, found in json.loads(done.stdout).items():
        (steps, t, gradients), (others, also, theirs) = found
        assert t == also == 7, dtype  # the first update sends the parameters
        assert gradients == theirs, dtype
        for way, n in zip(ways, (steps, others), strict=True):
            # One of seven makes the programs, and one is audited, part by part.
            assert n >= {"static": 5, "late": 1}.get(way, 0), dtype


#: By what rank 1 does: the exit status, and what is said.
FAILURES = {
    "error": (1, "rank 1 of 2: KeyError: 'no such thing' at {raises}"),
    "thread": (1, "rank 1 of 2: KeyError: 'no such thing' at {raises}, in a thread that trains"),
    "interrupt": (1, "rank 1 of 2: KeyboardInterrupt at {interrupts}"),
    "exit": (3, "rank 1 of 2: exit status 3 at {exits}"),
    "raised exit": (4, "rank 1 of 2: exit status 4 at {raises exit}"),
    "imported exit": (1, "rank 1 of 2: exit status 'no more data' at {leaves}"),
    "ends well": (
        1,
        "rank 0 of 2: waits in update 5 for rank 1, which has ended after 4 updates at {ends}",
    ),
    "stops": (
        1,
        "rank 0 of 2: waits in update 5 for rank 1, which has ended after 4 updates; all",
    ),
    "exit at once": (3, ""),
    "shape": (
        1,
        "ranks have different parameters, so nothing was sent: /predictor/W (float32[3, 4], "
        "ndarray) on rank 0, /predictor/W (float32[4, 4], ndarray) on rank 1",
    ),
    "more": (
        1,
        "nothing was sent: /predictor/W (float32[3, 4], ndarray) on rank 0, /more/W",
    ),
    "sends": (
        1,
        "nothing was sent: gradients, how they are sent (after it, [15]) on rank 0, gradients, how "
        "they are sent (while the backward runs, [15]) on rank 1",
    ),
    "value": (1, "ranks differ after update 5: parameter /predictor/W is not the same on ranks 0"),
    "count": (1, "rank 0 has made 5 updates, and rank 1 6"),
}


def line(text: str) -> str:
    """The first line of the script that has a text."""
    lines = FAILING.read_text().splitlines()
    return f"{FAILING}:{next(i for i, found in enumerate(lines, 1) if text in found)}"


LINES = {
    "raises": line("raise KeyError"),
    "interrupts": line("raise KeyboardInterrupt"),
    "exits": line("sys.exit(3)"),
    "raises exit": line("raise SystemExit(4)"),
    "leaves": line("leave("),
    "ends": line("sys.exit(0)"),
}


@ranks.with_mpi
@pytest.mark.parametrize("how", FAILURES)
def test_one_rank_ends_the_job(how):
    """Without hooks this hangs: `ranks.start` gives up then."""
    done = ranks.start(2, FAILING, how)
    status, text = FAILURES[how]
    assert done.returncode == status
    assert text.format(**LINES) in done.stderr


@ranks.with_mpi
@pytest.mark.parametrize("how", ["caught", "caught and left", "stays"])
def test_an_exit_that_is_caught_or_in_time_ends_nothing(how):
    done = ranks.start(2, FAILING, how)
    assert done.returncode == 0, done.stderr
