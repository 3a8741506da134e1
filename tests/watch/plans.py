"""Plans of checks, beside guards that are asked one by one."""

from __future__ import annotations

from sdbr.trace.watch.plan._checks import failed
from sdbr.trace.watch.watching import watch

import chainer
import numpy as np


def given():
    return (chainer.Variable(np.ones((2, 2), "f")),)


class Plain:
    """Has attributes."""


def one_by_one(reads, args=(), kwargs=None):
    """What the guards say that are asked one by one; as a text."""
    steps = [(source, reads._by_source[source.number]) for source in reads.sources]
    return str(failed(steps, [None] * len(steps), (args, kwargs or {})))


def agrees(reads, args=(), kwargs=None):
    """The text of the guard that does not hold, as both ways of asking say."""
    found = str(reads.check(args, kwargs or {}))
    assert found == one_by_one(reads, args, kwargs)
    return found


#: Which their guards do not keep alive.
FUNCTIONS: list = []


def planned(function, args=(), kwargs=None, keeps=True):
    """What a call has read, of which a plan is noted."""
    _, reads = watch(function, args, kwargs)
    if keeps:
        FUNCTIONS.append(function)
    assert not reads.dynamic
    assert reads.check(args, kwargs or {}) is None
    assert holds_by_plan(reads, args, kwargs)
    return reads


def holds_by_plan(reads, args=(), kwargs=None):
    """Whether nothing has to be asked anew."""
    return reads._checks.plan.check(args, kwargs or {})


def words(reads):
    return reads._checks.plan.by_words()


def noted(function, args=(), kept=None):
    """What a call has read, for which words are noted and have been enough."""
    reads = planned(function, args)
    settle(reads, args, kept)
    return reads


def settle(reads, args=(), kept=None):
    """After these checks words are enough; `kept`: the number of tests that are run beside them."""
    for _ in range(3):
        assert holds_by_plan(reads, args)
    n, run, before = words(reads)
    assert holds_by_plan(reads, args)
    assert words(reads) == (n, run, before + 1) and before > 0
    if kept is not None:
        assert run == kept and n > 0
