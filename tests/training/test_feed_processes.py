"""Workers that fail or are killed, and what is left of them: nothing, and no one waits for ever."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings
from multiprocessing import shared_memory
from pathlib import Path

from sdbr.base.errors import SdbrError, WorkerError
from sdbr.training import MultiprocessIterator, StandardUpdater
from sdbr.training.feed.ahead import Ahead
from sdbr.training.feed.segments import Slots
from sdbr.training.feed.taken import Taken

import chainer
import numpy as np
import pytest
from chainer import optimizers
from chainer.dataset import concat_examples
from chainer.iterators import SerialIterator, multiprocess_iterator

from tests.harness.fed import Examples, Recorded, Unpicklable, is_running

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    monkeypatch.setattr(shared_memory, "SharedMemory", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    yield
    gc.collect()
    assert Recorded.left() == []


def fed(dataset, batch_size=5, *, n_processes=2, **options):
    return MultiprocessIterator(
        dataset, batch_size, n_processes=n_processes, shuffle=False, **options
    )


def labels(batch):
    return [t for _, t in batch]


@pytest.mark.parametrize("bad", [3, 11, 22])
def test_an_error_comes_at_its_batch(bad):
    """And the batches after it are there, as with Chainer's SerialIterator."""
    dataset = Examples("raising", bad=bad, error=KeyError("no such image"))
    mine, plain = fed(dataset, n_prefetch=3), SerialIterator(dataset, 5, shuffle=False)
    said = 0
    for _ in range(12):
        try:
            wanted = plain.next()
        except KeyError as error:
            with pytest.raises(KeyError) as caught:
                mine.next()
            assert caught.value.args == error.args
            assert "in _raising\n" in str(caught.value.__cause__)
            said += 1
        else:
            assert labels(mine.next()) == labels(wanted)
        assert (mine.epoch_detail, mine.is_new_epoch) == (plain.epoch_detail, plain.is_new_epoch)
    assert said >= 2


def test_an_error_keeps_no_workers():
    """They end with the last reference to the iterator, without a collection of cycles."""
    mine = fed(Examples("raising", bad=2, error=KeyError("no such image")))
    gc.collect()
    gc.disable()
    try:
        try:
            mine.next()
        except KeyError:
            pids = mine._comm.processes.pids()
        assert len(pids) == 2
        del mine
        assert not any(map(is_running, pids))
    finally:
        gc.enable()


def test_an_error_that_cannot_be_sent():
    mine = fed(Examples("raising", bad=2, error=Unpicklable("this", "that")))
    with pytest.raises(RuntimeError, match="Unpicklable: this and that") as caught:
        mine.next()
    assert "in _raising\n" in str(caught.value.__cause__)


def test_an_error_of_the_sampler_comes_at_its_batch():
    def sampler(order, position):
        if position:
            raise ValueError("no more orders")
        return order

    dataset = Examples("image and label")
    mine = MultiprocessIterator(dataset, 5, n_processes=1, n_prefetch=4, order_sampler=sampler)
    for _ in range(4):
        mine.next()
    for _ in range(2):
        with pytest.raises(ValueError, match="no more orders"):
            mine.next()


@pytest.mark.parametrize("bad", [2, 13])
def test_a_worker_that_is_killed(tmp_path, bad):
    dataset = Examples("deadly", bad=bad, once=str(tmp_path / "once"))
    mine = fed(dataset, repeat=False)
    found = []
    with pytest.raises(WorkerError, match=r"worker process \d+ was ended by SIGKILL; the system"):
        while True:
            found += labels(mine.next())
    pids = mine._comm.processes.pids()
    assert pids == []
    for batch in mine:
        found += labels(batch)
    assert found == list(range(23))


def test_all_workers_that_are_killed_at_once():
    mine = fed(Examples("image and label"), n_prefetch=1)
    mine.next()
    pids = mine._comm.processes.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    mine.reset()
    mine._comm._fill()
    mine._comm._request()
    mine.reset()
    assert mine._comm._left
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    found = []
    with pytest.raises(WorkerError):
        while True:
            found += labels(mine.next())
    assert not any(map(is_running, pids))
    assert not mine._comm._left
    while len(found) < 23:
        found += labels(mine.next())
    assert found[:23] == list(range(23))


def test_a_death_is_seen_also_where_the_pipe_stays_open(monkeypatch):
    """A child that another thread has forked may have its end."""
    monkeypatch.setattr("sdbr.training.feed.processes._LOOK", 0.05)
    context, ends = multiprocessing.get_context("fork"), []

    class Context:
        def __getattr__(self, name):
            return getattr(context, name)

        def Pipe(self, duplex):
            pair = context.Pipe(duplex)
            ends.append(os.dup(pair[1].fileno()))
            return pair

    mine = fed(Examples("image and label"))
    mine._comm.processes._context = Context()
    mine.next()
    for pid in mine._comm.processes.pids():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="SIGKILL"):
        for _ in range(9):
            mine.next()
    for end in ends:
        os.close(end)


def test_an_updater_goes_on_after_a_death(tmp_path):
    class Net(chainer.Chain):
        def forward(self, x, t):
            seen.extend(t)
            return chainer.Variable(np.zeros((), "f"))

    seen = []
    dataset = Examples("deadly", bad=9, once=str(tmp_path / "once"))
    updater = StandardUpdater(fed(dataset), optimizers.SGD().setup(Net()))
    with pytest.raises(WorkerError):
        for _ in range(4):
            updater.update()
    while len(seen) < 20:
        updater.update()
    assert seen == list(range(20))


