"""Arenas and gradient arrays that schedules of one model share: what users keep stays as it is."""

from __future__ import annotations

import threading

import sdbr
from sdbr.call.step.whole import STEPS

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.steps import alike, trained_pairs, warmed
from tests.harness.threads import join, start
from tests.harness.threads import wait as wait_for
from tests.tolerances import GRADIENTS, RESULTS


class Net(chainer.Chain):
    """A loss."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 5)
            self.l2 = L.Linear(5, 3)

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)


def batch(rows):
    rng = np.random.RandomState(rows)
    return rng.randn(rows, 4).astype("f"), rng.randint(0, 3, rows).astype("i")


def pairs(**options):
    return trained_pairs(Net, **options)


def runners_of(optimizer):
    return list(optimizer.__dict__[STEPS])


def arena_of(runner):
    return runner.executable.memory.array(runner.executable.program.arena_slot())


def test_steps_of_all_sizes_work_in_one_arena_and_write_one_set_of_gradients():
    _, (static, optimizer) = pairs()
    givens = [batch(4 + 3 * i) for i in (3, 0, 2, 1)]
    warmed(static, lambda given: optimizer.update(static, *given), givens)
    runners = runners_of(optimizer)
    assert len(runners) == 4
    (arena,) = {id(arena_of(runner)): arena_of(runner) for runner in runners}.values()
    assert arena.nbytes == max(runner.executable.program.arena_bytes for runner in runners)
    arrays = set()
    for given in givens * 2:
        optimizer.update(static, *given)
        arrays.add(tuple(id(p.grad) for p in static.params()))
    assert len(arrays) == 1
    (facts,) = sdbr.explain(static).to_dict()["managers"]
    works = sum(s["memory_bytes"] for s in facts["schedules"])
    assert facts["memory_bytes"] < works


@pytest.mark.parametrize("keep", ["array", "view", "variable", "dropped", "replaced", "cleared"])
def test_gradients_that_the_user_keeps_are_not_written_by_steps_of_other_sizes(keep):
    (plain, reference), (static, optimizer) = pairs(rule=optimizers.SGD)
    givens = [batch(3 + i) for i in range(3)]
    kept, copies = [], []

    def look(model):
        grads = [p.grad for p in model.params()]
        if keep == "view":
            grads = [x[:1] for x in grads]
        if keep == "variable":
            grads = [p.grad_var for p in model.params()]
        for p in model.params():
            if keep in ("dropped", "cleared"):
                p.cleargrad()
            if keep == "replaced":
                p.grad = np.full_like(p.array, 7)
        return [] if keep == "cleared" else grads

    def run(given):
        reference.update(plain, *given)
        optimizer.update(static, *given)

    warmed(static, run, givens)
    before = static.schedule_manager.statistics.steps
    for given in givens * 3:
        run(given)
        alike(static, plain)
        one, other = look(plain), look(static)
        kept += other
        copies += [np.array(getattr(x, "array", x)) for x in one]
    assert static.schedule_manager.statistics.steps == before + 9
    for have, want in zip(kept, copies, strict=True):
        np.testing.assert_allclose(getattr(have, "array", have), want, GRADIENTS)
    assert len({id(x) for x in kept}) == len(kept)


def test_calls_without_a_graph_work_in_one_arena_and_keep_their_results():
    (plain, _), (static, _) = pairs()
    givens = [batch(4 + 3 * i) for i in (2, 0, 3, 1)]
    kept = []
    with chainer.no_backprop_mode():
        warmed(static, lambda given: static(*given), givens)
        before = static.schedule_manager.statistics.replays
        for given in givens * 3:
            kept.append((static(*given), plain(*given)))
    assert static.schedule_manager.statistics.replays == before + 12
    for have, want in kept:
        np.testing.assert_allclose(have.array, want.array, RESULTS)
    table = static.schedule_manager.runners
    assert len(table) == 4 and len({id(arena_of(runner)) for runner in table}) == 1
    schedules = [runner.schedule for runner in table]
    instances = [instance for schedule in schedules for instance in schedule.instances]
    assert instances and {id(arena_of(x)) for x in instances} == {id(arena_of(next(iter(table))))}


def test_an_arena_is_as_large_as_the_largest_schedule_that_is_left():
    _, (static, optimizer) = pairs(max_schedules=2)
    run = [batch(n) for n in (400, 3)] * 6
    for given in run:
        optimizer.update(static, *given)
    before = {arena_of(runner).nbytes for runner in runners_of(optimizer)}
    for given in [batch(n) for n in (4, 5)] * 12:
        optimizer.update(static, *given)
    (after,) = {arena_of(runner).nbytes for runner in runners_of(optimizer)}
    assert len(before) == 1 and after < before.pop()


def test_a_call_within_a_call_has_an_arena_of_its_own():
    @sdbr.static_code
    def again(inputs):
        return (deeper(inputs[0][:2], False).array * 2,)

    @sdbr.static_graph(on_dynamic="raise")
    def deeper(x, further):
        h = F.tanh(F.exp(x) * 2) + 1
        if further:
            (y,) = again(inputs=[h])
            h = F.concat([F.tanh(h) * h, y], 0)
        return F.tanh(h) * 3

    def want(x, further):
        h = np.tanh(np.exp(x) * 2) + 1
        if further:
            h = np.concatenate([np.tanh(h) * h, want(h[:2], False) * 2])
        return np.tanh(h) * 3

    x = batch(5)[0]
    with chainer.no_backprop_mode():
        for turn in range(9):
            before = deeper.schedule_manager.statistics.replays if turn else 0
            for given in ((x, False), (x[:2], False), (x, True)):
                np.testing.assert_allclose(deeper(*given).array, want(*given), RESULTS)
    assert deeper.schedule_manager.statistics.replays == before + 4
    # Those inside run while the arena is taken.
    assert len({id(arena_of(runner)) for runner in deeper.schedule_manager.runners}) > 1


def test_threads_that_call_at_once_have_arenas_of_their_own():
    inside, go = threading.Event(), threading.Event()
    waits = []

    @sdbr.static_code
    def wait():
        if waits:
            inside.set()
            wait_for(go, "calls of another thread")

    @sdbr.static_graph(on_dynamic="raise")
    def call(x, further):
        h = F.tanh(F.exp(x) * 2) + 1
        if further:
            wait()
        return F.tanh(h * h) * 3

    x = batch(6)[0]
    want = np.tanh((np.tanh(np.exp(x) * 2) + 1) ** 2) * 3
    with chainer.no_backprop_mode():
        for _ in range(8):
            call(x, True), call(x[:3], False)
    found = []

    def run():
        with chainer.no_backprop_mode():
            found.append(call(x, True).array)

    waits.append(True)
    before = call.schedule_manager.statistics.replays
    thread = start(run)
    wait_for(inside, "the call that waits")
    with chainer.no_backprop_mode():
        for _ in range(3):
            found.append(call(x[:3] * 1, False).array)
    go.set()
    join(thread)
    assert call.schedule_manager.statistics.replays == before + 4
    for have in found:
        np.testing.assert_allclose(have, want[: len(have)], RESULTS)
