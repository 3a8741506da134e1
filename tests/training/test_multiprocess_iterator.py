"""What workers assemble in shared memory is what Chainer's iterators and converter give."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import random
from multiprocessing import shared_memory

import sdbr
from sdbr.training import MultiprocessIterator, StandardUpdater
from sdbr.training.feed import ahead
from sdbr.training.feed.layout import learn
from sdbr.training.feed.segments import Slots
from sdbr.training.feed.worker import Seeds, Task, Work

import chainer
import numpy as np
import pytest
from chainer import iterators, optimizers, training
from chainer import links as L
from chainer.dataset import concat_examples
from chainer.iterators import SerialIterator, ShuffleOrderSampler
from chainer.serializers import npz
from chainer.training import extensions, updaters

from tests.harness.fed import OTHERS, SIZE, WHOLE, Examples, Recorded


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    monkeypatch.setattr(shared_memory, "SharedMemory", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    yield
    gc.collect()
    assert Recorded.left() == []


def sampler(seed=5):
    return ShuffleOrderSampler(np.random.RandomState(seed))


def fed(kind, batch_size=5, *, n_processes=2, cls=MultiprocessIterator, **options):
    dataset = kind if isinstance(kind, chainer.dataset.DatasetMixin) else Examples(kind)
    return cls(dataset, batch_size, n_processes=n_processes, **options)


def assert_same(x, y):
    """In all that can be seen of it, but for whose the memory is."""
    assert type(x) is type(y)
    if isinstance(x, np.ndarray):
        assert x.dtype == y.dtype and x.dtype.char == y.dtype.char and x.shape == y.shape
        assert x.flags.writeable and x.flags.c_contiguous
        np.testing.assert_array_equal(x, y)
    elif isinstance(x, (tuple, list)):
        assert len(x) == len(y)
        for a, b in zip(x, y, strict=True):
            assert_same(a, b)
    elif isinstance(x, dict):
        assert list(x) == list(y)
        assert_same(list(x.values()), list(y.values()))
    else:
        assert x == y


def flags(iterator):
    return (
        iterator.epoch, iterator.is_new_epoch, iterator.epoch_detail,
        iterator.previous_epoch_detail, iterator.current_position,
    )  # fmt: skip


def go(iterator, steps=12):
    """Batches and flags; 'end' where it ends."""
    found = []
    for _ in range(steps):
        try:
            batch = iterator.next()
        except StopIteration:
            batch = "end"
        found.append((batch, flags(iterator)))
    return found


ORDERS = {
    "in order": lambda: {"shuffle": False},
    "one epoch": lambda: {"shuffle": False, "repeat": False},
    "shuffled": lambda: {"order_sampler": sampler()},
    "shuffled, one epoch": lambda: {"order_sampler": sampler(), "repeat": False},
}


@pytest.mark.parametrize("batch_size", [5, 23, 30])
@pytest.mark.parametrize("order", ORDERS)
def test_order_and_epochs(order, batch_size):
    options = {"cls": iterators.MultiprocessIterator, **ORDERS[order]()}
    theirs = fed("image and label", batch_size, **options)
    plain = SerialIterator(Examples("image and label"), batch_size, **ORDERS[order]())
    for other in (plain, theirs):
        mine = fed("image and label", batch_size, n_prefetch=2, **ORDERS[order]())
        for (batch, seen), (wanted, expected) in zip(go(mine), go(other), strict=True):
            assert seen == expected
            if batch == "end" or wanted == "end":
                assert batch is wanted
                continue
            assert_same([t for _, t in batch], [t for _, t in wanted])
            assert_same(concat_examples(batch), concat_examples(wanted))
    assert "assembled in shared memory by 2 processes" in mine.feed
    theirs.finalize()


@pytest.mark.parametrize("n_processes", [1, 3])
@pytest.mark.parametrize("kind", WHOLE)
def test_whole(kind, n_processes):
    mine = fed(kind, repeat=False, order_sampler=sampler(), n_processes=n_processes)
    plain = SerialIterator(Examples(kind), 5, repeat=False, order_sampler=sampler())
    for wanted in plain:
        taken = mine._take()
        assert taken.is_whole and "assembled" in mine.feed
        assert_same(taken.whole(), concat_examples(wanted))
        examples = taken.examples()
        assert type(examples) is list
        assert_same(concat_examples(examples), concat_examples(wanted))
        assert_same(examples, wanted)


@pytest.mark.parametrize("kind", OTHERS)
def test_one_by_one(kind):
    mine = fed(kind, repeat=False, order_sampler=sampler())
    plain = SerialIterator(Examples(kind), 5, repeat=False, order_sampler=sampler())
    for wanted in plain:
        batch = mine.next()
        for x, y in zip(batch, wanted, strict=True):
            assert_same(x, y)
        assert mine.feed.startswith("examples come one by one from 2 processes: ")


def test_shapes_are_padded_by_the_converter():
    mine = fed("shapes", repeat=False, shuffle=False)
    plain = SerialIterator(Examples("shapes"), 5, repeat=False, shuffle=False)
    for wanted in plain:
        batch = mine.next()
        found = concat_examples(batch, padding=(-1, None))
        assert_same(found, concat_examples(wanted, padding=(-1, None)))
        assert len(mine._comm.slots) > 0 or mine.epoch_detail < 0.3
    assert "one has float32[2, " in mine.feed


def test_an_odd_batch_among_others():
    """It comes one by one, and after some that agree again the rest is whole."""
    dataset = Examples("sometimes", odd=(31 % SIZE,))
    mine = fed(dataset, 2, shuffle=False)
    plain = SerialIterator(dataset, 2, shuffle=False)
    seen = []
    for _ in range(4 * SIZE):
        assert_same(mine.next(), plain.next())
        seen.append("assembled" in mine.feed)
    assert mine.feed and 8 < sum(seen) < 4 * SIZE - 8
    assert seen[0] and not seen[4]


# --- memory ---------------------------------------------------------------------------------------
def test_what_is_held_never_changes():
    mine = fed("image and label", 4, order_sampler=sampler())
    plain = SerialIterator(Examples("image and label"), 4, order_sampler=sampler())
    held, wanted = [], []
    for i in range(40):
        batch, expected = mine.next(), plain.next()
        # One example, a view of a view of another, a whole batch: whatever it is.
        held.append((batch[1][0], batch[2][0][1:, ::2].T, batch if i % 3 else None))
        wanted.append((expected[1][0], expected[2][0][1:, ::2].T, expected if i % 3 else None))
    for found, expected in zip(held, wanted, strict=True):
        np.testing.assert_equal(found, expected)
    assert len(mine._comm.slots) <= ahead.MOST_HELD + 3
    del held, batch, found
    mine.next(), mine.next()
    assert len(mine._comm.slots) <= 8


def test_whole_batches_that_are_held_never_change():
    mine = fed("dict", 4, order_sampler=sampler())
    plain = SerialIterator(Examples("dict"), 4, order_sampler=sampler())
    held = [(mine._take().whole()["x"][1:3], plain.next()) for _ in range(40)]
    for found, wanted in held:
        np.testing.assert_array_equal(found, concat_examples(wanted)["x"][1:3])


def test_memory_is_used_again():
    mine = fed("image and label", 4, order_sampler=sampler())
    places = {mine._take().whole()[0].ctypes.data for _ in range(40)}
    assert 2 <= len(places) <= 4
    assert len(mine._comm.slots) <= 4


def test_what_is_held_outlives_the_iterator():
    mine = fed("image and label", 4, shuffle=False)
    whole, batch = mine._take().whole(), mine.next()
    mine.finalize()
    assert Recorded.made and not Recorded.left()
    del mine
    gc.collect()
    assert_same(whole, concat_examples([Examples("image and label")[i] for i in range(4)]))
    assert_same(batch, [Examples("image and label")[i] for i in range(4, 8)])
    whole[0][...] = batch[0][0]  # it is the user's, to write to as well


def test_one_by_one_is_held_as_well():
    mine = fed("shapes", 4, shuffle=False)
    plain = SerialIterator(Examples("shapes"), 4, shuffle=False)
    held, wanted = zip(*[(mine.next(), plain.next()) for _ in range(40)], strict=True)
    assert_same(list(held), list(wanted))
    assert len(mine._comm.slots) <= ahead.MOST_HELD + 3


def test_workers_let_go_of_memory_that_is_gone():
    slots, work = Slots(8), Work(Examples("image and label"), Seeds.of_now())
    layout = learn([Examples("image and label")[0]])
    for capacity in range(2, 40):
        taken = [slots.take(layout.places(capacity)[1]) for _ in range(capacity % 7 + 1)]
        for i, slot in enumerate(taken):
            about = (slot.name, slot.size, len(slots))
            done = work.do(Task(i, 0, np.arange(2), about, capacity, layout))
            assert done.error is None and done.examples is None
            columns = layout.arrays(capacity, slot.array_at)
            assert_same(
                layout.examples([c[:2] for c in columns]), [work._dataset[0], work._dataset[1]]
            )
            assert work._columns.keys() == work._memory.keys()
            assert len(work._memory) <= len(slots)
        for slot in taken:
            slots.give_back(slot)
    slots.unlink()


def test_without_shared_memory(monkeypatch):
    def refuse(size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdbr.training.feed.segments.Slot", refuse)
    mine = fed("image and label", shuffle=False)
    plain = SerialIterator(Examples("image and label"), 5, shuffle=False)
    for _ in range(10):
        assert_same(mine.next(), plain.next())
    assert "there is no shared memory for" in mine.feed and "No space left" in mine.feed


@pytest.mark.parametrize("size", [0, 100, 240, 10_000])
def test_shared_mem(size):
    mine = fed("image and label", shuffle=False, shared_mem=size)
    plain = SerialIterator(Examples("image and label"), 5, shuffle=False)
    for _ in range(10):
        assert_same(mine.next(), plain.next())
    if size < 240:
        assert f"240 bytes, and shared_mem is {size}" in mine.feed
    else:
        assert "assembled" in mine.feed


# --- the training around it -----------------------------------------------------------------------
def trained(make_updater, iterator, steps=12):
    np.random.seed(0)
    model = sdbr.static_graph(L.Classifier(L.Linear(60, 24)))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    updater = make_updater(iterator, optimizer)
    for _ in range(steps):
        updater.update()
    return model, optimizer, updater


def test_static_steps():
    """Replays bind to memory that comes again with other values."""
    for options in ({}, {"batch_size": 23}):
        mine = fed("image and label", order_sampler=sampler(), **options)
        model, optimizer, updater = trained(StandardUpdater, mine)
        other, _, _ = trained(
            updaters.StandardUpdater,
            SerialIterator(
                Examples("image and label"), options.get("batch_size", 5), order_sampler=sampler()
            ),
        )
        statistics = model.schedule_manager.statistics
        assert statistics.steps == 11 == other.schedule_manager.statistics.steps
        assert statistics.python_ops == 0
        for one, two in zip(model.params(), other.params(), strict=True):
            np.testing.assert_array_equal(one.array, two.array)
        for said in (updater.feed, str(sdbr.explain(optimizer)), str(sdbr.explain(model))):
            assert "batches are assembled in shared memory by 2 processes" in said
        updater.finalize()


def test_audited_steps():
    with chainer.using_config("sdbr_audit", 1e9):
        mine = fed("image and label", order_sampler=sampler())
        model, _, _ = trained(StandardUpdater, mine)
    statistics = model.schedule_manager.statistics
    audits = model.schedule_manager.audits
    assert statistics.steps == 11
    assert audits.passed >= 5 and audits.failed == 0


@pytest.mark.parametrize("cls", [StandardUpdater, updaters.StandardUpdater])
@pytest.mark.parametrize("kind", ["dict", "array", "strings", "shapes"])
def test_updaters(cls, kind):
    """What a model is given, and epochs, are those of Chainer."""

    class Net(chainer.Chain):
        def forward(self, *args, **kwargs):
            seen.append((args, kwargs))
            return chainer.Variable(np.zeros((), "f"))

    def converter(batch, device=None):
        return concat_examples(batch, padding=0) if kind == "shapes" else batch

    options = {} if kind in WHOLE else {"converter": converter}
    runs = []
    dataset = Examples("one in a tuple") if kind == "dict" else Examples(kind)
    for make, iterator in (
        (cls, fed(dataset, repeat=False, shuffle=False)),
        (updaters.StandardUpdater, SerialIterator(dataset, 5, repeat=False, shuffle=False)),
    ):
        seen = []
        updater = make(iterator, optimizers.SGD().setup(Net()), **options)
        with pytest.raises(StopIteration):
            while True:
                updater.update()
                seen.append((updater.epoch_detail, updater.is_new_epoch))
        runs.append(seen)
        if cls is StandardUpdater and make is cls and len(runs) == 1:
            if kind in WHOLE:
                assert updater.feed == "batches are assembled in shared memory by 2 processes"
            else:
                assert updater.feed.startswith("examples come one by one from 2 processes: ")
                assert updater.feed.endswith(": the converter is converter")
    assert_same(*runs)
    assert len(runs[0]) == 10


def run_of_a_trainer(cls, make_updater, out):
    """A training with all that looks at epochs; what it logs."""
    np.random.seed(0)
    options = {"n_processes": 2} if cls is MultiprocessIterator else {}
    model = sdbr.static_graph(L.Classifier(L.Linear(60, 24)))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    dataset = Examples("image and label")
    iterator = cls(dataset, 5, order_sampler=sampler(), **options)
    test = cls(dataset, 7, repeat=False, shuffle=False, **options)
    stop = training.triggers.EarlyStoppingTrigger(
        monitor="main/loss", patients=2, max_trigger=(8, "epoch")
    )
    trainer = training.Trainer(make_updater(iterator, optimizer), stop, str(out))
    trainer.extend(extensions.Evaluator(test, model))
    trainer.extend(extensions.observe_lr())
    trainer.extend(extensions.ExponentialShift("alpha", 0.9), trigger=(1, "epoch"))
    trainer.extend(extensions.FailOnNonNumber())
    trainer.extend(extensions.snapshot(), trigger=(2, "epoch"))
    trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
    trainer.run()
    log = json.loads((out / "log").read_text())
    for entry in log:
        del entry["elapsed_time"]
    statistics = model.schedule_manager.statistics
    assert statistics.steps == trainer.updater.iteration - 1 and statistics.python_ops == 0
    test.finalize()
    return log, sorted(path.name for path in out.iterdir())


def test_a_trainer(tmp_path):
    """The last batch of an epoch, evaluation, schedules, snapshots and the log are the same."""
    found = run_of_a_trainer(MultiprocessIterator, StandardUpdater, tmp_path / "ours")
    wanted = run_of_a_trainer(SerialIterator, updaters.StandardUpdater, tmp_path / "theirs")
    assert found == wanted
    assert len(found[0]) == 8 and "snapshot_iter_10" in found[1]


def test_a_subclass_and_an_own_next_are_called():
    class Mine(MultiprocessIterator):
        pass

    for iterator in (fed("image and label", cls=Mine), fed("image and label")):
        if type(iterator) is not Mine:
            iterator.next = iterator.next
        _, _, updater = trained(StandardUpdater, iterator, 3)
        assert "made by Chainer's iterator and converter: the iterator" in updater.feed
        iterator.finalize()


# --- snapshots ------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [0, 1, 4, 5, 9])
@pytest.mark.parametrize("pair", ["ours to ours", "ours to theirs", "theirs to ours"])
def test_resumed(tmp_path, pair, steps):
    first, second = (
        MultiprocessIterator if name == "ours" else iterators.MultiprocessIterator
        for name in pair.split(" to ")
    )
    one = fed("image and label", cls=first, order_sampler=sampler())
    wanted = SerialIterator(Examples("image and label"), 5, order_sampler=sampler())
    for _ in range(steps):
        one.next(), wanted.next()
    npz.save_npz(tmp_path / "file.npz", one)
    one.finalize()
    other = fed("image and label", cls=second, order_sampler=sampler(9))
    if steps % 2:
        other.next()
    npz.load_npz(tmp_path / "file.npz", other)
    assert flags(other) == flags(wanted)
    for _ in range(4):
        batch, expected = other.next(), wanted.next()
        if wanted.epoch == steps * 5 // SIZE:  # then samplers have gone other ways
            assert_same(batch, expected)
        assert flags(other) == flags(wanted)
    other.finalize()


def test_saving_changes_nothing(tmp_path):
    """Without a new order, and without making batches again."""
    mine = fed("image and label", order_sampler=sampler(), n_prefetch=4)
    plain = SerialIterator(Examples("image and label"), 5, order_sampler=sampler())
    for _ in range(12):
        assert_same(mine.next(), plain.next())
        before = mine._comm._number
        npz.save_npz(tmp_path / "file.npz", mine)
        state = pickle.dumps(mine)
        assert mine._comm._number == before
    other = pickle.loads(state)
    assert flags(other) == flags(mine)
    assert_same(other.next()[0], plain.next()[0])


def test_without_an_order(tmp_path):
    """Chainer's cannot be saved without shuffling."""
    mine = fed("image and label", shuffle=False)
    mine.next(), mine.next()
    npz.save_npz(tmp_path / "file.npz", mine)
    for other in (fed("image and label", shuffle=False), copy.copy(mine)):
        npz.load_npz(tmp_path / "file.npz", other)
        assert flags(other) == flags(mine)
        assert_same(other.next(), [Examples("image and label")[i] for i in range(10, 15)])


