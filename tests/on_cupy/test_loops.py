"""Loops as users write them: all that can be seen is as define-by-run has it, audited or not."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import cupy
import numpy as np
import pytest

from .loops import LOOPS
from .programs import Way, assert_alike

EVERY = 1e9


@pytest.mark.parametrize("setting", ["auto", EVERY])
@pytest.mark.parametrize("name", LOOPS)
def test_loop(name, setting):
    program, replays = LOOPS[name]
    found = []
    for way in (Way(False), Way(True)):
        np.random.seed(7)
        cupy.random.seed(7)
        with warnings.catch_warnings(), chainer.using_config("sdbr_audit", setting):
            warnings.simplefilter("error", sdbr.SdbrWarning)
            warnings.filterwarnings("ignore", ".*five of the last eight", sdbr.SdbrWarning)
            found.append(program(way))
    assert_alike(found[1], found[0])
    managers = [m.schedule_manager for m in way.made if getattr(m, "schedule_manager", None)]
    statistics = [manager.statistics for manager in managers]
    assert sum(s.replays for s in statistics) >= replays, statistics
    audits = [manager.audits for manager in managers]
    assert sum(a.failed + a.inconclusive for a in audits) == 0
    assert sum(a.passed for a in audits) >= (replays if setting == EVERY else 1)
