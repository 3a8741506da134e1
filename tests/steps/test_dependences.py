"""What kernels have to wait for, and how they are dealt out to streams."""

import random

from sdbr.backends.cuda.recording.dependences import EVERYWHERE, Uses, waits
from sdbr.backends.cuda.recording.lanes import MOST, dealt_out, one_after_the_other

import pytest


def reads(*ranges):
    return Uses(reads=list(ranges))


def writes(*ranges):
    return Uses(writes=list(ranges))


A, B, BOTH = ("m", 0, 8), ("m", 8, 16), ("m", 0, 16)


@pytest.mark.parametrize(
    ("uses", "want"),
    [
        ([writes(A), reads(A)], [[], [0]]),
        ([reads(A), writes(A)], [[], [0]]),
        ([writes(A), writes(A)], [[], [0]]),
        ([reads(A), reads(A), writes(A)], [[], [], [0, 1]]),
        ([writes(A), writes(B), reads(BOTH)], [[], [], [0, 1]]),
        ([writes(BOTH), reads(A), writes(B)], [[], [0], [0]]),
        ([writes(A), reads(B)], [[], []]),
        ([writes(A), reads(("n", 0, 8))], [[], []]),
        ([writes(A), reads(("m", 7, 7)), reads(("m", 7, 8))], [[], [], [0]]),
        # What others wait for already is left out.
        ([writes(A), reads(A), writes(A), reads(A)], [[], [0], [1], [2]]),
        # Memory that may be any.
        ([writes(A), reads(("m", *EVERYWHERE)), writes(B)], [[], [0], [1]]),
        # Its own.
        ([Uses([A], [A]), Uses([A], [A])], [[], [0]]),
    ],
)
def test_what_waits_for_what(uses, want):
    assert waits(uses) == want


def meets(a, b):
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def must_wait(later, earlier):
    pairs = [(later.reads, earlier.writes), (later.writes, earlier.writes)]
    pairs.append((later.writes, earlier.reads))
    return any(meets(a, b) for some, others in pairs for a in some for b in others)


def closed(before):
    """All that come before each, by whatever way."""
    found = []
    for of_it in before:
        found.append(set(of_it).union(*(found[k] for k in of_it)))
    return found


def by_chance(rng, n):
    def ranges():
        lows = [rng.randrange(30) for _ in range(rng.randrange(3))]
        return [(rng.choice("mn"), low, low + 1 + rng.randrange(12)) for low in lows]

    return [Uses(ranges(), ranges()) for _ in range(n)]


@pytest.mark.parametrize("seed", range(40))
def test_kernels_wait_for_what_they_must_and_nothing_else(seed):
    uses = by_chance(random.Random(seed), 25)
    needed = [{k for k in range(i) if must_wait(uses[i], uses[k])} for i in range(len(uses))]
    found = waits(uses)
    assert closed(found) == closed(needed)
    for i, of_it in enumerate(found):  # nothing that another one stands for
        assert all(k not in closed(found)[j] for k in of_it for j in of_it), i


@pytest.mark.parametrize("most", [1, 2, MOST])
@pytest.mark.parametrize("seed", range(20))
def test_streams_keep_what_has_to_come_before(seed, most):
    before = waits(by_chance(random.Random(seed), 40))
    turns = dealt_out(before, most)
    assert max(turn.lane for turn in turns) < most
    last, given = {}, []
    for k, turn in enumerate(turns):
        front = [last[turn.lane]] if turn.lane in last else []
        assert turn.follows == (not turn.waits and bool(front))
        assert all(turns[other].lane != turn.lane for other in turn.waits)
        given.append([*front, *turn.waits])
        last[turn.lane] = k
    for got, want in zip(closed(given), closed(before), strict=True):
        assert got >= want


def test_a_chain_stays_on_its_stream():
    assert dealt_out([[], [0], [1], [2]]) == one_after_the_other(4)


def test_what_forks_and_joins():
    lanes = [(turn.lane, turn.waits) for turn in dealt_out([[], [0], [0], [1, 2]])]
    assert lanes == [(0, ()), (0, ()), (1, (0,)), (1, (1,))]