def test_copies():
    mine = fed("image and label", order_sampler=sampler())
    plain = SerialIterator(Examples("image and label"), 5, order_sampler=sampler())
    mine.next(), plain.next()
    other = copy.copy(mine)
    assert type(other) is MultiprocessIterator and flags(other) == flags(mine)
    assert_same(mine.next(), plain.next())
    order = mine._state.order
    assert_same(other.next(), [Examples("image and label")[i] for i in order[5:10]])


def test_reset_leaves_what_was_ahead():
    mine = fed("image and label", shuffle=False, n_prefetch=3)
    for _ in range(5):
        assert_same(mine.next(), [Examples("image and label")[i] for i in range(5)])
        mine.reset()
    mine.next()
    for batch in list(mine._comm._ahead):
        mine._comm._await(batch, None, None)  # one that is there already is left as well
    mine.reset()
    for _ in range(20):
        mine.next()
    assert not mine._comm._left and len(mine._comm.slots) <= 8 + 4


# --- random numbers -------------------------------------------------------------------------------
def drawn(n_processes, batches=9, seed=3, **options):
    np.random.seed(seed)
    random.seed(1)
    mine = fed("augmented", n_processes=n_processes, order_sampler=sampler(), **options)
    state = np.random.get_state()[1].copy()
    found = [concat_examples(mine.next()) for _ in range(batches)]
    assert (np.random.get_state()[1] == state).all()
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def test_random_numbers_follow_from_the_seed():
    one = drawn(1)
    other = drawn(3, n_prefetch=3, maxtasksperchild=2)
    assert_same(one, other)
    values, uniform, _ = one
    assert len(np.unique(values)) == values.size and len(np.unique(uniform)) == uniform.size
    assert not (drawn(1, seed=4)[0] == values).any()


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_random_numbers_go_on(tmp_path, steps):
    """In a training that is resumed, whatever the generators are then."""
    wanted = drawn(1, batches=12)
    np.random.seed(3)
    random.seed(1)
    first = fed("augmented", order_sampler=sampler(), n_prefetch=2)
    for _ in range(steps):
        first.next()
    npz.save_npz(tmp_path / "file.npz", first)
    others = [pickle.loads(pickle.dumps(first))]
    np.random.seed(99)
    random.seed(99)
    for before in (0, 2):
        others.append(fed("augmented", order_sampler=sampler(), n_processes=3))
        for _ in range(before):
            others[-1].next()
        npz.load_npz(tmp_path / "file.npz", others[-1])
    for other in others:
        found = concat_examples(other.next())
        rows = slice(5 * steps, 5 * steps + 5)
        assert_same(list(found), [column[rows].copy() for column in wanted])