def test_interrupted_anywhere(monkeypatch):
    """No batch is lost or comes twice, wherever in `next` an interruption falls."""
    dataset = Examples("image and label")
    calls = 0

    def interrupting(cls, name, at):
        original = getattr(cls, name)

        def method(self, *args, **options):
            nonlocal calls
            calls += 1
            if calls == at:
                raise KeyboardInterrupt
            return original(self, *args, **options)

        monkeypatch.setattr(cls, name, method)

    names = ("_fill", "_request_one", "_await", "_note", "_take", "_rows", "_learned")
    places = [(Ahead, name) for name in names] + [(Taken, "__init__"), (Slots, "hand_out")]
    for cls, name in places:
        for at in (1, 2, 4):
            calls = 0
            mine = fed(dataset, repeat=False)
            with monkeypatch.context() as monkeypatch:
                interrupting(cls, name, at)
                found, said = [], 0
                while len(found) < 23:
                    try:
                        found += labels(mine.next())
                    except KeyboardInterrupt:
                        said += 1
            assert found == list(range(23)), (name, at)
            assert said == (calls >= at)
            slots = mine._comm.slots
            assert len(set(map(id, slots._free))) == len(slots._free)
            mine.finalize()


def test_a_stalled_data_set(tmp_path, monkeypatch):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    mine = fed(Examples("waiting", bad=7, pipe=pipe), dataset_timeout=0.01)
    warn = multiprocess_iterator._raise_timeout_warning
    count = 0

    def counted():
        nonlocal count
        count += 1
        if count == 3:
            with open(pipe, "w"):
                pass
        warn()

    monkeypatch.setattr(multiprocess_iterator, "_raise_timeout_warning", counted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while mine.epoch_detail < 1:
            mine.next()
    stalled = [w for w in caught if w.category is MultiprocessIterator.TimeoutWarning]
    assert count >= 3 and len(stalled) == count
    with warnings.catch_warnings():
        warnings.simplefilter("error", MultiprocessIterator.TimeoutWarning)
        mine.reset()
        count = 10
        with pytest.raises(MultiprocessIterator.TimeoutWarning):
            while mine.epoch_detail < 1:
                mine.next()


def test_tasks_of_a_worker():
    for most, n in ((1, 2), (None, 1)):
        mine = fed(Examples("pids"), maxtasksperchild=most, n_processes=n)
        seen = [concat_examples(mine.next())[0] for _ in range(8)]
        pids = {pid for batch in seen for pid in batch[:, 0].tolist()}
        assert len(pids) == (16 if most else 1)


def test_finalized():
    with fed(Examples("image and label")) as mine:
        mine.next()
        pids = mine._comm.processes.pids()
    assert not any(map(is_running, pids))
    with pytest.raises(SdbrError, match="finalized"):
        mine.next()
    mine.finalize()
    with pytest.raises(NotImplementedError):
        mine.reset()
    fed(Examples("image and label")).finalize()  # it never began


def test_what_cannot_be_pickled(monkeypatch):
    """With `fork` it need not be."""
    dataset = Examples("image and label", what=lambda: None)
    mine = fed(dataset)
    mine.next()
    mine = fed(dataset)
    context = multiprocessing.get_context("spawn")
    monkeypatch.setattr(mine._comm.processes, "_context", context)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        mine.next()


#: How the script ends: the exit status, what it prints, whether the tracker has to clean up.
ENDS = {
    "exit": (0, "", False),
    "error": (1, "", False),
    "finalize": (0, "", False),
    "collected": (0, "", False),
    "circle": (0, "", False),
    "child": (0, "", False),
    "interrupt": (0, "interrupted", False),
    "killed": (-9, "", True),
    "killed at once": (-9, "", True),
    "killed while waiting": (-9, "", True),
    "another": (-9, "", True),
}


@pytest.mark.parametrize(
    ("method", "how"),
    [
        *[("fork", how) for how in ENDS],
        *[("spawn", how) for how in ("exit", "interrupt", "killed")],
        *[("forkserver", how) for how in ("exit", "interrupt", "killed")],
    ],
)
def test_nothing_is_left(tmp_path, method, how):
    """Output ends when the last process does, workers among them."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    status, printed, is_tracked = ENDS[how]
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.feeding", method, how, pipe],
        cwd=ROOT, capture_output=True, text=True, timeout=300, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert printed in done.stdout
    names = [name for name in done.stdout.split() if name.startswith("psm_")]
    assert len(names) >= 3
    assert not [name for name in names if os.path.exists(f"/dev/shm/{name}")]
    if how == "error":
        assert "the user's own" in done.stderr
    elif is_tracked:
        assert "Traceback" not in done.stderr
    else:
        assert done.stderr == ""


THREADS = """
import threadpoolctl, numpy as np
from sdbr.training import MultiprocessIterator

class Threads:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        np.ones((2, 2)) @ np.ones((2, 2))
        found = threadpoolctl.threadpool_info()
        return [np.array([x["num_threads"] for x in found])]

print(MultiprocessIterator(Threads(), 2, n_processes=1).next())
"""


def test_blas_has_one_thread_in_workers():
    names = ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM")
    without = {k: v for k, v in os.environ.items() if k.removesuffix("_NUM_THREADS") not in names}
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=without,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    numbers = [int(n) for n in "".join(c if c.isdigit() else " " for c in done.stdout).split()]
    assert numbers and set(numbers) == {1}
