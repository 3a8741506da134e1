"""Rows 5, 11 and 19, with threads: whatever another thread does to a training, nothing crashes."""

from __future__ import annotations

import gc
import weakref

import sdbr
from sdbr.program._memory import Memory

import chainer
import numpy as np
import pytest
from chainer import links as L

from .apart import apart
from .races import RACES
from .racing import FEWEST
from .together import together

PARTS = 4


@pytest.mark.alone
@pytest.mark.parametrize("part", range(PARTS))
def test_training_while_another_thread_gets_in_the_way(part, share):
    names = share(list(RACES)[part::PARTS])
    seconds = ("--seconds", "0.6")
    lines = apart("tests.soak.racing", *seconds, "--only", *names, limit=900).splitlines()
    assert [line.split()[0] for line in lines] == names
    for line in lines:
        _, steps, rounds, _ = line.split(maxsplit=3)
        assert int(steps) >= FEWEST and int(rounds) >= FEWEST, line


def set_up():
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    batch = np.ones((2, 4), "f"), np.zeros(2, "i")
    for _ in range(3):
        optimizer.update(model, *batch)
    return model, optimizer, batch


def test_a_plan_that_was_found_changed_declines():
    model, optimizer, _ = set_up()
    plan = optimizer.update_plan
    memory = Memory(0, plan.n_control)
    assert plan.check() and plan.prepare(memory, 0)
    optimizer.setup(model)  # by another thread, behind a first check
    assert not plan.check()
    assert not plan.prepare(memory, 0)


def test_a_program_of_another_plan_is_not_used():
    model, optimizer, batch = set_up()
    model.cleargrads()
    model(*batch).backward()
    optimizer.update()
    engine = optimizer._sdbr_engine
    first = engine.native
    model.add_param("more", (3,), initializer=0)
    optimizer.setup(model)
    assert optimizer.update_plan is engine.plan is not first.plan
    engine.native = first  # by another thread, in between
    model.cleargrads()
    model(*batch).backward()
    optimizer.update()
    assert engine.native is not first and engine.native.plan is engine.plan


def test_an_update_in_an_update_of_another_thread_is_chainers_own():
    model, optimizer, batch = set_up()
    model(*batch).backward()
    optimizer.update()
    calls = optimizer.update_statistics.native_calls
    (program,) = optimizer._sdbr_engine.native.programs
    memory = program.memory
    assert memory.take() and not memory.take()
    together(1, lambda _: optimizer.update())
    assert optimizer.update_statistics.native_calls == calls
    optimizer.update()  # on memory of its own
    assert memory is not optimizer._sdbr_engine.native.programs[0].memory
    assert optimizer.update_statistics.native_calls == calls + 1


def test_the_runner_of_a_step_holds_its_arguments_only_meanwhile():
    model, optimizer, batch = set_up()
    x, t = chainer.Variable(batch[0].copy()), batch[1].copy()
    for _ in range(2):
        optimizer.update(model, x, t)
        with chainer.no_backprop_mode():
            model(x, t)
    gone = weakref.ref(x)
    assert model.schedule_manager.statistics.replays >= 3
    del x
    gc.collect()
    assert gone() is None
