"""Arrays that are others from run to run: a few recordings, whatever the user does."""

import gc
import sys

import sdbr
from sdbr.backends.cuda import moves

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness import device
from tests.harness.launched import nobody_runs
from tests.harness.models import MLP, Net
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare

RUNS = 10_000
#: The first, each time that a slot more moves, and when all do.
MOST = 1 + moves.MOST + 1
#: Python keeps some blocks of memory for itself, and so does NumPy.
BLOCKS = 300


@pytest.fixture
def unmanned():
    with nobody_runs():
        yield


def replaced_gradients(model, kept, i):
    for p in model.params():
        p.grad = np.empty_like(p.array)


def kept_gradients(model, kept, i):
    """Sometimes somebody holds the gradients of the last step."""
    kept[:] = [p.grad for p in model.params()] if i % 3 else []


def swapped_parameters(model, kept, i):
    if not kept:
        kept += [p.array.copy() for p in model.params()]
    for k, p in enumerate(model.params()):
        kept[k], p.array = p.array, kept[k]


def one_more_each_time(model, kept, i):
    """The worst: no two parameters are replaced in the same step."""
    params = list(model.params())
    if i % 50 == 0:
        p = params[i // 50 % len(params)]
        p.array = p.array.copy()


def everything(model, kept, i):
    for use in (replaced_gradients, swapped_parameters):
        use(model, kept, i)


def nothing(model, kept, i):
    pass


PATTERNS = [
    nothing, replaced_gradients, kept_gradients, swapped_parameters, one_more_each_time, everything,
]  # fmt: skip


@pytest.mark.alone
@pytest.mark.parametrize("by_library", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_memory_stays_flat_over_ten_thousand_steps(unmanned, pattern, by_library):
    """Arguments come in turn from a pool of 64, and the loss is kept or not."""
    rng = np.random.RandomState(0)
    pool = [BATCH(rng) for _ in range(64)]
    kept, losses, seen = [], [], {}
    with (
        device.by_library() as races,
        device.simulated(races=races if by_library else None) as made,
    ):
        model = sdbr.static_graph(classifier(), backend=device.NAME)
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        for i in range(RUNS):
            optimizer.update(model, *pool[i * 7 % 64])
            losses[:] = [model.loss] if i % 2 else losses[:0]
            pattern(model, kept, i)
            if i in (RUNS // 10, RUNS - 1):
                gc.collect()
                seen[i] = device.balance(), sys.getallocatedblocks()
    (step,) = made
    assert model.schedule_manager.statistics.steps == RUNS - 1
    (before, blocks), (after, more) = seen.values()
    assert after == before
    assert more - blocks < BLOCKS
    assert 2 <= step.recorded <= MOST
    assert step.graphs.refused == set()


@pytest.mark.alone
def test_calls_whose_results_are_kept_or_dropped(unmanned):
    """Forwards by hand: arguments from a pool, results that somebody holds now and then."""
    pool = [np.ones((5, 4), "f") for _ in range(64)]
    kept, seen = [], {}
    with device.simulated() as made, chainer.no_backprop_mode():
        net = sdbr.static_graph(
            Net(lambda net, x: F.tanh(net.l(x)), l=L.Linear(4, 3)), backend=device.NAME
        )
        for i in range(RUNS):
            y = net(pool[i * 5 % 64])
            kept[i % 4 :] = [y] if i % 3 else []
            if i in (RUNS // 10, RUNS - 1):
                gc.collect()
                seen[i] = device.balance(), sys.getallocatedblocks()
    assert net.schedule_manager.statistics.replays == RUNS - 1
    (before, blocks), (after, more) = seen.values()
    assert after == before and more - blocks < BLOCKS
    assert sum(x.recorded for x in made) <= MOST


def test_numbers_are_right_when_all_that_can_move_does():
    """Parameters one by one, till it is no use to record once more for each."""

    def each(model, optimizer, i):
        p = list(model.params())[i % 6]
        p.array = p.array.copy()

    with device.simulated() as made:
        compare(classifier, BATCH, OPTIMIZERS["adam"], backend=device.NAME, steps=30, each=each)
    (step,) = made
    assert step.recorded == MOST
    kinds = {step.program.slots[k].kind for k in step.moving}
    assert kinds.isdisjoint({moves.ARENA, moves.CONSTANT})
    assert len(step.moving) == sum(
        slot.kind not in (moves.ARENA, moves.CONSTANT) for slot in step.program.slots
    )


def test_an_arena_that_is_replaced_is_no_reason_to_read_its_address():
    """Steps of one optimizer share an arena, which grows with the largest of them."""
    with device.simulated() as made:
        model = sdbr.static_graph(L.Classifier(MLP(4, 16, 3)), backend=device.NAME)
        optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
        rng = np.random.RandomState(0)
        for n in (2, 3, 9, 20, 2, 3, 9, 20, 2, 3):
            for _ in range(4):
                x = rng.randn(n, 4).astype("f")
                optimizer.update(model, x, np.zeros(n, "i"))
    steps = [x for x in made if x.program.name == "step"]
    assert len(steps) == 4
    for step in steps:
        names = {step.program.slots[k].kind for k in step.moving}
        assert moves.ARENA not in names and step.moving
        assert step.recorded <= 4
    assert max(step.recorded for step in steps) > 2  # arenas were replaced
