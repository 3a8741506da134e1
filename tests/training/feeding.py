"""A script with an iterator that is under way when it ends: ``feeding.py START_METHOD HOW``."""

import gc
import multiprocessing
import os
import signal
import sys
import time

from sdbr.training import MultiprocessIterator
from sdbr.training.feed import worker

from chainer.iterators import multiprocess_iterator

from tests.harness.fed import Examples, is_running


def main() -> None:
    """Print the names of shared memory, and end in some way."""
    method, how, pipe = sys.argv[1:]
    multiprocessing.set_start_method(method)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    bad = 20 if how in ("interrupt", "killed while waiting") else -1
    dataset = Examples("waiting", bad=bad, pipe=pipe)
    iterator = MultiprocessIterator(
        dataset, 4, n_processes=2, shuffle=False, n_prefetch=2, dataset_timeout=0.1
    )
    is_under_way = False

    def end() -> None:
        if is_under_way and how == "interrupt":
            os.killpg(0, signal.SIGINT)
        if is_under_way and how == "killed while waiting":
            os.kill(os.getpid(), signal.SIGKILL)

    multiprocess_iterator._raise_timeout_warning = end
    kept = [iterator.next() for _ in range(2)]
    print(*iterator._comm.slots._all, flush=True)
    pids = iterator._comm.processes.pids()
    assert len(pids) == 2 and all(map(is_running, pids))

    is_under_way = True
    if how == "interrupt":
        try:
            while True:
                iterator.next()
        except KeyboardInterrupt:
            print("interrupted")
            assert not any(map(is_running, pids))
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "killed at once":
        # Its workers begin when their parent is not there any more.
        parent = os.getpid()

        def wait_for_its_end(_):
            end = time.monotonic() + 60
            while os.getppid() == parent:
                assert time.monotonic() < end, "the parent does not end"
                time.sleep(0.01)

        worker.threadpoolctl.threadpool_limits = wait_for_its_end
        more = MultiprocessIterator(dataset, 4, n_processes=2)
        more._comm._fill_processes()
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "killed while waiting":
        while True:
            iterator.next()
    elif how == "error":
        raise KeyError("the user's own")
    elif how == "finalize":
        iterator.finalize()
        assert not any(map(is_running, pids)) and kept[0][0][0].any()
    elif how == "collected":
        del iterator
        assert not any(map(is_running, pids)) and kept[0][0][0].any()
    elif how == "child":
        child = os.fork()
        if not child:
            del iterator
            gc.collect()
            os._exit(0)
        os.waitpid(child, 0)
        assert all(map(is_running, pids))
        iterator.next(), iterator.next()
    elif how == "circle":
        iterator.itself = iterator
        del iterator
        gc.collect()
        assert not any(map(is_running, pids))
    elif how == "another":
        # Workers of the second have the first one's pipes, and the other way round.
        more = [MultiprocessIterator(dataset, 4, n_processes=2, maxtasksperchild=1) for _ in "ab"]
        for _ in range(6):
            for one in more:
                one.next()
        print(*[name for one in more for name in one._comm.slots._all], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
